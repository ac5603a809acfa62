package imports

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// SubOperatorConfigsOf lists the SubOperatorConfigs that name the collection, sorted by name. It takes a reader of live
// objects where they decide what is made or deleted: the cache may lack one that a user made a moment ago.
func SubOperatorConfigsOf(ctx context.Context, reader client.Reader, oc *v2beta2.OperatorCollection) ([]v2beta2.SubOperatorConfig, error) {
	list := &v2beta2.SubOperatorConfigList{}
	if err := reader.List(ctx, list, client.InNamespace(oc.Namespace)); err != nil {
		return nil, fmt.Errorf("listing SubOperatorConfigs: %w", err)
	}
	socs := slices.DeleteFunc(list.Items, func(soc v2beta2.SubOperatorConfig) bool {
		return soc.Spec.OperatorCollection != oc.Name
	})
	slices.SortFunc(socs, func(a, b v2beta2.SubOperatorConfig) int { return strings.Compare(a.Name, b.Name) })
	return socs, nil
}
