package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/collection-operator/collection-operator/internal/controller/trustedauthorities"
	"github.com/collection-operator/collection-operator/internal/run/environment"
)

// newTrustedAuthorities reads the authorities that an administrator trusts.
func newTrustedAuthorities(ctx context.Context, mgr manager.Manager, s options) (*trustedauthorities.TrustedAuthorities, error) {
	system, err := readFirst(environment.SystemBundles)
	if err != nil {
		return nil, err
	}
	trusted := &trustedauthorities.TrustedAuthorities{
		Reader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("collection-operator"), Namespace: s.render.ArtifactServer.Namespace, System: system,
	}
	return trusted, errors.Join(trusted.Load(ctx), trusted.SetupWithManager(mgr))
}

// readFirst returns the first file that exists, or nil.
func readFirst(paths []string) ([]byte, error) {
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return content, err
		}
	}
	return nil, nil
}

// useProxy keeps the manager's own requests to the cluster away from its proxy, if it has one, and lets operators use it. It must be
// called before any request.
func (s *options) useProxy() error {
	variables, withheld := environment.ForOperators(os.Getenv)
	s.render.Environment = variables
	if len(withheld) > 0 {
		ctrl.Log.Info("operators do not get variables with credentials, or invalid ones: set them in runtime.envFrom of collections that need them",
			"variables", withheld)
	}
	if variables == "" && len(withheld) == 0 {
		return nil
	}
	// Go reads NO_PROXY first.
	excluded := environment.NoProxy(cmp.Or(os.Getenv("NO_PROXY"), os.Getenv("no_proxy")), os.Getenv("KUBERNETES_SERVICE_HOST"))
	if err := os.Setenv("NO_PROXY", excluded); err != nil {
		return fmt.Errorf("setting NO_PROXY: %w", err)
	}
	return nil
}
