package controller

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/status"
)

// contribution is one version of a collection that wants CRDs.
type contribution struct {
	collection *collection.Collection
	digest     string
	group      string
	// namespace of the OperatorCollection.
	namespace string
}

// contributionsOf loads what the OperatorCollections have imported.
func contributionsOf(library *Library, owners []v2beta2.OperatorCollection) ([]contribution, error) {
	var contributions []contribution
	for i := range owners {
		oc := &owners[i]
		if oc.Status.Artifact == nil {
			continue
		}
		c, err := library.Load(oc.Status.Artifact.Digest)
		if errors.Is(err, fs.ErrNotExist) {
			continue // Its controller fetches it again; that changes nothing about the CRDs that exist.
		}
		if err != nil {
			return nil, loadFailure(err)
		}
		contributions = append(contributions, contribution{
			collection: c, digest: oc.Status.Artifact.Digest, group: groupOf(oc, c), namespace: oc.Namespace,
		})
	}
	return contributions, nil
}

// plannedCRD is a CRD as it is and as it should be. live is nil for one that does not exist.
type plannedCRD struct {
	live, crd *apiextensionsv1.CustomResourceDefinition
}

// differs compares what is planned with what exists, as far as a plan has an opinion.
func (p plannedCRD) differs() bool {
	return !equality.Semantic.DeepEqual(p.live.Spec, p.crd.Spec) ||
		!equality.Semantic.DeepEqual(p.live.Labels, p.crd.Labels) ||
		!equality.Semantic.DeepEqual(p.live.Annotations, p.crd.Annotations)
}

// crdPlanner works out what a collection's CRDs should look like. It writes nothing.
type crdPlanner struct {
	reader client.Reader
}

// plan merges the contributions, all of one collection, with the CRDs that exist. It fails with a reason if one of them
// belongs to somebody else or if versions do not fit together; all such problems are in the error.
func (p *crdPlanner) plan(ctx context.Context, contributions ...contribution) ([]plannedCRD, error) {
	byName := map[string][]render.Contribution{}
	for _, c := range contributions {
		crds, err := render.ClaimedCRDs(c.collection, c.group, c.namespace, c.digest)
		if err != nil {
			return nil, status.Stalled(v2beta2.ReasonInvalidCollection, err)
		}
		for _, crd := range crds {
			byName[crd.Name] = append(byName[crd.Name], render.Contribution{Version: c.collection.Version, CRD: crd})
		}
	}
	var planned []plannedCRD
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		one, err := p.planOne(ctx, contributions[0].collection.ID(), name, byName[name])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		planned = append(planned, one)
	}
	if len(errs) > 0 {
		// The first error stands for all; the message holds every one.
		first := *status.AsError(errs[0])
		first.Err = errors.Join(errs...)
		return nil, &first
	}
	return planned, nil
}

func (p *crdPlanner) planOne(ctx context.Context, key collection.ID, name string, wanted []render.Contribution) (plannedCRD, error) {
	live := &apiextensionsv1.CustomResourceDefinition{}
	err := p.reader.Get(ctx, client.ObjectKey{Name: name}, live)
	switch {
	case apierrors.IsNotFound(err):
		live = nil
	case err != nil:
		return plannedCRD{}, fmt.Errorf("reading CRD %q: %w", name, err)
	case render.IDOf(live.GetLabels()) != key:
		return plannedCRD{}, status.Waiting(v2beta2.ReasonKindClash, status.MissingInterval,
			"CRD %q belongs to %s: create this OperatorCollection anew and set spec.apiGroup to PerCollection, which gives it an API group of its own, or remove the other", name, ownerOf(live))
	case live.DeletionTimestamp != nil:
		return plannedCRD{}, status.Waiting(v2beta2.ReasonProgressing, status.PollInterval, "waiting until CRD %q, which is being deleted, is gone", name)
	}
	merged, err := render.MergeCRD(live, wanted)
	var schemaConflict *render.SchemaConflictError
	var versionConflict *render.VersionConflictError
	switch {
	case errors.As(err, &schemaConflict):
		return plannedCRD{}, status.Waiting(v2beta2.ReasonSchemaConflict, status.MissingInterval, "%w", err)
	case errors.As(err, &versionConflict):
		return plannedCRD{}, status.Waiting(v2beta2.ReasonVersionConflict, status.MissingInterval, "%w", err)
	}
	if err != nil {
		return plannedCRD{}, status.Stalled(v2beta2.ReasonInvalidCollection, err)
	}
	if live != nil {
		if err := p.checkPublished(ctx, live, merged, wanted); err != nil {
			return plannedCRD{}, err
		}
	}
	for _, contributed := range wanted {
		for name, value := range contributed.CRD.Annotations {
			if strings.HasPrefix(name, render.AnnotationDigest) {
				merged.Annotations[name] = value
			}
		}
	}
	return plannedCRD{live: live, crd: merged}, nil
}

func ownerOf(crd *apiextensionsv1.CustomResourceDefinition) string {
	if key := render.IDOf(crd.GetLabels()); key != (collection.ID{}) {
		return "collection " + key.String()
	}
	return "somebody else"
}
