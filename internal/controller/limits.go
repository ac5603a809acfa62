package controller

import (
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// namespaceLimit limits what waits for servers that users chose: in all, and for one namespace, so that servers which do
// not answer delay only those who named them.
type namespaceLimit struct {
	total *semaphore.Weighted
	each  int64
	// own has the *semaphore.Weighted of each namespace.
	own sync.Map
}

func newNamespaceLimit(total, each int64) *namespaceLimit {
	return &namespaceLimit{total: semaphore.NewWeighted(total), each: each}
}

// tryAcquire does not wait. Release is nil if a limit is reached.
func (l *namespaceLimit) tryAcquire(namespace string) (release func()) {
	found, _ := l.own.LoadOrStore(namespace, semaphore.NewWeighted(l.each))
	own := found.(*semaphore.Weighted)
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
