package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// A collection takes over the CRDs of another one that it replaces, in the namespace that the other belongs to. A CRD passes once no
// OperatorCollection has it for the other collection any more, and the other's operators are removed. Until then the
// OperatorCollection of the new one waits, or, if it had the other one itself, its SubOperatorConfigs remove the operators.

// replacedID is the collection that an OperatorCollection has taken over or waits to take over, or zero.
func replacedID(oc *v2beta2.OperatorCollection) model.ID {
	if oc.Status.Replaces == nil {
		return model.ID{}
	}
	return model.ID{Domain: oc.Status.Replaces.Domain, Name: oc.Status.Replaces.Name}
}

// replacedReference is the reference to the collection that another one replaces, or nil.
func replacedReference(c *model.Collection) *v2beta2.CollectionReference {
	if c.Replaces == (model.ID{}) {
		return nil
	}
	return &v2beta2.CollectionReference{Domain: c.Replaces.Domain, Name: c.Replaces.Name}
}

// awaitsReplaced reports whether an OperatorCollection waits only for the deletion of those with the collection that it replaces.
func awaitsReplaced(oc *v2beta2.OperatorCollection) bool {
	imported := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionImported)
	return !oc.Spec.Suspend && imported != nil && imported.Status == metav1.ConditionFalse &&
		imported.Reason == v2beta2.ReasonReplaced && imported.ObservedGeneration == oc.Generation
}

// isSuccessor reports whether an OperatorCollection takes over a collection that belongs to a namespace.
func isSuccessor(oc *v2beta2.OperatorCollection, replaced model.ID, namespace string) bool {
	return oc.Namespace == namespace && oc.DeletionTimestamp == nil && replacedID(oc) == replaced && replaced != model.ID{} &&
		(awaitsReplaced(oc) || importedID(oc) != replaced)
}

// isInterrupted reports whether an OperatorCollection has waited for the deletion of those with a collection of its namespace, and may do so
// again: its present error may be over soon, such as one of the server that has its archive.
func isInterrupted(oc *v2beta2.OperatorCollection, replaced model.ID) bool {
	return oc.DeletionTimestamp == nil && replacedID(oc) == replaced && replaced != model.ID{} && !awaitsReplaced(oc) &&
		(importedID(oc) == model.ID{} || importedID(oc) == replaced)
}

// isTakenOver reports whether an OperatorCollection takes over a CRD, or waits to do so.
func isTakenOver(definition *apiextensionsv1.CustomResourceDefinition, all []v2beta2.OperatorCollection) bool {
	return slices.ContainsFunc(all, func(oc v2beta2.OperatorCollection) bool {
		return isSuccessor(&oc, labelledID(definition), definition.Annotations[render.AnnotationClaimedBy]) &&
			(awaitsReplaced(&oc) || hasKind(&oc, definition))
	})
}

// otherHolders are the OperatorCollections that have the kind of a CRD for the collection that it belongs to, as recorded on it, but for
// those that take it over and those that but excludes.
func otherHolders(definition *apiextensionsv1.CustomResourceDefinition, all []v2beta2.OperatorCollection, but func(*v2beta2.OperatorCollection) bool) []string {
	replaced, namespace := labelledID(definition), definition.Annotations[render.AnnotationClaimedBy]
	return slices.DeleteFunc(crd.Holders(definition), func(holder string) bool {
		i := slices.IndexFunc(all, func(oc v2beta2.OperatorCollection) bool { return holderName(&oc) == holder })
		return i >= 0 && (isSuccessor(&all[i], replaced, namespace) || but(&all[i]))
	})
}

// waitingSuccessor returns the OperatorCollection of a namespace that waits only for the deletion of those with a collection, which it
// replaces, or nil.
func waitingSuccessor(ctx context.Context, reader client.Reader, namespace string, id model.ID) (*v2beta2.OperatorCollection, error) {
	if id == (model.ID{}) {
		return nil, nil
	}
	return findIn(ctx, reader, namespace, func(oc *v2beta2.OperatorCollection) bool { return isSuccessor(oc, id, namespace) && awaitsReplaced(oc) })
}

// findIn returns the first OperatorCollection of a namespace that is accepted, or nil.
func findIn(ctx context.Context, reader client.Reader, namespace string, accepts func(*v2beta2.OperatorCollection) bool) (*v2beta2.OperatorCollection, error) {
	list := &v2beta2.OperatorCollectionList{}
	if err := reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing OperatorCollections: %w", err)
	}
	i := slices.IndexFunc(list.Items, func(oc v2beta2.OperatorCollection) bool { return accepts(&oc) })
	if i < 0 {
		return nil, nil
	}
	return &list.Items[i], nil
}

// awaitInterrupted keeps custom resources from being deleted for an OperatorCollection, whose deletion has begun, while it is not certain
// that no other one takes them over.
func awaitInterrupted(ctx context.Context, reader client.Reader, oc *v2beta2.OperatorCollection, id model.ID) error {
	other, err := findIn(ctx, reader, oc.Namespace, func(other *v2beta2.OperatorCollection) bool {
		return other.UID != oc.UID && isInterrupted(other, id)
	})
	if err != nil || other == nil {
		return err
	}
	return status.Waiting(v2beta2.ReasonReplaced, intervals.Poll,
		"OperatorCollection %q was to take over the custom resources, and cannot do so now: resume or correct it, see its status, or delete it", other.Name)
}

// describeHolders names OperatorCollections that are recorded on CRDs, those in other namespaces with these.
func describeHolders(holders []string, namespace string, all []v2beta2.OperatorCollection) string {
	holders = slices.Compact(slices.Sorted(slices.Values(holders)))
	names := make([]string, 0, len(holders))
	for _, holder := range holders {
		name := fmt.Sprintf("%q", strings.TrimPrefix(holder, namespace+"/"))
		if !slices.ContainsFunc(all, func(oc v2beta2.OperatorCollection) bool { return holderName(&oc) == holder }) {
			name += " (which does not exist: remove it from the annotation " + render.AnnotationHeldBy + " of the CRDs)"
		}
		names = append(names, name)
	}
	return status.JoinNames(names)
}

// checkReplaced finds out what a collection that replaces another one waits for, and what it does not take over.
func (r *OperatorCollectionReconciler) checkReplaced(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	c := scope.collection
	if c.Replaces == (model.ID{}) {
		return nil
	}
	if err := r.describeUnreplaced(ctx, oc, scope); err != nil {
		return err
	}
	if !slices.ContainsFunc(scope.plan, crd.Planned.Passes) {
		return nil
	}
	if err := r.Reserved.Check(c.Replaces, oc.Namespace, scope.artifact.VerifiedBy); err != nil {
		return status.Waiting(v2beta2.ReasonDomainReserved, intervals.Missing, "%w", err)
	}
	all := &v2beta2.OperatorCollectionList{}
	if err := r.Reader.List(ctx, all); err != nil {
		return fmt.Errorf("listing OperatorCollections: %w", err)
	}
	var holders []string
	for _, planned := range scope.plan {
		if planned.Passes() {
			holders = append(holders, otherHolders(planned.Live, all.Items, func(other *v2beta2.OperatorCollection) bool { return other.UID == oc.UID })...)
		}
	}
	if len(holders) > 0 {
		text := fmt.Sprintf("collection %s replaces %s: delete OperatorCollection %s: its kinds and custom resources stay",
			c.ID(), c.Replaces, describeHolders(holders, oc.Namespace, all.Items))
		scope.awaited = status.Waiting(v2beta2.ReasonReplaced, intervals.Missing, "%s", strings.Join(append([]string{text}, scope.unreplaced...), "; "))
	}
	return nil
}

// describeUnreplaced describes the custom resources of the replaced collection that no operator will serve: of kinds that the new
// collection does not have, or has in another API group.
func (r *OperatorCollectionReconciler) describeUnreplaced(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	c, finder := scope.collection, &instances.Finder{Reader: r.Reader}
	crds, err := finder.CRDs(ctx, c.Replaces)
	if err != nil {
		return err
	}
	for i := range crds {
		definition := &crds[i]
		if definition.Annotations[render.AnnotationClaimedBy] != oc.Namespace ||
			slices.ContainsFunc(scope.plan, func(planned crd.Planned) bool { return planned.CRD.Name == definition.Name }) {
			continue
		}
		kind, group := definition.Spec.Names.Kind, groupOf(oc, c)
		if _, has := c.Resource(kind); has && group != definition.Spec.Group {
			scope.unreplaced = append(scope.unreplaced, fmt.Sprintf(
				"collection %s replaces %s, but does not take over kind %s: its API group is %s, and that of this OperatorCollection is %s (spec.apiGroup)",
				c.ID(), c.Replaces, kind, definition.Spec.Group, group))
			continue
		}
		items, err := finder.ListOf(ctx, definition, "")
		if err != nil {
			return err
		}
		if len(items) > 0 {
			scope.unreplaced = append(scope.unreplaced, fmt.Sprintf("collection %s replaces %s, but has no kind %s: these custom resources stay without an operator: %s",
				c.ID(), c.Replaces, kind, instances.Describe(items)))
		}
	}
	return nil
}

// awaitReplaced waits until the CRDs of a replaced collection can pass to the one that replaces it.
func (r *CustomResourceDefinitionReconciler) awaitReplaced(ctx context.Context, plan []crd.Planned, all []v2beta2.OperatorCollection) error {
	for _, planned := range plan {
		if !planned.Passes() {
			continue
		}
		if holders := otherHolders(planned.Live, all, func(*v2beta2.OperatorCollection) bool { return false }); len(holders) > 0 {
			return status.Waiting(v2beta2.ReasonReplaced, intervals.Missing, "CRD %q belongs to collection %s as long as these OperatorCollections exist: %s",
				planned.Live.Name, planned.Replaced, describeHolders(holders, "", all))
		}
		socs := &v2beta2.SubOperatorConfigList{}
		if err := r.Reader.List(ctx, socs); err != nil {
			return fmt.Errorf("listing SubOperatorConfigs: %w", err)
		}
		for i := range socs.Items {
			if install.RecordedCollection(&socs.Items[i]) == planned.Replaced {
				// It is one of another collection, which triggers no reconcile of this one.
				return status.Waiting(v2beta2.ReasonProgressing, intervals.Poll, "waiting until the operator of collection %s is removed by SubOperatorConfig %q",
					planned.Replaced, client.ObjectKeyFromObject(&socs.Items[i]))
			}
		}
	}
	return nil
}

// awaitSuccession keeps an OperatorCollection with its operators as long as others keep the collection that waits in its place from
// taking it over. It reports whether one waits: then the custom resources stay, whatever the deletion policy says.
func (f *collectionFinalizer) awaitSuccession(ctx context.Context, oc *v2beta2.OperatorCollection) (bool, error) {
	id := f.Collections.recordedID(oc)
	successor, err := waitingSuccessor(ctx, f.Reader, oc.Namespace, id)
	if err != nil {
		return false, err
	}
	if successor == nil {
		return false, awaitInterrupted(ctx, f.Reader, oc, id)
	}
	crds, err := (&instances.Finder{Reader: f.Reader}).CRDs(ctx, id)
	if err != nil {
		return false, err
	}
	all := &v2beta2.OperatorCollectionList{}
	if err := f.Reader.List(ctx, all); err != nil {
		return false, fmt.Errorf("listing OperatorCollections: %w", err)
	}
	var holders []string
	for i := range crds {
		holders = append(holders, otherHolders(&crds[i], all.Items, func(other *v2beta2.OperatorCollection) bool { return other.DeletionTimestamp != nil })...)
	}
	if len(holders) > 0 {
		return true, status.Waiting(v2beta2.ReasonReplaced, intervals.Poll,
			"the deletion waits until OperatorCollection %q can take over the custom resources: delete OperatorCollection %s, too",
			successor.Name, describeHolders(holders, oc.Namespace, all.Items))
	}
	return true, nil
}
