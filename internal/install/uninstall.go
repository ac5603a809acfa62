package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// Remover removes objects that OLM created for a Subscription of an installation.
type Remover interface {
	// Available says whether the cluster has OLM and the manager may use it.
	Available() bool
	// InUse reports whether other operators need a shared object.
	InUse(ctx context.Context, live client.Object) (bool, error)
	// RemoveOperator removes the operator of a collection whose Subscription is deleted, and reports whether the removal is
	// complete. It keeps the operator if there is a Subscription that ours does not accept.
	RemoveOperator(ctx context.Context, id model.ID, namespace string, ours apply.Ours) (gone bool, err error)
}

// Uninstall removes an installation, from status and inventory alone: neither the OperatorCollection nor the archive need to
// exist. The result has no status once the removal is complete. Until then the SubOperatorConfig keeps its entry, so that no
// other one installs the collection in the namespace.
func (r *Installer) Uninstall(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string) Result {
	return removal(soc, namespace, r.uninstall(ctx, soc, namespace, false))
}

// HandOver is Uninstall for a collection that is replaced by another one, whose operator takes over the custom resources. What proves
// their runs is left to it.
func (r *Installer) HandOver(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string) Result {
	return removal(soc, namespace, r.uninstall(ctx, soc, namespace, true))
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

func (r *Installer) uninstall(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string, handOver bool) error {
	since, err := r.startRemoval(ctx, soc, namespace)
	if err != nil {
		return err
	}
	obsolete := parts(soc, namespace)
	if handOver {
		obsolete = apply.Difference(obsolete, []v2beta2.ObjectReference{endpointsOf(soc, namespace)})
	}
	subscribed := slices.ContainsFunc(obsolete, func(ref v2beta2.ObjectReference) bool { return ref.Kind == operatorsv1alpha1.SubscriptionKind })
	if err := r.awaitRuns(ctx, soc, namespace, since); err != nil {
		return err
	}
	if RecordedMethod(soc, namespace) == v2beta2.InstallOLM && !subscribed && r.OLM.Available() {
		// OLM keeps the operator of a deleted user-managed Subscription. It is removed before the objects that its pods
		// need.
		if err := r.removeOperator(ctx, soc, namespace); err != nil {
			return err
		}
	}
	if err := r.remove(ctx, soc, obsolete); err != nil {
		return err
	}
	if handOver {
		if err := r.leaveKey(ctx, soc, namespace); err != nil {
			return err
		}
	}
	r.reportInstances(ctx, soc, namespace, handOver)
	before := soc.DeepCopy()
	soc.Status.Installations = WithoutInstallation(soc.Status.Installations, namespace)
	return saveStatus(ctx, r.Client, soc, before)
}

// uninstallFormer removes the operator that the other method installed, or that OLM cannot replace by the planned one, with its pods,
// before anything of the new one is written: two operators in one namespace would run the same playbooks at once. Objects that both
// need are kept.
func (r *Installer) uninstallFormer(ctx context.Context, s *scope) error {
	method, replaces := RecordedMethod(s.Owner, s.Namespace), s.Backend.Replaces()
	if (method == "" || method == s.Backend.Method()) && !replaces {
		return nil
	}
	if method == "" {
		orphan := v2beta2.InstallationStatus{Namespace: s.Namespace, Install: v2beta2.InstallOLM}
		s.Owner.Status.Installations = WithInstallation(s.Owner.Status.Installations, orphan)
	}
	since, err := r.startRemoval(ctx, s.Owner, s.Namespace)
	if err != nil {
		return err
	}
	s.result.Status = Recorded(s.Owner, s.Namespace)
	if err := r.preventRuns(ctx, s.Owner, s.Namespace, since); err != nil {
		return err
	}
	if err := r.awaitRuns(ctx, s.Owner, s.Namespace, since); err != nil {
		return err
	}
	obsolete := apply.Difference(parts(s.Owner, s.Namespace), apply.Inventory(s.plan.Objects))
	if replaces {
		obsolete = apply.Union(obsolete, subscriptions(parts(s.Owner, s.Namespace)))
	}
	if err := r.remove(ctx, s.Owner, obsolete); err != nil || method != v2beta2.InstallOLM && !replaces {
		return err
	}
	return r.removeOperator(ctx, s.Owner, s.Namespace)
}

// subscriptions returns the Subscriptions among objects.
func subscriptions(refs []v2beta2.ObjectReference) []v2beta2.ObjectReference {
	return slices.DeleteFunc(slices.Clone(refs), func(ref v2beta2.ObjectReference) bool { return ref.Kind != operatorsv1alpha1.SubscriptionKind })
}

// preventRuns lets the operator start no run while its removal waits for those that have begun. A gate that has read the Lease a moment
// before may still start one, which awaitRuns sees.
func (r *Installer) preventRuns(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string, since time.Time) error {
	until := since.Add(2 * intervals.RunGrace)
	if time.Now().After(until) {
		return nil
	}
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: namespace, Name: RecordedCollection(soc).OperatorName()}
	if err := r.Reader.Get(ctx, key, lease); err != nil {
		return client.IgnoreNotFound(err) // No pod has started.
	}
	before := lease.DeepCopy()
	if !podlock.Close(lease, until) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, lease, patch, client.FieldOwner(apply.FieldOwner)); err != nil {
		return fmt.Errorf("preventing further runs of the operator in namespace %q: %w", namespace, err)
	}
	return status.Waiting(v2beta2.ReasonTerminating, intervals.Poll, "namespace %q: no further playbook is started, and the operator is removed when those that run have ended", namespace)
}

func (r *Installer) removeOperator(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string) error {
	gone, err := r.OLM.RemoveOperator(ctx, RecordedCollection(soc), namespace, OwnedBy(soc))
	if err != nil || gone {
		return err
	}
	return status.Waiting(v2beta2.ReasonTerminating, intervals.Poll, "namespace %q: waiting until OLM has removed the operator", namespace)
}

// startRemoval records the time at which the removal of an operator began, and returns it. Objects without a status entry
// never ran: they are removed at once.
func (r *Installer) startRemoval(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string) (time.Time, error) {
	recorded := Recorded(soc, namespace)
	if recorded == nil {
		return time.Time{}, nil
	}
	if recorded.RemovalTime != nil {
		return recorded.RemovalTime.Time, nil
	}
	before := soc.DeepCopy()
	now := metav1.Now().Rfc3339Copy()
	recorded.Ready, recorded.RemovalTime = false, &now
	soc.Status.Installations = WithInstallation(soc.Status.Installations, *recorded)
	return now.Time, saveStatus(ctx, r.Client, soc, before)
}

// awaitRuns waits for running playbooks until intervals.RunGrace has passed.
func (r *Installer) awaitRuns(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string, since time.Time) error {
	left := intervals.RunGrace - time.Since(since)
	if left <= 0 {
		return nil
	}
	finder := &instances.Finder{Reader: r.Reader}
	items, err := finder.List(ctx, RecordedCollection(soc), namespace)
	if err != nil {
		return err
	}
	running := instances.Running(items)
	if len(running) == 0 {
		return nil
	}
	return status.Waiting(v2beta2.ReasonTerminating, min(left, intervals.Poll),
		"namespace %q: the operator is removed when these playbooks end: %s", namespace, instances.Describe(running))
}

// remove deletes objects and removes those that are gone from the inventory.
func (r *Installer) remove(ctx context.Context, soc *v2beta2.SubOperatorConfig, refs []v2beta2.ObjectReference) error {
	if len(refs) == 0 {
		return nil
	}
	applier := &apply.Applier{Client: r.Client, Reader: r.Reader, InUse: r.OLM.InUse, Aftermath: func(ctx context.Context, ref v2beta2.ObjectReference) (bool, error) {
		if ref.Kind != operatorsv1alpha1.SubscriptionKind {
			return true, nil
		}
		return r.OLM.RemoveOperator(ctx, RecordedCollection(soc), ref.Namespace, OwnedBy(soc))
	}}
	remaining, err := applier.Prune(ctx, refs, OwnedBy(soc))
	before := soc.DeepCopy()
	soc.Status.Inventory = apply.Difference(soc.Status.Inventory, apply.Difference(refs, remaining))
	if err := errors.Join(err, saveStatus(ctx, r.Client, soc, before)); err != nil || len(remaining) == 0 {
		return err
	}
	last := remaining[len(remaining)-1]
	return status.Waiting(v2beta2.ReasonTerminating, intervals.Poll, "waiting until %s %s/%s is removed", last.Kind, last.Namespace, last.Name)
}

// reportInstances reports the custom resources that lose their operator: in an event, and in their status if the namespace
// still allows the manager to write there. The operator is gone: that they cannot be counted or written must not keep the
// namespace from others.
func (r *Installer) reportInstances(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string, handOver bool) {
	if Recorded(soc, namespace) == nil {
		return
	}
	finder := &instances.Finder{Client: r.Client, Reader: r.Reader}
	items, err := finder.List(ctx, RecordedCollection(soc), namespace)
	note := fmt.Sprintf("%d custom resources stay in namespace %q without an operator: %s", len(items), namespace, instances.Describe(items))
	eventType, reason := corev1.EventTypeWarning, v2beta2.ReasonInstancesExist
	switch {
	case err == nil && len(items) == 0:
		return
	case err == nil && handOver:
		eventType, reason = corev1.EventTypeNormal, v2beta2.ReasonReplaced
		note = fmt.Sprintf("%d custom resources stay in namespace %q for the collection that replaces %s: %s",
			len(items), namespace, RecordedCollection(soc), instances.Describe(items))
	case err != nil:
		note = fmt.Sprintf("custom resources may stay in namespace %q without an operator: %v", namespace, err)
	case r.mayReport(ctx, soc, namespace):
		if err := finder.ReportNoOperator(ctx, items, r.warnOfNoOperator); err != nil {
			note += fmt.Sprintf("; their status does not say so: %v", err)
		}
	}
	// Events about the same objects are told apart by reason alone, so that only the first of several notes would be kept.
	related := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	r.Recorder.Eventf(soc, related, eventType, reason, "Uninstall", "%s", printable.Line(note, status.MaxEventBytes))
}

// warnOfNoOperator records on a custom resource that it has no operator.
func (r *Installer) warnOfNoOperator(item *unstructured.Unstructured) {
	message := runstatus.NoOperatorMessage(item.GetKind(), item.GetName())
	if item.GetDeletionTimestamp() != nil && controllerutil.ContainsFinalizer(item, render.Finalizer) {
		message = "its deletion waits for ever, since " + message
	}
	r.Recorder.Eventf(item, nil, corev1.EventTypeWarning, string(runstatus.PhaseNoOperator), "Uninstall", "%s", printable.Line(message, status.MaxEventBytes))
}

// mayReport reports whether the status of custom resources may say that they have no operator: the namespace consents, and has
// no operator that a user installed.
func (r *Installer) mayReport(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string) bool {
	if mapping.Consent(ctx, r.Reader, soc.Namespace, namespace) != nil {
		return false
	}
	key := client.ObjectKey{Namespace: namespace, Name: RecordedCollection(soc).OperatorName()}
	exists, err := HasOperator(ctx, r.Reader, key)
	return err == nil && !exists
}
