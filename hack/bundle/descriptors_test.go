package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const (
	uiPrefix   = "urn:alm:descriptor:com.tectonic.ui:"
	kubePrefix = "urn:alm:descriptor:io.kubernetes:"
)

// typesOf has the field types that a descriptor of the console supports.
var typesOf = map[string][]string{
	uiPrefix + "text":                               {"string"},
	uiPrefix + "number":                             {"integer", "number"},
	uiPrefix + "checkbox":                           {"boolean"},
	uiPrefix + "resourceRequirements":               {"object"},
	kubePrefix + "Secret":                           {"string"},
	"urn:alm:descriptor:io.kubernetes.phase":        {"string"},
	"urn:alm:descriptor:io.kubernetes.phase:reason": {"string"},
	"urn:alm:descriptor:io.kubernetes.conditions":   {"array"},
}

// modifiers determine where a field is shown, not its widget.
var modifiers = []string{uiPrefix + "advanced", uiPrefix + "hidden"}

// The console silently omits fields whose descriptors do not match.
func TestEveryDescriptorFitsItsField(t *testing.T) {
	bundle := load(t, written(t, testOptions()))
	kinds := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, crd := range bundle.V1CRDs {
		kinds[crd.Spec.Names.Kind] = crd
	}
	owned := bundle.CSV.Spec.CustomResourceDefinitions.Owned
	if len(owned) != len(kinds) {
		t.Errorf("%d kinds are described, there are %d", len(owned), len(kinds))
	}
	for _, description := range owned {
		crd := kinds[description.Kind]
		if crd == nil || crd.Name != description.Name || crd.Spec.Versions[0].Name != description.Version {
			t.Errorf("there is no %s as it is described", description.Kind)
			continue
		}
		root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		if root.Title+root.Properties["spec"].Title != "" {
			t.Errorf("%s: a title at the root or of spec hides the whole form behind a collapsed bar", description.Kind)
		}
		var paths []string
		for _, d := range description.SpecDescriptors {
			paths = append(paths, d.Path)
			check(t, description.Kind+".spec."+d.Path, root.Properties["spec"], d.Path, d.DisplayName, d.XDescriptors, kinds)
		}
		for _, d := range description.StatusDescriptors {
			check(t, description.Kind+".status."+d.Path, root.Properties["status"], d.Path, d.DisplayName, d.XDescriptors, kinds)
		}
		if !slices.ContainsFunc(description.StatusDescriptors, func(d operatorsv1alpha1.StatusDescriptor) bool { return d.Path == "conditions" }) {
			t.Errorf("%s does not show its conditions", description.Kind)
		}
		slices.Sort(paths)
		if len(slices.Compact(paths)) != len(description.SpecDescriptors) {
			t.Errorf("%s: a path is described twice", description.Kind)
		}
	}
}

func check(t *testing.T, label string, schema apiextensionsv1.JSONSchemaProps, path, displayName string, xDescriptors []string, kinds map[string]*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	field, err := follow(schema, path)
	if err != nil {
		t.Errorf("%s: %v", label, err)
		return
	}
	if displayName == "" {
		t.Errorf("%s has no name", label)
	}
	for _, x := range xDescriptors {
		if slices.Contains(modifiers, x) {
			continue
		}
		types := typesOf[x]
		if reference := strings.Split(strings.TrimPrefix(x, kubePrefix), ":"); types == nil && len(reference) == 3 {
			if crd := kinds[reference[2]]; crd != nil && crd.Spec.Group == reference[0] && crd.Spec.Versions[0].Name == reference[1] {
				types = []string{"string"}
			}
		}
		if !slices.Contains(types, field.Type) {
			t.Errorf("%s is a field of type %s, which %s cannot show", label, field.Type, x)
		}
	}
}

var segment = regexp.MustCompile(`^(\w+)((?:\[0\])*)$`)

// follow returns the field at a path such as mapping[0].namespace.
func follow(schema apiextensionsv1.JSONSchemaProps, path string) (apiextensionsv1.JSONSchemaProps, error) {
	for part := range strings.SplitSeq(path, ".") {
		m := segment.FindStringSubmatch(part)
		if m == nil {
			return schema, fmt.Errorf("%s is no name", part)
		}
		child, exists := schema.Properties[m[1]]
		if !exists {
			return schema, fmt.Errorf("there is no field %s", m[1])
		}
		for range strings.Count(m[2], "[0]") {
			if child.Items == nil || child.Items.Schema == nil {
				return schema, fmt.Errorf("%s is no list", m[1])
			}
			child = *child.Items.Schema
		}
		schema = child
	}
	return schema, nil
}

func TestDescriptorsThatWouldVanishAreFound(t *testing.T) {
	schema := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"host": {Type: "string"}}}
	for path, want := range map[string]string{
		"prot":    "there is no field prot",
		"host[0]": "host is no list",
		"host[1]": "host[1] is no name",
	} {
		if _, err := follow(schema, path); err == nil || err.Error() != want {
			t.Errorf("%s: got %v", path, err)
		}
	}
}
