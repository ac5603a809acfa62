package controller

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/crd"
	"github.com/collection-operator/collection-operator/internal/endpoint"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/instances"
	"github.com/collection-operator/collection-operator/internal/status"
)

// CustomResourceDefinitionReconciler keeps the CRDs of each collection, from all OperatorCollections that have it. It
// alone writes them. It removes a CRD once it is recorded on it that no OperatorCollection has its kind any more, and no custom
// resource is left. What it does not find may not be restored yet, so that this alone removes nothing.
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
	owners, all, err := r.owners(ctx, key)
	if err != nil {
		return status.Result(err)
	}
	if err := r.update(ctx, key, owners, all); err != nil {
		return status.Result(err)
	}
	return status.Result(r.removeUnused(ctx, key, owners, all))
}

// owners are the OperatorCollections that have the collection, and those in the namespace that it belongs to whose labels say that
// they will. All are those of the cluster. They are read live: a CRD of one that the cache lacks yet would be deleted.
func (r *CustomResourceDefinitionReconciler) owners(ctx context.Context, key collection.ID) (owners, all []v2beta2.OperatorCollection, err error) {
	list := &v2beta2.OperatorCollectionList{}
	if err := r.Reader.List(ctx, list); err != nil {
		return nil, nil, fmt.Errorf("listing OperatorCollections: %w", err)
	}
	crds, err := (&instances.Finder{Reader: r.Reader}).CRDs(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	claimant := crd.Claimant(crds)
	for _, oc := range list.Items {
		if hasCollection(&oc, key, claimant) {
			owners = append(owners, oc)
		}
	}
	return owners, list.Items, nil
}

// update writes the CRDs that the collection's owning namespace has imported.
func (r *CustomResourceDefinitionReconciler) update(ctx context.Context, key collection.ID, owners, all []v2beta2.OperatorCollection) error {
	if len(owners) == 0 {
		return nil
	}
	namespace, err := owningNamespace(ctx, r.Reader, key, owners)
	if err != nil {
		return err
	}
	versions, err := importedVersions(r.Collections, slices.DeleteFunc(slices.Clone(owners), func(oc v2beta2.OperatorCollection) bool {
		return oc.Namespace != namespace || importedID(&oc) != key
	}))
	if err != nil || len(versions) == 0 {
		return err
	}
	plan, err := crdPlanner{reader: r.Reader, key: r.Collections.Key, maxVersions: r.MaxVersions}.plan(ctx, versions...)
	if err != nil {
		return err
	}
	for _, planned := range plan {
		recordHolders(planned.CRD, key, all)
	}
	return r.write(ctx, plan)
}

// hasCollection says whether an OperatorCollection has the collection, or says by its labels that it will. Anybody can write labels:
// they count only in the namespace that the collection belongs to.
func hasCollection(oc *v2beta2.OperatorCollection, key collection.ID, claimant string) bool {
	return oc.DeletionTimestamp == nil && (importedID(oc) == key || labelledID(oc) == key && oc.Namespace == claimant)
}

// recordHolders records on a CRD of a collection which OperatorCollections have its kind, and reports whether that changes it. One
// that is recorded already remains, unless it is seen to have the kind no longer. The finalizer of one that is being deleted
// removes it.
func recordHolders(definition *apiextensionsv1.CustomResourceDefinition, key collection.ID, all []v2beta2.OperatorCollection) (changed bool) {
	holders := crd.Holders(definition)
	for i := range all {
		oc := &all[i]
		name := holderName(oc)
		switch has := importedID(oc) == key && hasKind(oc, definition); {
		case oc.DeletionTimestamp != nil:
		case has && !slices.Contains(holders, name):
			holders = append(holders, name)
		case !has && oc.Status.Collection != nil:
			holders = slices.DeleteFunc(holders, func(holder string) bool { return holder == name })
		}
	}
	before := maps.Clone(definition.Annotations)
	crd.SetHolders(definition, holders, time.Now())
	return !maps.Equal(before, definition.Annotations)
}

// holderName is the name under which an OperatorCollection is recorded on its CRDs.
func holderName(oc *v2beta2.OperatorCollection) string { return oc.Namespace + "/" + oc.Name }

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

// removeUnused deletes the CRDs of kinds that no OperatorCollection, in whatever namespace, has any more according to what is
// recorded on them, once no custom resource of them is left. As long as a SubOperatorConfig has the collection, its operator
// needs all of them.
func (r *CustomResourceDefinitionReconciler) removeUnused(ctx context.Context, key collection.ID, owners, all []v2beta2.OperatorCollection) error {
	existing := &instances.Finder{Client: r.Client, Reader: r.Reader}
	crds, err := existing.CRDs(ctx, key)
	if err != nil {
		return err
	}
	for i := range crds {
		if crds[i].DeletionTimestamp == nil && recordHolders(&crds[i], key, all) {
			if err := r.Client.Update(ctx, &crds[i], client.FieldOwner(fieldOwner)); err != nil {
				return fmt.Errorf("recording on CRD %q which OperatorCollections have it: %w", crds[i].Name, err)
			}
		}
	}
	unused := slices.DeleteFunc(crds, func(definition apiextensionsv1.CustomResourceDefinition) bool {
		return !crd.IsUnused(&definition) ||
			slices.ContainsFunc(owners, func(oc v2beta2.OperatorCollection) bool { return hasKind(&oc, &definition) })
	})
	socs := &v2beta2.SubOperatorConfigList{}
	if len(unused) > 0 && len(owners) == 0 {
		if err := r.Reader.List(ctx, socs); err != nil {
			return fmt.Errorf("listing SubOperatorConfigs: %w", err)
		}
	}
	if slices.ContainsFunc(socs.Items, func(soc v2beta2.SubOperatorConfig) bool { return install.RecordedCollection(&soc) == key }) {
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
		Watches(&v2beta2.SubOperatorConfig{}, enqueueID(func(object client.Object) collection.ID {
			return install.RecordedCollection(object.(*v2beta2.SubOperatorConfig))
		}), builder.WithPredicates(predicate.Funcs{UpdateFunc: conflictsChanged})).
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

// crdPlanner plans CRDs without a write.
type crdPlanner struct {
	reader client.Reader
	// key of the records of imports.
	key endpoint.Key
	// maxVersions is the number of versions of a CRD from which on unused ones are removed, or zero.
	maxVersions int
}

// plan plans the CRDs of versions, all of one collection. Whatever keeps one of them from being written is in the error.
func (p crdPlanner) plan(ctx context.Context, versions ...crd.Version) ([]crd.Planned, error) {
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

func (p crdPlanner) planOne(ctx context.Context, id collection.ID, name string, wanted []crd.Contribution) (crd.Planned, error) {
	live := &apiextensionsv1.CustomResourceDefinition{}
	err := p.reader.Get(ctx, client.ObjectKey{Name: name}, live)
	if apierrors.IsNotFound(err) {
		live, err = nil, nil
	}
	if err != nil {
		return crd.Planned{}, fmt.Errorf("reading CRD %q: %w", name, err)
	}
	planned, err := crd.Plan(id, live, wanted, func() (string, error) {
		items, err := (&instances.Finder{Reader: p.reader}).ListOf(ctx, live, "")
		return instances.Describe(items), err
	})
	if err != nil {
		return crd.Planned{}, err
	}
	return p.prune(ctx, planned, wanted, id)
}
