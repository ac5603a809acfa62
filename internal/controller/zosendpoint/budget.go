package zosendpoint

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/budget"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// exceededInterval is the delay, give or take a tenth, before a ZosEndpoint that is not probed checks whether it may be.
const exceededInterval = time.Minute

// checkNumber returns an error if the ZosEndpoint must not be probed because there are too many. One that was probed before is
// probed again, whatever the limits are.
func (r *Reconciler) checkNumber(ctx context.Context, e *v2beta2.ZosEndpoint) error {
	if endpoint.IsProbed(e) || e.Spec.EndpointType == v2beta2.EndpointLocal {
		return nil
	}
	list := &v2beta2.ZosEndpointList{}
	if err := r.Client.List(ctx, list); err != nil {
		return fmt.Errorf("listing ZosEndpoints: %w", err)
	}
	all := append(slices.DeleteFunc(list.Items, func(other v2beta2.ZosEndpoint) bool {
		return other.UID == e.UID || other.Spec.EndpointType == v2beta2.EndpointLocal
	}), *e)
	slices.SortFunc(all, func(a, b v2beta2.ZosEndpoint) int {
		if mapping.Older(&a, &b) {
			return -1
		}
		return 1
	})
	claims, own := make([]budget.Claim, len(all)), 0
	for i := range all {
		one := budget.Items{string(all[i].UID): 1}
		claims[i] = budget.Claim{Namespace: all[i].Namespace, Wanted: one}
		if endpoint.IsProbed(&all[i]) {
			claims[i].Held = one
		}
		if all[i].UID == e.UID {
			own = i
		}
	}
	return status.BudgetExceeded(budget.Budget{Limits: r.Probed, Name: "probed ZosEndpoints", Flag: "--max-probed-endpoints"}.Check(claims, own))
}
