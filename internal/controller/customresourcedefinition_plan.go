package controller

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/crd"
	"github.com/collection-operator/collection-operator/internal/instances"
	"github.com/collection-operator/collection-operator/internal/status"
)

// importedVersions loads what OperatorCollections have imported.
func importedVersions(collections *CollectionCache, owners []v2beta2.OperatorCollection) ([]crd.Version, error) {
	var versions []crd.Version
	for i := range owners {
		oc := &owners[i]
		if oc.Status.Artifact == nil {
			continue
		}
		imported := digest.Digest(oc.Status.Artifact.Digest)
		c, err := collections.Load(imported)
		if errors.Is(err, fs.ErrNotExist) {
			continue // Its controller fetches it again; that changes nothing about the CRDs that exist.
		}
		if err != nil {
			return nil, loadFailure(err)
		}
		versions = append(versions, crd.Version{Collection: c, Digest: imported, Group: groupOf(oc, c), Namespace: oc.Namespace})
	}
	return versions, nil
}

// planCRDs plans the CRDs of versions, all of one collection, without a write. Whatever keeps one of them from being written
// is in the error.
func planCRDs(ctx context.Context, reader client.Reader, versions ...crd.Version) ([]crd.Planned, error) {
	contributions, err := crd.Contributions(versions...)
	if err != nil {
		return nil, planFailure(err)
	}
	var plan []crd.Planned
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(contributions)) {
		planned, err := planCRD(ctx, reader, versions[0].Collection.ID(), name, contributions[name])
		plan, problems = append(plan, planned), append(problems, planFailure(err))
	}
	return plan, status.Join(problems...)
}

func planCRD(ctx context.Context, reader client.Reader, id collection.ID, name string, wanted []crd.Contribution) (crd.Planned, error) {
	live := &apiextensionsv1.CustomResourceDefinition{}
	err := reader.Get(ctx, client.ObjectKey{Name: name}, live)
	if apierrors.IsNotFound(err) {
		live, err = nil, nil
	}
	if err != nil {
		return crd.Planned{}, fmt.Errorf("reading CRD %q: %w", name, err)
	}
	return crd.Plan(id, live, wanted, func() (string, error) {
		items, err := (&instances.Finder{Reader: reader}).ListOf(ctx, live, "")
		return instances.Describe(items), err
	})
}
