package crdplan

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
)

// Missing names the CRDs of a collection that do not serve its version yet, or belong to one that it replaces.
func Missing(ctx context.Context, c client.Reader, col *model.Collection, group string) ([]string, error) {
	var missing []string
	for _, resource := range col.Resources {
		name := resource.Plural() + "." + group
		live := &apiextensionsv1.CustomResourceDefinition{}
		err := c.Get(ctx, client.ObjectKey{Name: name}, live)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading CRD %q: %w", name, err)
		}
		if err != nil || imports.LabelledID(live) != col.ID() || !crd.Serves(live, col.APIVersion()) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing, nil
}

// IsEstablished reports whether the API server serves a CRD.
func IsEstablished(definition *apiextensionsv1.CustomResourceDefinition) bool {
	return apihelpers.IsCRDConditionTrue(definition, apiextensionsv1.Established)
}
