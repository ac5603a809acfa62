package controller

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/budget"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
)

// namespaceLimit limits what is done at the same time: in all, and for one namespace, so that what takes long, such as a server
// that does not answer, delays only those who asked for it.
type namespaceLimit struct {
	total *semaphore.Weighted
	each  int64
	// own has the *semaphore.Weighted of each namespace.
	own sync.Map

	// resume adds a reconcile that was postponed to the queue of its controller. Without it, such a reconcile is repeated after
	// busyInterval.
	resume func(reconcile.Request)
	mu     sync.Mutex
	// postponed are the reconciles of each namespace that wait for others of it to end, the first one first.
	postponed map[string][]reconcile.Request
}

func newNamespaceLimit(total, each int64) *namespaceLimit {
	return &namespaceLimit{total: semaphore.NewWeighted(total), each: each}
}

// tryAcquire does not wait. Release is nil if a limit is reached.
func (l *namespaceLimit) tryAcquire(namespace string) (release func()) {
	own := l.of(namespace)
	if !own.TryAcquire(1) {
		return nil
	}
	if !l.total.TryAcquire(1) {
		own.Release(1)
		return nil
	}
	return func() {
		l.total.Release(1)
		own.Release(1)
	}
}

func (l *namespaceLimit) of(namespace string) *semaphore.Weighted {
	found, _ := l.own.LoadOrStore(namespace, semaphore.NewWeighted(l.each))
	return found.(*semaphore.Weighted)
}

// enter waits for others to leave if the limit of all namespaces is reached. If that of the namespace is reached, it does not
// wait and returns false: its objects must not occupy the workers of a controller. The reconcile begins again when another one of the
// namespace leaves.
func (l *namespaceLimit) enter(ctx context.Context, request reconcile.Request) (bool, error) {
	own := l.of(request.Namespace)
	if !l.enterOwn(own, request) {
		return false, nil
	}
	if err := l.total.Acquire(ctx, 1); err != nil {
		own.Release(1)
		return false, err
	}
	return true, nil
}

func (l *namespaceLimit) enterOwn(own *semaphore.Weighted, request reconcile.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := l.postponed[request.Namespace]
	i := slices.Index(waiting, request)
	entered := own.TryAcquire(1)
	switch {
	case entered && i >= 0:
		l.postponed[request.Namespace] = slices.Delete(waiting, i, i+1)
	case !entered && i < 0 && l.resume != nil:
		if l.postponed == nil {
			l.postponed = map[string][]reconcile.Request{}
		}
		l.postponed[request.Namespace] = append(waiting, request)
	}
	return entered
}

// postpones returns the result of a reconcile that could not enter.
func (l *namespaceLimit) postpones() reconcile.Result {
	if l.resume != nil {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: jitter(busyInterval)}
}

// enterAgain waits until neither limit is reached. The context must not end.
func (l *namespaceLimit) enterAgain(ctx context.Context, namespace string) {
	_ = l.of(namespace).Acquire(ctx, 1)
	_ = l.total.Acquire(ctx, 1)
}

func (l *namespaceLimit) leave(namespace string) {
	l.total.Release(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(namespace).Release(1)
	waiting := l.postponed[namespace]
	if len(waiting) == 0 {
		delete(l.postponed, namespace)
		return
	}
	l.postponed[namespace] = waiting[1:]
	l.resume(waiting[0])
}

// busyInterval is the delay, give or take a tenth, before an object is reconciled whose namespace is too busy.
const busyInterval = time.Second

// Limits of the reconciles of one namespace by one controller: after reconcileBurst, reconcilesPerSecond. They are far above what
// installations need, and keep an object that somebody changes in a loop from occupying the manager.
const (
	reconcilesPerSecond = 10
	reconcileBurst      = 400
)

// pacedReconciler limits the rate of reconciles for each namespace, and their number at the same time.
type pacedReconciler struct {
	reconcile.Reconciler
	// running is nil if the reconciler limits that itself.
	running *namespaceLimit
	// rates has a [flowcontrol.PassiveRateLimiter] for each namespace.
	rates sync.Map
	costs pace.Costs
}

// paced limits the rate of reconciles for each namespace.
func paced(r reconcile.Reconciler) *pacedReconciler { return &pacedReconciler{Reconciler: r} }

// pacedWithin also limits the number of concurrent reconciles.
func pacedWithin(r reconcile.Reconciler, workers budget.Limits) *pacedReconciler {
	return &pacedReconciler{Reconciler: r, running: newNamespaceLimit(workers.Total, workers.PerNamespace)}
}

// Reconcile implements [reconcile.Reconciler]. An object that is only looked at again after some time comes after all that have
// changed.
func (p *pacedReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	again := reconcile.Result{RequeueAfter: jitter(busyInterval)}
	if p.running != nil {
		free, err := p.running.enter(ctx, req)
		if err != nil || !free {
			return p.running.postpones(), err
		}
		defer p.running.leave(req.Namespace)
	}
	found, ok := p.rates.Load(req.Namespace)
	if !ok {
		found, _ = p.rates.LoadOrStore(req.Namespace, flowcontrol.NewTokenBucketPassiveRateLimiter(reconcilesPerSecond, reconcileBurst))
	}
	if !found.(flowcontrol.PassiveRateLimiter).TryAccept() {
		return again, nil
	}
	begin := time.Now()
	result, err := p.Reconciler.Reconcile(ctx, req)
	p.costs.Add(req.Namespace, time.Since(begin))
	if err == nil && result.RequeueAfter > 0 {
		result.Priority = ptr.To(handler.LowPriority) // What is looked at again does not delay what has changed.
	}
	return result, err
}

// fairOptions are options with a fair queue. A limit of concurrent reconciles, which may be nil, adds to it what it has postponed.
func (p *pacedReconciler) fairOptions(concurrency int64, limit *namespaceLimit) controller.Options {
	o := typedFairOptions(int(concurrency), &p.costs, func(request reconcile.Request) string { return request.Namespace })
	newQueue := o.NewQueue
	o.NewQueue = func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		queue := newQueue(name, limiter)
		if limit != nil {
			limit.resume = queue.Add
		}
		return queue
	}
	return o
}

// options are those of all controllers: a limit of concurrent reconciles, and growing delays between attempts.
func options(concurrency int) controller.Options {
	return typedOptions[reconcile.Request](concurrency)
}

func typedOptions[request comparable](concurrency int) controller.TypedOptions[request] {
	return controller.TypedOptions[request]{
		MaxConcurrentReconciles: concurrency,
		// A manager that is not the leader keeps its caches up to date, so that it can take over at once.
		EnableWarmup: ptr.To(true),
		RateLimiter:  workqueue.NewTypedItemExponentialFailureRateLimiter[request](500*time.Millisecond, maxRetryDelay),
	}
}

func typedFairOptions[request comparable](concurrency int, costs *pace.Costs, namespaceOf func(request) string) controller.TypedOptions[request] {
	o := typedOptions[request](concurrency)
	o.NewQueue = pace.New(costs, namespaceOf)
	return o
}

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
