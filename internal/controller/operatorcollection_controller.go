package controller

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// OperatorCollectionReconciler fetches, verifies and stores the archive of an OperatorCollection, waits for its CRDs,
// and makes its default SubOperatorConfig.
type OperatorCollectionReconciler struct {
	// Client reads through the cache and writes.
	Client client.Client
	// Reader reads live objects.
	Reader client.Reader
	// Recorder records events.
	Recorder events.EventRecorder
	// Collections are those of the archives in the store.
	Collections *CollectionCache
	// Source brings archives into the store.
	Source *ArchiveSource
	// Publications say which archives are in the catalog. They are nil if the manager serves none.
	Publications *Publications
}

const (
	// maxConcurrentCollections limits concurrent reconciles of OperatorCollections that do not download: it bounds memory.
	maxConcurrentCollections = 4
	// maxDownloads limits concurrent downloads of archives.
	maxDownloads = 32
	// maxDownloadsPerNamespace limits those of one namespace.
	maxDownloadsPerNamespace = 4
)

// Reconcile implements [reconcile.Reconciler].
func (r *OperatorCollectionReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.Source.working.Acquire(ctx, 1); err != nil {
		return ctrl.Result{}, err
	}
	defer r.Source.working.Release(1)
	oc := &v2beta2.OperatorCollection{}
	if err := r.Reader.Get(ctx, req.NamespacedName, oc); err != nil {
		r.Source.checks.Delete(req.NamespacedName)
		if apierrors.IsNotFound(err) {
			err = r.Source.Pushes.Remove(req.Namespace, req.Name)
		}
		return ctrl.Result{}, err
	}
	if oc.DeletionTimestamp != nil {
		if !controllerutil.ContainsFinalizer(oc, Finalizer) {
			return ctrl.Result{}, nil
		}
		return r.patchStatus(ctx, oc, nil, (&collectionFinalizer{r.Client, r.Reader, r.Recorder, r.Collections}).finalize(ctx, oc))
	}
	if oc.Spec.Suspend {
		return ctrl.Result{}, nil
	}
	scope, err := r.reconcile(ctx, oc)
	err = errors.Join(err, r.removeRefused(ctx, oc, scope))
	return r.patchStatus(ctx, oc, scope, err)
}

func (r *OperatorCollectionReconciler) reconcile(ctx context.Context, oc *v2beta2.OperatorCollection) (*importScope, error) {
	scope := &importScope{}
	if err := addFinalizer(ctx, r.Client, oc); err != nil {
		return scope, err
	}
	steps := []func(context.Context, *v2beta2.OperatorCollection, *importScope) error{
		r.Source.ensureArtifact,
		r.loadCollection,
		r.checkOrder,
		r.checkClaim,
		r.checkCRDs,
		r.acceptArtifact,
		r.labelObject,
		r.awaitCRDs,
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

// SetupWithManager registers the controller.
func (r *OperatorCollectionReconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.Source.working = semaphore.NewWeighted(maxConcurrentCollections)
	r.Source.downloads = newNamespaceLimit(maxDownloads, maxDownloadsPerNamespace)
	b := ctrl.NewControllerManagedBy(mgr).
		WithEventFilter(withoutRelists).
		For(&v2beta2.OperatorCollection{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&v2beta2.SubOperatorConfig{}, handler.EnqueueRequestsFromMapFunc(r.ofSubOperatorConfig)).
		Watches(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(r.ofCRD)).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.ofSecret))
	r.Source.uploads = make(uploadSource, maxWaitingUploads)
	b = b.WatchesRawSource(source.Channel(r.Source.uploads, &handler.EnqueueRequestForObject{}))
	if r.Publications != nil {
		b = b.WatchesRawSource(source.Channel(r.Publications.changed, &handler.EnqueueRequestForObject{}))
	}
	return b.WithOptions(options(maxConcurrentCollections + maxDownloads)).Complete(r)
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
