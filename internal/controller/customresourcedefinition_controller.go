package controller

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/flowcontrol"
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
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/platform/status"
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
	// Imports are what all OperatorCollections have imported.
	Imports *Imports
	// Definitions are the CRDs that were planned and written.
	Definitions *WrittenDefinitions
	// VersionAges are the times after which versions of CRDs that nothing uses are retired.
	VersionAges crd.Ages

	// pages limits how many pages of custom resources are rewritten.
	pages flowcontrol.PassiveRateLimiter
	// pageAgain has the [time.Time] from which on the page of a CRD may be repeated that could not be read or written, by the name of
	// the CRD.
	pageAgain sync.Map
	costs     pace.Costs
}

// definitionScope is what one reconcile knows of the CRDs of a collection.
type definitionScope struct {
	id model.ID
	// all are the OperatorCollections of the cluster, and owners those that have the collection, or, in the namespace that it belongs to,
	// say by their labels that they will.
	all, owners []v2beta2.OperatorCollection
	// definitions are the CRDs, as they were read live or written since then.
	definitions []apiextensionsv1.CustomResourceDefinition
	// versions are those that the CRDs are written for.
	versions []crd.Version
	// again is the delay before they are to be looked at again, or zero.
	again time.Duration
	// unsettled is true if something is to be done that depends on more than the CRDs and what they are planned from.
	unsettled bool
}

// Reconcile writes the CRDs of one collection. Problems are reported in the status of the OperatorCollection, whose
// controller plans the same CRDs. CRDs of different collections are written at the same time. Where two of them want the same CRD, one
// of the writes fails: each has the resourceVersion that it was planned from, or is a creation.
func (r *CustomResourceDefinitionReconciler) Reconcile(ctx context.Context, key model.ID) (ctrl.Result, error) {
	if key == (model.ID{}) {
		return ctrl.Result{}, nil
	}
	defer func(begin time.Time) { r.costs.Add(r.namespaceOf(key), time.Since(begin)) }(time.Now())
	s := &definitionScope{id: key}
	var err error
	if s.all, err = r.Imports.list(ctx); err != nil {
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
	inputs := inputsOf(key, cached, s.all) + uses
	if again, unchanged := r.Definitions.areUnchanged(key, inputs, cached); unchanged {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	r.Definitions.forget(key)
	// They are read live: custom resources are kept in them.
	if s.definitions, err = (&instances.Finder{Reader: r.Reader}).CRDs(ctx, key); err != nil {
		return status.Result(err)
	}
	claimant := crd.Claimant(s.definitions)
	for _, oc := range s.all {
		if hasCollection(&oc, key, claimant) {
			s.owners = append(s.owners, oc)
		}
	}
	err = r.update(ctx, s)
	if err == nil {
		err = r.removeUnused(ctx, s)
	}
	if err == nil && !s.unsettled {
		r.Definitions.record(key, inputsOf(key, s.definitions, s.all)+uses, s)
	}
	result, err := status.Result(err)
	if err == nil && s.again > 0 && (result.RequeueAfter == 0 || s.again < result.RequeueAfter) {
		result.RequeueAfter = s.again
	}
	return result, err
}

// update writes the CRDs that the collection's owning namespace has imported.
func (r *CustomResourceDefinitionReconciler) update(ctx context.Context, s *definitionScope) error {
	if len(s.owners) == 0 {
		return nil
	}
	namespace := owningNamespace(s.definitions, s.id, s.owners)
	importers := slices.DeleteFunc(slices.Clone(s.owners), func(oc v2beta2.OperatorCollection) bool {
		return oc.Namespace != namespace || importedID(&oc) != s.id
	})
	var err error
	if s.versions, err = importedVersions(r.Collections, importers); err != nil {
		return err
	}
	s.unsettled = len(s.versions) < len(importers) // The archives of the others are being fetched again.
	if len(s.versions) == 0 {
		return nil
	}
	// A CRD that does not have the collection's labels is not there, or belongs to others: then its creation fails.
	planner := crdPlanner{reader: r.Reader, known: s.definitions, onlyKnown: !replacesAny(s.versions)}
	err = r.planAndWrite(ctx, s, planner)
	if apierrors.IsAlreadyExists(err) {
		planner.onlyKnown = false
		err = r.planAndWrite(ctx, s, planner)
	}
	return err
}

func (r *CustomResourceDefinitionReconciler) planAndWrite(ctx context.Context, s *definitionScope, planner crdPlanner) error {
	plan, err := planner.plan(ctx, s.versions...)
	if err != nil {
		return err
	}
	if err := r.awaitReplaced(ctx, plan, s.all); err != nil {
		return err
	}
	for _, planned := range plan {
		recordHolders(planned.CRD, s.id, s.all)
	}
	return r.retire(ctx, s, plan)
}

func replacesAny(versions []crd.Version) bool {
	return slices.ContainsFunc(versions, func(v crd.Version) bool { return v.Collection.Replaces != model.ID{} })
}

// hasCollection says whether an OperatorCollection has the collection, or says by its labels that it will. Anybody can write labels:
// they count only in the namespace that the collection belongs to.
func hasCollection(oc *v2beta2.OperatorCollection, key model.ID, claimant string) bool {
	return oc.DeletionTimestamp == nil && (importedID(oc) == key || labelledID(oc) == key && oc.Namespace == claimant)
}

// recordHolders records on a CRD of a collection which OperatorCollections have its kind, and reports whether that changes it. One
// that is recorded already remains, unless it is seen to have the kind no longer. The finalizer of one that is being deleted
// removes it.
func recordHolders(definition *apiextensionsv1.CustomResourceDefinition, key model.ID, all []v2beta2.OperatorCollection) (changed bool) {
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

func (r *CustomResourceDefinitionReconciler) write(ctx context.Context, s *definitionScope, plan []crd.Planned) error {
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

// written replaces a CRD in the scope.
func (s *definitionScope) written(definition *apiextensionsv1.CustomResourceDefinition) {
	i := slices.IndexFunc(s.definitions, func(d apiextensionsv1.CustomResourceDefinition) bool { return d.Name == definition.Name })
	if i < 0 {
		s.definitions = append(s.definitions, *definition)
		return
	}
	s.definitions[i] = *definition
}

// removeUnused deletes the CRDs of kinds that no OperatorCollection, in whatever namespace, has any more according to what is
// recorded on them, once no custom resource of them is left. As long as a SubOperatorConfig has the collection, its operator
// needs all of them.
func (r *CustomResourceDefinitionReconciler) removeUnused(ctx context.Context, s *definitionScope) error {
	for i := range s.definitions {
		definition := &s.definitions[i]
		if definition.DeletionTimestamp == nil && recordHolders(definition, s.id, s.all) {
			if err := r.Client.Update(ctx, definition, client.FieldOwner(apply.FieldOwner)); err != nil {
				return fmt.Errorf("recording on CRD %q which OperatorCollections have it: %w", definition.Name, err)
			}
		}
	}
	if !slices.ContainsFunc(s.definitions, func(d apiextensionsv1.CustomResourceDefinition) bool { return crd.IsUnused(&d) }) {
		return nil
	}
	s.unsettled = true
	// They are read live: a CRD of one that the cache lacks yet would be deleted.
	live := &v2beta2.OperatorCollectionList{}
	if err := r.Reader.List(ctx, live); err != nil {
		return fmt.Errorf("listing OperatorCollections: %w", err)
	}
	claimant, owned := crd.Claimant(s.definitions), false
	unused := slices.DeleteFunc(slices.Clone(s.definitions), func(definition apiextensionsv1.CustomResourceDefinition) bool {
		return !crd.IsUnused(&definition) || isTakenOver(&definition, live.Items) ||
			slices.ContainsFunc(live.Items, func(oc v2beta2.OperatorCollection) bool {
				has := hasCollection(&oc, s.id, claimant)
				owned = owned || has
				return has && hasKind(&oc, &definition)
			})
	})
	return r.remove(ctx, s, unused, owned)
}

// remove deletes unused CRDs without custom resources, unless the collection is owned by no OperatorCollection and installed still.
func (r *CustomResourceDefinitionReconciler) remove(ctx context.Context, s *definitionScope, unused []apiextensionsv1.CustomResourceDefinition, owned bool) error {
	socs := &v2beta2.SubOperatorConfigList{}
	if len(unused) > 0 && !owned {
		if err := r.Reader.List(ctx, socs); err != nil {
			return fmt.Errorf("listing SubOperatorConfigs: %w", err)
		}
	}
	if slices.ContainsFunc(socs.Items, func(soc v2beta2.SubOperatorConfig) bool { return install.RecordedCollection(&soc) == s.id }) {
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
		return status.Waiting(v2beta2.ReasonInstancesExist, intervals.Missing, "CRDs that %s does not have any more are kept for their custom resources: %s", s.id, strings.Join(kept, ", "))
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
	r.pages = flowcontrol.NewTokenBucketPassiveRateLimiter(pagesPerSecond, 1)
	return builder.TypedControllerManagedBy[model.ID](mgr).
		Named("customresourcedefinition").
		Watches(&apiextensionsv1.CustomResourceDefinition{}, enqueueID(labelledID), builder.WithPredicates(definitionEdited)).
		Watches(&v2beta2.SubOperatorConfig{}, enqueueID(func(object client.Object) model.ID {
			return install.RecordedCollection(object.(*v2beta2.SubOperatorConfig))
		}), builder.WithPredicates(predicate.Funcs{UpdateFunc: conflictsChanged})).
		Watches(&v2beta2.SubOperatorConfig{}, enqueueID(labelledID), builder.WithPredicates(predicate.Funcs{UpdateFunc: conflictsChanged})).
		Watches(&v2beta2.OperatorCollection{}, enqueueID(func(object client.Object) model.ID {
			return importedID(object.(*v2beta2.OperatorCollection))
		}), builder.WithPredicates(importChanged)).
		WithOptions(typedFairOptions(definitionWorkers, &r.costs, r.namespaceOf)).
		Complete(r)
}

// definitionWorkers is the number of collections whose CRDs are written at the same time.
const definitionWorkers = 4

// namespaceOf returns the namespace of the oldest OperatorCollection that has imported a collection, or "".
func (r *CustomResourceDefinitionReconciler) namespaceOf(key model.ID) string {
	list := &v2beta2.OperatorCollectionList{}
	err := r.Client.List(context.Background(), list, client.MatchingFields{indexCollection: key.String()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return ""
	}
	return owningNamespace(nil, key, list.Items)
}

// definitionEdited ignores updates of CRDs that change only the conditions.
var definitionEdited = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, isOne := e.ObjectOld.(*apiextensionsv1.CustomResourceDefinition)
	after, isOther := e.ObjectNew.(*apiextensionsv1.CustomResourceDefinition)
	if !isOne || !isOther {
		return true
	}
	return labelledID(before) != labelledID(after) ||
		stateOf([]apiextensionsv1.CustomResourceDefinition{*before}) != stateOf([]apiextensionsv1.CustomResourceDefinition{*after})
}}

func enqueueID(idOf func(client.Object) model.ID) handler.TypedEventHandler[client.Object, model.ID] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []model.ID {
		if key := idOf(object); key != (model.ID{}) {
			return []model.ID{key}
		}
		return nil
	})
}

var _ reconcile.TypedReconciler[model.ID] = &CustomResourceDefinitionReconciler{}

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
	// known are live CRDs, which are not read again.
	known []apiextensionsv1.CustomResourceDefinition
	// onlyKnown is true if all others are assumed not to exist.
	onlyKnown bool
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

func (p crdPlanner) planOne(ctx context.Context, id model.ID, name string, wanted []crd.Contribution) (crd.Planned, error) {
	live, err := p.find(ctx, name)
	if err != nil {
		return crd.Planned{}, err
	}
	return crd.Plan(id, live, wanted, func() (string, error) {
		items, err := (&instances.Finder{Reader: p.reader}).ListOf(ctx, live, "")
		return instances.Describe(items), err
	})
}

// find returns nil if there is no such CRD.
func (p crdPlanner) find(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	for i := range p.known {
		if p.known[i].Name == name {
			return p.known[i].DeepCopy(), nil
		}
	}
	if p.onlyKnown {
		return nil, nil
	}
	live := &apiextensionsv1.CustomResourceDefinition{}
	err := p.reader.Get(ctx, client.ObjectKey{Name: name}, live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading CRD %q: %w", name, err)
	}
	return live, nil
}
