package main

import (
	"fmt"
	"slices"
	"strings"
)

const (
	statefulSet   = "StatefulSet/" + namespace + "/collection-operator-controller-manager"
	settingsMap   = "ConfigMap/" + namespace + "/collection-operator-settings"
	operands      = "Deployment/" + namespace + "/collection-operator-operands"
	networkPolicy = "NetworkPolicy/" + namespace + "/collection-operator-controller-manager"
)

// runtimeImage is the image of operators in templates.
const runtimeImage = `include "collection-operator.image" (dict "image" .Values.runtime.image "value" "runtime.image" "chart" .Chart)`

// Paths of the variables with the image and the architectures of operators.
const (
	runtimeImagePath         = "spec.template.spec.containers.manager.env.RUNTIME_IMAGE.value"
	runtimeArchitecturesPath = "spec.template.spec.containers.manager.env.RUNTIME_ARCHITECTURES.value"
)

// parameter is a place in an object that depends on values.
type parameter struct {
	object string
	// path are names of fields. An item of a list is named by its name, or * for all items that have the rest of the path.
	// It is empty for the object itself.
	path   string
	change func(any) any
}

// managerImage is the image of the manager in templates.
const managerImage = `include "collection-operator.image" (dict "image" .Values.image "value" "image" "chart" .Chart) | quote`

func parameters() []parameter {
	pod, container := "spec.template.spec", "spec.template.spec.containers.manager"
	claim := "spec.volumeClaimTemplates.*.spec"
	return []parameter{
		{statefulSet, "spec", single("replicas", inline(".Values.replicas"))},
		{statefulSet, container + ".image", set(inline(managerImage))},
		{statefulSet, container + ".imagePullPolicy", set(inline(".Values.image.pullPolicy"))},
		{operands, pod + ".containers.operands.image", set(inline(managerImage))},
		{operands, pod + ".containers.operands.imagePullPolicy", set(inline(".Values.image.pullPolicy"))},
		{operands, pod, add(placement()...)},
		{statefulSet, container + ".resources", set(block(".Values.resources"))},
		{statefulSet, container + ".env", add(entry{value: fields(".Values.env")})},
		{statefulSet, "spec.template.metadata.annotations", add(entry{value: fields(".Values.podAnnotations")})},
		{statefulSet, pod, add(placement()...)},
		{statefulSet, pod + ".securityContext", add(entry{value: optional("fsGroup", ".Values.persistence.fsGroup")})},
		{statefulSet, pod + ".volumes.archives.emptyDir.sizeLimit", set(inline(".Values.persistence.size"))},
		{statefulSet, claim + ".resources.requests.storage", set(inline(".Values.persistence.size"))},
		{statefulSet, claim, add(entry{value: optional("storageClassName", ".Values.persistence.storageClassName")})},
		{statefulSet, runtimeImagePath, set(inline(runtimeImage + " | quote"))},
		{statefulSet, runtimeArchitecturesPath, set(inline(`join "," .Values.runtime.architectures | quote`))},
		{networkPolicy, "spec.ingress.*.from.*.namespaceSelector.matchExpressions.*.values", set(block(".Values.olm.namespaces"))},
		{"NetworkPolicy/" + namespace + "/collection-operator-monitoring", "spec.ingress.*.from.*.namespaceSelector.matchExpressions.*.values", set(block(".Values.monitoring.namespaces"))},
		{"ServiceMonitor/" + namespace + "/collection-operator", "metadata.labels", add(entry{value: fields(".Values.monitoring.labels")})},
		{"PrometheusRule/" + namespace + "/collection-operator", "metadata.labels", add(entry{value: fields(".Values.monitoring.labels")})},
		{"ValidatingAdmissionPolicy//collection-operator-allowed-images", "spec.variables.prefixes.expression",
			set(inline(`printf "['%s']" (join "', '" .Values.allowedImages) | quote`))},
		{"RoleBinding/" + namespace + "/collection-operator-manager", "metadata.namespace", set(inline(". | quote"))},
		// The field stays when there are no settings: if it ended, Helm would remove the keys that others have added.
		{settingsMap, "", single("data", includedOrEmpty("collection-operator.settings"))},
	}
}

// placement are the fields of a pod that say where it runs.
func placement() []entry {
	return []entry{
		{value: optional("imagePullSecrets", ".Values.imagePullSecrets")},
		{value: optional("nodeSelector", ".Values.nodeSelector")},
		{value: optional("priorityClassName", ".Values.priorityClassName")},
		{value: optional("tolerations", ".Values.tolerations")},
	}
}

// parametrize changes the objects so that they depend on the chart's values.
func parametrize(objects mapping) error {
	for _, p := range parameters() {
		path := []string{p.object}
		if p.path != "" {
			path = append(path, strings.Split(p.path, ".")...)
		}
		if _, found := edit(objects, path, p.change); !found {
			return fmt.Errorf("%s has no %s any more: change the parameters in hack/chart/parameters.go", p.object, p.path)
		}
	}
	for i, o := range objects {
		kind, _, _ := strings.Cut(o.key, "/")
		switch {
		case kind == "CustomResourceDefinition":
			objects[i].when = ".Values.crds.install"
			if o.when != "" {
				objects[i].when = "and .Values.crds.install " + o.when
			}
			keep := entry{key: "helm.sh/resource-policy", value: "keep"}
			if _, found := edit(o.value, []string{"metadata", "annotations"}, add(keep)); !found {
				return fmt.Errorf("%s has no annotations", o.key)
			}
		case kind == "RoleBinding" && o.when == ".Values.namespaces":
			objects[i].each = "prepend .Values.namespaces .Release.Namespace | uniq"
		}
	}
	return nil
}

// edit changes the values at a path, and reports whether there are any.
func edit(value any, path []string, change func(any) any) (any, bool) {
	if len(path) == 0 {
		return change(value), true
	}
	var entries []entry
	switch value := value.(type) {
	case mapping:
		entries = value
	case sequence:
		entries = value
	}
	found := false
	for i := range entries {
		if entries[i].key != path[0] && (entries[i].key != "" || path[0] != "*" && path[0] != nameOf(entries[i].value)) {
			continue
		}
		if changed, ok := edit(entries[i].value, path[1:], change); ok {
			entries[i].value, found = changed, true
		}
	}
	return value, found
}

func nameOf(item any) any {
	fields, _ := item.(mapping)
	for _, f := range fields {
		if f.key == "name" {
			return f.value
		}
	}
	return nil
}

func set(t template) func(any) any { return func(any) any { return t } }

// single replaces a field, also where components change it.
func single(key string, t template) func(any) any {
	return func(value any) any {
		fields, _ := value.(mapping)
		first := slices.IndexFunc(fields, func(f entry) bool { return f.key == key })
		rest := slices.DeleteFunc(slices.Clone(fields), func(f entry) bool { return f.key == key })
		return slices.Insert(rest, max(first, 0), entry{key: key, value: t})
	}
}

func add(entries ...entry) func(any) any {
	return func(value any) any {
		switch value := value.(type) {
		case mapping:
			return append(value, entries...)
		case sequence:
			return append(value, entries...)
		}
		return value
	}
}

// inline is a scalar.
func inline(expression string) template {
	return func(int) string { return " {{ " + expression + " }}\n" }
}

// block is a mapping or list.
func block(expression string) template {
	return func(indent int) string {
		return fmt.Sprintf("\n%s{{- toYaml %s | nindent %d }}\n", strings.Repeat(" ", indent), expression, indent)
	}
}

// fields are further fields of a mapping, or items of a list.
func fields(expression string) template {
	return func(indent int) string {
		space := strings.Repeat(" ", indent)
		return fmt.Sprintf("%[1]s{{- with %[2]s }}\n%[1]s{{- toYaml . | nindent %[3]d }}\n%[1]s{{- end }}\n", space, expression, indent)
	}
}

// optional is a field that exists unless its value is empty.
func optional(key, expression string) template {
	return func(indent int) string {
		space := strings.Repeat(" ", indent)
		return fmt.Sprintf("%[1]s{{- with %[2]s }}\n%[1]s%[3]s:\n%[1]s  {{- toYaml . | nindent %[4]d }}\n%[1]s{{- end }}\n", space, expression, key, indent+2)
	}
}

// includedOrEmpty are the fields of a mapping that a named template writes, or none.
func includedOrEmpty(name string) template {
	return func(indent int) string {
		return fmt.Sprintf(" {{- with include %q . }}{{ . | nindent %d }}{{ else }} {}{{ end }}\n", name, indent)
	}
}
