package controller

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// RegistryReconciler reports in an OperandRegistry, and in its OperandConfig and OperandBindInfos, what is requested of them.
type RegistryReconciler struct {
	// Client reads through the cache and writes.
	Client client.Client
}

// SetupWithManager registers the controller.
func (r *RegistryReconciler) SetupWithManager(mgr ctrl.Manager) error {
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

// Reconcile implements [reconcile.Reconciler].
func (r *RegistryReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	source, err := loadSource(ctx, r.Client)
	if err != nil {
		return ctrl.Result{}, err
	}
	requests := &v1alpha1.OperandRequestList{}
	if err := r.Client.List(ctx, requests); err != nil {
		return ctrl.Result{}, err
	}
	slices.SortFunc(requests.Items, func(a, b v1alpha1.OperandRequest) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	if registry := source.Registries[req.NamespacedName]; registry != nil && registry.DeletionTimestamp == nil {
		before := registry.DeepCopy()
		registry.Status = registryStatus(registry, requests.Items, source)
		if err := status.Patch(ctx, r.Client, registry, before); err != nil {
			return status.Result(client.IgnoreNotFound(err))
		}
	}
	if config := source.Configs[req.NamespacedName]; config != nil && config.DeletionTimestamp == nil {
		before := config.DeepCopy()
		config.Status = configStatus(config, requests.Items, source)
		if err := status.Patch(ctx, r.Client, config, before); err != nil {
			return status.Result(client.IgnoreNotFound(err))
		}
	}
	for _, info := range source.BindInfos {
		if key, _ := plan.RegistryOf(info); key != req.NamespacedName {
			continue
		}
		before := info.DeepCopy()
		if controllerutil.RemoveFinalizer(info, v1alpha1.FinalizerBindInfo) {
			if err := r.Client.Patch(ctx, info, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldOwner)); err != nil {
				return status.Result(client.IgnoreNotFound(err))
			}
			continue
		}
		if info.DeletionTimestamp != nil {
			continue
		}
		info.Status = bindInfoStatus(info, requests.Items, source)
		if err := status.Patch(ctx, r.Client, info, before); err != nil {
			return status.Result(client.IgnoreNotFound(err))
		}
	}
	return ctrl.Result{}, nil
}

// registryStatus lists the requests that may request the operators, and do.
func registryStatus(registry *v1alpha1.OperandRegistry, requests []v1alpha1.OperandRequest, source *plan.Source) v1alpha1.OperandRegistryStatus {
	result := v1alpha1.OperandRegistryStatus{Phase: v1alpha1.RegistryReady, ObservedGeneration: registry.Generation}
	for i := range requests {
		request := &requests[i]
		for _, operand := range plansFor(request, client.ObjectKeyFromObject(registry), source) {
			if p := operand.Problem; p != nil && (p.Reason == v1alpha1.ReasonOutOfScope || p.Reason == v1alpha1.ReasonOperandNotFound) {
				continue
			}
			if result.OperatorsStatus == nil {
				result.Phase, result.OperatorsStatus = v1alpha1.RegistryRunning, map[string]v1alpha1.OperatorStatus{}
			}
			of := result.OperatorsStatus[operand.ID.Name]
			of.ReconcileRequests = append(of.ReconcileRequests, v1alpha1.RequestReference{Namespace: request.Namespace, Name: request.Name})
			of.Phase = cmp.Or(memberOf(request, operand.ID).Phase.OperatorPhase, of.Phase)
			result.OperatorsStatus[operand.ID.Name] = of
		}
	}
	return result
}

// configStatus reports what exists of that which is requested.
func configStatus(config *v1alpha1.OperandConfig, requests []v1alpha1.OperandRequest, source *plan.Source) v1alpha1.OperandConfigStatus {
	result := v1alpha1.OperandConfigStatus{ObservedGeneration: config.Generation}
	registry, isFailed := source.Registries[client.ObjectKeyFromObject(config)], false
	set := func(service, key, phase string) {
		if result.ServiceStatus == nil {
			result.ServiceStatus = map[string]v1alpha1.ServiceStatus{}
		}
		if result.ServiceStatus[service].CustomResourceStatus == nil {
			result.ServiceStatus[service] = v1alpha1.ServiceStatus{CustomResourceStatus: map[string]string{}}
		}
		result.ServiceStatus[service].CustomResourceStatus[key] = phase
	}
	for i := range requests {
		for _, operand := range plansFor(&requests[i], client.ObjectKeyFromObject(config), source) {
			if operand.Problem != nil {
				continue
			}
			isFailed = isFailed || operand.ConfigProblem != nil
			operator := registry.Find(operand.ID.Name)
			service := cmp.Or(operator.ConfigName, operator.Name)
			for _, object := range operand.Objects {
				if object.ConfigKey != "" {
					set(service, object.ConfigKey, objectPhase(&requests[i], operand.ID, &object))
				}
			}
			for _, e := range examplesOf(&requests[i], &operand) {
				set(service, strings.ToLower(e.Kind), v1alpha1.ConfigRunning)
			}
		}
	}
	result.Phase = worstPhase(result.ServiceStatus)
	if isFailed {
		result.Phase = v1alpha1.ConfigFailed
	}
	return result
}

// examplesOf returns the recorded resources of a package. This reconciler does not know its examples.
func examplesOf(request *v1alpha1.OperandRequest, operand *plan.Operand) []v1alpha1.InventoryEntry {
	if operand.Package == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(request.Status.Inventory), func(e v1alpha1.InventoryEntry) bool {
		return !operand.ID.Is(e) || e.Origin != v1alpha1.OriginConfig || e.UID == "" ||
			slices.ContainsFunc(operand.Objects, func(object plan.Object) bool { return object.Is(e) })
	})
}

// worstPhase returns the first phase that any object has, of Failed, Creating and Running, or Initialized.
func worstPhase(services map[string]v1alpha1.ServiceStatus) string {
	for _, phase := range []string{v1alpha1.ConfigFailed, v1alpha1.ConfigCreating, v1alpha1.ConfigRunning} {
		for _, service := range services {
			for _, of := range service.CustomResourceStatus {
				if of == phase {
					return phase
				}
			}
		}
	}
	return v1alpha1.ConfigInitialized
}

func objectPhase(request *v1alpha1.OperandRequest, id plan.ID, object *plan.Object) string {
	if e := find(request.Status.Inventory, object.Entry(id)); e != nil && e.UID != "" {
		return v1alpha1.ConfigRunning
	}
	if memberOf(request, id).Phase.OperandPhase == v1alpha1.OperandFailed {
		return v1alpha1.ConfigFailed
	}
	return v1alpha1.ConfigCreating
}

// plansFor returns what a request that is not being deleted wants of an OperandRegistry.
func plansFor(request *v1alpha1.OperandRequest, registry types.NamespacedName, source *plan.Source) []plan.Operand {
	if request.DeletionTimestamp != nil {
		return nil
	}
	return slices.DeleteFunc(plan.Of(request, source), func(o plan.Operand) bool { return o.ID.Registry != registry })
}

func memberOf(request *v1alpha1.OperandRequest, id plan.ID) v1alpha1.Member {
	for _, m := range request.Status.Members {
		if m.Name == id.Name && m.Registry == id.Registry.String() {
			return m
		}
	}
	return v1alpha1.Member{}
}
