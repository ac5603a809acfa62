package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/apply"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/instances"
	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/status"
)

// annotationAllowMapping on a namespace names, separated by commas, the namespaces whose SubOperatorConfigs may map it.
const annotationAllowMapping = "zoscb.ibm.com/allow-mapping-from"

// checkMapping decides into which namespaces the operator is installed. One that may not be used is told on status and
// does not keep the others from being served.
func (r *SubOperatorConfigReconciler) checkMapping(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	rivals, err := r.rivals(ctx, soc, facts)
	if err != nil {
		return err
	}
	for _, mapping := range soc.Spec.Mapping {
		err := consent(ctx, r.Client, soc.Namespace, mapping.Namespace)
		if err == nil {
			err = r.checkRivals(ctx, soc, mapping.Namespace, rivals)
		}
		var f *status.Error
		switch {
		case err == nil:
			facts.mappings = append(facts.mappings, mapping)
		case errors.As(err, &f):
			facts.problems = append(facts.problems, err)
		default:
			return err
		}
	}
	return nil
}

// consent fails with a reason unless namespace may be mapped from another one.
func consent(ctx context.Context, reader client.Reader, from, namespace string) error {
	if namespace == from {
		return nil
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := reader.Get(ctx, types.NamespacedName{Name: namespace}, object)
	if apierrors.IsNotFound(err) {
		return status.Waiting(v2beta2.ReasonMappingNotAllowed, status.MissingInterval, "spec.mapping: namespace %q does not exist", namespace)
	}
	if err != nil {
		return fmt.Errorf("reading namespace %q: %w", namespace, err)
	}
	if object.DeletionTimestamp != nil {
		return status.Waiting(v2beta2.ReasonMappingNotAllowed, status.MissingInterval, "spec.mapping: namespace %q is being deleted", namespace)
	}
	for allowed := range strings.SplitSeq(object.Annotations[annotationAllowMapping], ",") {
		if strings.TrimSpace(allowed) == from {
			return nil
		}
	}
	return status.Waiting(v2beta2.ReasonMappingNotAllowed, status.MissingInterval,
		"spec.mapping: namespace %q does not allow it: whoever owns that namespace can give it the annotation %s: %s", namespace, annotationAllowMapping, from)
}

// checkEnvironment refuses runtime settings that would read Secrets or ConfigMaps of another namespace: its consent is to
// running an operator there, and not to handing out what it holds. Whatever runs keeps running as it is.
func (r *SubOperatorConfigReconciler) checkEnvironment(_ context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	foreign := slices.IndexFunc(facts.mappings, func(m v2beta2.NamespaceMapping) bool { return m.Namespace != soc.Namespace })
	if foreign < 0 {
		return nil
	}
	for _, variable := range render.MergeRuntime(facts.oc.Spec.Runtime, soc.Spec.Runtime).Env {
		if from := variable.ValueFrom; from != nil && (from.SecretKeyRef != nil || from.ConfigMapKeyRef != nil) {
			namespace := facts.mappings[foreign].Namespace
			return status.Waiting(v2beta2.ReasonMappingNotAllowed, status.MissingInterval,
				"runtime.env: variable %q reads a Secret or ConfigMap, which in the mapped namespace %q would not be yours: give it a value, or map %q from a SubOperatorConfig there",
				variable.Name, namespace, namespace)
		}
	}
	return nil
}

// rivals are the other SubOperatorConfigs of the same collection, in whatever namespace.
func (r *SubOperatorConfigReconciler) rivals(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) ([]v2beta2.SubOperatorConfig, error) {
	list := &v2beta2.SubOperatorConfigList{}
	if err := r.Client.List(ctx, list, client.MatchingLabels(render.IdentityLabels(facts.collection.ID()))); err != nil {
		return nil, fmt.Errorf("listing SubOperatorConfigs: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(other v2beta2.SubOperatorConfig) bool { return other.UID == soc.UID }), nil
}

// checkRivals makes sure that a collection has one operator in a namespace: the oldest SubOperatorConfig gets it, once
// the one that has it now has let go.
func (r *SubOperatorConfigReconciler) checkRivals(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string, rivals []v2beta2.SubOperatorConfig) error {
	for i := range rivals {
		rival := &rivals[i]
		wants := rival.DeletionTimestamp == nil && older(rival, soc) && mapsNamespace(rival, namespace)
		if wants {
			err := consent(ctx, r.Client, rival.Namespace, namespace)
			var refused *status.Error
			if err != nil && !errors.As(err, &refused) {
				return err
			}
			wants = err == nil
		}
		if wants || installedIn(rival, namespace) && !installedIn(soc, namespace) {
			return status.Waiting(v2beta2.ReasonMappingConflict, status.MissingInterval,
				"spec.mapping: namespace %q already has this collection's operator, from SubOperatorConfig %q in namespace %q", namespace, rival.Name, rival.Namespace)
		}
	}
	return nil
}

func mapsNamespace(soc *v2beta2.SubOperatorConfig, namespace string) bool {
	return mapsAny(soc.Spec.Mapping, namespace)
}

func installedIn(soc *v2beta2.SubOperatorConfig, namespace string) bool {
	return slices.ContainsFunc(soc.Status.Installations, func(i v2beta2.InstallationStatus) bool { return i.Namespace == namespace })
}

// runGrace is how long removing an operator waits for playbooks that run.
const runGrace = time.Minute

// leave removes the operator from namespaces that are mapped no longer, whatever becomes of the others. Such an
// installation is on status until the last of its objects is gone, so that no other SubOperatorConfig takes the
// namespace over before.
func (r *SubOperatorConfigReconciler) leave(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	var staying []v2beta2.InstallationStatus
	for _, installation := range soc.Status.Installations {
		if mapsAny(facts.mappings, installation.Namespace) {
			staying = append(staying, installation)
			continue
		}
		waits, err := r.uninstall(ctx, soc, facts, &installation)
		if err != nil {
			return err
		}
		if waits == nil {
			continue
		}
		installation.Message = waits.Error()
		facts.problems = append(facts.problems, waits)
		facts.leaving = append(facts.leaving, installation)
		staying = append(staying, installation)
	}
	if equality.Semantic.DeepEqual(soc.Status.Installations, staying) {
		return nil
	}
	before := soc.DeepCopy()
	soc.Status.Installations = staying
	return r.saveStatus(ctx, soc, before)
}

// uninstall removes one installation. It returns what that waits for, or nil once nothing is left.
func (r *SubOperatorConfigReconciler) uninstall(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts, installation *v2beta2.InstallationStatus) (waits *status.Error, err error) {
	installation.Ready = false
	if installation.RemovalTime == nil {
		installation.RemovalTime = &metav1.Time{Time: time.Now().Truncate(time.Second)}
	}
	var parts []v2beta2.ObjectReference
	for _, ref := range soc.Status.Inventory {
		if facts.isPart(ref, installation.Namespace) {
			parts = append(parts, ref)
		}
	}
	waits, err = r.retire(ctx, soc, facts, installation.Namespace, installation.RemovalTime.Time, parts)
	if waits != nil || err != nil {
		return waits, err
	}
	return nil, r.sayWhatIsLeft(ctx, soc, facts.collection.ID(), installation.Namespace)
}

// prune removes what this SubOperatorConfig made before, and does not need any more, in the namespaces that stay mapped.
func (r *SubOperatorConfigReconciler) prune(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	obsolete := slices.DeleteFunc(apply.Difference(soc.Status.Inventory, apply.Inventory(facts.objects)), facts.isKept)
	remaining, err := r.remove(ctx, soc, obsolete)
	if err == nil && len(remaining) > 0 {
		facts.problems = append(facts.problems, removing(remaining))
	}
	return err
}

// remove deletes objects and strikes those that are gone off the inventory. It returns the others.
func (r *SubOperatorConfigReconciler) remove(ctx context.Context, soc *v2beta2.SubOperatorConfig, refs []v2beta2.ObjectReference) ([]v2beta2.ObjectReference, error) {
	applier := &apply.Applier{Client: r.Client, Reader: r.Reader, InUse: r.inUse, Aftermath: r.aftermath(soc)}
	remaining, err := applier.Prune(ctx, refs, ownedBy(soc))
	gone := apply.Difference(refs, remaining)
	return remaining, errors.Join(err, r.saveInventory(ctx, soc, apply.Difference(soc.Status.Inventory, gone)))
}

// removing says which of the objects that are being removed is waited for.
func removing(remaining []v2beta2.ObjectReference) error {
	last := remaining[len(remaining)-1]
	return status.Waiting(v2beta2.ReasonTerminating, status.PollInterval, "waiting until %s %s/%s is removed", last.Kind, last.Namespace, last.Name)
}

// isPart says whether an object is part of the installation in a namespace.
func (f *installationFacts) isPart(ref v2beta2.ObjectReference, namespace string) bool {
	return ref.Namespace == namespace || ref.Namespace == "" && ref.Name == render.ClusterRoleName(f.collection, namespace)
}

func mapsAny(mappings []v2beta2.NamespaceMapping, namespace string) bool {
	return slices.ContainsFunc(mappings, func(m v2beta2.NamespaceMapping) bool { return m.Namespace == namespace })
}

// busy says which playbooks run in a namespace whose operator is to be removed, or nil if it need not wait for any.
func (r *SubOperatorConfigReconciler) busy(ctx context.Context, key collection.ID, namespace string, since time.Time) (*status.Error, error) {
	left := runGrace - time.Since(since)
	if left <= 0 {
		return nil, nil
	}
	items, err := (&instances.Finder{Client: r.Client, Reader: r.Reader}).List(ctx, key, namespace)
	if err != nil {
		return nil, err
	}
	running := instances.Running(items)
	if len(running) == 0 {
		return nil, nil
	}
	return &status.Error{Reason: v2beta2.ReasonTerminating, RetryAfter: min(left, status.PollInterval),
		Err: fmt.Errorf("namespace %q: the operator is removed when these playbooks end: %s", namespace, instances.Describe(running))}, nil
}

// sayWhatIsLeft tells in an event how many custom resources lose their operator.
func (r *SubOperatorConfigReconciler) sayWhatIsLeft(ctx context.Context, soc *v2beta2.SubOperatorConfig, key collection.ID, namespace string) error {
	items, err := (&instances.Finder{Client: r.Client, Reader: r.Reader}).List(ctx, key, namespace)
	if err != nil || len(items) == 0 {
		return err
	}
	note := fmt.Sprintf("%d custom resources stay in namespace %q without an operator: %s", len(items), namespace, instances.Describe(items))
	// Events about the same objects are told apart by reason alone, so that only the first of several notes would be kept.
	related := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	r.Recorder.Eventf(soc, related, corev1.EventTypeWarning, v2beta2.ReasonInstancesExist, "Uninstall", "%s", status.Truncate(note, status.MaxEventBytes))
	return nil
}
