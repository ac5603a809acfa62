package render

import (
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/collection"
)

// ClusterServiceVersionOptions are what a ClusterServiceVersion depends on besides the collection.
type ClusterServiceVersionOptions struct {
	// Group is the API group of the collection's kinds.
	Group string
	// Digest identifies the collection's archive, "sha256:<hex>".
	Digest string
	// Image runs the collection.
	Image string
	// Architectures are the ones the image is built for, as Go names them.
	Architectures []string
	// ServedVersions has the newest served version of each kind in Group that belongs to another collection: what a
	// variable of type kindReference may name.
	ServedVersions map[string]string
}

// PackageName is the name of the collection's package in a catalog.
func PackageName(c *collection.Collection) string { return c.OperatorName() }

// ClusterServiceVersion renders what the Operator Lifecycle Manager needs to show the collection to users and to run its
// operator in one namespace. The installation's ConfigMap and Secrets are not part of it, and its pods do not start
// without them.
func ClusterServiceVersion(c *collection.Collection, _ ClusterServiceVersionOptions) (*operatorsv1alpha1.ClusterServiceVersion, error) {
	return &operatorsv1alpha1.ClusterServiceVersion{
		TypeMeta: metav1.TypeMeta{
			APIVersion: operatorsv1alpha1.SchemeGroupVersion.String(), Kind: operatorsv1alpha1.ClusterServiceVersionKind,
		},
		ObjectMeta: metav1.ObjectMeta{Name: c.CSVName(), Labels: Labels(c)},
	}, nil
}
