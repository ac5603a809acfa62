package operandregistry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
)

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
			of.Phase = cmp.Or(plan.MemberOf(request, operand.ID).Phase.OperatorPhase, of.Phase)
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
	if e := plan.Find(request.Status.Inventory, object.Entry(id)); e != nil && e.UID != "" {
		return v1alpha1.ConfigRunning
	}
	if plan.MemberOf(request, id).Phase.OperandPhase == v1alpha1.OperandFailed {
		return v1alpha1.ConfigFailed
	}
	return v1alpha1.ConfigCreating
}

// bindInfoStatus reports whether the requesters have their copies, by existence only.
func bindInfoStatus(info *v1alpha1.OperandBindInfo, requests []v1alpha1.OperandRequest, source *plan.Source) v1alpha1.OperandBindInfoStatus {
	registry, valid := plan.RegistryOf(info)
	if !valid {
		return v1alpha1.OperandBindInfoStatus{
			Phase: v1alpha1.BindInfoFailed, ObservedGeneration: info.Generation,
			Message: fmt.Sprintf("OperandRegistry %q and its Secrets and ConfigMaps are in another namespace: create the OperandBindInfo there", registry),
		}
	}
	result := v1alpha1.OperandBindInfoStatus{Phase: v1alpha1.BindInfoInitialized, ObservedGeneration: info.Generation}
	only := *source
	only.BindInfos = []*v1alpha1.OperandBindInfo{info}
	for i := range requests {
		request := &requests[i]
		for _, operand := range plansFor(request, registry, &only) {
			for _, object := range operand.Objects {
				if object.Origin != v1alpha1.OriginBinding {
					continue
				}
				if e := plan.Find(request.Status.Inventory, object.Entry(operand.ID)); e == nil || e.UID == "" {
					result.Phase = v1alpha1.BindInfoWaiting
					continue
				}
				if result.Phase == v1alpha1.BindInfoInitialized {
					result.Phase = v1alpha1.BindInfoCompleted
				}
				if request.Namespace != info.Namespace && !slices.Contains(result.RequestNamespaces, request.Namespace) {
					result.RequestNamespaces = append(result.RequestNamespaces, request.Namespace)
				}
			}
		}
	}
	return result
}

// plansFor returns what a request that is not being deleted wants of an OperandRegistry.
func plansFor(request *v1alpha1.OperandRequest, registry types.NamespacedName, source *plan.Source) []plan.Operand {
	if request.DeletionTimestamp != nil {
		return nil
	}
	return slices.DeleteFunc(plan.Of(request, source), func(o plan.Operand) bool { return o.ID.Registry != registry })
}
