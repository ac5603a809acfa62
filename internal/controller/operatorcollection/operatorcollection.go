// Package operatorcollection imports the collection of an OperatorCollection, decides when each namespace gets a new version, and removes
// what was made when it is deleted.
package operatorcollection

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/reserved"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/intake"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/source/replica"
)

// Reconciler fetches, verifies and stores the archive of an OperatorCollection, waits for its CRDs,
// and makes its default SubOperatorConfig.
type Reconciler struct {
	// Client reads through the cache and writes.
	Client client.Client
	// Reader reads live objects.
	Reader client.Reader
	// Metadata lists kinds without discovery, whose answers grow with the number of collections. SetupWithManager sets it.
	Metadata metadata.Interface
	// Recorder records events.
	Recorder events.EventRecorder
	// Collections are those of the archives in the store.
	Collections *imports.CollectionCache
	// Imports are what all OperatorCollections have imported.
	Imports *imports.Index
	// Definitions are the CRDs that were planned and written.
	Definitions *crdplan.WrittenDefinitions
	// Namespaces has those that the manager may use.
	Namespaces mapping.Selection
	// Source brings archives into the store.
	Source *intake.Source
	// Reserved says for whom domains are reserved.
	Reserved reserved.Domains
	// Budgets limit what is imported.
	Budgets *Budgets
	// Peers are the other managers.
	Peers *replica.Peers
	// Publications say which archives are in the catalog. They are nil if the manager serves none.
	Publications *imports.Publications

	// working limits reconciles. Source leaves it while it downloads.
	working *pace.NamespaceLimit
	// replicas has OperatorCollections whose archive another manager lacks, or has again.
	replicas chan event.GenericEvent
}

// Reconcile implements [reconcile.Reconciler].
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if free, err := r.working.Enter(ctx, req); err != nil || !free {
		return r.working.Postpones(), err
	}
	defer r.working.Leave(req.Namespace)
	oc := &v2beta2.OperatorCollection{}
	if err := r.Reader.Get(ctx, req.NamespacedName, oc); err != nil {
		if apierrors.IsNotFound(err) {
			r.Source.Forget(req.NamespacedName)
			r.Budgets.settle(req.NamespacedName, nil)
			r.Imports.Forget(ctx, req.NamespacedName)
			err = r.Source.Pushes.Remove(req.Namespace, req.Name)
		}
		return ctrl.Result{}, err
	}
	r.Imports.Record(oc) // The cache may not have its deletion yet: the CRD controller must not record it on CRDs again.
	if oc.DeletionTimestamp != nil {
		if !controllerutil.ContainsFinalizer(oc, v2beta2.Finalizer) {
			return ctrl.Result{}, nil
		}
		return r.patchStatus(ctx, oc, nil, (&collectionFinalizer{r.Client, r.Reader, r.Recorder, r.Collections}).finalize(ctx, oc))
	}
	if oc.Spec.Suspend {
		return ctrl.Result{}, nil
	}
	scope, err := r.reconcileWithFallback(ctx, oc)
	defer func() { scope.Hold.Release() }()
	r.Budgets.settle(req.NamespacedName, err)
	err = errors.Join(err, r.removeRefused(ctx, oc, scope, err), r.planUpgrade(ctx, oc, scope))
	return r.patchStatus(ctx, oc, scope, err)
}

func (r *Reconciler) reconcile(ctx context.Context, oc *v2beta2.OperatorCollection) (*importScope, error) {
	scope := &importScope{upload: intake.PushedDigest(oc)}
	if err := apply.AddFinalizer(ctx, r.Client, oc); err != nil {
		return scope, err
	}
	r.Imports.Wrote(oc)
	steps := []func(context.Context, *v2beta2.OperatorCollection, *importScope) error{
		r.checkNamespace,
		r.checkNumber,
		r.ensureArtifact,
		r.loadCollection,
		r.checkNeeds,
		r.checkOrder,
		r.checkReserved,
		r.checkClaim,
		r.checkCRDs,
		r.checkUpgrade,
		r.checkReplaced,
		r.checkReplicas,
		r.acceptWithinBudgets,
		r.awaitCRDs,
		r.awaitServed,
		r.awaitReplicas,
		r.ensureDefaultSubOperatorConfig,
		r.collectSubOperatorConfigs,
	}
	for _, step := range steps {
		if err := step(ctx, oc, scope); err != nil {
			return scope, err
		}
	}
	return scope, nil
}

func (r *Reconciler) ensureArtifact(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	return r.Source.EnsureArtifact(ctx, oc, &scope.Archive)
}

func (r *Reconciler) checkNamespace(_ context.Context, oc *v2beta2.OperatorCollection, _ *importScope) error {
	return r.Namespaces.Check(oc.Namespace)
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	var uploads <-chan event.GenericEvent
	r.working, uploads = r.Source.Setup()
	r.replicas = make(chan event.GenericEvent)
	var err error
	if r.Metadata, err = metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient()); err != nil {
		return err
	}
	if err = mgr.Add(manager.RunnableFunc(r.watchReplicas)); err != nil {
		return err
	}
	b := ctrl.NewControllerManagedBy(mgr).
		WithEventFilter(pace.WithoutRelists).
		For(&v2beta2.OperatorCollection{}, builder.WithPredicates(r.Imports.NotOwn(), predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&v2beta2.OperatorCollection{}, handler.EnqueueRequestsFromMapFunc(r.ofDeleted), builder.WithPredicates(onlyDeletions)).
		Watches(&v2beta2.SubOperatorConfig{}, handler.EnqueueRequestsFromMapFunc(r.requestsForSubOperatorConfig), builder.WithPredicates(installationChanged)).
		Watches(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(r.requestsForCRD), builder.WithPredicates(r.definitionServed())).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.requestsForSecret))
	b = b.WatchesRawSource(source.Channel(r.replicas, &handler.EnqueueRequestForObject{}))
	b = b.WatchesRawSource(source.Channel(uploads, &handler.EnqueueRequestForObject{}))
	if r.Publications != nil {
		b = b.WatchesRawSource(source.Channel(r.Publications.Changed, &handler.EnqueueRequestForObject{}))
	}
	reconciler := pace.Paced(r)
	return b.WithOptions(reconciler.FairOptions(r.Source.Workers.Total+r.Source.Downloads.Total, r.working)).Complete(reconciler)
}

func (r *Reconciler) requestsForSubOperatorConfig(_ context.Context, object client.Object) []reconcile.Request {
	soc := object.(*v2beta2.SubOperatorConfig)
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: soc.Namespace, Name: soc.Spec.OperatorCollection}}}
}

func (r *Reconciler) requestsForCRD(ctx context.Context, object client.Object) []reconcile.Request {
	return pace.RequestsOf(ctx, r.Client, &v2beta2.OperatorCollectionList{}, client.MatchingFields{imports.IndexCollection: imports.LabelledID(object).String()})
}

func (r *Reconciler) requestsForSecret(ctx context.Context, object client.Object) []reconcile.Request {
	return pace.RequestsOf(ctx, r.Client, &v2beta2.OperatorCollectionList{}, client.InNamespace(object.GetNamespace()), client.MatchingFields{imports.IndexSecret: object.GetName()})
}
