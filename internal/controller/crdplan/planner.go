// Package crdplan plans the CRDs of collections from what all OperatorCollections have imported, and knows who holds which.
package crdplan

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
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// ImportedVersions loads what OperatorCollections have imported.
func ImportedVersions(collections *imports.CollectionCache, owners []v2beta2.OperatorCollection) ([]crd.Version, error) {
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
			return nil, imports.LoadFailure(err)
		}
		versions = append(versions, crd.Version{Collection: c, Digest: imported, Group: imports.GroupOf(oc, c), Namespace: oc.Namespace})
	}
	return versions, nil
}

// Planner plans CRDs without a write.
type Planner struct {
	Reader client.Reader
	// Known are live CRDs, which are not read again.
	Known []apiextensionsv1.CustomResourceDefinition
	// OnlyKnown is true if all others are assumed not to exist.
	OnlyKnown bool
}

// Plan plans the CRDs of versions, all of one collection. Whatever keeps one of them from being written is in the error.
func (p Planner) Plan(ctx context.Context, versions ...crd.Version) ([]crd.Planned, error) {
	contributions, err := crd.Contributions(versions...)
	if err != nil {
		return nil, planFailure(err)
	}
	var plan []crd.Planned
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(contributions)) {
		planned, err := p.planOne(ctx, versions[0].Collection.ID(), name, contributions[name])
		plan, problems = append(plan, planned), append(problems, planFailure(err))
	}
	return plan, status.Join(problems...)
}

func (p Planner) planOne(ctx context.Context, id model.ID, name string, wanted []crd.Contribution) (crd.Planned, error) {
	live, err := p.find(ctx, name)
	if err != nil {
		return crd.Planned{}, err
	}
	return crd.Plan(id, live, wanted, func() (string, error) {
		items, err := (&instances.Finder{Reader: p.Reader}).ListOf(ctx, live, "")
		return instances.Describe(items), err
	})
}

// find returns nil if there is no such CRD.
func (p Planner) find(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	for i := range p.Known {
		if p.Known[i].Name == name {
			return p.Known[i].DeepCopy(), nil
		}
	}
	if p.OnlyKnown {
		return nil, nil
	}
	live := &apiextensionsv1.CustomResourceDefinition{}
	err := p.Reader.Get(ctx, client.ObjectKey{Name: name}, live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading CRD %q: %w", name, err)
	}
	return live, nil
}

// planFailure gives an error of [crd.Plan] its reason. Most may be resolved without a change of the spec.
func planFailure(err error) error {
	var e *crd.Error
	switch {
	case !errors.As(err, &e):
		return err
	case e.Reason == v2beta2.ReasonInvalidCollection:
		return status.Stalled(e.Reason, err)
	case e.Reason == v2beta2.ReasonProgressing:
		return status.Waiting(e.Reason, intervals.Poll, "%w", err)
	}
	return status.Waiting(e.Reason, intervals.Missing, "%w", err)
}
