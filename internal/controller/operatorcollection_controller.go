package controller

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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
	"github.com/collection-operator/collection-operator/internal/fetch"
	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/status"
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
	// Fetcher downloads archives.
	Fetcher *fetch.Fetcher
	// UploadDir is where clients put archives of OperatorCollections without a collectionURL.
	UploadDir string
	// Publications say what became of the archives in the catalog. They are nil if the manager serves none.
	Publications *Publications

	looks looks
	// working are the places of reconciliations, but for those that download, which have shares of downloads.
	working   places
	downloads *shares
}

const (
	// maxCollectionsAtOnce is how many OperatorCollections are worked on at once, downloads left aside: it bounds memory.
	maxCollectionsAtOnce = 4
	// maxDownloads is how many archives are downloaded at once.
	maxDownloads = 32
	// maxDownloadsPerNamespace is how many of them one namespace can have.
	maxDownloadsPerNamespace = 4
)

// Reconcile implements [reconcile.Reconciler].
func (r *OperatorCollectionReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.working.enter()
	defer r.working.leave()
	oc := &v2beta2.OperatorCollection{}
	if err := r.Reader.Get(ctx, req.NamespacedName, oc); err != nil {
		r.looks.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if oc.DeletionTimestamp != nil {
		if !controllerutil.ContainsFinalizer(oc, Finalizer) {
			return ctrl.Result{}, nil
		}
		return r.conclude(ctx, oc, nil, r.finalize(ctx, oc))
	}
	if oc.Spec.Suspend {
		return ctrl.Result{}, nil
	}
	facts, err := r.reconcile(ctx, oc)
	err = errors.Join(err, r.dropRefused(ctx, oc, facts))
	return r.conclude(ctx, oc, facts, err)
}

func (r *OperatorCollectionReconciler) reconcile(ctx context.Context, oc *v2beta2.OperatorCollection) (*collectionFacts, error) {
	facts := &collectionFacts{}
	steps := []func(context.Context, *v2beta2.OperatorCollection, *collectionFacts) error{
		r.ensureFinalizer,
		r.ensureArtifact,
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
		if err := step(ctx, oc, facts); err != nil {
			return facts, err
		}
	}
	return facts, nil
}

func (r *OperatorCollectionReconciler) writer() *status.Writer {
	return &status.Writer{Client: r.Client, Recorder: r.Recorder, Action: "Reconcile"}
}

// SetupWithManager registers the controller.
func (r *OperatorCollectionReconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.working = make(places, maxCollectionsAtOnce)
	r.downloads = &shares{total: maxDownloads, each: maxDownloadsPerNamespace}
	b := ctrl.NewControllerManagedBy(mgr).
		For(&v2beta2.OperatorCollection{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&v2beta2.SubOperatorConfig{}, handler.EnqueueRequestsFromMapFunc(r.ofSubOperatorConfig)).
		Watches(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(r.ofCRD)).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.ofSecret))
	if r.Publications != nil {
		b = b.WatchesRawSource(source.Channel(r.Publications.changed, &handler.EnqueueRequestForObject{}))
	}
	return b.WithOptions(options(maxCollectionsAtOnce + maxDownloads)).Complete(r)
}

func (r *OperatorCollectionReconciler) ofSubOperatorConfig(_ context.Context, object client.Object) []reconcile.Request {
	soc := object.(*v2beta2.SubOperatorConfig)
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: soc.Namespace, Name: soc.Spec.OperatorCollection}}}
}

func (r *OperatorCollectionReconciler) ofCRD(ctx context.Context, object client.Object) []reconcile.Request {
	key := render.IDOf(object.GetLabels())
	return r.requests(ctx, func(oc *v2beta2.OperatorCollection) bool { return importedID(oc) == key })
}

func (r *OperatorCollectionReconciler) ofSecret(ctx context.Context, object client.Object) []reconcile.Request {
	return r.requests(ctx, func(oc *v2beta2.OperatorCollection) bool {
		return oc.Spec.CredentialsSecret == object.GetName() || oc.Spec.SignatureSecret == object.GetName()
	}, client.InNamespace(object.GetNamespace()))
}

func (r *OperatorCollectionReconciler) requests(ctx context.Context, match func(*v2beta2.OperatorCollection) bool, in ...client.ListOption) []reconcile.Request {
	list := &v2beta2.OperatorCollectionList{}
	if err := r.Client.List(ctx, list, in...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot list OperatorCollections")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if match(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// maxRetryDelay bounds the growing delay between attempts.
const maxRetryDelay = time.Minute
