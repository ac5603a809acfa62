package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/collection-operator/collection-operator/config"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
)

// policySettings are the flags of the subcommand policies.
type policySettings struct {
	skipped      []string
	interval     time.Duration
	probeAddress string
}

func (s *policySettings) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&s.skipped, "skip-policies", nil, "names of policies that are not applied; those that exist are not changed")
	flags.DurationVar(&s.interval, "policy-interval", 5*time.Minute, "interval at which the policies are applied again")
	flags.StringVar(&s.probeAddress, "health-probe-bind-address", ":8081", "address of /readyz, which succeeds once all policies are applied")
}

func (s *policySettings) run(ctx context.Context) error {
	if s.interval <= 0 {
		return errors.New("--policy-interval must be positive")
	}
	ctrl.SetLogger(zap.New())
	policies, err := s.wanted()
	if err != nil {
		return err
	}
	restConfig, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	writer, err := client.New(restConfig, client.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		return err
	}
	var applied atomic.Bool
	server := &http.Server{Addr: s.probeAddress, ReadHeaderTimeout: 10 * time.Second, Handler: reportReady(&applied)}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { cancel(<-ended) }()
	for ctx.Err() == nil {
		pause := s.interval
		if err := applyPolicies(ctx, writer, policies); err != nil {
			ctrl.Log.Error(err, "policies are not applied")
			pause = min(pause, 10*time.Second)
		} else if !applied.Swap(true) {
			ctrl.Log.Info("policies are applied", "policies", len(policies)/2)
		}
		timer := time.NewTimer(wait.Jitter(pause, 0.1))
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return server.Close()
}

// wanted returns the policies and bindings that are not skipped. A skipped name that does not exist is an error.
func (s *policySettings) wanted() ([]*unstructured.Unstructured, error) {
	policies, err := config.Policies()
	if err != nil {
		return nil, err
	}
	for _, name := range s.skipped {
		if !slices.ContainsFunc(policies, func(p *unstructured.Unstructured) bool { return p.GetName() == name }) {
			return nil, fmt.Errorf("--skip-policies: there is no policy %q", name)
		}
	}
	return slices.DeleteFunc(policies, func(p *unstructured.Unstructured) bool { return slices.Contains(s.skipped, p.GetName()) }), nil
}

// policiesCommand runs with a ServiceAccount of its own: the manager must not be able to change the policies that restrict it.
func policiesCommand() *cobra.Command {
	return subcommand("policies", "Applies the ValidatingAdmissionPolicies, and keeps them applied", &policySettings{})
}

// applyPolicies applies the policies server-side. The API server changes nothing about those that are as they should be.
func applyPolicies(ctx context.Context, writer client.Client, policies []*unstructured.Unstructured) error {
	var errs []error
	for _, policy := range policies {
		err := writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(policy.DeepCopy()), client.FieldOwner(apply.FieldOwner), client.ForceOwnership)
		if err != nil {
			errs = append(errs, fmt.Errorf("applying %s: %w", apply.Name(policy), err))
		}
	}
	return errors.Join(errs...)
}

func reportReady(ready *atomic.Bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			http.Error(w, "policies are not applied yet", http.StatusServiceUnavailable)
		}
	})
	return mux
}
