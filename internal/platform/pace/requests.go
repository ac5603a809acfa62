package pace

import (
	"context"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Jitter is the interval, give or take a tenth, so that repeated work spreads over time.
func Jitter(interval time.Duration) time.Duration {
	return interval + time.Duration((rand.Float64()-0.5)*0.2*float64(interval))
}

// Later returns the later one of two times.
func Later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// RequestsOf are for the objects of a list in the cache. It does not wait for what was written a moment ago, which the cache reports soon.
func RequestsOf(ctx context.Context, reader client.Reader, list client.ObjectList, of ...client.ListOption) []reconcile.Request {
	var requests []reconcile.Request
	err := reader.List(ctx, list, append(of, client.DisableReadYourWritesConsistency)...)
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

// laterDelay is the time after which [LaterFor] asks, once however often objects changed meanwhile.
const laterDelay = time.Second

// LaterFor asks after laterDelay for what a function returns.
func LaterFor(of handler.MapFunc) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	ask := func(ctx context.Context, object client.Object, q queue) {
		for _, request := range of(ctx, object) {
			q.AddAfter(request, laterDelay)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { ask(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			ask(ctx, e.ObjectOld, q)
			ask(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { ask(ctx, e.Object, q) },
	}
}

// WithoutRelists drops the updates of objects that have not changed: after an interruption each watch lists all its objects again.
var WithoutRelists = predicate.ResourceVersionChangedPredicate{}
