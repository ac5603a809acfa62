package controller

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
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
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/source/replica"
)

// OperatorCollectionReconciler fetches, verifies and stores the archive of an OperatorCollection, waits for its CRDs,
// and makes its default SubOperatorConfig.
type OperatorCollectionReconciler struct {
	// Client reads through the cache and writes.
	Client client.Client
	// Reader reads live objects.
	Reader client.Reader
	// Metadata lists kinds without discovery, whose answers grow with the number of collections. SetupWithManager sets it.
	Metadata metadata.Interface
	// Recorder records events.
	Recorder events.EventRecorder
	// Collections are those of the archives in the store.
	Collections *CollectionCache
	// Imports are what all OperatorCollections have imported.
	Imports *Imports
	// Definitions are the CRDs that were planned and written.
	Definitions *WrittenDefinitions
	// Namespaces has those that the manager may use.
	Namespaces mapping.Selection
	// Source brings archives into the store.
	Source *ArchiveSource
	// Reserved says for whom domains are reserved.
	Reserved reserved.Domains
	// Budgets limit what is imported.
	Budgets *CollectionBudgets
	// Peers are the other managers.
	Peers *replica.Peers
	// Publications say which archives are in the catalog. They are nil if the manager serves none.
	Publications *Publications

	// copies has OperatorCollections whose archive another manager lacks, or has again.
	copies chan event.GenericEvent
}

// Reconcile implements [reconcile.Reconciler].
func (r *OperatorCollectionReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if free, err := r.Source.working.enter(ctx, req); err != nil || !free {
		return r.Source.working.postpones(), err
	}
	defer r.Source.working.leave(req.Namespace)
	oc := &v2beta2.OperatorCollection{}
	if err := r.Reader.Get(ctx, req.NamespacedName, oc); err != nil {
		if apierrors.IsNotFound(err) {
			r.Source.checks.Delete(req.NamespacedName)
			r.Budgets.settle(req.NamespacedName, nil)
			r.Source.copies.Delete(req.NamespacedName)
			r.Source.replaced.Delete(req.NamespacedName)
			former, _ := r.Source.blocked.keep(req.NamespacedName, nil, nil)
			former.hold.Release()
			r.Imports.forget(ctx, req.NamespacedName)
			err = r.Source.Pushes.Remove(req.Namespace, req.Name)
		}
		return ctrl.Result{}, err
	}
	r.Imports.record(oc) // The cache may not have its deletion yet: the CRD controller must not record it on CRDs again.
	if oc.DeletionTimestamp != nil {
		if !controllerutil.ContainsFinalizer(oc, Finalizer) {
			return ctrl.Result{}, nil
		}
		return r.patchStatus(ctx, oc, nil, (&collectionFinalizer{r.Client, r.Reader, r.Recorder, r.Collections}).finalize(ctx, oc))
	}
	if oc.Spec.Suspend {
		return ctrl.Result{}, nil
	}
	scope, err := r.reconcileUploaded(ctx, oc)
	defer func() { scope.hold.Release() }()
	r.Budgets.settle(req.NamespacedName, err)
	err = errors.Join(err, r.removeRefused(ctx, oc, scope, err), r.planUpgrade(ctx, oc, scope))
	return r.patchStatus(ctx, oc, scope, err)
}

func (r *OperatorCollectionReconciler) reconcile(ctx context.Context, oc *v2beta2.OperatorCollection) (*importScope, error) {
	scope := &importScope{upload: pushedDigest(oc)}
	if err := addFinalizer(ctx, r.Client, oc); err != nil {
		return scope, err
	}
	r.Imports.wrote(oc)
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
		r.checkCopies,
		r.acceptWithinBudgets,
		r.awaitCRDs,
		r.awaitServed,
		r.awaitCopies,
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

func (r *OperatorCollectionReconciler) ensureArtifact(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	return r.Source.ensureArtifact(ctx, oc, &scope.Archive)
}

func (r *OperatorCollectionReconciler) checkNamespace(_ context.Context, oc *v2beta2.OperatorCollection, _ *importScope) error {
	return r.Namespaces.Check(oc.Namespace)
}

// SetupWithManager registers the controller.
func (r *OperatorCollectionReconciler) SetupWithManager(mgr ctrl.Manager) error {
	workers := r.Source.Workers
	r.Source.working = newNamespaceLimit(workers.Total, workers.PerNamespace)
	r.Source.downloads = newNamespaceLimit(r.Source.Downloads.Total, r.Source.Downloads.PerNamespace)
	r.copies = make(chan event.GenericEvent)
	var err error
	if r.Metadata, err = metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient()); err != nil {
		return err
	}
	if err = mgr.Add(manager.RunnableFunc(r.watchCopies)); err != nil {
		return err
	}
	b := ctrl.NewControllerManagedBy(mgr).
		WithEventFilter(withoutRelists).
		For(&v2beta2.OperatorCollection{}, builder.WithPredicates(r.Imports.notOwn(), predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&v2beta2.OperatorCollection{}, handler.EnqueueRequestsFromMapFunc(r.ofDeleted), builder.WithPredicates(onlyDeletions)).
		Watches(&v2beta2.SubOperatorConfig{}, handler.EnqueueRequestsFromMapFunc(r.ofSubOperatorConfig), builder.WithPredicates(installationChanged)).
		Watches(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(r.ofCRD), builder.WithPredicates(r.definitionServed())).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.ofSecret))
	b = b.WatchesRawSource(source.Channel(r.copies, &handler.EnqueueRequestForObject{}))
	r.Source.uploads = make(uploadSource, maxWaitingUploads)
	b = b.WatchesRawSource(source.Channel(r.Source.uploads, &handler.EnqueueRequestForObject{}))
	if r.Publications != nil {
		b = b.WatchesRawSource(source.Channel(r.Publications.changed, &handler.EnqueueRequestForObject{}))
	}
	reconciler := paced(r)
	return b.WithOptions(reconciler.fairOptions(workers.Total+r.Source.Downloads.Total, r.Source.working)).Complete(reconciler)
}

func (r *OperatorCollectionReconciler) ofSubOperatorConfig(_ context.Context, object client.Object) []reconcile.Request {
	soc := object.(*v2beta2.SubOperatorConfig)
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: soc.Namespace, Name: soc.Spec.OperatorCollection}}}
}

func (r *OperatorCollectionReconciler) ofCRD(ctx context.Context, object client.Object) []reconcile.Request {
	return requestsOf(ctx, r.Client, &v2beta2.OperatorCollectionList{}, client.MatchingFields{indexCollection: labelledID(object).String()})
}

func (r *OperatorCollectionReconciler) ofSecret(ctx context.Context, object client.Object) []reconcile.Request {
	return requestsOf(ctx, r.Client, &v2beta2.OperatorCollectionList{}, client.InNamespace(object.GetNamespace()), client.MatchingFields{indexSecret: object.GetName()})
}

// requestsOf are for the objects of a list in the cache.
func requestsOf(ctx context.Context, reader client.Reader, list client.ObjectList, of ...client.ListOption) []reconcile.Request {
	var requests []reconcile.Request
	err := reader.List(ctx, list, of...)
	if err == nil {
		err = meta.EachListItem(list, func(item runtime.Object) error {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(item.(client.Object))})
			return nil
		})
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot list what a change concerns")
	}
	return requests
}

// maxRetryDelay bounds the growing delay between attempts.
const maxRetryDelay = time.Minute
