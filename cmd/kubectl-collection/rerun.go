package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// rerunOptions are the flags of rerun.
type rerunOptions struct {
	*connection
	outdated, failed, wait bool
	timeout                time.Duration
}

func rerunCommand() *cobra.Command {
	o := rerunOptions{}
	command := &cobra.Command{
		Use:   "rerun KIND/NAME",
		Short: "Run the playbook of a custom resource",
		Long: `Request a run of a custom resource's playbook and follow it until it has ended. A resource that is being deleted runs its
deletion playbook. If a run is in progress, the requested one starts after it.

With --outdated, --failed or both, request a run of each resource in that state, of all kinds or of KIND, and do not wait.

Exit codes are 0 if the run succeeded, 1 if it failed or if a request failed, and 2 if the result is unknown.`,
		Example: `  kubectl collection rerun datafile/hello

  # After an upgrade of a collection: run the playbooks with the new version
  kubectl collection rerun --outdated --namespace zos`,
		Args: func(cmd *cobra.Command, args []string) error {
			if !o.outdated && !o.failed {
				return exactly(1)(cmd, args)
			}
			if len(args) > 1 || len(args) == 1 && strings.Contains(args[0], "/") {
				return errors.New("--outdated and --failed select resources by their state: give a KIND or nothing, not names")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.allNamespaces && !o.outdated && !o.failed {
				return errors.New("--all-namespaces needs --outdated or --failed: a name is in one namespace")
			}
			c, err := o.connect()
			if err != nil {
				return err
			}
			if o.outdated || o.failed {
				return o.rerunAll(cmd, c, args)
			}
			return o.rerunOne(cmd, c, args[0])
		},
	}
	o.connection = newConnection(command)
	o.addAllNamespaces(command)
	flags := command.Flags()
	flags.BoolVar(&o.outdated, "outdated", false, "all resources whose state is Outdated")
	flags.BoolVar(&o.failed, "failed", false, "all resources whose state is Failed")
	flags.BoolVar(&o.wait, "wait", true, "wait until the run has ended")
	flags.DurationVar(&o.timeout, "timeout", 0, "longest time to wait, such as 10m; 0 means no limit")
	return command
}

// requestRun asks for a run, and returns the resource as it is with the request.
func requestRun(ctx context.Context, c *cluster, gvr schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	return annotate(ctx, c, gvr, namespace, name, gate.AnnotationRequestedAt, time.Now().UTC().Format(time.RFC3339Nano))
}

func (o *rerunOptions) rerunOne(cmd *cobra.Command, c *cluster, argument string) error {
	r, err := c.resource(argument)
	if err != nil {
		return err
	}
	object, err := requestRun(cmd.Context(), c, r.mapping.Resource, r.namespace, r.name)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s: run requested\n", r)
	if !o.wait {
		return nil
	}
	status, err := statusOf(object)
	if err != nil {
		return fmt.Errorf("%s: status: %w", r, err)
	}
	ctx, cancel := withTimeout(cmd.Context(), o.timeout)
	defer cancel()
	p := &progress{out: out, before: lastRunID(status)}
	if err := errors.Join(c.follow(ctx, r, p.observe), p.err); err != nil || p.run == nil {
		return err
	}
	printRun(out, p.run)
	if !p.run.Outcome.Succeeded() {
		return errFindings
	}
	return nil
}

// withTimeout is context.WithTimeout with 0 for no limit.
func withTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// phases are the states that the flags select.
func (o *rerunOptions) phases() []runstatus.Phase {
	var phases []runstatus.Phase
	if o.outdated {
		phases = append(phases, runstatus.PhaseOutdated)
	}
	if o.failed {
		phases = append(phases, runstatus.PhaseFailed)
	}
	return phases
}

// rerunAll requests a run of each resource in one of the selected states.
func (o *rerunOptions) rerunAll(cmd *cobra.Command, c *cluster, args []string) error {
	kinds, err := selectedTypes(c, args)
	if err != nil {
		return err
	}
	phases, requests := o.phases(), &requests{out: cmd.OutOrStdout(), errs: cmd.ErrOrStderr()}
	group := errgroup.Group{}
	group.SetLimit(maxConcurrentRequests)
	for _, gvr := range kinds {
		err := c.each(cmd.Context(), gvr, c.namespace, func(object *unstructured.Unstructured) error {
			status, err := statusOf(object)
			if err != nil {
				requests.note(object, gvr, fmt.Errorf("status: %w", err))
				return nil
			}
			if phase, _ := state(status); slices.Contains(phases, phase) {
				group.Go(func() error {
					_, err := requestRun(cmd.Context(), c, gvr, object.GetNamespace(), object.GetName())
					requests.note(object, gvr, err)
					return nil
				})
			}
			return nil
		})
		switch {
		case apierrors.IsForbidden(err) && len(args) == 0:
			fmt.Fprintln(cmd.ErrOrStderr(), "left out:", printable.Escape(err.Error()))
		case err != nil:
			return errors.Join(err, group.Wait())
		}
	}
	_ = group.Wait() // Its functions return no errors.
	return requests.summary()
}

// selectedTypes are those of a kind that a user gave, or all.
func selectedTypes(c *cluster, args []string) ([]schema.GroupVersionResource, error) {
	if len(args) == 0 {
		return c.types()
	}
	mapping, err := c.mapping(args[0])
	if err != nil {
		return nil, err
	}
	return []schema.GroupVersionResource{mapping.Resource}, nil
}

// requests prints the results of concurrent requests.
type requests struct {
	out, errs    io.Writer
	mutex        sync.Mutex
	done, failed int
}

func (r *requests) note(object *unstructured.Unstructured, gvr schema.GroupVersionResource, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	name := gvr.GroupResource().String() + "/" + object.GetName() + " in " + object.GetNamespace()
	if err != nil {
		r.failed++
		fmt.Fprintf(r.errs, "%s: %s\n", name, printable.Escape(err.Error()))
		return
	}
	r.done++
	fmt.Fprintf(r.out, "%s: run requested\n", name)
}

func (r *requests) summary() error {
	if r.failed > 0 {
		fmt.Fprintf(r.errs, "%d runs requested, %d requests failed\n", r.done, r.failed)
		return errFindings
	}
	if r.done == 0 {
		fmt.Fprintln(r.errs, "no resource is in that state")
	}
	return nil
}
