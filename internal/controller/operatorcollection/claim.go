package operatorcollection

import (
	"context"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// checkReserved refuses a collection whose domain administrators have reserved for others. Those that are installed keep running.
func (r *Reconciler) checkReserved(_ context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	if err := r.Reserved.Check(scope.collection.ID(), oc.Namespace, scope.Artifact.VerifiedBy); err != nil {
		return status.Waiting(v2beta2.ReasonDomainReserved, status.Watched, "%w", err)
	}
	return nil
}

// checkClaim refuses a collection that belongs to another namespace: otherwise anyone could publish a version of it and
// have it run with the credentials of others. Another namespace may import only what its owner imported, with the same
// content. Within a namespace, a version has one content.
func (r *Reconciler) checkClaim(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	key := scope.collection.ID()
	others, err := r.others(ctx, oc, key)
	if err != nil {
		return err
	}
	scope.others = others
	if err := r.readDefinitions(ctx, oc, scope); err != nil {
		return err
	}
	owner := crdplan.OwningNamespace(scope.definitions, key, append(slices.Clone(others), *oc))
	if owner == "" || owner == oc.Namespace {
		if err := checkVersion(oc, scope, others); err != nil {
			return err
		}
		return scope.checkFollowers(oc)
	}
	if crd.Publish(scope.definitions, imports.GroupOf(oc, scope.collection), scope.collection.APIVersion(), digest.Digest(scope.Artifact.Digest)) {
		return nil
	}
	// The CRDs of a collection that is not imported here trigger no reconcile.
	return status.Waiting(v2beta2.ReasonCollectionClaimed, claimInterval(oc),
		"collection %s belongs to namespace %q: only a version that was imported there, with the same content and apiGroup, can be imported here", key, owner)
}

// claimInterval is the delay before the next look at what others import. It grows with the time for which the OperatorCollection is not
// ready: the owner often imports at the same time, from the same commit.
func claimInterval(oc *v2beta2.OperatorCollection) time.Duration {
	var waits time.Duration
	if ready := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionReady); ready != nil && ready.Status != metav1.ConditionTrue {
		waits = time.Since(ready.LastTransitionTime.Time)
	}
	return status.Later(intervals.Poll, waits)
}

// readDefinitions reads the collection's CRDs. They are read live to decide whether an archive is accepted, and to plan them.
func (r *Reconciler) readDefinitions(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	id := scope.collection.ID()
	cached, err := (&instances.Finder{Reader: r.Client}).CRDs(ctx, id)
	if err != nil {
		return err
	}
	of := crdplan.WrittenVersion{Digest: digest.Digest(scope.Artifact.Digest), Group: imports.GroupOf(oc, scope.collection), Namespace: oc.Namespace}
	if scope.planned = imports.IsImported(oc, of.Digest) && r.Definitions.AreWritten(id, of, cached); scope.planned {
		scope.definitions = cached
		return nil
	}
	scope.definitions, err = (&instances.Finder{Reader: r.Reader}).CRDs(ctx, id)
	return err
}

// others are the other OperatorCollections that have the collection and are not being deleted.
func (r *Reconciler) others(ctx context.Context, oc *v2beta2.OperatorCollection, key model.ID) ([]v2beta2.OperatorCollection, error) {
	concerned, err := r.Imports.Of(ctx, key)
	return slices.DeleteFunc(concerned, func(other v2beta2.OperatorCollection) bool {
		return other.UID == oc.UID || imports.ImportedID(&other) != key || other.Status.Artifact == nil || other.DeletionTimestamp != nil
	}), err
}

// checkVersion refuses an archive whose version an older OperatorCollection of the namespace has with other content.
func checkVersion(oc *v2beta2.OperatorCollection, scope *importScope, others []v2beta2.OperatorCollection) error {
	for i := range others {
		other := &others[i]
		if other.Namespace != oc.Namespace || other.Status.Artifact.Digest == scope.Artifact.Digest ||
			other.Status.Collection.Version != scope.collection.Version.String() {
			continue
		}
		if imported := oc.Status.Artifact != nil && oc.Status.Artifact.Digest == scope.Artifact.Digest; imported && mapping.Older(oc, other) {
			continue
		}
		// What others import triggers no reconcile of this one.
		return status.Waiting(v2beta2.ReasonVersionConflict, claimInterval(oc),
			"OperatorCollection %q has version %s of collection %s with other content: publish this archive under another version",
			other.Name, other.Status.Collection.Version, scope.collection.ID())
	}
	return nil
}

// checkCRDs finds out, without a write, whether the collection's CRDs can be installed beside all other versions. Those that were
// written for this archive, and have not changed since then, are as they should be.
func (r *Reconciler) checkCRDs(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	if scope.planned {
		return nil
	}
	var err error
	if scope.loaded, err = r.Collections.Load(digest.Digest(scope.Artifact.Digest)); err != nil {
		return imports.LoadFailure(err)
	}
	versions, err := crdplan.ImportedVersions(r.Collections, slices.DeleteFunc(slices.Clone(scope.others), func(other v2beta2.OperatorCollection) bool {
		return other.Namespace != oc.Namespace
	}))
	if err != nil {
		return err
	}
	scope.plan, err = crdplan.Planner{Reader: r.Reader, Known: scope.definitions}.Plan(ctx, append(versions, crd.Version{
		Collection: scope.loaded, Digest: digest.Digest(scope.Artifact.Digest), Group: imports.GroupOf(oc, scope.collection), Namespace: oc.Namespace,
	})...)
	return err
}
