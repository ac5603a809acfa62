package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install/catalog"
	"github.com/collection-operator/collection-operator/internal/install/grants"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// catalogInterval is the delay before a reconcile without an event: no watch reports changes of the manager's own
// permissions.
const catalogInterval = 10 * time.Minute

// candidate is a version of a collection that should be in the catalog.
type candidate struct {
	oc      *v2beta2.OperatorCollection
	digest  digest.Digest
	version *catalog.Version
	// err says why it is not.
	err error
	// message says where it is in the catalog.
	message string
}

// current says whether it is what its OperatorCollection asks for, and not only what is still installed.
func (c *candidate) current() bool {
	return imports.IsPublishable(c.oc) && c.digest == digest.Digest(c.oc.Status.Artifact.Digest)
}

// candidates come in the order of their OperatorCollections' age: of two that exclude each other, the first stays.
type candidates []*candidate

// findCandidates finds what OperatorCollections have imported, and what is still installed of them: the catalog must have what
// Subscriptions name.
func findCandidates(ctx context.Context, reader client.Reader, key endpoint.Key) (candidates, error) {
	inUse, err := imports.ListArchivesInUse(ctx, reader, key)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(inUse.Collections, func(a, b v2beta2.OperatorCollection) int {
		if mapping.Older(&a, &b) {
			return -1
		}
		return 1
	})
	var all candidates
	for i := range inUse.Collections {
		oc := &inUse.Collections[i]
		var imported digest.Digest
		if imports.IsPublishable(oc) {
			imported = digest.Digest(oc.Status.Artifact.Digest)
			all = append(all, &candidate{oc: oc, digest: imported})
		}
		for _, installed := range inUse.InstalledFrom(oc) {
			if installed != imported {
				all = append(all, &candidate{oc: oc, digest: installed})
			}
		}
	}
	return all, nil
}

// bundleKey is what distinguishes bundles.
type bundleKey struct {
	renderingKey
	// namespace of the OperatorCollection, which permissions are granted to.
	namespace string
}

// makeBundles renders the candidates and checks their permissions. A problem of one of them becomes its err.
func (c candidates) makeBundles(ctx context.Context, reader client.Reader, source *grants.Source, r *renderer) error {
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := reader.List(ctx, crds, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing CRDs: %w", err)
	}
	known := newDefinitions(crds.Items)
	granted, err := source.Read(ctx)
	if err != nil {
		return err
	}
	// An unavailable API server must not remove collections from the catalog.
	if _, err := granted.Held(ctx, ""); err != nil {
		return err
	}
	made, rendered := map[bundleKey]*candidate{}, map[renderingKey]*rendering{}
	for _, each := range c {
		key := bundleKey{renderingKey{each.digest, each.oc.Spec.APIGroup}, each.oc.Namespace}
		if same := made[key]; same != nil {
			each.version, each.err, each.message = same.version, same.err, same.message
			continue
		}
		made[key] = each
		is, err := r.render(key.renderingKey, known)
		if err != nil {
			each.err = unloaded(err)
			continue
		}
		rendered[key.renderingKey] = is
		each.version, each.message = is.version, is.message
		grantee := render.Grantee{ID: is.id, Namespace: each.oc.Namespace, Digest: each.digest}
		each.err = is.check(ctx, grantee, each.current(), granted, known)
	}
	r.rendered = rendered
	return nil
}

func unloaded(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return status.Waiting(v2beta2.ReasonCollectionNotImported, intervals.Missing, "its archive is being fetched again: %w", err)
	}
	return imports.LoadFailure(err)
}

// versions are those of the candidates without an error.
func (c candidates) versions() []*catalog.Version {
	var versions []*catalog.Version
	for _, each := range c.acceptable() {
		versions = append(versions, each.version)
	}
	return versions
}

func (c candidates) acceptable() candidates {
	return slices.DeleteFunc(slices.Clone(c), func(each *candidate) bool { return each.err != nil })
}

// refuse sets the errors of those that the catalog has refused of versions().
func (c candidates) refuse(refusals []*catalog.RefusalError) {
	acceptable := c.acceptable()
	for _, refusal := range refusals {
		acceptable[refusal.Index].err = refusedBundle(refusal)
	}
}

// refuseAll replaces the errors of all candidates: this one has to be resolved first.
func (c candidates) refuseAll(err error) {
	for _, each := range c {
		each.err = err
	}
}

// lackArchives says whether an archive is still to be fetched again, or copied.
func (c candidates) lackArchives() bool {
	return slices.ContainsFunc(c, func(each *candidate) bool {
		return errors.Is(each.err, fs.ErrNotExist) || each.err != nil && status.AsError(each.err).Reason == v2beta2.ReasonProgressing
	})
}

// retryAfter is the delay before the next reconcile without an event.
func (c candidates) retryAfter() time.Duration {
	after := catalogInterval
	for _, each := range c {
		if f := status.AsError(each.err); f != nil && !f.Stalled {
			after = min(after, cmp.Or(f.RetryAfter, intervals.Missing))
		}
	}
	return after
}

// publications are what the statuses of the OperatorCollections report.
func (c candidates) publications() map[types.NamespacedName]imports.Publication {
	all := map[types.NamespacedName]imports.Publication{}
	for _, each := range c {
		if each.current() {
			all[client.ObjectKeyFromObject(each.oc)] = imports.Publication{Digest: each.digest, Err: each.err, Message: each.message}
		}
	}
	return all
}
