package playbook

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// objectUse is a task that reads or writes objects of one kind in Kubernetes.
type objectUse struct {
	place findings.Problem
	kind  schema.GroupVersionKind
	verbs []string
}

// maxObjectUses bounds the tasks of one file that are kept.
const maxObjectUses = 200

// objectModules are the modules of kubernetes.core that work on one kind, and what they need for it.
var objectModules = map[string]func(args *yaml.Node) []string{
	"k8s":            verbsOfK8s,
	"k8s_info":       verbsOfInfo,
	"k8s_json_patch": func(*yaml.Node) []string { return []string{"get", "patch"} },
	"k8s_scale":      func(*yaml.Node) []string { return []string{"get", "patch"} },
}

func verbsOfK8s(args *yaml.Node) []string {
	switch argument(args, "state") {
	case "absent":
		return []string{"delete", "get"}
	case "patched":
		return []string{"get", "patch"}
	case "", "present":
		return []string{"create", "get", "patch"}
	}
	return nil // known only in a run
}

func verbsOfInfo(args *yaml.Node) []string {
	if argument(args, "name") != "" {
		return []string{"get"}
	}
	return []string{"list"}
}

// elsewhere are the arguments with which a task works on another cluster, or as somebody else.
var elsewhere = []string{"kubeconfig", "host", "api_key", "context", "username", "src", "template"}

// objectsOf notes the objects that a task of kubernetes.core works on, if their kind is known without a run.
func (r *scriptReader) objectsOf(module string, args *yaml.Node) {
	verbsOf, known := objectModules[shortName(module)]
	if !known || len(r.objects) >= maxObjectUses || slices.ContainsFunc(elsewhere, func(key string) bool { return hasArgument(args, key) }) {
		return
	}
	kind, apiVersion := argument(args, "kind"), argument(args, "api_version")
	for _, key := range []string{"definition", "resource_definition"} {
		if definition := valueOf(args, key); definition != nil && kind == "" {
			kind, apiVersion = argument(definition, "kind"), argument(definition, "apiVersion")
		}
	}
	if apiVersion == "" {
		apiVersion = "v1"
	}
	verbs := verbsOf(args)
	if kind == "" || isTemplate(kind) || isTemplate(apiVersion) || len(verbs) == 0 {
		return
	}
	version, err := schema.ParseGroupVersion(apiVersion)
	if err == nil {
		r.objects = append(r.objects, objectUse{place: r.at(args, module), kind: version.WithKind(kind), verbs: verbs})
	}
}

// valueOf returns the value of an argument, or nil.
func valueOf(args *yaml.Node, key string) *yaml.Node {
	for _, e := range entriesOf(args) {
		if e.key == key {
			return e.value
		}
	}
	return nil
}

func hasArgument(args *yaml.Node, key string) bool { return valueOf(args, key) != nil }

// checkObjects warns of objects that the operator may not work on: it has permissions for the collection's own kinds, and for
// what roles and clusterRoles ask for.
func (r *runRules) checkObjects(s *script) {
	for _, use := range s.objects {
		r.permissionsLeft -= len(use.verbs) * (1 + len(r.collection.Roles) + len(r.collection.ClusterRoles))
		if r.permissionsLeft < 0 {
			return
		}
		resource, _ := meta.UnsafeGuessKindToResource(use.kind)
		missing := slices.DeleteFunc(slices.Clone(use.verbs), func(verb string) bool { return r.allowed(use.kind, resource.Resource, verb) })
		if len(missing) == 0 {
			continue
		}
		r.once(use.place, ruleMissingPermission, "the operator may not %s %s: add to roles (or, for other namespaces and for kinds without one, to clusterRoles) - rules: [{apiGroups: [%q], resources: [%s], verbs: [%s]}]",
			strings.Join(missing, " and "), resource.Resource, use.kind.Group, resource.Resource, strings.Join(missing, ", "))
	}
}

// allowed reports whether the operator may do something with a resource. Unsure is allowed.
func (r *runRules) allowed(kind schema.GroupVersionKind, resource, verb string) bool {
	if _, own := r.collection.Resource(kind.Kind); own && strings.HasSuffix(kind.Group, model.Group) {
		return true
	}
	core := kind.Group == ""
	switch {
	case core && resource == "pods" && verb == "get", core && resource == "secrets" && verb == "get" && r.collection.UsesPasswords():
		return true
	case (core || kind.Group == "events.k8s.io") && resource == "events" && (verb == "create" || verb == "patch"):
		return true
	}
	grants := func(rule rbacv1.PolicyRule) bool {
		return has(rule.APIGroups, kind.Group) && has(rule.Resources, resource) && has(rule.Verbs, verb)
	}
	return slices.ContainsFunc(r.collection.Roles, grants) || slices.ContainsFunc(r.collection.ClusterRoles, grants)
}

func has(granted []string, value string) bool {
	return slices.Contains(granted, value) || slices.Contains(granted, "*")
}

// wholeResource is the variable in which ansible-operator passes a whole resource, which the manager makes empty: unlike the spec, its
// texts would be evaluated as templates.
func isWholeResource(name string) bool {
	group := strings.ReplaceAll(model.Group, ".", "_")
	return strings.HasPrefix(name, "_") && strings.Contains(name, group+"_") && !strings.HasSuffix(name, "_spec")
}

func (r *runRules) checkWholeResources(s *script) {
	for _, use := range s.wholeResources {
		r.once(use.place, ruleWholeResource, "%s is empty: the texts of a whole resource would be evaluated as templates; use its variables by their own names, ansible_operator_meta, or %s",
			use.name, fmt.Sprintf("%s_spec", use.name))
	}
}

// checkOwnNames reports the use of the collection's own content by a name that Ansible cannot find.
func (r *runRules) checkOwnNames(s *script) {
	for _, use := range s.ownNames {
		r.once(use.place, ruleOwnName, "Ansible finds nothing by the name %s, because the collection's namespace or name has a hyphen; rename it in galaxy.yml, or use the role, playbook or module without the collection's name, from a folder beside the playbook or in a role",
			findings.Quote(use.name))
	}
}
