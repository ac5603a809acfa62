package kubeapi

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
)

// Kind is one that the server has.
type Kind struct {
	schema.GroupVersionKind
	Plural     string
	Namespaced bool
	// Schema is that of a kind of the collection, or nil: then objects are stored as they are.
	Schema *crd.Schema
}

func (k Kind) root() string {
	if k.Group == "" {
		return "/api/" + k.Version
	}
	return "/apis/" + k.Group + "/" + k.Version
}

// Path is that of an object, or without a name of all objects of the kind.
func (k Kind) Path(namespace, name string) string {
	if !k.Namespaced {
		return k.root() + "/" + k.Plural + "/" + name
	}
	return k.root() + "/namespaces/" + namespace + "/" + k.Plural + "/" + name
}

// Admit sets defaults, and returns why the API server would refuse the object. It also refuses unknown fields, as kubectl does.
func (k Kind) Admit(object *unstructured.Unstructured) field.ErrorList {
	if k.Schema == nil {
		return nil
	}
	k.Schema.Default(object.Object)
	problems := k.Schema.Create(object.Object)
	if len(problems) == 0 {
		problems = k.Schema.Rules(object.Object)
	}
	return problems
}

// UsualKinds are those of Kubernetes that playbooks may write. Others are unknown to the server.
func UsualKinds() []Kind {
	namespaced := map[schema.GroupVersion][]string{
		corev1.SchemeGroupVersion:         {"ConfigMap", "Secret", "Service", "Pod", "Event", "ServiceAccount", "PersistentVolumeClaim"},
		appsv1.SchemeGroupVersion:         {"Deployment", "StatefulSet"},
		batchv1.SchemeGroupVersion:        {"Job", "CronJob"},
		coordinationv1.SchemeGroupVersion: {"Lease"},
		networkingv1.SchemeGroupVersion:   {"Ingress", "NetworkPolicy"},
		rbacv1.SchemeGroupVersion:         {"Role", "RoleBinding"},
		v2beta2.GroupVersion:              {"ZosEndpoint", "OperatorCollection", "SubOperatorConfig"},
	}
	irregular := map[string]string{"Ingress": "ingresses", "NetworkPolicy": "networkpolicies"}
	var kinds []Kind
	for version, names := range namespaced {
		for _, name := range names {
			plural := irregular[name]
			if plural == "" {
				plural = strings.ToLower(name) + "s"
			}
			kinds = append(kinds, Kind{GroupVersionKind: version.WithKind(name), Plural: plural, Namespaced: true})
		}
	}
	kinds = append(kinds, Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Namespace"), Plural: "namespaces"})
	slices.SortFunc(kinds, func(a, b Kind) int { return strings.Compare(a.Path("", ""), b.Path("", "")) })
	return kinds
}

// FindKind returns one of several kinds.
func FindKind(kinds []Kind, wanted schema.GroupVersionKind) (Kind, bool) {
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.GroupVersionKind == wanted })
	if i < 0 {
		return Kind{}, false
	}
	return kinds[i], true
}

// discovery returns the document at a path with which clients find the kinds of a cluster, or nil.
func discovery(kinds []Kind, path string) any {
	groups := map[string][]string{}
	for _, k := range kinds {
		if k.Group != "" && !slices.Contains(groups[k.Group], k.Version) {
			groups[k.Group] = append(groups[k.Group], k.Version)
		}
	}
	switch path {
	case "/version":
		return map[string]any{"major": "1", "minor": "34", "gitVersion": "v1.34.0"}
	case "/api":
		return map[string]any{"kind": "APIVersions", "versions": []string{"v1"}}
	case "/apis":
		return map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": groupDocuments(groups)}
	}
	var resources []any
	version := ""
	for _, k := range kinds {
		if k.root() != path {
			continue
		}
		version = k.GroupVersion().String()
		verbs := []string{"get", "list", "create", "update", "patch", "delete"}
		entry := map[string]any{"name": k.Plural, "singularName": strings.ToLower(k.Kind), "namespaced": k.Namespaced, "kind": k.Kind, "verbs": verbs}
		status := map[string]any{"name": k.Plural + "/status", "singularName": "", "namespaced": k.Namespaced, "kind": k.Kind, "verbs": []string{"get", "patch", "update"}}
		resources = append(resources, entry, status)
	}
	if resources == nil {
		return nil
	}
	return map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}
}

func groupDocuments(groups map[string][]string) []any {
	documents := []any{}
	for group, versions := range groups {
		var entries []any
		for _, version := range versions {
			entries = append(entries, map[string]any{"groupVersion": group + "/" + version, "version": version})
		}
		documents = append(documents, map[string]any{"name": group, "versions": entries, "preferredVersion": entries[0]})
	}
	return documents
}
