package controller

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// options are those of all controllers: a limit of concurrent reconciles, and growing delays between attempts.
func options(concurrency int) controller.Options {
	return typedOptions[reconcile.Request](concurrency)
}

func typedOptions[request comparable](concurrency int) controller.TypedOptions[request] {
	return controller.TypedOptions[request]{
		MaxConcurrentReconciles: concurrency,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[request](500*time.Millisecond, maxRetryDelay),
	}
}
