package operandrequest

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/operands/cluster"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
)

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	changed := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	by := &concerned{r.Client}
	c, err := ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.OperandRequest{}, changed).
		Watches(&v1alpha1.OperandRegistry{}, handler.EnqueueRequestsFromMapFunc(by.registry), changed).
		Watches(&v1alpha1.OperandConfig{}, handler.EnqueueRequestsFromMapFunc(by.registry), changed).
		Watches(&v1alpha1.OperandBindInfo{}, handler.EnqueueRequestsFromMapFunc(by.bindInfo), changed).
		Watches(&v2beta2.OperatorCollection{}, handler.EnqueueRequestsFromMapFunc(by.collection)).
		Watches(&v2beta2.SubOperatorConfig{}, handler.EnqueueRequestsFromMapFunc(by.subOperatorConfig)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 1,
			NewQueue:                pace.New(&r.costs, func(request reconcile.Request) string { return request.Namespace }),
			// The delays of one request do not concern others.
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](500*time.Millisecond, time.Minute),
		}).
		Build(r)
	if err != nil {
		return err
	}
	r.use(cluster.NewWatcher(mgr, c, by.object))
	return nil
}

// concerned finds the OperandRequests that a change concerns.
type concerned struct{ client client.Reader }

// requests returns the OperandRequests that a change concerns.
func (c *concerned) requests(ctx context.Context, by func(*v1alpha1.OperandRequest) bool) []reconcile.Request {
	list := &v1alpha1.OperandRequestList{}
	if !c.list(ctx, list) {
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if by(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// list logs an error, and returns false then.
func (c *concerned) list(ctx context.Context, list client.ObjectList, options ...client.ListOption) bool {
	err := c.client.List(ctx, list, options...)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot list what a change concerns")
	}
	return err == nil
}

// registry is for an OperandConfig, too: it has the name of its OperandRegistry.
func (c *concerned) registry(ctx context.Context, object client.Object) []reconcile.Request {
	return c.registryKey(ctx, client.ObjectKeyFromObject(object))
}

func (c *concerned) bindInfo(ctx context.Context, object client.Object) []reconcile.Request {
	key, _ := plan.RegistryOf(object.(*v1alpha1.OperandBindInfo))
	return c.registryKey(ctx, key)
}

func (c *concerned) registryKey(ctx context.Context, key types.NamespacedName) []reconcile.Request {
	return c.requests(ctx, func(request *v1alpha1.OperandRequest) bool { return slices.Contains(plan.Registries(request), key) })
}

func (c *concerned) collection(ctx context.Context, object client.Object) []reconcile.Request {
	return c.collectionKey(ctx, client.ObjectKeyFromObject(object))
}

func (c *concerned) subOperatorConfig(ctx context.Context, object client.Object) []reconcile.Request {
	soc := object.(*v2beta2.SubOperatorConfig)
	return c.collectionKey(ctx, types.NamespacedName{Namespace: soc.Namespace, Name: soc.Spec.OperatorCollection})
}

func (c *concerned) collectionKey(ctx context.Context, key types.NamespacedName) []reconcile.Request {
	list := &v1alpha1.OperandRegistryList{}
	if !c.list(ctx, list) {
		return nil
	}
	registries := map[types.NamespacedName]bool{}
	for i := range list.Items {
		if plan.Names(&list.Items[i], key) {
			registries[client.ObjectKeyFromObject(&list.Items[i])] = true
		}
	}
	return c.requests(ctx, func(request *v1alpha1.OperandRequest) bool {
		return slices.ContainsFunc(plan.Registries(request), func(registry types.NamespacedName) bool { return registries[registry] }) ||
			// Its OperandRegistry may be gone, or name another one.
			slices.ContainsFunc(request.Status.Inventory, func(e v1alpha1.InventoryEntry) bool {
				return e.Mapping != "" && e.Namespace == key.Namespace && e.Collection == key.Name
			})
	})
}

// object returns the requests of a resource: the one that our annotation names, or all that share its operand, or those whose
// operator has to stay for it.
func (c *concerned) object(ctx context.Context, object client.Object) []reconcile.Request {
	parts := strings.Split(object.GetAnnotations()[v1alpha1.AnnotationOperand], "/")
	if len(parts) == 5 {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: parts[3], Name: parts[4]}}}
	}
	infos := &v1alpha1.OperandBindInfoList{}
	if !c.list(ctx, infos, client.InNamespace(object.GetNamespace())) {
		return nil
	}
	var requests []reconcile.Request
	for i := range infos.Items {
		if plan.Gives(&infos.Items[i], object.GetName()) {
			requests = append(requests, c.bindInfo(ctx, &infos.Items[i])...)
		}
	}
	return append(requests, c.requests(ctx, func(request *v1alpha1.OperandRequest) bool {
		return slices.ContainsFunc(request.Status.Inventory, func(e v1alpha1.InventoryEntry) bool {
			return e.Namespace == object.GetNamespace() && e.Name == object.GetName() || serves(e, object.GetNamespace())
		})
	})...)
}

// serves reports whether an entry of an inventory installs an operator whose resources may be in a namespace.
func serves(e v1alpha1.InventoryEntry, namespace string) bool {
	registry, _, _ := strings.Cut(e.Registry, "/")
	return e.Mapping == namespace || isSubscription(e) && (e.Namespace == namespace || registry == namespace)
}
