package catalog

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/collection-operator/collection-operator/internal/install/grants"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
)

// isAggregated accepts the ClusterRole with the grants for all collections.
func isAggregated(object client.Object) bool { return object.GetName() == grants.ClusterRole }

// afterGrants asks for the catalog, after intervals.Grant, when one of the objects that a function accepts has changed. Nil accepts
// all objects. Those that the manager finds when it starts are not changes.
func afterGrants(accepts func(client.Object) bool) handler.TypedEventHandler[client.Object, catalogRequest] {
	type queue = workqueue.TypedRateLimitingInterface[catalogRequest]
	ask := func(object client.Object, queue queue) {
		if accepts == nil || accepts(object) {
			queue.AddAfter(catalogRequest{}, intervals.Grant)
		}
	}
	return handler.TypedFuncs[client.Object, catalogRequest]{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			if !e.IsInInitialList {
				ask(e.Object, q)
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { ask(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { ask(e.Object, q) },
	}
}
