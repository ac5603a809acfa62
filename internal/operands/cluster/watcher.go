package cluster

import (
	"context"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
)

const (
	// syncTimeout limits how long the start of a watch is awaited.
	syncTimeout = 10 * time.Second
	// retryInterval is the time after which a watch that could not begin is tried again.
	retryInterval = 10 * time.Minute
)

// Watcher watches resources in the namespaces in which there are any. This process has permissions only there. It is not safe for
// concurrent use.
type Watcher struct {
	// Began is true if a watch has begun in this reconciliation, and Polls if something of it cannot be watched. The reconciler resets
	// them when it begins.
	Began, Polls bool

	mgr        ctrl.Manager
	controller controller.Controller
	requests   handler.MapFunc

	// caches has that of each namespace.
	caches map[string]*namespaceCache
	// failed has the time at which a watch could not begin. It is zero for what is watched.
	failed map[watched]time.Time
}

// namespaceCache is a cache, and what ends it.
type namespaceCache struct {
	cache.Cache
	end context.CancelFunc
}

// watched is a kind in a namespace.
type watched struct {
	schema.GroupVersionKind
	namespace string
}

// NewWatcher returns a Watcher whose changes a controller reconciles for the requests that a function returns.
func NewWatcher(mgr ctrl.Manager, c controller.Controller, requests handler.MapFunc) *Watcher {
	return &Watcher{mgr: mgr, controller: c, requests: requests, caches: map[string]*namespaceCache{}, failed: map[watched]time.Time{}}
}

// Ensure watches the metadata of a kind in a namespace. If that is not possible, it is logged, and what is awaited must be polled.
func (w *Watcher) Ensure(ctx context.Context, kind schema.GroupVersionKind, namespace string) {
	key := watched{kind, namespace}
	failed, isKnown := w.failed[key]
	if !isKnown || !failed.IsZero() && time.Since(failed) > retryInterval {
		failed = time.Time{}
		if err := w.watch(ctx, kind, namespace); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "cannot watch", "kind", kind.String(), "namespace", namespace)
			failed = time.Now()
		}
		w.failed[key], w.Began = failed, true
	}
	w.Polls = w.Polls || !failed.IsZero()
}

func (w *Watcher) watch(ctx context.Context, kind schema.GroupVersionKind, namespace string) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	// Without the permission, an informer would try it for ever.
	if err := w.mgr.GetAPIReader().List(ctx, list, client.InNamespace(namespace), client.Limit(1)); err != nil {
		return err
	}
	of, err := w.cacheOf(namespace)
	if err != nil {
		return err
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	changes := source.Kind[client.Object](of, object, handler.EnqueueRequestsFromMapFunc(w.requests))
	if err := w.controller.Watch(changes); err != nil {
		return err
	}
	syncing, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if err := changes.WaitForSync(syncing); err != nil {
		if removeErr := of.RemoveInformer(ctx, object); removeErr != nil {
			err = fmt.Errorf("%w, and the informer remains: %w", err, removeErr)
		}
		return err
	}
	return nil
}

// cacheOf returns the cache of a namespace, which runs until [Watcher.Prune] ends it.
func (w *Watcher) cacheOf(namespace string) (*namespaceCache, error) {
	if of := w.caches[namespace]; of != nil {
		return of, nil
	}
	objects, err := cache.New(w.mgr.GetConfig(), cache.Options{
		HTTPClient: w.mgr.GetHTTPClient(), Scheme: w.mgr.GetScheme(), Mapper: w.mgr.GetRESTMapper(),
		DefaultNamespaces: map[string]cache.Config{namespace: {}}, DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, err
	}
	ended, end := context.WithCancel(context.Background())
	err = w.mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		defer context.AfterFunc(ctx, end)()
		return objects.Start(ended)
	}))
	if err != nil {
		end()
		return nil, err
	}
	w.caches[namespace] = &namespaceCache{objects, end}
	return w.caches[namespace], nil
}

// Prune ends the watches in the namespaces that no OperandRequest concerns: those of former ones would fail for ever once their
// namespace, or the permission in it, is gone.
func (w *Watcher) Prune(requests []v1alpha1.OperandRequest) {
	concerned := map[string]bool{}
	for i := range requests {
		concerned[requests[i].Namespace] = true
		for _, registry := range plan.Registries(&requests[i]) {
			concerned[registry.Namespace] = true
		}
		for _, e := range requests[i].Status.Inventory {
			concerned[e.Namespace] = true
			concerned[e.Mapping] = true
		}
	}
	for namespace, of := range w.caches {
		if concerned[namespace] {
			continue
		}
		of.end()
		delete(w.caches, namespace)
	}
	maps.DeleteFunc(w.failed, func(key watched, _ time.Time) bool { return !concerned[key.namespace] })
}
