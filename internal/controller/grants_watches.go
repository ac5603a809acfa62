package controller

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/internal/install/grants"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
)

// metadataOf returns an object for watches of the metadata of an RBAC kind.
func metadataOf(kind string) client.Object {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind))
	return object
}

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
	return r.requests(ctx, client.MatchingFields{indexNamespace: object.GetNamespace()})
}
