package suboperatorconfig

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install/grants"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
)

// afterGrant reconciles the SubOperatorConfigs that a function returns, after intervals.Grant, when a grant or its binding changes.
// Those that the manager finds when it starts are not changes.
func (r *configMapper) afterGrant(of handler.MapFunc) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	ask := func(ctx context.Context, object client.Object, q queue) {
		for _, request := range of(ctx, object) {
			q.AddAfter(request, intervals.Grant)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if !e.IsInInitialList {
				ask(ctx, e.Object, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			ask(ctx, e.ObjectOld, q)
			ask(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { ask(ctx, e.Object, q) },
	}
}

// ofGrant maps a grant to the SubOperatorConfigs in the namespace that it is for, and one whose scope is not valid to all.
func (r *configMapper) ofGrant(ctx context.Context, object client.Object) []reconcile.Request {
	scope, err := grants.ParseScope(object.GetAnnotations())
	if err != nil {
		return r.requests(ctx)
	}
	return r.requests(ctx, client.InNamespace(scope.Namespace))
}

// ofBinding maps a binding of a grant to the SubOperatorConfigs that map its namespace, or to all if it has none.
func (r *configMapper) ofBinding(ctx context.Context, object client.Object) []reconcile.Request {
	if object.GetNamespace() == "" {
		return r.requests(ctx)
	}
	return r.requests(ctx, client.MatchingFields{imports.IndexNamespace: object.GetNamespace()})
}
