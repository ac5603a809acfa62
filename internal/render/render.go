// Package render turns a collection into the Kubernetes objects that make it an operator: CRDs, RBAC, the runtime
// configuration and the Deployment of ansible-operator, or the ClusterServiceVersion of which the Operator Lifecycle
// Manager makes that.
//
// It is pure: what comes out depends on the arguments alone, and the same arguments give the same bytes. Maps and sets
// are emitted sorted, nothing is read from a cluster, the network, a clock or the environment.
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

// Labels that clients look for. A collection is identified by the pair of LabelDomain and LabelName.
const (
	LabelDomain    = "operator-domain"
	LabelName      = "operator-name"
	LabelVersion   = "operator-version"
	LabelManagedBy = "managed-by"

	// ManagedBy is the value of LabelManagedBy on everything this project makes.
	ManagedBy = "ibm-zos-cloud-broker"
)

// IdentityLabels are the labels that say which collection an object belongs to, in any version of it.
func IdentityLabels(id collection.ID) map[string]string {
	return map[string]string{LabelDomain: id.Domain, LabelName: id.Name, LabelManagedBy: ManagedBy}
}

// Labels are IdentityLabels and the collection's version.
func Labels(c *collection.Collection) map[string]string {
	labels := IdentityLabels(c.ID())
	labels[LabelVersion] = c.VersionLabel()
	return labels
}
