// Package operandregistry reports in an OperandRegistry, and in its OperandConfig and OperandBindInfos, what is requested of them.
package operandregistry

import (
	"cmp"
	"context"
	"slices"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/internal/operands/cluster"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// Reconciler reports in an OperandRegistry, and in its OperandConfig and OperandBindInfos, what is requested of them.
type Reconciler struct {
	// Client reads through the cache and writes.
	Client client.Client
}

// Reconcile implements [reconcile.Reconciler].
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	source, err := cluster.LoadSource(ctx, r.Client)
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
			if err := r.Client.Patch(ctx, info, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(plan.FieldOwner)); err != nil {
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
