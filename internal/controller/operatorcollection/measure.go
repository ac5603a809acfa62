package operatorcollection

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/metrics"
	"github.com/collection-operator/collection-operator/internal/platform/budget"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// Measure returns how much is used of the budgets of OperatorCollections, and of that of probed ZosEndpoints, from the cache.
func (b *Budgets) Measure(ctx context.Context, reader client.Reader, probed budget.Limits) ([]metrics.Budget, error) {
	ocs, endpoints := &v2beta2.OperatorCollectionList{}, &v2beta2.ZosEndpointList{}
	for _, list := range []client.ObjectList{ocs, endpoints} {
		if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	collections, kinds := newUse("collections", b.Collections), newUse("kinds", b.Kinds)
	bytes, probes := newUse("stored_bytes", b.StoredBytes), newUse("probed_endpoints", probed)
	for i := range ocs.Items {
		oc := &ocs.Items[i]
		if oc.Status.Artifact == nil {
			continue
		}
		needs := importedNeeds(oc)
		collections.add(oc.Namespace, budget.Items{string(oc.UID): 1})
		kinds.add(oc.Namespace, needs.kinds)
		bytes.add(oc.Namespace, needs.archives)
	}
	for i := range endpoints.Items {
		if e := &endpoints.Items[i]; e.Spec.EndpointType != v2beta2.EndpointLocal && endpoint.IsProbed(e) {
			probes.add(e.Namespace, budget.Items{string(e.UID): 1})
		}
	}
	return []metrics.Budget{collections.sum(), kinds.sum(), bytes.sum(), probes.sum()}, nil
}

// use is what is used of a budget. What several objects share counts once, as in [budget.Budget].
type use struct {
	name   string
	limits budget.Limits
	total  budget.Items
	each   map[string]budget.Items
}

func newUse(name string, limits budget.Limits) *use {
	return &use{name: name, limits: limits, total: budget.Items{}, each: map[string]budget.Items{}}
}

func (u *use) add(namespace string, items budget.Items) {
	if u.each[namespace] == nil {
		u.each[namespace] = budget.Items{}
	}
	for name, amount := range items {
		u.each[namespace][name], u.total[name] = amount, amount
	}
}

func (u *use) sum() metrics.Budget {
	sum := metrics.Budget{
		Name: u.name, Used: u.total.Sum(), Limit: u.limits.Total, NamespaceLimit: u.limits.PerNamespace, PerNamespace: map[string]int64{},
	}
	for namespace, items := range u.each {
		sum.PerNamespace[namespace] = items.Sum()
	}
	return sum
}
