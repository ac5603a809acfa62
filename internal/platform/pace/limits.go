package pace

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/internal/platform/budget"
)

// NamespaceLimit limits what is done at the same time: in all, and for one namespace, so that what takes long, such as a server
// that does not answer, delays only those who asked for it.
type NamespaceLimit struct {
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

// NewNamespaceLimit limits what works at the same time, in total and in each namespace.
func NewNamespaceLimit(total, each int64) *NamespaceLimit {
	return &NamespaceLimit{total: semaphore.NewWeighted(total), each: each}
}

// TryAcquire does not wait. Release is nil if a limit is reached.
func (l *NamespaceLimit) TryAcquire(namespace string) (release func()) {
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

func (l *NamespaceLimit) of(namespace string) *semaphore.Weighted {
	found, _ := l.own.LoadOrStore(namespace, semaphore.NewWeighted(l.each))
	return found.(*semaphore.Weighted)
}

// Enter waits for others to leave if the limit of all namespaces is reached. If that of the namespace is reached, it does not
// wait and returns false: its objects must not occupy the workers of a controller. The reconcile begins again when another one of the
// namespace leaves.
func (l *NamespaceLimit) Enter(ctx context.Context, request reconcile.Request) (bool, error) {
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

func (l *NamespaceLimit) enterOwn(own *semaphore.Weighted, request reconcile.Request) bool {
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

// Postpones returns the result of a reconcile that could not enter.
func (l *NamespaceLimit) Postpones() reconcile.Result {
	if l.resume != nil {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: Jitter(busyInterval)}
}

// EnterAgain waits until neither limit is reached. The context must not end.
func (l *NamespaceLimit) EnterAgain(ctx context.Context, namespace string) {
	_ = l.of(namespace).Acquire(ctx, 1)
	_ = l.total.Acquire(ctx, 1)
}

// Leave ends what Enter or EnterAgain began, and resumes the next postponed reconcile of the namespace.
func (l *NamespaceLimit) Leave(namespace string) {
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
	reconcileBurst      = 500
)

// pacedReconciler limits the rate of reconciles for each namespace, and their number at the same time.
type pacedReconciler struct {
	reconcile.Reconciler
	// Running is nil if the reconciler limits that itself.
	Running *NamespaceLimit
	// rates has a [flowcontrol.PassiveRateLimiter] for each namespace.
	rates sync.Map
	costs Costs
}

// Paced limits the rate of reconciles for each namespace.
func Paced(r reconcile.Reconciler) *pacedReconciler { return &pacedReconciler{Reconciler: r} }

// PacedWithin also limits the number of concurrent reconciles.
func PacedWithin(r reconcile.Reconciler, workers budget.Limits) *pacedReconciler {
	return &pacedReconciler{Reconciler: r, Running: NewNamespaceLimit(workers.Total, workers.PerNamespace)}
}

// Reconcile implements [reconcile.Reconciler]. An object that is only looked at again after some time comes after all that have
// changed.
func (p *pacedReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	again := reconcile.Result{RequeueAfter: Jitter(busyInterval)}
	if p.Running != nil {
		free, err := p.Running.Enter(ctx, req)
		if err != nil || !free {
			return p.Running.Postpones(), err
		}
		defer p.Running.Leave(req.Namespace)
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

// FairOptions are options with a fair queue. A limit of concurrent reconciles, which may be nil, adds to it what it has postponed.
func (p *pacedReconciler) FairOptions(concurrency int64, limit *NamespaceLimit) controller.Options {
	o := TypedFairOptions(int(concurrency), &p.costs, func(request reconcile.Request) string { return request.Namespace })
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

// maxRetryDelay bounds the growing delay between attempts.
const maxRetryDelay = time.Minute

// Options are those of all controllers: a limit of concurrent reconciles, and growing delays between attempts.
func Options(concurrency int) controller.Options {
	return TypedOptions[reconcile.Request](concurrency)
}

// TypedOptions are [Options] for requests of any type.
func TypedOptions[request comparable](concurrency int) controller.TypedOptions[request] {
	return controller.TypedOptions[request]{
		MaxConcurrentReconciles: concurrency,
		// A manager that is not the leader keeps its caches up to date, so that it can take over at once.
		EnableWarmup: ptr.To(true),
		RateLimiter:  workqueue.NewTypedItemExponentialFailureRateLimiter[request](500*time.Millisecond, maxRetryDelay),
	}
}

// TypedFairOptions are TypedOptions with a queue in which no namespace delays the others by much.
func TypedFairOptions[request comparable](concurrency int, costs *Costs, namespaceOf func(request) string) controller.TypedOptions[request] {
	o := TypedOptions[request](concurrency)
	o.NewQueue = New(costs, namespaceOf)
	return o
}
