package runs

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// rerunOptions are the flags of rerun.
type rerunOptions struct {
	*kube.Connection
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
				return kit.Exactly(1)(cmd, args)
			}
			if len(args) > 1 || len(args) == 1 && strings.Contains(args[0], "/") {
				return errors.New("--outdated and --failed select resources by their state: give a KIND or nothing, not names")
			}
			return nil
		},
		PreRunE: func(*cobra.Command, []string) error {
			if o.AllNamespaces && !o.outdated && !o.failed {
				return errors.New("--all-namespaces needs --outdated or --failed: a name is in one namespace")
			}
			return nil
		},
	}
	o.Connection = kube.Command(command, func(cmd *cobra.Command, c *kube.Cluster, args []string) error {
		if o.outdated || o.failed {
			return o.rerunAll(cmd, c, args)
		}
		return o.rerunOne(cmd, c, args[0])
	})
	o.AddAllNamespaces(command)
	flags := command.Flags()
	flags.BoolVar(&o.outdated, "outdated", false, "all resources whose state is Outdated")
	flags.BoolVar(&o.failed, "failed", false, "all resources whose state is Failed")
	flags.BoolVar(&o.wait, "wait", true, "wait until the run has ended")
	flags.DurationVar(&o.timeout, "timeout", 0, "longest time to wait, such as 10m; 0 means no limit")
	return command
}

// requestRun asks for a run, and returns the resource as it is with the request.
func requestRun(ctx context.Context, c *kube.Cluster, gvr schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	return annotate(ctx, c, gvr, namespace, name, gate.AnnotationRequestedAt, time.Now().UTC().Format(time.RFC3339Nano))
}

// annotate sets an annotation and returns the resource as it is with it.
func annotate(ctx context.Context, c *kube.Cluster, gvr schema.GroupVersionResource, namespace, name, annotation, value string) (*unstructured.Unstructured, error) {
	patch, err := render.JSON(map[string]any{"metadata": map[string]any{"annotations": map[string]string{annotation: value}}}, "")
	if err != nil {
		return nil, err
	}
	return c.Dynamic.Resource(gvr).Namespace(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: kube.FieldManager})
}

func (o *rerunOptions) rerunOne(cmd *cobra.Command, c *kube.Cluster, argument string) error {
	r, err := c.Resource(argument)
	if err != nil {
		return err
	}
	object, err := requestRun(cmd.Context(), c, r.Mapping.Resource, r.Namespace, r.Name)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s: run requested\n", r)
	if !o.wait {
		return nil
	}
	status, err := kube.StatusOf(object)
	if err != nil {
		return fmt.Errorf("%s: status: %w", r, err)
	}
	ctx, cancel := kit.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	run, err := c.RunToEnd(ctx, r, out, kube.LastRunID(status))
	if err == nil && run != nil && !run.Outcome.Succeeded() {
		return kit.ErrFindings
	}
	return err
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
func (o *rerunOptions) rerunAll(cmd *cobra.Command, c *kube.Cluster, args []string) error {
	kinds, err := selectedTypes(c, args)
	if err != nil {
		return err
	}
	phases, requests := o.phases(), &requests{out: cmd.OutOrStdout(), errs: cmd.ErrOrStderr()}
	group := errgroup.Group{}
	group.SetLimit(kube.MaxConcurrentRequests)
	for _, gvr := range kinds {
		err := c.Each(cmd.Context(), gvr, c.Namespace, func(object *unstructured.Unstructured) error {
			status, err := kube.StatusOf(object)
			if err != nil {
				requests.note(object, gvr, fmt.Errorf("status: %w", err))
				return nil
			}
			if phase, _ := kube.State(status); slices.Contains(phases, phase) {
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
func selectedTypes(c *kube.Cluster, args []string) ([]schema.GroupVersionResource, error) {
	if len(args) == 0 {
		return c.Types()
	}
	mapping, err := c.Mapping(args[0])
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
		return kit.ErrFindings
	}
	if r.done == 0 {
		fmt.Fprintln(r.errs, "no resource is in that state")
	}
	return nil
}

func cancelCommand() *cobra.Command {
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "cancel KIND/NAME",
		Short: "Cancel the running playbook of a custom resource",
		Long: `Cancel the playbook that runs for a custom resource, and wait until it has ended. What it has done on z/OS until then is not
undone, and a job that it submitted goes on. The resource is not tried again until it is changed or a run is requested.

Exit codes are 0 if the run ended, 1 if no playbook is running, and 2 if the result is unknown.`,
		Example: `  kubectl collection cancel datafile/hello`,
		Args:    kit.Exactly(1),
	}
	kube.Command(command, func(cmd *cobra.Command, c *kube.Cluster, args []string) error {
		return cancelRun(c, cmd, args[0], timeout)
	})
	command.Flags().DurationVar(&timeout, "timeout", 0, "longest time to wait, such as 10m; 0 means no limit")
	return command
}

func cancelRun(c *kube.Cluster, cmd *cobra.Command, argument string, timeout time.Duration) error {
	r, status, err := c.Read(cmd.Context(), argument)
	if err != nil {
		return err
	}
	if status.LastRun == nil || status.LastRun.Outcome != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: no playbook is running\n", r)
		return kit.ErrFindings
	}
	id := status.LastRun.ID
	if _, err := annotate(cmd.Context(), c, r.Mapping.Resource, r.Namespace, r.Name, gate.AnnotationCancel, id); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: cancellation of run %s requested\n", r, printable.Escape(id))
	ctx, cancel := kit.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	ending := &ending{id: id}
	if err := c.Follow(ctx, r, ending.observe); err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), printable.Escape(ending.String()))
	return nil
}

// ending waits for the end of a run.
type ending struct {
	id string
	// summary of the run. It is nil if the resource was deleted, or if other runs have removed it from status.
	summary *runstatus.RunSummary
	deleted bool
}

// observe reports whether the run has ended. A nil object was deleted.
func (e *ending) observe(object *unstructured.Unstructured) (bool, error) {
	if e.deleted = object == nil; e.deleted {
		return true, nil
	}
	status, err := kube.StatusOf(object)
	if err != nil {
		return false, err
	}
	e.summary = kube.SummaryOf(status, e.id)
	return e.summary != nil || kube.LastRunID(status) != e.id, nil
}

// String says how the run ended.
func (e *ending) String() string {
	switch {
	case e.deleted:
		return "Deleted: the resource is gone"
	case e.summary == nil:
		return "run " + e.id + " has ended: status does not show it any more"
	case e.summary.Outcome == gate.OutcomeCancelled:
		return "Cancelled: run " + e.id
	}
	return fmt.Sprintf("%s: run %s ended before it was cancelled", e.summary.Outcome, e.id)
}
