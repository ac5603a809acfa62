package controller

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/crd"
	"github.com/collection-operator/collection-operator/internal/instances"
	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/status"
)

// CustomResourceDefinitionReconciler keeps the CRDs of each collection, from all OperatorCollections that have it. It
// alone writes them. A collection that no OperatorCollection has loses its CRDs once no custom resource is left.
type CustomResourceDefinitionReconciler struct {
	// Client reads through the cache and writes.
	Client client.Client
	// Reader reads live objects.
	Reader client.Reader
	// Collections are those of the archives in the store.
	Collections *CollectionCache
	// MaxVersions is the number of versions of a CRD from which on unused ones are removed, or zero.
	MaxVersions int
}

// Reconcile writes the CRDs of one collection. Problems are reported in the status of the OperatorCollection, whose
// controller plans the same CRDs.
func (r *CustomResourceDefinitionReconciler) Reconcile(ctx context.Context, key collection.ID) (ctrl.Result, error) {
	if key == (collection.ID{}) {
		return ctrl.Result{}, nil
	}
	owners, err := r.owners(ctx, key)
	if err != nil {
		return status.Result(err)
	}
	if len(owners) == 0 {
		return status.Result(r.removeUnused(ctx, key, nil))
	}
	namespace, err := owningNamespace(ctx, r.Reader, key, owners)
	if err != nil {
		return status.Result(err)
	}
	versions, err := importedVersions(r.Collections, slices.DeleteFunc(slices.Clone(owners), func(oc v2beta2.OperatorCollection) bool {
		return oc.Namespace != namespace || importedID(&oc) != key
	}))
	if err != nil || len(versions) == 0 {
		return status.Result(err)
	}
	plan, err := planCRDs(ctx, r.Reader, r.MaxVersions, versions...)
	if err != nil {
		return status.Result(err)
	}
	if err := r.write(ctx, plan); err != nil {
		return status.Result(err)
	}
	return status.Result(r.removeUnused(ctx, key, owners))
}

// owners are the OperatorCollections that have the collection, or say by their labels that they will. They are read live: a
// CRD of one that the cache lacks yet would be deleted.
func (r *CustomResourceDefinitionReconciler) owners(ctx context.Context, key collection.ID) ([]v2beta2.OperatorCollection, error) {
	list := &v2beta2.OperatorCollectionList{}
	if err := r.Reader.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing OperatorCollections: %w", err)
	}
	var owners []v2beta2.OperatorCollection
	for _, oc := range list.Items {
		if hasCollection(&oc, key) {
			owners = append(owners, oc)
		}
	}
	return owners, nil
}

// hasCollection says whether an OperatorCollection has the collection, or says by its labels that it will.
func hasCollection(oc *v2beta2.OperatorCollection, key collection.ID) bool {
	return oc.DeletionTimestamp == nil && (importedID(oc) == key || render.IDOf(oc.GetLabels()) == key)
}

// hasKind says whether an OperatorCollection has imported the kind of a CRD of its collection.
func hasKind(oc *v2beta2.OperatorCollection, definition *apiextensionsv1.CustomResourceDefinition) bool {
	imported := oc.Status.Collection
	return imported != nil && slices.Contains(imported.Kinds, definition.Spec.Names.Kind) &&
		strings.HasPrefix(imported.APIVersion, definition.Spec.Group+"/")
}

func (r *CustomResourceDefinitionReconciler) write(ctx context.Context, plan []crd.Planned) error {
	for _, planned := range plan {
		var err error
		switch {
		case planned.Live == nil:
			err = r.Client.Create(ctx, planned.CRD, client.FieldOwner(fieldOwner))
		case planned.Changed():
			if err = r.forgetVersions(ctx, planned); err == nil {
				err = r.Client.Update(ctx, planned.CRD, client.FieldOwner(fieldOwner))
			}
		}
		if err != nil {
			return fmt.Errorf("writing CRD %q: %w", planned.CRD.Name, err)
		}
	}
	return nil
}

// removeUnused deletes the CRDs of kinds that no OperatorCollection, in whatever namespace, has any more, once no custom
// resource of them is left. As long as a SubOperatorConfig has the collection, its operator needs all of them.
func (r *CustomResourceDefinitionReconciler) removeUnused(ctx context.Context, key collection.ID, owners []v2beta2.OperatorCollection) error {
	existing := &instances.Finder{Client: r.Client, Reader: r.Reader}
	crds, err := existing.CRDs(ctx, key)
	if err != nil {
		return err
	}
	unused := slices.DeleteFunc(crds, func(definition apiextensionsv1.CustomResourceDefinition) bool {
		return slices.ContainsFunc(owners, func(oc v2beta2.OperatorCollection) bool { return hasKind(&oc, &definition) })
	})
	socs := &v2beta2.SubOperatorConfigList{}
	if len(unused) > 0 && len(owners) == 0 {
		if err := r.Reader.List(ctx, socs, client.MatchingLabels(render.IdentityLabels(key))); err != nil {
			return fmt.Errorf("listing SubOperatorConfigs: %w", err)
		}
	}
	if len(socs.Items) > 0 {
		return nil // Their removal triggers a reconcile.
	}
	var kept []string
	for i := range unused {
		items, err := existing.ListOf(ctx, &unused[i], "")
		if err == nil && len(items) == 0 {
			err = r.delete(ctx, &unused[i])
		}
		if err != nil {
			return err
		}
		if len(items) > 0 {
			kept = append(kept, unused[i].Name)
		}
	}
	if len(kept) > 0 {
		return status.Waiting(v2beta2.ReasonInstancesExist, status.MissingInterval, "CRDs that %s does not have any more are kept for their custom resources: %s", key, strings.Join(kept, ", "))
	}
	return nil
}

func (r *CustomResourceDefinitionReconciler) delete(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition) error {
	if definition.DeletionTimestamp != nil {
		return nil
	}
	err := r.Client.Delete(ctx, definition, client.Preconditions{UID: &definition.UID, ResourceVersion: &definition.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting CRD %q: %w", definition.Name, err)
	}
	return nil
}

// SetupWithManager registers the controller.
func (r *CustomResourceDefinitionReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return builder.TypedControllerManagedBy[collection.ID](mgr).
		Named("customresourcedefinition").
		Watches(&apiextensionsv1.CustomResourceDefinition{}, enqueueID(labelledID)).
		Watches(&v2beta2.SubOperatorConfig{}, enqueueID(labelledID), builder.WithPredicates(importChanged)).
		Watches(&v2beta2.OperatorCollection{}, enqueueID(func(object client.Object) collection.ID {
			return importedID(object.(*v2beta2.OperatorCollection))
		}), builder.WithPredicates(importChanged)).
		WithOptions(typedOptions[collection.ID](1)).
		Complete(r)
}

func enqueueID(idOf func(client.Object) collection.ID) handler.TypedEventHandler[client.Object, collection.ID] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []collection.ID {
		if key := idOf(object); key != (collection.ID{}) {
			return []collection.ID{key}
		}
		return nil
	})
}

var _ reconcile.TypedReconciler[collection.ID] = &CustomResourceDefinitionReconciler{}

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
// is in the error. A CRD that would have more than maxVersions loses its unused ones.
func planCRDs(ctx context.Context, reader client.Reader, maxVersions int, versions ...crd.Version) ([]crd.Planned, error) {
	contributions, err := crd.Contributions(versions...)
	if err != nil {
		return nil, planFailure(err)
	}
	var plan []crd.Planned
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(contributions)) {
		planned, err := planCRD(ctx, reader, maxVersions, versions[0].Collection.ID(), name, contributions[name])
		plan, problems = append(plan, planned), append(problems, planFailure(err))
	}
	return plan, status.Join(problems...)
}

func planCRD(ctx context.Context, reader client.Reader, maxVersions int, id collection.ID, name string, wanted []crd.Contribution) (crd.Planned, error) {
	live := &apiextensionsv1.CustomResourceDefinition{}
	err := reader.Get(ctx, client.ObjectKey{Name: name}, live)
	if apierrors.IsNotFound(err) {
		live, err = nil, nil
	}
	if err != nil {
		return crd.Planned{}, fmt.Errorf("reading CRD %q: %w", name, err)
	}
	planned, err := crd.Plan(id, live, wanted, func() (string, error) {
		items, err := (&instances.Finder{Reader: reader}).ListOf(ctx, live, "")
		return instances.Describe(items), err
	})
	if err != nil {
		return crd.Planned{}, err
	}
	return pruneVersions(ctx, reader, planned, wanted, id, maxVersions)
}
