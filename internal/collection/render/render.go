// Package render renders the Kubernetes objects of a collection's operator: CRDs, RBAC, the runtime configuration and the
// Deployment of ansible-operator, or the ClusterServiceVersion from which the Operator Lifecycle Manager creates them.
//
// It is pure: the output only depends on the arguments, and the same arguments result in the same bytes. Maps and sets are
// sorted, and nothing is read from a cluster, the network, a clock or the environment.
package render

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
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

// AnnotationOwner names, as namespace/name, the SubOperatorConfig that an object was created for. Owner references cannot
// cross namespaces.
const AnnotationOwner = "zoscb.ibm.com/suboperatorconfig"

// IdentityLabels returns the labels that identify the collection of an object, independent of its version.
func IdentityLabels(id model.ID) map[string]string {
	return map[string]string{LabelDomain: id.Domain, LabelName: id.Name, LabelManagedBy: ManagedBy}
}

// IDOf returns the collection that labels identify. It is zero for an object that this project did not create.
func IDOf(labels map[string]string) model.ID {
	if labels[LabelManagedBy] != ManagedBy {
		return model.ID{}
	}
	return model.ID{Domain: labels[LabelDomain], Name: labels[LabelName]}
}

// Labels returns IdentityLabels and the label with the collection's version.
func Labels(c *model.Collection) map[string]string {
	labels := IdentityLabels(c.ID())
	labels[LabelVersion] = c.VersionLabel()
	return labels
}

// JSON encodes a value without escaping <, > and &, which is only needed in HTML. Without an indent it is one line.
func JSON(v any, indent string) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(v)
	return bytes.TrimSpace(out.Bytes()), err
}

// ConfigMapSuffix is the end of the name of each runtime ConfigMap.
const ConfigMapSuffix = "-runtime"

// ConfigMapName returns the name of the runtime ConfigMap.
func ConfigMapName(c *model.Collection) string { return c.OperatorName() + ConfigMapSuffix }

// EndpointsSecretName returns the name of the Secret that EndpointsSecret renders.
func EndpointsSecretName(c *model.Collection) string { return EndpointsSecretNameOf(c.ID()) }

// EndpointsSecretNameOf is EndpointsSecretName of a collection in any version.
func EndpointsSecretNameOf(id model.ID) string {
	return id.OperatorName() + endpoint.SuffixEndpoints
}

const clusterRolePrefix = "zoscb:"

// ClusterRoleName returns the name of the ClusterRole and ClusterRoleBinding of the installation in a namespace. It is
// unique, since neither namespaces nor operator names contain a colon.
func ClusterRoleName(c *model.Collection, namespace string) string {
	return clusterRolePrefix + namespace + ":" + c.OperatorName()
}

// ClusterRoleNamespace returns the namespace of the installation with this ClusterRoleName, or "".
func ClusterRoleNamespace(name string) string {
	rest, ok := strings.CutPrefix(name, clusterRolePrefix)
	if !ok {
		return ""
	}
	namespace, _, _ := strings.Cut(rest, ":")
	return namespace
}

func objectMeta(c *model.Collection, namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: Labels(c)}
}

func sortedPlurals(c *model.Collection, suffix string) []string {
	plurals := make([]string, 0, len(c.Resources))
	for _, r := range c.Resources {
		plurals = append(plurals, r.Plural()+suffix)
	}
	slices.Sort(plurals)
	return plurals
}
