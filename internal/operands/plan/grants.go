package plan

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
)

const (
	// grantName is the prefix of roles and bindings for the ServiceAccount of the component.
	grantName = "collection-operator-operands"
	// sharedGroup is the API group of the kinds of collections.
	sharedGroup = "suboperator.zoscb.ibm.com"
)

// clusterRoles has the ClusterRole for the kinds of an API group, in namespaces in which an administrator binds it.
var clusterRoles = map[string]string{
	v2beta2.GroupVersion.Group:      grantName + "-namespace",
	sharedGroup:                     grantName + "-namespace",
	SubscriptionKind.Group:          grantName + "-olm",
	"packages.operators.coreos.com": grantName + "-olm",
}

// Need is a kind that the ServiceAccount of the component must be allowed to use in a namespace.
type Need struct {
	Namespace string
	Kind      schema.GroupVersionKind
	// Verb is patch, which stands for all that is done with what is created; get; or list.
	Verb string
}

// Needs returns what the component needs for operands, without duplicates.
func Needs(operands []Operand) []Need {
	var needs []Need
	add := func(need Need) {
		if !slices.Contains(needs, need) {
			needs = append(needs, need)
		}
	}
	for i := range operands {
		for _, install := range operands[i].Installs {
			add(Need{install.Collection.Namespace, v2beta2.GroupVersion.WithKind("SubOperatorConfig"), "patch"})
		}
		for _, object := range operands[i].Objects {
			if object.Origin == v1alpha1.OriginBinding {
				add(Need{object.Source.Namespace, object.SourceKind, "get"})
			}
			add(Need{object.Key.Namespace, object.Kind, "patch"})
		}
		p := operands[i].Package
		if p == nil {
			continue
		}
		add(Need{p.Namespace, SubscriptionKind, "patch"})
		for _, namespace := range p.Watched(operands[i].ID.Registry.Namespace) {
			for _, kind := range p.Kinds {
				add(Need{namespace, kind.WithVersion(""), "list"})
			}
		}
	}
	return needs
}

// Consent is that of a namespace to what another one installs or creates in it.
type Consent struct{ Namespace, Annotation, To string }

// Consents returns which ones operands need, without duplicates.
func Consents(operands []Operand) []Consent {
	var consents []Consent
	add := func(namespace, annotation, to string) {
		if c := (Consent{namespace, annotation, to}); namespace != to && !slices.Contains(consents, c) {
			consents = append(consents, c)
		}
	}
	for i := range operands {
		o := &operands[i]
		for _, install := range o.Installs {
			add(install.Namespace, AnnotationConsent, install.Collection.Namespace)
		}
		if p := o.Package; p != nil {
			add(p.Namespace, AnnotationConsent, o.ID.Registry.Namespace)
			for _, target := range p.Targets {
				add(target, AnnotationConsent, o.ID.Registry.Namespace)
			}
		}
		for _, object := range o.Objects {
			if object.Origin == v1alpha1.OriginConfig {
				add(object.Key.Namespace, object.Consent, o.ID.Registry.Namespace)
			}
		}
	}
	return consents
}

// In reports whether a namespace with these annotations consents.
func (c Consent) In(annotations map[string]string) bool {
	return lists(annotations[c.Annotation], c.To)
}

// Grant returns the command with which an administrator of a namespace lets the ServiceAccount of the component use a kind there. Resource
// is that of the kind.
func Grant(account types.NamespacedName, kind schema.GroupKind, resource, namespace string) string {
	role := clusterRoles[kind.Group]
	if kind.Group == corev1.GroupName && (kind.Kind == "Secret" || kind.Kind == "ConfigMap" || kind.Kind == "Service") || kind == routeKind.GroupKind() {
		role = grantName + "-bindings"
	}
	binding := strings.TrimSuffix(role, "-namespace")
	if role != "" {
		return fmt.Sprintf("kubectl create rolebinding %s -n %s --clusterrole=%s --serviceaccount=%s:%s", binding, namespace, role, account.Namespace, account.Name)
	}
	of := schema.GroupResource{Group: kind.Group, Resource: resource}
	return grantRole(account, grantName+"-"+resource, "get,list,watch,create,patch,delete", of.String(), namespace)
}

// GrantList returns the command with which an administrator of a namespace lets the ServiceAccount of the component see which resources of
// an operator there are.
func GrantList(account types.NamespacedName, resources []schema.GroupResource, namespace string) string {
	if first := resources[0]; clusterRoles[first.Group] != "" {
		return Grant(account, schema.GroupKind{Group: first.Group}, first.Resource, namespace)
	}
	names := make([]string, len(resources))
	for i, resource := range resources {
		names[i] = resource.String()
	}
	return grantRole(account, grantName+"-list-"+resources[0].Resource, "list,watch", strings.Join(names, ","), namespace)
}

func grantRole(account types.NamespacedName, role, verbs, resources, namespace string) string {
	return fmt.Sprintf("kubectl create role %[1]s -n %[2]s --verb=%[3]s --resource=%[4]s && "+
		"kubectl create rolebinding %[1]s -n %[2]s --role=%[1]s --serviceaccount=%[5]s:%[6]s", role, namespace, verbs, resources, account.Namespace, account.Name)
}
