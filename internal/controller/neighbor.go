package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// labelPartOf and its value are on every CRD that this project installs for itself.
const (
	labelPartOf = "app.kubernetes.io/part-of"
	partOf      = "collection-operator"
)

// CheckNeighbors fails if the cluster has CRDs of our API group that this project did not install. They belong to
// another product with the same API, most likely IBM z/OS Cloud Broker, and two managers would fight over every object.
func CheckNeighbors(ctx context.Context, reader client.Reader) error {
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := reader.List(ctx, list); err != nil {
		return fmt.Errorf("listing CRDs: %w", err)
	}
	var foreign []string
	for _, crd := range list.Items {
		if crd.Spec.Group == v2beta2.GroupVersion.Group && crd.Labels[labelPartOf] != partOf {
			foreign = append(foreign, crd.Name)
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	slices.Sort(foreign)
	return fmt.Errorf("another product has installed CRDs of API group %s: %s: remove that product first; "+
		"CRDs of this one carry the label %s=%s", v2beta2.GroupVersion.Group, strings.Join(foreign, ", "), labelPartOf, partOf)
}
