package operatorcollection

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/replacement"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// checkReplaced finds out what a collection that replaces another one waits for, and what it does not take over.
func (r *Reconciler) checkReplaced(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
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
	if err := r.Reserved.Check(c.Replaces, oc.Namespace, scope.Artifact.VerifiedBy); err != nil {
		return status.Waiting(v2beta2.ReasonDomainReserved, intervals.Missing, "%w", err)
	}
	all := &v2beta2.OperatorCollectionList{}
	if err := r.Reader.List(ctx, all); err != nil {
		return fmt.Errorf("listing OperatorCollections: %w", err)
	}
	var holders []string
	for _, planned := range scope.plan {
		if planned.Passes() {
			holders = append(holders, replacement.OtherHolders(planned.Live, all.Items, func(other *v2beta2.OperatorCollection) bool { return other.UID == oc.UID })...)
		}
	}
	if len(holders) > 0 {
		text := fmt.Sprintf("collection %s replaces %s: delete OperatorCollection %s: its kinds and custom resources stay",
			c.ID(), c.Replaces, replacement.DescribeHolders(holders, oc.Namespace, all.Items))
		scope.awaited = status.Waiting(v2beta2.ReasonReplaced, intervals.Missing, "%s", strings.Join(append([]string{text}, scope.unreplaced...), "; "))
	}
	return nil
}

// describeUnreplaced describes the custom resources of the replaced collection that no operator will serve: of kinds that the new
// collection does not have, or has in another API group.
func (r *Reconciler) describeUnreplaced(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
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
		kind, group := definition.Spec.Names.Kind, imports.GroupOf(oc, c)
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

// awaitSuccession keeps an OperatorCollection with its operators as long as others keep the collection that waits in its place from
// taking it over. It reports whether one waits: then the custom resources stay, whatever the deletion policy says.
func (f *collectionFinalizer) awaitSuccession(ctx context.Context, oc *v2beta2.OperatorCollection) (bool, error) {
	id := f.Collections.RecordedID(oc)
	successor, err := replacement.WaitingSuccessor(ctx, f.Reader, oc.Namespace, id)
	if err != nil {
		return false, err
	}
	if successor == nil {
		return false, replacement.AwaitInterrupted(ctx, f.Reader, oc, id)
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
		holders = append(holders, replacement.OtherHolders(&crds[i], all.Items, func(other *v2beta2.OperatorCollection) bool { return other.DeletionTimestamp != nil })...)
	}
	if len(holders) > 0 {
		return true, status.Waiting(v2beta2.ReasonReplaced, intervals.Poll,
			"the deletion waits until OperatorCollection %q can take over the custom resources: delete OperatorCollection %s, too",
			successor.Name, replacement.DescribeHolders(holders, oc.Namespace, all.Items))
	}
	return true, nil
}
