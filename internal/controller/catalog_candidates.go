package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/catalog"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/grants"
	"github.com/collection-operator/collection-operator/internal/mapping"
	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/status"
)

// candidate is a version of a collection that should be in the catalog.
type candidate struct {
	oc     *v2beta2.OperatorCollection
	digest digest.Digest
	bundle catalog.Bundle
	// err says why it is not.
	err error
	// message says where it is in the catalog.
	message string
}

// current says whether it is what its OperatorCollection asks for, and not only what is still installed.
func (c *candidate) current() bool {
	return isPublishable(c.oc) && c.digest == digest.Digest(c.oc.Status.Artifact.Digest)
}

// candidates come in the order of their OperatorCollections' age: of two that exclude each other, the first stays.
type candidates []*candidate

// candidates are what OperatorCollections have imported, and what is still installed of them: the catalog must have what
// Subscriptions name.
func (r *CatalogReconciler) candidates(ctx context.Context) (candidates, error) {
	inUse, err := listArchivesInUse(ctx, r.Client, r.Collections.Key)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(inUse.collections, func(a, b v2beta2.OperatorCollection) int {
		if mapping.Older(&a, &b) {
			return -1
		}
		return 1
	})
	var all candidates
	for i := range inUse.collections {
		oc := &inUse.collections[i]
		var imported digest.Digest
		if isPublishable(oc) {
			imported = digest.Digest(oc.Status.Artifact.Digest)
			all = append(all, &candidate{oc: oc, digest: imported})
		}
		for _, installed := range inUse.installedFrom(oc) {
			if installed != imported {
				all = append(all, &candidate{oc: oc, digest: installed})
			}
		}
	}
	return all, nil
}

// bundleKey is what distinguishes bundles.
type bundleKey struct {
	digest digest.Digest
	group  v2beta2.APIGroupPolicy
	// namespace of the OperatorCollection, which permissions are granted to.
	namespace string
}

// makeBundles renders the candidates and checks their permissions. A problem of one of them becomes its err.
func (r *CatalogReconciler) makeBundles(ctx context.Context, all candidates) error {
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := r.Client.List(ctx, crds); err != nil {
		return fmt.Errorf("listing CRDs: %w", err)
	}
	granted, err := r.Grants.Read(ctx)
	if err != nil {
		return err
	}
	// An unavailable API server must not remove collections from the catalog.
	if _, err := granted.Held(ctx, ""); err != nil {
		return err
	}
	made := map[bundleKey]*candidate{}
	for _, each := range all {
		key := bundleKey{digest: each.digest, group: each.oc.Spec.APIGroup, namespace: each.oc.Namespace}
		if same := made[key]; same != nil {
			each.bundle, each.err, each.message = same.bundle, same.err, same.message
			continue
		}
		made[key] = each
		c, err := r.Collections.Load(each.digest)
		if err != nil {
			each.err = unloaded(err)
			continue
		}
		each.bundle, each.err = r.makeBundle(ctx, each, c, granted, crds.Items)
		each.message = fmt.Sprintf("package %s, channels %s and %s", each.bundle.Package, catalog.StableChannel, render.ChannelName(c))
	}
	return nil
}

func unloaded(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return status.Waiting(v2beta2.ReasonCollectionNotImported, status.MissingInterval, "its archive is being fetched again: %w", err)
	}
	return loadFailure(err)
}

func (r *CatalogReconciler) makeBundle(ctx context.Context, of *candidate, c *collection.Collection, granted *grants.Grants, crds []apiextensionsv1.CustomResourceDefinition) (catalog.Bundle, error) {
	group := groupOf(of.oc, c)
	// Imported may still be about the archive before this one.
	if missing, err := missingCRDs(ctx, r.Client, c, group); err != nil {
		return catalog.Bundle{}, err
	} else if of.current() && len(missing) > 0 {
		return catalog.Bundle{}, status.Waiting(v2beta2.ReasonCollectionNotImported, status.PollInterval, "waiting for CRDs to be established: %s", strings.Join(missing, ", "))
	}
	csv, err := render.ClusterServiceVersion(c, render.ClusterServiceVersionOptions{
		Group: group, Digest: of.digest, Image: r.Settings.RuntimeImage, Architectures: r.Settings.Architectures,
		ServedVersions: servedVersions(crds, group, c.ID()),
	})
	if err != nil {
		return catalog.Bundle{}, status.Stalled(v2beta2.ReasonObjectRefused, err)
	}
	bundle := catalog.Bundle{Domain: c.Domain, Name: c.Name, Package: render.PackageName(c), ClusterServiceVersion: csv}
	// The warnings are those of the SubOperatorConfigs.
	_, err = granted.Check(ctx, render.Grantee{ID: c.ID(), Namespace: of.oc.Namespace, Digest: of.digest}, rolesOf(csv, render.BaseRules(c, group)))
	return bundle, err
}

// rolesOf are the roles that OLM would make. In which namespaces is not known yet, so they must be granted in all.
func rolesOf(csv *operatorsv1alpha1.ClusterServiceVersion, base []rbacv1.PolicyRule) []grants.Role {
	var roles []grants.Role
	for _, role := range csv.Spec.InstallStrategy.StrategySpec.Permissions {
		roles = append(roles, grants.Role{Rules: role.Rules, Given: base})
	}
	for _, role := range csv.Spec.InstallStrategy.StrategySpec.ClusterPermissions {
		roles = append(roles, grants.Role{Rules: role.Rules})
	}
	return roles
}

// servedVersions are the storage versions, which are the newest, of the kinds of a group that other collections have.
func servedVersions(crds []apiextensionsv1.CustomResourceDefinition, group string, but collection.ID) map[string]string {
	versions := map[string]string{}
	for i := range crds {
		crd := &crds[i]
		if crd.Spec.Group != group || crd.DeletionTimestamp != nil || render.IDOf(crd.GetLabels()) == but {
			continue
		}
		for _, version := range crd.Spec.Versions {
			if version.Storage && version.Served {
				versions[crd.Spec.Names.Kind] = version.Name
			}
		}
	}
	return versions
}

// bundles are those of the candidates without an error.
func (c candidates) bundles() []catalog.Bundle {
	var bundles []catalog.Bundle
	for _, each := range c.acceptable() {
		bundles = append(bundles, each.bundle)
	}
	return bundles
}

func (c candidates) acceptable() candidates {
	return slices.DeleteFunc(slices.Clone(c), func(each *candidate) bool { return each.err != nil })
}

// refuse sets the errors of those that the catalog has refused of bundles().
func (c candidates) refuse(refusals []*catalog.RefusalError) {
	acceptable := c.acceptable()
	for _, refusal := range refusals {
		acceptable[refusal.Index].err = status.Waiting(refusalReason(refusal.Reason), status.MissingInterval, "%w", refusal)
	}
}

// refuseAll replaces the errors of all candidates: this one has to be resolved first.
func (c candidates) refuseAll(err error) {
	for _, each := range c {
		each.err = err
	}
}

// refusalReason is the reason of the API for one of package catalog.
func refusalReason(reason catalog.Reason) string {
	switch reason {
	case catalog.TooLarge, catalog.CatalogFull:
		return v2beta2.ReasonBundleTooLarge
	case catalog.PackageConflict:
		return v2beta2.ReasonPackageConflict
	case catalog.VersionConflict:
		return v2beta2.ReasonVersionConflict
	}
	return v2beta2.ReasonInvalidCollection
}

// lackArchives says whether an archive is still to be fetched again.
func (c candidates) lackArchives() bool {
	return slices.ContainsFunc(c, func(each *candidate) bool { return errors.Is(each.err, fs.ErrNotExist) })
}

// retryAfter is the delay before the next reconcile without an event.
func (c candidates) retryAfter() time.Duration {
	after := catalogInterval
	for _, each := range c {
		if f := status.AsError(each.err); f != nil && !f.Stalled {
			after = min(after, cmp.Or(f.RetryAfter, status.MissingInterval))
		}
	}
	return after
}

// publications are what the statuses of the OperatorCollections report.
func (c candidates) publications() map[types.NamespacedName]publication {
	all := map[types.NamespacedName]publication{}
	for _, each := range c {
		if each.current() {
			all[client.ObjectKeyFromObject(each.oc)] = publication{digest: each.digest, err: each.err, message: each.message}
		}
	}
	return all
}
