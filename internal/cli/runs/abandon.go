package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// abandonOptions are the flags of abandon.
type abandonOptions struct {
	yes     bool
	timeout time.Duration
}

func abandonCommand() *cobra.Command {
	o := abandonOptions{}
	command := &cobra.Command{
		Use:   "abandon KIND/NAME",
		Short: "Remove a custom resource without running its deletion playbook",
		Long: `Remove a custom resource whose z/OS system, or whose operator, is gone for good. Its deletion playbook does not run: what the
resource represents may be left on z/OS, and you must clean it up yourself.

The command sets the annotation zoscb.ibm.com/abandon and deletes the resource. If no operator runs for the resource, it also
removes the finalizer. You need the permission to update the ZosEndpoint of the resource, in the namespace of the resource.

Exit codes are 0 if the resource is gone, 1 if you did not confirm, and 2 if the command failed.`,
		Example: `  kubectl collection abandon datafile/hello`,
		Args:    kit.Exactly(1),
	}
	kube.Command(command, func(cmd *cobra.Command, c *kube.Cluster, args []string) error { return o.run(cmd, c, args[0]) })
	command.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
	command.Flags().DurationVar(&o.timeout, "timeout", 0, "longest time to wait, such as 10m; 0 means no limit")
	return command
}

func (o *abandonOptions) run(cmd *cobra.Command, c *kube.Cluster, argument string) error {
	r, err := c.Resource(argument)
	if err != nil {
		return err
	}
	object, err := c.Client(r).Get(cmd.Context(), r.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	fmt.Fprintln(out, consequence(r, object))
	if !o.yes && !kit.Confirm(cmd.InOrStdin(), out, "Remove it? [y/N] ") {
		fmt.Fprintln(cmd.ErrOrStderr(), "not confirmed: nothing was changed")
		return kit.ErrFindings
	}
	ctx, cancel := kit.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	a := &abandoning{cluster: c, resource: r, uid: object.GetUID(), out: out}
	return a.run(ctx, object)
}

// consequence says what may be left on z/OS, and where.
func consequence(r kube.Resource, object *unstructured.Unstructured) string {
	var places []string
	if endpoint, _, _ := unstructured.NestedString(object.Object, "spec", "zosendpoint"); endpoint != "" {
		places = append(places, "ZosEndpoint "+endpoint)
	}
	text := ""
	if status, err := kube.StatusOf(object); err == nil && status.LastRun != nil {
		run := status.LastRun
		if place := "ZosEndpoint " + run.Endpoint; run.Endpoint != "" && !slices.Contains(places, place) {
			places = append(places, place)
		}
		text = fmt.Sprintf(" Its last run started at %s", kit.Clock(run.Started))
		if run.Host != "" {
			text += " on " + run.Host
		}
		if run.Outcome == "" {
			text += ", and has not ended"
		} else {
			text += fmt.Sprintf(", and ended as %s", run.Outcome)
		}
		text += "."
	}
	if len(places) == 0 {
		places = []string{"z/OS"}
	}
	return printable.Escape(fmt.Sprintf("%s in namespace %s is removed without its deletion playbook. What it represents may be left on %s.%s",
		r, r.Namespace, strings.Join(places, " and "), text))
}

// abandoning removes a resource without a run. One with the same name that is created meanwhile is not touched.
type abandoning struct {
	cluster  *kube.Cluster
	resource kube.Resource
	uid      types.UID
	out      io.Writer
}

func (a *abandoning) run(ctx context.Context, object *unstructured.Unstructured) error {
	served, err := a.served(ctx, object)
	if err != nil {
		return err
	}
	annotations := map[string]any{gate.AnnotationAbandon: "true"}
	if err := a.patch(ctx, map[string]any{"uid": a.uid, "annotations": annotations}); err != nil {
		return refusal(err)
	}
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &a.uid}}
	err = a.cluster.Client(a.resource).Delete(ctx, a.resource.Name, options)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s is not deleted, but has annotation %s=true now: %w", a.resource, gate.AnnotationAbandon, err)
	}
	if served {
		fmt.Fprintf(a.out, "%s: waiting for its operator\n", a.resource)
	} else {
		fmt.Fprintf(a.out, "%s: no operator runs for it, removing its finalizer\n", a.resource)
		if err := a.removeFinalizer(ctx); err != nil {
			return refusal(err)
		}
	}
	gone := func(object *unstructured.Unstructured) (bool, error) {
		return object == nil || object.GetUID() != a.uid, nil
	}
	if err := a.cluster.Follow(ctx, a.resource, gone); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "%s: removed\n", a.resource)
	return nil
}

// served reports whether the namespace has a pod of the resource's operator. Users who may not list pods, or may not read
// which collection a kind belongs to, rely on the status of the resource.
func (a *abandoning) served(ctx context.Context, object *unstructured.Unstructured) (bool, error) {
	status, err := kube.StatusOf(object)
	if err != nil {
		status = &runstatus.Status{}
	}
	phase, _ := kube.State(status)
	selector, err := operatorSelector(ctx, a.cluster, a.resource)
	if err != nil {
		return false, err
	}
	pods, err := podsOf(ctx, a.cluster, a.resource.Namespace, selector)
	pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	})
	switch _, exact := selector[render.LabelName]; {
	case apierrors.IsForbidden(err):
		return phase != runstatus.PhaseNoOperator, nil
	case err != nil:
		return false, err
	case exact:
		return len(pods) > 0, nil
	}
	return len(pods) > 0 && phase != runstatus.PhaseNoOperator, nil
}

func (a *abandoning) patch(ctx context.Context, metadata map[string]any) error {
	patch, err := render.JSON(map[string]any{"metadata": metadata}, "")
	if err != nil {
		return err
	}
	_, err = a.cluster.Client(a.resource).Patch(ctx, a.resource.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: kube.FieldManager})
	return err
}

// removeFinalizer keeps the finalizers of others.
func (a *abandoning) removeFinalizer(ctx context.Context) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		object, err := a.cluster.Client(a.resource).Get(ctx, a.resource.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		before := object.GetFinalizers()
		others := slices.DeleteFunc(slices.Clone(before), func(name string) bool { return name == render.Finalizer })
		if object.GetUID() != a.uid || len(others) == len(before) {
			return nil
		}
		return a.patch(ctx, map[string]any{"uid": a.uid, "resourceVersion": object.GetResourceVersion(), "finalizers": others})
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// refusal returns what an admission policy says of a request, without the names of the policy.
func refusal(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	if _, message, ok := strings.Cut(err.Error(), "denied request: "); ok {
		return errors.New(message)
	}
	return err
}
