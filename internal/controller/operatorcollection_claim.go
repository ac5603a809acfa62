package controller

import (
	"context"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/crd"
	"github.com/collection-operator/collection-operator/internal/instances"
	"github.com/collection-operator/collection-operator/internal/mapping"
	"github.com/collection-operator/collection-operator/internal/status"
)

// checkReserved refuses a collection whose domain administrators have reserved for others. Those that are installed keep running.
func (r *OperatorCollectionReconciler) checkReserved(_ context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	if err := r.Reserved.Check(scope.collection.ID(), oc.Namespace, scope.artifact.VerifiedBy); err != nil {
		return status.Waiting(v2beta2.ReasonDomainReserved, status.MissingInterval, "%w", err)
	}
	return nil
}

// checkClaim refuses a collection that belongs to another namespace: otherwise anyone could publish a version of it and
// have it run with the credentials of others. Another namespace may import only what its owner imported, with the same
// content. Within a namespace, a version has one content.
func (r *OperatorCollectionReconciler) checkClaim(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	key := scope.collection.ID()
	others, err := r.others(ctx, oc, key)
	if err != nil {
		return err
	}
	scope.others = others
	owner, err := owningNamespace(ctx, r.Reader, key, append(others, *oc))
	if err != nil {
		return err
	}
	if owner == "" || owner == oc.Namespace {
		return checkVersion(oc, scope, others)
	}
	imported, err := r.importedByOwner(ctx, oc, scope)
	if err != nil || imported {
		return err
	}
	return status.Waiting(v2beta2.ReasonCollectionClaimed, status.MissingInterval,
		"collection %s belongs to namespace %q: only a version that was imported there, with the same content and apiGroup, can be imported here", key, owner)
}

// importedByOwner says whether the CRDs have the version from an archive with the same content.
func (r *OperatorCollectionReconciler) importedByOwner(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) (bool, error) {
	crds, err := (&instances.Finder{Reader: r.Reader}).CRDs(ctx, scope.collection.ID())
	return crd.Publish(crds, groupOf(oc, scope.collection), scope.collection.APIVersion(), digest.Digest(scope.artifact.Digest)), err
}

// others are the other OperatorCollections that have the collection and are not being deleted. They are read live: the cache
// may lack the one that came first, and that one owns the collection.
func (r *OperatorCollectionReconciler) others(ctx context.Context, oc *v2beta2.OperatorCollection, key collection.ID) ([]v2beta2.OperatorCollection, error) {
	list := &v2beta2.OperatorCollectionList{}
	if err := r.Reader.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing OperatorCollections: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(other v2beta2.OperatorCollection) bool {
		return other.UID == oc.UID || importedID(&other) != key || other.Status.Artifact == nil || other.DeletionTimestamp != nil
	}), nil
}

// checkVersion refuses an archive whose version an older OperatorCollection of the namespace has with other content.
func checkVersion(oc *v2beta2.OperatorCollection, scope *importScope, others []v2beta2.OperatorCollection) error {
	for i := range others {
		other := &others[i]
		if other.Namespace != oc.Namespace || other.Status.Artifact.Digest == scope.artifact.Digest ||
			other.Status.Collection.Version != scope.collection.Version.String() {
			continue
		}
		if imported := oc.Status.Artifact != nil && oc.Status.Artifact.Digest == scope.artifact.Digest; imported && mapping.Older(oc, other) {
			continue
		}
		return status.Waiting(v2beta2.ReasonVersionConflict, status.MissingInterval,
			"OperatorCollection %q has version %s of collection %s with other content: publish this archive under another version",
			other.Name, other.Status.Collection.Version, scope.collection.ID())
	}
	return nil
}

// owningNamespace is the namespace that a collection belongs to: the one that its CRDs name, else that of the oldest of the
// OperatorCollections that have it. It is empty as long as none has.
func owningNamespace(ctx context.Context, reader client.Reader, key collection.ID, owners []v2beta2.OperatorCollection) (string, error) {
	crds, err := (&instances.Finder{Reader: reader}).CRDs(ctx, key)
	if err != nil {
		return "", err
	}
	if namespace := crd.Claimant(crds); namespace != "" {
		return namespace, nil
	}
	var oldest *v2beta2.OperatorCollection
	for i := range owners {
		if importedID(&owners[i]) == key && (oldest == nil || mapping.Older(&owners[i], oldest)) {
			oldest = &owners[i]
		}
	}
	if oldest == nil {
		return "", nil
	}
	return oldest.Namespace, nil
}

// checkCRDs finds out, without a write, whether the collection's CRDs can be installed beside all other versions.
func (r *OperatorCollectionReconciler) checkCRDs(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	versions, err := importedVersions(r.Collections, slices.DeleteFunc(scope.others, func(other v2beta2.OperatorCollection) bool {
		return other.Namespace != oc.Namespace
	}))
	if err != nil {
		return err
	}
	scope.plan, err = crdPlanner{reader: r.Reader, key: r.Collections.Key, maxVersions: r.Budgets.CRDVersions}.plan(ctx, append(versions, crd.Version{
		Collection: scope.collection, Digest: digest.Digest(scope.artifact.Digest), Group: groupOf(oc, scope.collection), Namespace: oc.Namespace,
	})...)
	return err
}
