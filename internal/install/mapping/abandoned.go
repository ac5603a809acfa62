package mapping

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// maxAbandoned is the maximum length of status.installations[].abandoned.
const maxAbandoned = 20

// maxNameBytes is the maximum length of a custom resource's name.
const maxNameBytes = 253

// Abandoned returns the latest custom resources of some kinds of an API group in a namespace that were removed without a run, at most
// maxAbandoned, the oldest first, by what the status of a SubOperatorConfig's ZosEndpoints says.
func (r *Resolver) Abandoned(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace, group string, kinds []string) ([]v2beta2.AbandonedInstance, error) {
	list := &v2beta2.ZosEndpointList{}
	if err := r.Client.List(ctx, list, client.InNamespace(soc.Namespace)); err != nil {
		return nil, fmt.Errorf("listing ZosEndpoints: %w", err)
	}
	return abandonedOn(list.Items, namespace, group, kinds), nil
}

// abandonedOn takes entries without a group, which earlier versions wrote, for those of any group.
func abandonedOn(endpoints []v2beta2.ZosEndpoint, namespace, group string, kinds []string) []v2beta2.AbandonedInstance {
	var found []v2beta2.AbandonedInstance
	for i := range endpoints {
		for _, resource := range endpoints[i].Status.Abandoned {
			if resource.Namespace == namespace && (resource.Group == group || resource.Group == "") && slices.Contains(kinds, resource.Kind) {
				found = append(found, v2beta2.AbandonedInstance{
					Kind: resource.Kind, Name: printable.Line(resource.Name, maxNameBytes),
					ZosEndpoint: endpoints[i].Name, RemovedAt: resource.RemovedAt,
				})
			}
		}
	}
	slices.SortFunc(found, func(a, b v2beta2.AbandonedInstance) int {
		return cmp.Or(a.RemovedAt.Compare(b.RemovedAt.Time), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ZosEndpoint, b.ZosEndpoint))
	})
	return found[max(0, len(found)-maxAbandoned):]
}
