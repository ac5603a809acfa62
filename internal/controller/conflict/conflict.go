// Package conflict finds other operators for the same kinds, such as an earlier manager or IBM's, beside which this one must not start.
package conflict

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// labelPartOf and its value are on every CRD that this project installs for itself.
const (
	labelPartOf = "app.kubernetes.io/part-of"
	partOf      = "collection-operator"
)

// managerName is the name of the manager's workload: a StatefulSet, or a Deployment that OLM has installed.
const managerName = "collection-operator-controller-manager"

// CheckPredecessor fails while a manager of an earlier version is installed, which was a Deployment: it has the volume with the
// archives.
func CheckPredecessor(ctx context.Context, reader client.Reader, namespace string) error {
	earlier := &appsv1.Deployment{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: managerName}, earlier)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Deployment %q in namespace %q: %w", managerName, namespace, err)
	}
	if earlier.Spec.Template.Labels[v2beta2.ManagerLabel] == v2beta2.ManagerLabelValue {
		return nil
	}
	return fmt.Errorf("the Deployment %q in namespace %q is a manager of an earlier version: run hack/migrate.sh, which removes it and "+
		"gives its volume with the archives to this one", managerName, namespace)
}

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
