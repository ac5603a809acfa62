package main

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// component is a folder of config/components, the condition under which the chart includes it, and the value that a user sets.
type component struct{ folder, when, value string }

var components = []component{
	{"administrators-only", ".Values.administratorsOnly", "administratorsOnly: true"},
	{"allowed-images", ".Values.allowedImages", "allowedImages: [registry.example.com/zos/]"},
	{"ephemeral-storage", "not .Values.persistence.enabled", "persistence.enabled: false"},
	{"monitoring", ".Values.monitoring.enabled", "monitoring.enabled: true"},
	{"olm", ".Values.olm.enabled", "olm.enabled: true"},
	{"operands", ".Values.operands.enabled", "operands.enabled: true"},
	{"require-verification", ".Values.requireVerification", "requireVerification: true"},
	{"selected-namespaces", ".Values.namespaces", "namespaces: [zos]"},
	{"single-manager", "eq (int .Values.replicas) 1", "replicas: 1"},
}

// source is what the chart is made from.
type source struct {
	// base are the objects without components, and variants those with one component each.
	base     map[string]any
	variants []variant
}

// readSource builds the manifests without components, and with each of them.
func readSource(m manifests) (source, error) {
	folders, err := m.componentFolders()
	if err != nil {
		return source{}, err
	}
	for _, folder := range folders {
		if !slices.ContainsFunc(components, func(c component) bool { return c.folder == folder }) {
			return source{}, fmt.Errorf("component %s has no value in the chart: add it to the components in hack/chart/templates.go", folder)
		}
	}
	base, err := m.build()
	if err != nil {
		return source{}, err
	}
	s := source{base: base}
	for _, c := range components {
		objects, err := m.build(c.folder)
		if err != nil {
			return source{}, err
		}
		s.variants = append(s.variants, variant{when: c.when, value: objects})
	}
	return s, nil
}

// templates returns the templates of the chart by file name.
func (s source) templates() (map[string][]byte, error) {
	objects, err := mergeFields(s.base, s.variants)
	if err != nil {
		return nil, err
	}
	// Helm creates the namespace of a release, if asked to.
	objects = slices.DeleteFunc(objects, func(o entry) bool { return strings.HasPrefix(o.key, "Namespace/") })
	if err := parametrize(objects); err != nil {
		return nil, err
	}
	files := map[string]*emitter{}
	for _, o := range objects {
		name := s.file(o.key)
		if files[name] == nil {
			files[name] = &emitter{}
			files[name].WriteString("{{- /* Generated from config by hack/chart. Change it there, and run make generate. */}}\n")
		}
		files[name].object(o)
	}
	texts := map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := files[name].err; err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		texts[path.Join("templates", name)] = []byte(files[name].String())
	}
	return texts, nil
}

func (e *emitter) object(o entry) {
	e.when(o.when, 0, func() {
		if o.each != "" {
			fmt.Fprintf(e, "{{- range %s }}\n", o.each)
			defer e.WriteString("{{- end }}\n")
		}
		e.WriteString("---\n")
		e.mapping(o.value.(mapping), 0)
	})
}

// file returns the file for an object: that of its component, or of its kind.
func (s source) file(key string) string {
	if _, ok := s.base[key]; !ok {
		for i, v := range s.variants {
			if _, ok := v.value.(map[string]any)[key]; ok {
				return components[i].folder + ".yaml"
			}
		}
	}
	switch kind, _, _ := strings.Cut(key, "/"); kind {
	case "CustomResourceDefinition":
		return "crds.yaml"
	case "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount":
		return "permissions.yaml"
	case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
		return "policies.yaml"
	default:
		return "manager.yaml"
	}
}
