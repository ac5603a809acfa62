package runner

import (
	"context"
	"os"

	"github.com/collection-operator/collection-operator/internal/run/podclient"
	"github.com/collection-operator/collection-operator/internal/run/podlock"
)

// Lock takes the lock of the operator's pod, and waits for it. Until then it answers probes at the port in ZOSCB_PROBE_PORT.
func Lock(ctx context.Context) error {
	settings, err := ReadSettings()
	if err != nil {
		return err
	}
	client, err := podclient.New()
	if err != nil {
		return err
	}
	l, err := podlock.FromEnvironment(client, settings.Operator)
	if err != nil {
		return err
	}
	return podlock.AcquireWithProbes(ctx, l, ":"+os.Getenv("ZOSCB_PROBE_PORT"))
}
