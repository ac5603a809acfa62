// Package render renders the Kubernetes objects of a collection's operator: CRDs, RBAC, the runtime configuration and the
// Deployment of ansible-operator, or the ClusterServiceVersion from which the Operator Lifecycle Manager creates them.
//
// It is pure: the output only depends on the arguments, and the same arguments result in the same bytes. Maps and sets are
// sorted, and nothing is read from a cluster, the network, a clock or the environment.
package render

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/collection-operator/collection-operator/internal/collection"
)

// Object is a Kubernetes object with its TypeMeta set.
type Object interface {
	metav1.Object
	runtime.Object
}

// Labels that clients select by. LabelDomain and LabelName together identify a collection.
const (
	LabelDomain    = "operator-domain"
	LabelName      = "operator-name"
	LabelVersion   = "operator-version"
	LabelManagedBy = "managed-by"

	// ManagedBy is the value of LabelManagedBy on all objects that this project creates.
	ManagedBy = "ibm-zos-cloud-broker"
)

// IdentityLabels returns the labels that identify the collection of an object, independent of its version.
func IdentityLabels(id collection.ID) map[string]string {
	return map[string]string{LabelDomain: id.Domain, LabelName: id.Name, LabelManagedBy: ManagedBy}
}

// Labels returns IdentityLabels and the label with the collection's version.
func Labels(c *collection.Collection) map[string]string {
	labels := IdentityLabels(c.ID())
	labels[LabelVersion] = c.VersionLabel()
	return labels
}
