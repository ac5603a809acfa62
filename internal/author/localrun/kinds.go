package localrun

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

// kind is one that the local API has.
type kind struct {
	schema.GroupVersionKind
	Plural     string
	Namespaced bool
	// schema is that of a kind of the collection, or nil: then objects are stored as they are.
	schema *crd.Schema
}

func (k kind) groupVersion() schema.GroupVersion { return k.GroupVersion() }

func (k kind) root() string {
	if k.Group == "" {
		return "/api/" + k.Version
	}
	return "/apis/" + k.Group + "/" + k.Version
}

func (k kind) path(namespace, name string) string {
	if !k.Namespaced {
		return k.root() + "/" + k.Plural + "/" + name
	}
	return k.root() + "/namespaces/" + namespace + "/" + k.Plural + "/" + name
}

// admit sets defaults, and returns why the API server would refuse the object. It also refuses unknown fields, as kubectl does.
func (k kind) admit(object *unstructured.Unstructured) field.ErrorList {
	if k.schema == nil {
		return nil
	}
	k.schema.Default(object.Object)
	problems := k.schema.Create(object.Object)
	if len(problems) == 0 {
		problems = k.schema.Rules(object.Object)
	}
	return problems
}

// usualKinds are those of Kubernetes that playbooks may write. Others are unknown to the local API.
func usualKinds() []kind {
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
	var kinds []kind
	for version, names := range namespaced {
		for _, name := range names {
			plural := irregular[name]
			if plural == "" {
				plural = strings.ToLower(name) + "s"
			}
			kinds = append(kinds, kind{GroupVersionKind: version.WithKind(name), Plural: plural, Namespaced: true})
		}
	}
	kinds = append(kinds, kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Namespace"), Plural: "namespaces"})
	slices.SortFunc(kinds, func(a, b kind) int { return strings.Compare(a.path("", ""), b.path("", "")) })
	return kinds
}

func findKind(kinds []kind, wanted schema.GroupVersionKind) (kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.GroupVersionKind == wanted })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// discovery returns the document at a path with which clients find the kinds of a cluster, or nil.
func (a *api) discovery(path string) any {
	groups := map[string][]string{}
	for _, k := range a.kinds {
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
	for _, k := range a.kinds {
		if k.root() != path {
			continue
		}
		version = k.groupVersion().String()
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
