package playbook

import (
	"slices"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/collection-operator/collection-operator/internal/author/playbook/jinja"
)

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

// objectsOf returns the objects that a task of kubernetes.core works on, if their kind is known without a run.
func objectsOf(module string, args *yaml.Node) (use objectUse, known bool) {
	verbsOf, known := objectModules[shortName(module)]
	if !known || slices.ContainsFunc(elsewhere, func(key string) bool { return hasArgument(args, key) }) {
		return objectUse{}, false
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
	if kind == "" || jinja.IsTemplate(kind) || jinja.IsTemplate(apiVersion) || len(verbs) == 0 {
		return objectUse{}, false
	}
	version, err := schema.ParseGroupVersion(apiVersion)
	return objectUse{kind: version.WithKind(kind), verbs: verbs}, err == nil
}
