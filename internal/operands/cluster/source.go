package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
)

// LoadSource reads all objects that OperandRequests refer to through the cache.
func LoadSource(ctx context.Context, reader client.Reader) (*plan.Source, error) {
	registries, configs, collections, infos := &v1alpha1.OperandRegistryList{}, &v1alpha1.OperandConfigList{}, &v2beta2.OperatorCollectionList{}, &v1alpha1.OperandBindInfoList{}
	for _, list := range []client.ObjectList{registries, configs, collections, infos} {
		if err := reader.List(ctx, list); err != nil {
			return nil, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	source := &plan.Source{
		Registries:  map[types.NamespacedName]*v1alpha1.OperandRegistry{},
		Configs:     map[types.NamespacedName]*v1alpha1.OperandConfig{},
		Collections: map[types.NamespacedName]*v2beta2.OperatorCollection{},
	}
	for i := range registries.Items {
		source.Registries[client.ObjectKeyFromObject(&registries.Items[i])] = &registries.Items[i]
	}
	for i := range configs.Items {
		source.Configs[client.ObjectKeyFromObject(&configs.Items[i])] = &configs.Items[i]
	}
	for i := range collections.Items {
		source.Collections[client.ObjectKeyFromObject(&collections.Items[i])] = &collections.Items[i]
	}
	for i := range infos.Items {
		source.BindInfos = append(source.BindInfos, &infos.Items[i])
	}
	slices.SortFunc(source.BindInfos, func(a, b *v1alpha1.OperandBindInfo) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return source, nil
}

// RecordedExamples returns the entries of all OperandRequests that are about examples of packages.
func RecordedExamples(ctx context.Context, reader client.Reader) ([]v1alpha1.InventoryEntry, error) {
	list := &v1alpha1.OperandRequestList{}
	if err := reader.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing OperandRequests: %w", err)
	}
	var recorded []v1alpha1.InventoryEntry
	for i := range list.Items {
		for _, e := range list.Items[i].Status.Inventory {
			if e.Origin == v1alpha1.OriginConfig && e.Package != "" {
				recorded = append(recorded, e)
			}
		}
	}
	return recorded, nil
}
