package catalog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install/catalog"
	"github.com/collection-operator/collection-operator/internal/install/grants"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// renderingKey is what a rendering depends on, beside the settings and the kinds of other collections.
type renderingKey struct {
	digest digest.Digest
	policy v2beta2.APIGroupPolicy
}

// rendering is what the catalog needs of an archive: less than the collection, which need not be in memory.
type rendering struct {
	id                model.ID
	group, apiVersion string
	// kinds are those of other collections that variables refer to, and served the versions with which they were rendered.
	kinds  []string
	served map[string]schema.GroupVersion
	// definitions are the names of its CRDs.
	definitions []string
	version     *catalog.Version
	roles       []grants.Role
	message     string
	// err says why it can be in no catalog.
	err error
}

// renderer renders archives for catalogs.
type renderer struct {
	collections *imports.CollectionCache
	// settings are those of all installations.
	settings render.Settings
	// rendered is what the last catalog was made of.
	rendered map[renderingKey]*rendering
}

// render renders an archive, unless that was done for the catalog before this one. The error is that of [imports.CollectionCache.Load].
func (r *renderer) render(key renderingKey, known definitions) (*rendering, error) {
	if is := r.rendered[key]; is != nil && maps.Equal(is.served, known.served(is.group, is.id, is.kinds)) {
		return is, nil
	}
	c, err := r.collections.Load(key.digest)
	if err != nil {
		return nil, err
	}
	group := c.Group(key.policy == v2beta2.APIGroupPerCollection)
	is := &rendering{
		id: c.ID(), group: group, apiVersion: c.APIVersion(), kinds: referredKinds(c),
		message: fmt.Sprintf("package %s, channels %s and %s", render.PackageName(c), catalog.StableChannel, render.ChannelName(c)),
	}
	is.served = known.served(group, is.id, is.kinds)
	if unknown := slices.DeleteFunc(slices.Clone(is.kinds), func(kind string) bool { return !is.served[kind].Empty() }); len(unknown) > 0 {
		is.message += "; without a list of the resources of " + strings.Join(unknown, ", ") + " in forms, until a collection with the kind is imported"
	}
	for _, resource := range c.Resources {
		is.definitions = append(is.definitions, resource.Plural()+"."+group)
	}
	csv, err := render.ClusterServiceVersion(c, render.ClusterServiceVersionOptions{
		InstallationOptions: r.settings.Options("", group, key.digest, store.URLPath(key.digest)), ServedKinds: is.served,
	})
	if err != nil {
		is.err = status.Stalled(v2beta2.ReasonObjectRefused, err)
		return is, nil
	}
	is.roles = rolesOf(csv, render.BaseRules(c, group, false))
	version, refusal := catalog.NewVersion(catalog.Bundle{Domain: c.Domain, Name: c.Name, Package: render.PackageName(c), ClusterServiceVersion: csv})
	if refusal != nil {
		is.err = refusedBundle(refusal)
	}
	is.version = version
	return is, nil
}

// check returns an error if an archive must not be in the catalog. It is current if it is what its OperatorCollection asks for.
func (r *rendering) check(ctx context.Context, grantee render.Grantee, current bool, granted *grants.Grants, known definitions) error {
	// Imported may still be about the archive before this one.
	if missing := known.missing(r); current && len(missing) > 0 {
		return status.Waiting(v2beta2.ReasonCollectionNotImported, intervals.Poll, "waiting for CRDs to be established: %s", strings.Join(missing, ", "))
	}
	// The warnings are those of the SubOperatorConfigs.
	if _, err := granted.Check(ctx, grantee, r.roles); err != nil {
		return err
	}
	return r.err
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

func refusedBundle(refusal *catalog.RefusalError) error {
	return status.Waiting(refusalReason(refusal.Reason), intervals.Missing, "%w", refusal)
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

// referredKinds are the kinds of other collections that variables refer to, sorted.
func referredKinds(c *model.Collection) []string {
	var kinds []string
	var walk func([]model.Var)
	walk = func(vars []model.Var) {
		for _, v := range vars {
			if _, own := c.Resource(v.KindReference); v.KindReference != "" && v.KindReference != model.EndpointKind && !own {
				kinds = append(kinds, v.KindReference)
			}
			walk(v.Fields)
		}
	}
	for _, resource := range c.Resources {
		walk(resource.Vars)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// definitions are the CRDs of the cluster.
type definitions struct {
	byName map[string]*apiextensionsv1.CustomResourceDefinition
	byKind map[string][]*apiextensionsv1.CustomResourceDefinition
}

func newDefinitions(crds []apiextensionsv1.CustomResourceDefinition) definitions {
	d := definitions{byName: map[string]*apiextensionsv1.CustomResourceDefinition{}, byKind: map[string][]*apiextensionsv1.CustomResourceDefinition{}}
	for i := range crds {
		definition := &crds[i]
		kind := definition.Spec.Names.Kind
		d.byName[definition.Name], d.byKind[kind] = definition, append(d.byKind[kind], definition)
	}
	return d
}

// served are the storage versions, which are the newest, of these kinds, as far as other collections have them: in the group, else
// in the first one of another group.
func (d definitions) served(group string, but model.ID, kinds []string) map[string]schema.GroupVersion {
	versions := map[string]schema.GroupVersion{}
	for _, kind := range kinds {
		for _, definition := range d.byKind[kind] {
			if definition.DeletionTimestamp != nil || imports.LabelledID(definition) == but {
				continue
			}
			found, known := versions[kind]
			if known && (found.Group == group || definition.Spec.Group != group && definition.Spec.Group > found.Group) {
				continue
			}
			for _, version := range definition.Spec.Versions {
				if version.Storage && version.Served {
					versions[kind] = schema.GroupVersion{Group: definition.Spec.Group, Version: version.Name}
				}
			}
		}
	}
	return versions
}

// missing names the CRDs of a collection that do not serve its version yet, or belong to one that it replaces.
func (d definitions) missing(r *rendering) []string {
	var missing []string
	for _, name := range r.definitions {
		if live := d.byName[name]; live == nil || imports.LabelledID(live) != r.id || !crd.Serves(live, r.apiVersion) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}
