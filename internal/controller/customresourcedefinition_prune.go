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
)

// prune plans a CRD without its oldest unused versions if a new one would exceed the maximum, which is none if it is zero.
// As long as the kind has custom resources no version is removed: they may be stored in any, and their authors may use any.
func (p crdPlanner) prune(ctx context.Context, planned crd.Planned, wanted []crd.Contribution, id collection.ID) (crd.Planned, error) {
	after := len(planned.CRD.Spec.Versions)
	if p.maxVersions <= 0 || after <= p.maxVersions || planned.Live == nil || after <= len(planned.Live.Spec.Versions) {
		return planned, nil
	}
	found, err := (&instances.Finder{Reader: p.reader}).ListOf(ctx, planned.Live, "")
	if err != nil || len(found) > 0 {
		return planned, err
	}
	inUse, err := listArchivesInUse(ctx, p.reader, p.key)
	if err != nil {
		return crd.Planned{}, err
	}
	pruned := crd.Prune(planned.Live, wanted, inUse.of(id), after-p.maxVersions)
	again, err := crd.Plan(id, pruned, wanted, func() (string, error) { return "", nil })
	again.Live = planned.Live
	return again, err
}

// of returns the digests of the archives of a collection, and of those whose collection is not known.
func (a *archivesInUse) of(id collection.ID) map[digest.Digest]bool {
	all := map[digest.Digest]bool{}
	for i := range a.collections {
		oc := &a.collections[i]
		if importedID(oc) == id && oc.Status.Artifact != nil {
			all[digest.Digest(oc.Status.Artifact.Digest)] = true
		} else if restored := parseImportRecord(oc, a.key); oc.Status.Artifact == nil && restored != nil && restored.signed {
			all[digest.Digest(restored.artifact.Digest)] = true
		}
	}
	for i := range a.configs {
		if of := a.configs[i].Status.Collection; of != nil && *of != (v2beta2.CollectionReference{Domain: id.Domain, Name: id.Name}) {
			continue
		}
		for _, installed := range installedDigests(&a.configs[i]) {
			all[installed] = true
		}
	}
	return all
}

// forgetVersions removes from the status of a live CRD the versions that it will not have any more. Else the API server refuses
// to remove them.
func (r *CustomResourceDefinitionReconciler) forgetVersions(ctx context.Context, planned crd.Planned) error {
	stored := planned.StoredVersions()
	if slices.Equal(stored, planned.Live.Status.StoredVersions) {
		return nil
	}
	live := planned.Live.DeepCopy()
	live.Status.StoredVersions = stored
	if err := r.Client.Status().Update(ctx, live, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("writing the status of CRD %q: %w", live.Name, err)
	}
	planned.CRD.ResourceVersion = live.ResourceVersion
	return nil
}
