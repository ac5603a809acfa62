// Package customresourcedefinition writes the CRDs of a collection, as all OperatorCollections that have imported it need them, retires
// versions that nobody needs any more, and removes a CRD when nobody does.
package customresourcedefinition

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
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
	// pages are those of custom resources that are rewritten.
	pages *pages
	costs pace.Costs
}

// scope is what one reconcile knows of the CRDs of a collection.
type scope struct {
	// inputs are what they are planned from.
	*crdplan.Inputs
	// definitions are the CRDs, as they were read live or written since then.
	definitions []apiextensionsv1.CustomResourceDefinition
	// versions are those that the CRDs are written for.
	versions []crd.Version
	// again is the delay before they are to be looked at again, or zero.
	again time.Duration
	// unsettled is true if something is to be done that depends on more than the CRDs and what they are planned from.
	unsettled bool
}

// written replaces a CRD in the scope.
func (s *scope) written(definition *apiextensionsv1.CustomResourceDefinition) {
	i := slices.IndexFunc(s.definitions, func(d apiextensionsv1.CustomResourceDefinition) bool { return d.Name == definition.Name })
	if i < 0 {
		s.definitions = append(s.definitions, *definition)
		return
	}
	s.definitions[i] = *definition
}

// Reconcile writes the CRDs of one collection. Problems are reported in the status of the OperatorCollection, whose
// controller plans the same CRDs. CRDs of different collections are written at the same time. Where two of them want the same CRD, one
// of the writes fails: each has the resourceVersion that it was planned from, or is a creation.
func (r *Reconciler) Reconcile(ctx context.Context, key model.ID) (ctrl.Result, error) {
	if key == (model.ID{}) {
		return ctrl.Result{}, nil
	}
	defer func(begin time.Time) { r.costs.Add(r.namespaceOf(key), time.Since(begin)) }(time.Now())
	all, err := r.Imports.List(ctx)
	if err != nil {
		return status.Result(err)
	}
	cached, err := (&instances.Finder{Reader: r.Client}).CRDs(ctx, key)
	if err != nil {
		return status.Result(err)
	}
	s := &scope{Inputs: crdplan.InputsOf(key, all)}
	if s.Installed, err = r.installed(ctx, key, cached); err != nil {
		return status.Result(err)
	}
	if again, unchanged := r.Definitions.AreUnchanged(s.Inputs, cached); unchanged {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	r.Definitions.Forget(key)
	// They are read live: custom resources are kept in them.
	if s.definitions, err = (&instances.Finder{Reader: r.Reader}).CRDs(ctx, key); err != nil {
		return status.Result(err)
	}
	err = r.update(ctx, s)
	if err == nil {
		var found bool
		found, err = (&unusedRemover{client: r.Client, reader: r.Reader}).removeUnused(ctx, s.Inputs, s.definitions)
		s.unsettled = s.unsettled || found
	}
	if err == nil && !s.unsettled {
		r.Definitions.Record(s.Inputs, s.definitions, s.versions, s.again)
	}
	result, err := status.Result(err)
	if err == nil && s.again > 0 && (result.RequeueAfter == 0 || s.again < result.RequeueAfter) {
		result.RequeueAfter = s.again
	}
	return result, err
}

// installed are the archives of a collection that SubOperatorConfigs in the cache have installed, sorted, if some of its CRDs have several
// versions.
func (r *Reconciler) installed(ctx context.Context, id model.ID, definitions []apiextensionsv1.CustomResourceDefinition) ([]digest.Digest, error) {
	if !slices.ContainsFunc(definitions, func(d apiextensionsv1.CustomResourceDefinition) bool { return len(d.Spec.Versions) > 1 }) {
		return nil, nil
	}
	configs := &v2beta2.SubOperatorConfigList{}
	if err := r.Client.List(ctx, configs, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing SubOperatorConfigs in the cache: %w", err)
	}
	var installed []digest.Digest
	for _, use := range (&imports.ArchivesInUse{Configs: configs.Items}).Of(id) {
		installed = append(installed, use.Digest)
	}
	slices.Sort(installed)
	return slices.Compact(installed), nil
}

// update writes the CRDs that the collection's owning namespace has imported.
func (r *Reconciler) update(ctx context.Context, s *scope) error {
	claimant := crd.Claimant(s.definitions)
	owners := slices.DeleteFunc(slices.Clone(s.Collections), func(oc v2beta2.OperatorCollection) bool { return !crdplan.HasCollection(&oc, s.ID, claimant) })
	if len(owners) == 0 {
		return nil
	}
	namespace := crdplan.OwningNamespace(s.definitions, s.ID, owners)
	importers := slices.DeleteFunc(slices.Clone(owners), func(oc v2beta2.OperatorCollection) bool {
		return oc.Namespace != namespace || imports.ImportedID(&oc) != s.ID
	})
	var err error
	if s.versions, err = crdplan.ImportedVersions(r.Collections, importers); err != nil {
		return err
	}
	s.unsettled = len(s.versions) < len(importers) // The archives of the others are being fetched again.
	if len(s.versions) == 0 {
		return nil
	}
	// A CRD that does not have the collection's labels is not there, or belongs to others: then its creation fails.
	replaces := slices.ContainsFunc(s.versions, func(v crd.Version) bool { return v.Collection.Replaces != model.ID{} })
	planner := crdplan.Planner{Reader: r.Reader, Known: s.definitions, OnlyKnown: !replaces}
	err = r.planAndWrite(ctx, s, planner)
	if apierrors.IsAlreadyExists(err) {
		planner.OnlyKnown = false
		err = r.planAndWrite(ctx, s, planner)
	}
	return err
}

func (r *Reconciler) planAndWrite(ctx context.Context, s *scope, planner crdplan.Planner) error {
	plan, err := planner.Plan(ctx, s.versions...)
	if err != nil {
		return err
	}
	if err := awaitReplaced(ctx, r.Reader, plan, s.Collections); err != nil {
		return err
	}
	var wanted []apiextensionsv1.CustomResourceDefinition
	for _, planned := range plan {
		crdplan.RecordHolders(planned.CRD, s.ID, s.Collections)
		wanted = append(wanted, *planned.CRD)
	}
	if s.Installed, err = r.installed(ctx, s.ID, wanted); err != nil {
		return err
	}
	return r.writeRetired(ctx, s, plan)
}

// writeRetired writes planned CRDs with each version in its stage, and rewrites a page of custom resources that a version waits for.
func (r *Reconciler) writeRetired(ctx context.Context, s *scope, plan []crd.Planned) error {
	retirer := &retirer{client: r.Client, reader: r.Reader, key: r.Collections.Key, ages: r.VersionAges, pages: r.pages}
	retired, err := retirer.retire(ctx, s.Inputs, s.versions, plan)
	if err != nil {
		return err
	}
	var next time.Time
	for i := range plan {
		plan[i].CRD = retired[i].CRD
		next = earlier(next, retired[i].Next)
	}
	if err := r.write(ctx, s, plan); err != nil {
		return err
	}
	for i := range retired {
		if !retired[i].Rewrite {
			continue
		}
		s.unsettled = true
		again, err := retirer.rewrite(ctx, plan[i].CRD, retired[i].Forget)
		if err != nil {
			return err
		}
		s.written(plan[i].CRD)
		next = earlier(next, again)
	}
	if !next.IsZero() {
		s.again = min(max(time.Until(next), time.Second), maxRetireDelay)
	}
	return nil
}

func (r *Reconciler) write(ctx context.Context, s *scope, plan []crd.Planned) error {
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
		s.written(planned.CRD)
	}
	return nil
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.pages = newPages()
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

// namespaceOf returns the namespace of the oldest OperatorCollection that has imported a collection, or "". The queue asks for it, which must
// not wait for the cache.
func (r *Reconciler) namespaceOf(key model.ID) string {
	list := &v2beta2.OperatorCollectionList{}
	err := r.Client.List(context.Background(), list, client.MatchingFields{imports.IndexCollection: key.String()}, client.UnsafeDisableDeepCopy,
		client.DisableReadYourWritesConsistency)
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

// importChanged ignores updates of OperatorCollections and SubOperatorConfigs that change nothing which CRDs depend on, such as
// those of an annotation that somebody changes in a loop.
var importChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld, e.ObjectNew
	if before.GetGeneration() != after.GetGeneration() || !maps.Equal(before.GetLabels(), after.GetLabels()) ||
		!before.GetDeletionTimestamp().Equal(after.GetDeletionTimestamp()) {
		return true
	}
	was, ok := before.(*v2beta2.OperatorCollection)
	is, _ := after.(*v2beta2.OperatorCollection)
	return ok && is != nil && (!equality.Semantic.DeepEqual(was.Status.Collection, is.Status.Collection) ||
		!equality.Semantic.DeepEqual(was.Status.Artifact, is.Status.Artifact))
}}
