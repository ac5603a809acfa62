// Package customresourcedefinition writes the CRDs of a collection, as all OperatorCollections that have imported it need them, retires
// versions that nobody needs any more, and removes a CRD when nobody does.
package customresourcedefinition

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/replacement"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// Reconciler keeps the CRDs of each collection, from all OperatorCollections that have it. It
// alone writes them. It removes a CRD once it is recorded on it that no OperatorCollection has its kind any more, and no custom
// resource is left. What it does not find may not be restored yet, so that this alone removes nothing.
type Reconciler struct {
	// Client reads through the cache and writes.
	Client client.Client
	// Reader reads live objects.
	Reader client.Reader
	// Collections are those of the archives in the store.
	Collections *imports.CollectionCache
	// Imports are what all OperatorCollections have imported.
	Imports *imports.Index
	// Definitions are the CRDs that were planned and written.
	Definitions *crdplan.WrittenDefinitions
	// VersionAges are the times after which versions of CRDs that nothing uses are retired.
	VersionAges crd.Ages

	// pages limits how many pages of custom resources are rewritten.
	pages flowcontrol.PassiveRateLimiter
	// pageAgain has the [time.Time] from which on the page of a CRD may be repeated that could not be read or written, by the name of
	// the CRD.
	pageAgain sync.Map
	costs     pace.Costs
}

// Reconcile writes the CRDs of one collection. Problems are reported in the status of the OperatorCollection, whose
// controller plans the same CRDs. CRDs of different collections are written at the same time. Where two of them want the same CRD, one
// of the writes fails: each has the resourceVersion that it was planned from, or is a creation.
func (r *Reconciler) Reconcile(ctx context.Context, key model.ID) (ctrl.Result, error) {
	if key == (model.ID{}) {
		return ctrl.Result{}, nil
	}
	defer func(begin time.Time) { r.costs.Add(r.namespaceOf(key), time.Since(begin)) }(time.Now())
	s := &crdplan.DefinitionScope{ID: key}
	var err error
	if s.All, err = r.Imports.List(ctx); err != nil {
		return status.Result(err)
	}
	cached, err := (&instances.Finder{Reader: r.Client}).CRDs(ctx, key)
	if err != nil {
		return status.Result(err)
	}
	uses, err := r.usesOf(ctx, key, cached)
	if err != nil {
		return status.Result(err)
	}
	inputs := crdplan.InputsOf(key, cached, s.All) + uses
	if again, unchanged := r.Definitions.AreUnchanged(key, inputs, cached); unchanged {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	r.Definitions.Forget(key)
	// They are read live: custom resources are kept in them.
	if s.Definitions, err = (&instances.Finder{Reader: r.Reader}).CRDs(ctx, key); err != nil {
		return status.Result(err)
	}
	claimant := crd.Claimant(s.Definitions)
	for _, oc := range s.All {
		if hasCollection(&oc, key, claimant) {
			s.Owners = append(s.Owners, oc)
		}
	}
	err = r.update(ctx, s)
	if err == nil {
		err = r.removeUnused(ctx, s)
	}
	if err == nil && !s.Unsettled {
		r.Definitions.Record(key, crdplan.InputsOf(key, s.Definitions, s.All)+uses, s)
	}
	result, err := status.Result(err)
	if err == nil && s.Again > 0 && (result.RequeueAfter == 0 || s.Again < result.RequeueAfter) {
		result.RequeueAfter = s.Again
	}
	return result, err
}

// update writes the CRDs that the collection's owning namespace has imported.
func (r *Reconciler) update(ctx context.Context, s *crdplan.DefinitionScope) error {
	if len(s.Owners) == 0 {
		return nil
	}
	namespace := crdplan.OwningNamespace(s.Definitions, s.ID, s.Owners)
	importers := slices.DeleteFunc(slices.Clone(s.Owners), func(oc v2beta2.OperatorCollection) bool {
		return oc.Namespace != namespace || imports.ImportedID(&oc) != s.ID
	})
	var err error
	if s.Versions, err = crdplan.ImportedVersions(r.Collections, importers); err != nil {
		return err
	}
	s.Unsettled = len(s.Versions) < len(importers) // The archives of the others are being fetched again.
	if len(s.Versions) == 0 {
		return nil
	}
	// A CRD that does not have the collection's labels is not there, or belongs to others: then its creation fails.
	planner := crdplan.Planner{Reader: r.Reader, Known: s.Definitions, OnlyKnown: !replacesAny(s.Versions)}
	err = r.planAndWrite(ctx, s, planner)
	if apierrors.IsAlreadyExists(err) {
		planner.OnlyKnown = false
		err = r.planAndWrite(ctx, s, planner)
	}
	return err
}

func (r *Reconciler) planAndWrite(ctx context.Context, s *crdplan.DefinitionScope, planner crdplan.Planner) error {
	plan, err := planner.Plan(ctx, s.Versions...)
	if err != nil {
		return err
	}
	if err := r.awaitReplaced(ctx, plan, s.All); err != nil {
		return err
	}
	for _, planned := range plan {
		crdplan.RecordHolders(planned.CRD, s.ID, s.All)
	}
	return r.retire(ctx, s, plan)
}

func replacesAny(versions []crd.Version) bool {
	return slices.ContainsFunc(versions, func(v crd.Version) bool { return v.Collection.Replaces != model.ID{} })
}

// hasCollection says whether an OperatorCollection has the collection, or says by its labels that it will. Anybody can write labels:
// they count only in the namespace that the collection belongs to.
func hasCollection(oc *v2beta2.OperatorCollection, key model.ID, claimant string) bool {
	return oc.DeletionTimestamp == nil && (imports.ImportedID(oc) == key || imports.LabelledID(oc) == key && oc.Namespace == claimant)
}

func (r *Reconciler) write(ctx context.Context, s *crdplan.DefinitionScope, plan []crd.Planned) error {
	for _, planned := range plan {
		var err error
		switch {
		case planned.Live == nil:
			err = r.Client.Create(ctx, planned.CRD, client.FieldOwner(apply.FieldOwner))
		case planned.Changed():
			err = r.Client.Update(ctx, planned.CRD, client.FieldOwner(apply.FieldOwner))
		}
		if err != nil {
			return fmt.Errorf("writing CRD %q: %w", planned.CRD.Name, err)
		}
		s.Written(planned.CRD)
	}
	return nil
}

// removeUnused deletes the CRDs of kinds that no OperatorCollection, in whatever namespace, has any more according to what is
// recorded on them, once no custom resource of them is left. As long as a SubOperatorConfig has the collection, its operator
// needs all of them.
func (r *Reconciler) removeUnused(ctx context.Context, s *crdplan.DefinitionScope) error {
	for i := range s.Definitions {
		definition := &s.Definitions[i]
		if definition.DeletionTimestamp == nil && crdplan.RecordHolders(definition, s.ID, s.All) {
			if err := r.Client.Update(ctx, definition, client.FieldOwner(apply.FieldOwner)); err != nil {
				return fmt.Errorf("recording on CRD %q which OperatorCollections have it: %w", definition.Name, err)
			}
		}
	}
	if !slices.ContainsFunc(s.Definitions, func(d apiextensionsv1.CustomResourceDefinition) bool { return crd.IsUnused(&d) }) {
		return nil
	}
	s.Unsettled = true
	// They are read live: a CRD of one that the cache lacks yet would be deleted.
	live := &v2beta2.OperatorCollectionList{}
	if err := r.Reader.List(ctx, live); err != nil {
		return fmt.Errorf("listing OperatorCollections: %w", err)
	}
	claimant, owned := crd.Claimant(s.Definitions), false
	unused := slices.DeleteFunc(slices.Clone(s.Definitions), func(definition apiextensionsv1.CustomResourceDefinition) bool {
		return !crd.IsUnused(&definition) || replacement.IsTakenOver(&definition, live.Items) ||
			slices.ContainsFunc(live.Items, func(oc v2beta2.OperatorCollection) bool {
				has := hasCollection(&oc, s.ID, claimant)
				owned = owned || has
				return has && crdplan.HasKind(&oc, &definition)
			})
	})
	return r.remove(ctx, s, unused, owned)
}

// remove deletes unused CRDs without custom resources, unless the collection is owned by no OperatorCollection and installed still.
func (r *Reconciler) remove(ctx context.Context, s *crdplan.DefinitionScope, unused []apiextensionsv1.CustomResourceDefinition, owned bool) error {
	socs := &v2beta2.SubOperatorConfigList{}
	if len(unused) > 0 && !owned {
		if err := r.Reader.List(ctx, socs); err != nil {
			return fmt.Errorf("listing SubOperatorConfigs: %w", err)
		}
	}
	if slices.ContainsFunc(socs.Items, func(soc v2beta2.SubOperatorConfig) bool { return install.RecordedCollection(&soc) == s.ID }) {
		return nil // Their removal triggers a reconcile.
	}
	var kept []string
	existing := &instances.Finder{Client: r.Client, Reader: r.Reader}
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
		return status.Waiting(v2beta2.ReasonInstancesExist, intervals.Missing, "CRDs that %s does not have any more are kept for their custom resources: %s", s.ID, strings.Join(kept, ", "))
	}
	return nil
}

func (r *Reconciler) delete(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition) error {
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
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.pages = flowcontrol.NewTokenBucketPassiveRateLimiter(pagesPerSecond, 1)
	return builder.TypedControllerManagedBy[model.ID](mgr).
		Named("customresourcedefinition").
		Watches(&apiextensionsv1.CustomResourceDefinition{}, enqueueID(imports.LabelledID), builder.WithPredicates(crdplan.DefinitionEdited)).
		Watches(&v2beta2.SubOperatorConfig{}, enqueueID(func(object client.Object) model.ID {
			return install.RecordedCollection(object.(*v2beta2.SubOperatorConfig))
		}), builder.WithPredicates(predicate.Funcs{UpdateFunc: imports.ConflictsChanged})).
		Watches(&v2beta2.SubOperatorConfig{}, enqueueID(imports.LabelledID), builder.WithPredicates(predicate.Funcs{UpdateFunc: imports.ConflictsChanged})).
		Watches(&v2beta2.OperatorCollection{}, enqueueID(func(object client.Object) model.ID {
			return imports.ImportedID(object.(*v2beta2.OperatorCollection))
		}), builder.WithPredicates(importChanged)).
		WithOptions(pace.TypedFairOptions(definitionWorkers, &r.costs, r.namespaceOf)).
		Complete(r)
}

// definitionWorkers is the number of collections whose CRDs are written at the same time.
const definitionWorkers = 4

// namespaceOf returns the namespace of the oldest OperatorCollection that has imported a collection, or "".
func (r *Reconciler) namespaceOf(key model.ID) string {
	list := &v2beta2.OperatorCollectionList{}
	err := r.Client.List(context.Background(), list, client.MatchingFields{imports.IndexCollection: key.String()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return ""
	}
	return crdplan.OwningNamespace(nil, key, list.Items)
}

func enqueueID(idOf func(client.Object) model.ID) handler.TypedEventHandler[client.Object, model.ID] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []model.ID {
		if key := idOf(object); key != (model.ID{}) {
			return []model.ID{key}
		}
		return nil
	})
}

var _ reconcile.TypedReconciler[model.ID] = &Reconciler{}
