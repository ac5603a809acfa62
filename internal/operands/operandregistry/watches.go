package operandregistry

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
)

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	changed := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.OperandRegistry{}, changed).
		Watches(&v1alpha1.OperandConfig{}, &handler.EnqueueRequestForObject{}, changed).
		Watches(&v1alpha1.OperandBindInfo{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
			key, _ := plan.RegistryOf(object.(*v1alpha1.OperandBindInfo))
			return []reconcile.Request{{NamespacedName: key}}
		}), changed).
		Watches(&v1alpha1.OperandRequest{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
			var requests []reconcile.Request
			for _, key := range plan.Registries(object.(*v1alpha1.OperandRequest)) {
				requests = append(requests, reconcile.Request{NamespacedName: key})
			}
			return requests
		}), builder.WithPredicates(requested)).
		Complete(r)
}

// requested ignores changes of OperandRequests on which nothing here depends, such as of conditions.
var requested = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*v1alpha1.OperandRequest), e.ObjectNew.(*v1alpha1.OperandRequest)
	return before.Generation != after.Generation ||
		!equality.Semantic.DeepEqual(before.Status.Members, after.Status.Members) || !equality.Semantic.DeepEqual(before.Status.Inventory, after.Status.Inventory)
}}
