package customresourcedefinition

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

// usesOf identifies which archives SubOperatorConfigs in the cache have installed, if CRDs of the collection have several versions:
// one may end after its last use.
func (r *Reconciler) usesOf(ctx context.Context, id model.ID, cached []apiextensionsv1.CustomResourceDefinition) (string, error) {
	if !slices.ContainsFunc(cached, func(d apiextensionsv1.CustomResourceDefinition) bool { return len(d.Spec.Versions) > 1 }) {
		return "", nil
	}
	configs := &v2beta2.SubOperatorConfigList{}
	if err := r.Client.List(ctx, configs, client.MatchingLabels(render.IdentityLabels(id))); err != nil {
		return "", fmt.Errorf("listing SubOperatorConfigs in the cache: %w", err)
	}
	var uses []string
	for _, soc := range configs.Items {
		uses = append(uses, soc.Status.Digest)
		for _, installed := range soc.Status.Installations {
			uses = append(uses, installed.Digest)
		}
	}
	slices.Sort(uses)
	return " " + strings.Join(slices.Compact(uses), " "), nil
}
