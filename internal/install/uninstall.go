package install

import (
	"context"
	"fmt"
	"slices"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/podlock"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// Uninstall removes an installation, from status and inventory alone: neither the OperatorCollection nor the archive need to
// exist. The result has no status once the removal is complete. Until then the SubOperatorConfig keeps its entry, so that no
// other one installs the collection in the namespace.
func (r *Installer) Uninstall(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string) Result {
	return removal(soc, namespace, r.installed(soc, namespace).uninstall(ctx, false))
}

// HandOver is Uninstall for a collection that is replaced by another one, whose operator takes over the custom resources. What proves
// their runs is left to it.
func (r *Installer) HandOver(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string) Result {
	return removal(soc, namespace, r.installed(soc, namespace).uninstall(ctx, true))
}

// removal is the result of a removal, which is complete if err is nil.
func removal(soc *v2beta2.SubOperatorConfig, namespace string, err error) Result {
	result := Result{Namespace: namespace}
	if err != nil {
		result.Status = Recorded(soc, namespace)
		result.fail(err)
	}
	return result
}

// Keep returns the result of an installation that stays as it is until the deletion of its OperatorCollection no longer needs it. It
// writes nothing but the status of custom resources whose operator is gone: to whoever reads theirs, they would seem to be managed.
func (r *Installer) Keep(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string) Result {
	result, kept := Result{Namespace: namespace, Status: Recorded(soc, namespace)}, r.installed(soc, namespace)
	deployment := &appsv1.Deployment{}
	err := r.Cache.Get(ctx, kept.operator(), deployment)
	if apierrors.IsNotFound(err) {
		deployment, err = kept.liveDeployment(ctx, kept.operator())
	}
	switch {
	case err != nil:
		result.fail(fmt.Errorf("reading Deployment %q: %w", kept.operator(), err))
	case deployment == nil:
		result.fail(kept.reportGone(ctx))
	case !Available(deployment):
		reason, message := describePods(ctx, r.Cache, kept.collection(), deployment)
		result.fail(unavailable(kept.operator(), reason, message))
	case result.Status != nil:
		result.Status.Ready, result.Status.Reason, result.Status.Message = true, "", ""
	}
	return result
}

// installed is the installation in a namespace that status and inventory of a SubOperatorConfig record.
type installed struct {
	*objects
	recorder  events.EventRecorder
	soc       *v2beta2.SubOperatorConfig
	namespace string
}

func (r *Installer) installed(soc *v2beta2.SubOperatorConfig, namespace string) *installed {
	return &installed{objects: r.objects(), recorder: r.Recorder, soc: soc, namespace: namespace}
}

func (i *installed) collection() model.ID { return RecordedCollection(i.soc) }

// operator is the key of the Deployment, and that of the Lease of its pods.
func (i *installed) operator() client.ObjectKey {
	return client.ObjectKey{Namespace: i.namespace, Name: i.collection().OperatorName()}
}

// uninstall leaves what proves runs to the operator that takes over, if there is one.
func (i *installed) uninstall(ctx context.Context, handOver bool) error {
	since, err := i.startRemoval(ctx)
	if err != nil {
		return err
	}
	obsolete := parts(i.soc, i.namespace)
	if handOver {
		obsolete = apply.Difference(obsolete, []v2beta2.ObjectReference{endpointsOf(i.soc, i.namespace)})
	}
	if err := i.awaitRuns(ctx, since); err != nil {
		return err
	}
	if RecordedMethod(i.soc, i.namespace) == v2beta2.InstallOLM && len(subscriptions(obsolete)) == 0 && i.olm.Available() {
		// OLM keeps the operator of a deleted user-managed Subscription. It is removed before the objects that its pods
		// need.
		if err := i.removeOperator(ctx); err != nil {
			return err
		}
	}
	if err := i.remove(ctx, i.soc, obsolete); err != nil {
		return err
	}
	if handOver {
		if err := (secrets{i.objects}).leave(ctx, i.soc, i.namespace); err != nil {
			return err
		}
	}
	i.reportInstances(ctx, handOver)
	before := i.soc.DeepCopy()
	i.soc.Status.Installations = WithoutInstallation(i.soc.Status.Installations, i.namespace)
	return saveStatus(ctx, i.client, i.soc, before)
}

// uninstallFormer removes the operator that the other method installed, or that OLM cannot replace by the planned one, with its pods,
// before anything of the new one is written: two operators in one namespace would run the same playbooks at once. Objects that both
// need are kept. It returns the status entry of an operator whose removal has begun, or nil.
func (i *installed) uninstallFormer(ctx context.Context, backend Backend, plan *Plan) (*v2beta2.InstallationStatus, error) {
	method, replaces := RecordedMethod(i.soc, i.namespace), backend.Replaces()
	if (method == "" || method == backend.Method()) && !replaces {
		return nil, nil
	}
	if method == "" {
		orphan := v2beta2.InstallationStatus{Namespace: i.namespace, Install: v2beta2.InstallOLM}
		i.soc.Status.Installations = WithInstallation(i.soc.Status.Installations, orphan)
	}
	since, err := i.startRemoval(ctx)
	if err != nil {
		return nil, err
	}
	removed := Recorded(i.soc, i.namespace)
	if err := i.preventRuns(ctx, since); err != nil {
		return removed, err
	}
	if err := i.awaitRuns(ctx, since); err != nil {
		return removed, err
	}
	obsolete := apply.Difference(parts(i.soc, i.namespace), apply.Inventory(plan.Objects))
	if replaces {
		obsolete = apply.Union(obsolete, subscriptions(parts(i.soc, i.namespace)))
	}
	if err := i.remove(ctx, i.soc, obsolete); err != nil || method != v2beta2.InstallOLM && !replaces {
		return removed, err
	}
	return removed, i.removeOperator(ctx)
}

// startRemoval records the time at which the removal of an operator began, and returns it. Objects without a status entry
// never ran: they are removed at once.
func (i *installed) startRemoval(ctx context.Context) (time.Time, error) {
	recorded := Recorded(i.soc, i.namespace)
	if recorded == nil {
		return time.Time{}, nil
	}
	if recorded.RemovalTime != nil {
		return recorded.RemovalTime.Time, nil
	}
	before := i.soc.DeepCopy()
	now := metav1.Now().Rfc3339Copy()
	recorded.Ready, recorded.RemovalTime = false, &now
	i.soc.Status.Installations = WithInstallation(i.soc.Status.Installations, *recorded)
	return now.Time, saveStatus(ctx, i.client, i.soc, before)
}

// preventRuns lets the operator start no run while its removal waits for those that have begun. A gate that has read the Lease a moment
// before may still start one, which awaitRuns sees.
func (i *installed) preventRuns(ctx context.Context, since time.Time) error {
	until := since.Add(2 * intervals.RunGrace)
	if time.Now().After(until) {
		return nil
	}
	lease := &coordinationv1.Lease{}
	if err := i.reader.Get(ctx, i.operator(), lease); err != nil {
		return client.IgnoreNotFound(err) // No pod has started.
	}
	before := lease.DeepCopy()
	if !podlock.Close(lease, until) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := i.client.Patch(ctx, lease, patch, client.FieldOwner(apply.FieldOwner)); err != nil {
		return fmt.Errorf("preventing further runs of the operator in namespace %q: %w", i.namespace, err)
	}
	return status.Waiting(v2beta2.ReasonTerminating, intervals.Poll, "namespace %q: no further playbook is started, and the operator is removed when those that run have ended", i.namespace)
}

// awaitRuns waits for running playbooks until intervals.RunGrace has passed.
func (i *installed) awaitRuns(ctx context.Context, since time.Time) error {
	left := intervals.RunGrace - time.Since(since)
	if left <= 0 {
		return nil
	}
	finder := &instances.Finder{Reader: i.reader}
	items, err := finder.List(ctx, i.collection(), i.namespace)
	if err != nil {
		return err
	}
	running := instances.Running(items)
	if len(running) == 0 {
		return nil
	}
	return status.Waiting(v2beta2.ReasonTerminating, min(left, intervals.Poll),
		"namespace %q: the operator is removed when these playbooks end: %s", i.namespace, instances.Describe(running))
}

// subscriptions returns the Subscriptions among objects.
func subscriptions(refs []v2beta2.ObjectReference) []v2beta2.ObjectReference {
	return slices.DeleteFunc(slices.Clone(refs), func(ref v2beta2.ObjectReference) bool { return ref.Kind != operatorsv1alpha1.SubscriptionKind })
}

func (i *installed) removeOperator(ctx context.Context) error {
	gone, err := i.olm.RemoveOperator(ctx, i.collection(), i.namespace, OwnedBy(i.soc))
	if err != nil || gone {
		return err
	}
	return status.Waiting(v2beta2.ReasonTerminating, intervals.Poll, "namespace %q: waiting until OLM has removed the operator", i.namespace)
}

// reportInstances reports the custom resources that lose their operator: in an event, and in their status if the namespace
// still allows the manager to write there. The operator is gone: that they cannot be counted or written must not keep the
// namespace from others.
func (i *installed) reportInstances(ctx context.Context, handOver bool) {
	if Recorded(i.soc, i.namespace) == nil {
		return
	}
	finder := &instances.Finder{Client: i.client, Reader: i.reader}
	items, err := finder.List(ctx, i.collection(), i.namespace)
	note := fmt.Sprintf("%d custom resources stay in namespace %q without an operator: %s", len(items), i.namespace, instances.Describe(items))
	eventType, reason := corev1.EventTypeWarning, v2beta2.ReasonInstancesExist
	switch {
	case err == nil && len(items) == 0:
		return
	case err == nil && handOver:
		eventType, reason = corev1.EventTypeNormal, v2beta2.ReasonReplaced
		note = fmt.Sprintf("%d custom resources stay in namespace %q for the collection that replaces %s: %s",
			len(items), i.namespace, i.collection(), instances.Describe(items))
	case err != nil:
		note = fmt.Sprintf("custom resources may stay in namespace %q without an operator: %v", i.namespace, err)
	case i.mayReport(ctx):
		if err := finder.ReportNoOperator(ctx, items, i.warnOfNoOperator); err != nil {
			note += fmt.Sprintf("; their status does not say so: %v", err)
		}
	}
	// Events about the same objects are told apart by reason alone, so that only the first of several notes would be kept.
	related := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: i.namespace}}
	i.recorder.Eventf(i.soc, related, eventType, reason, "Uninstall", "%s", printable.Line(note, status.MaxEventBytes))
}

// reportGone returns the error of an installation whose Deployment does not exist, and writes that to the custom resources.
func (i *installed) reportGone(ctx context.Context) error {
	finder, deployment := &instances.Finder{Client: i.client, Reader: i.reader}, i.operator()
	items, err := finder.List(ctx, i.collection(), i.namespace)
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return status.Waiting(v2beta2.ReasonWorkloadUnavailable, intervals.Missing, "Deployment %q %w", deployment, ErrNoDeployment)
	}
	if i.mayReport(ctx) {
		if err := finder.ReportNoOperator(ctx, items, i.warnOfNoOperator); err != nil {
			return fmt.Errorf("writing that Deployment %q %w to custom resources: %w", deployment, ErrNoDeployment, err)
		}
	}
	return status.Waiting(v2beta2.ReasonWorkloadUnavailable, intervals.Missing,
		"Deployment %q %w, so no playbook runs for %s: set spec.deletionPolicy of OperatorCollection %q to %s and import the collection again, "+
			"or remove them without a run: kubectl collection abandon KIND/NAME",
		deployment, ErrNoDeployment, instances.Describe(items), i.soc.Spec.OperatorCollection, v2beta2.DeletionOrphan)
}

// warnOfNoOperator records on a custom resource that it has no operator.
func (i *installed) warnOfNoOperator(item *unstructured.Unstructured) {
	message := runstatus.NoOperatorMessage(item.GetKind(), item.GetName())
	if item.GetDeletionTimestamp() != nil && controllerutil.ContainsFinalizer(item, render.Finalizer) {
		message = "its deletion waits for ever, since " + message
	}
	i.recorder.Eventf(item, nil, corev1.EventTypeWarning, string(runstatus.PhaseNoOperator), "Uninstall", "%s", printable.Line(message, status.MaxEventBytes))
}

// mayReport reports whether the status of custom resources may say that they have no operator: the namespace consents, and has
// no operator that a user installed.
func (i *installed) mayReport(ctx context.Context) bool {
	if mapping.Consent(ctx, i.reader, i.soc.Namespace, i.namespace) != nil {
		return false
	}
	exists, err := HasOperator(ctx, i.reader, i.operator())
	return err == nil && !exists
}
