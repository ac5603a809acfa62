package render

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// Every field of every kind has a descriptor that the console's form supports, and every descriptor has a field.
//
// Specification: Resource Variables, displayName SHALL: is visible in the console
// Specification: Resource Variables, description SHALL: is visible in the console
// Specification: Object Variables, displayName SHALL: is visible in the console
// Specification: Object Variables, description SHALL: is visible in the console
func TestDescriptorsFollowTheSchema(t *testing.T) {
	everyCollection(t, func(t *testing.T, c *model.Collection) {
		o := testCSVOptions(c.Group(false))
		owned, err := CRDs(c, o.Group)
		if err != nil {
			t.Fatal(err)
		}
		served := map[string]bool{"zoscb.ibm.com:v2beta2:ZosEndpoint": true, o.Group + ":v3minor1patch0:Neighbour": true}
		for _, crd := range owned {
			served[o.Group+":"+crd.Spec.Versions[0].Name+":"+crd.Spec.Names.Kind] = true
		}
		kinds := mustCSV(t, c, o).Spec.CustomResourceDefinitions.Owned
		if len(kinds) != len(owned) {
			t.Fatalf("%d kinds for %d CRDs", len(kinds), len(owned))
		}
		for i, kind := range kinds {
			for _, problem := range consoleProblems(kind, owned[i], served) {
				t.Errorf("%s: %s", kind.Kind, problem)
			}
		}
	})
}

func TestDescriptorsThatLeadNowhereAreFound(t *testing.T) {
	c := loadCollection(t, "everything")
	o := testCSVOptions(c.Group(false))
	owned, err := CRDs(c, o.Group)
	if err != nil {
		t.Fatal(err)
	}
	at := func(kind *operatorsv1alpha1.CRDDescription, path string) *operatorsv1alpha1.SpecDescriptor {
		i := slices.IndexFunc(kind.SpecDescriptors, func(d operatorsv1alpha1.SpecDescriptor) bool { return d.Path == path })
		if i < 0 {
			t.Fatalf("no descriptor of %s", path)
		}
		return &kind.SpecDescriptors[i]
	}
	tests := map[string]struct {
		spoil func(*operatorsv1alpha1.CRDDescription)
		want  string
	}{
		"no such field":   {func(k *operatorsv1alpha1.CRDDescription) { at(k, "mode").Path = "modus" }, "modus: the schema has no such field"},
		"no such member":  {func(k *operatorsv1alpha1.CRDDescription) { at(k, "logging.level").Path = "logging.levels" }, "logging.levels: the schema has no such field"},
		"not a list":      {func(k *operatorsv1alpha1.CRDDescription) { at(k, "mode").Path = "mode[0]" }, "mode[0]: the schema has no such field"},
		"not in its list": {func(k *operatorsv1alpha1.CRDDescription) { at(k, "datasets[0].dsn").Path = "datasets.dsn" }, "datasets.dsn: the schema has no such field"},
		"second element":  {func(k *operatorsv1alpha1.CRDDescription) { at(k, "sizes[0]").Path = "sizes[1]" }, "sizes[1]: the schema has no such field"},
		"below spec":      {func(k *operatorsv1alpha1.CRDDescription) { at(k, "mode").Path = "spec.mode" }, "spec.mode: the schema has no such field"},
		"field without":   {func(k *operatorsv1alpha1.CRDDescription) { k.SpecDescriptors = k.SpecDescriptors[1:] }, "zosendpoint: has no descriptor"},
		"switch of a text": {func(k *operatorsv1alpha1.CRDDescription) {
			at(k, "owner.user").XDescriptors = []string{descriptorCheckbox}
		}, "owner.user: checkbox does not fit string"},
		"switch": {func(k *operatorsv1alpha1.CRDDescription) {
			at(k, "secured").XDescriptors = []string{"urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
		}, "secured: a booleanSwitch says true while it is off"},
		"text of an enum":  {func(k *operatorsv1alpha1.CRDDescription) { at(k, "mode").XDescriptors = []string{descriptorText} }, "mode: an enum makes its own list"},
		"widget of a list": {func(k *operatorsv1alpha1.CRDDescription) { at(k, "sizes").XDescriptors = []string{descriptorNumber} }, "sizes: number does not fit array"},
		"nothing for text": {func(k *operatorsv1alpha1.CRDDescription) { at(k, "owner.user").XDescriptors = nil }, "owner.user: needs a widget"},
		"unknown widget": {func(k *operatorsv1alpha1.CRDDescription) {
			at(k, "port").XDescriptors = []string{"urn:alm:descriptor:com.tectonic.ui:integer"}
		}, "port: unknown x-descriptor"},
		"kind not served": {func(k *operatorsv1alpha1.CRDDescription) {
			at(k, "stranger").XDescriptors = []string{descriptorResource + "a:v1:B"}
		}, "stranger: nothing serves a:v1:B"},
		"another version": {func(k *operatorsv1alpha1.CRDDescription) { k.Version = "v1minor0patch0" }, "the CRD has no version v1minor0patch0"},
		"another title":   {func(k *operatorsv1alpha1.CRDDescription) { at(k, "mode").DisplayName = "Modus" }, "mode: the schema has another title"},
		"status":          {func(k *operatorsv1alpha1.CRDDescription) { k.StatusDescriptors[0].Path = "state" }, "status state: the schema has no such field"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			kind := mustCSV(t, c, o).Spec.CustomResourceDefinitions.Owned[0]
			tt.spoil(&kind)
			problems := consoleProblems(kind, owned[0], map[string]bool{})
			if !slices.ContainsFunc(problems, func(problem string) bool { return strings.Contains(problem, tt.want) }) {
				t.Errorf("nothing says %q: %v", tt.want, problems)
			}
		})
	}
}

func TestTitlesThatHideTheFormAreFound(t *testing.T) {
	for want, spoil := range map[string]func(*apiextensionsv1.JSONSchemaProps){
		"the root of version v1minor2patch0 has a title": func(root *apiextensionsv1.JSONSchemaProps) { root.Title = "Thing" },
		"spec of version v1minor2patch0 has a title": func(root *apiextensionsv1.JSONSchemaProps) {
			spec := root.Properties["spec"]
			spec.Title = "Spec"
			root.Properties["spec"] = spec
		},
	} {
		owned, err := CRDs(plainCollection(func(*model.Collection) {}), model.Group)
		if err != nil {
			t.Fatal(err)
		}
		spoil(owned[0].Spec.Versions[0].Schema.OpenAPIV3Schema)
		if got := hiddenObjects(owned[0]); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}

// consoleProblems returns the descriptors that OpenShift's console does not show as intended. served has the kinds, as
// "group:version:Kind", that lists may refer to.
func consoleProblems(kind operatorsv1alpha1.CRDDescription, crd *apiextensionsv1.CustomResourceDefinition, served map[string]bool) []string {
	if kind.Name != crd.Name || kind.Kind != crd.Spec.Names.Kind {
		return []string{fmt.Sprintf("is %s %s, not that of the CRD", kind.Kind, kind.Name)}
	}
	version := crd.Spec.Versions[0]
	if kind.Version != version.Name {
		return []string{"the CRD has no version " + kind.Version}
	}
	root := version.Schema.OpenAPIV3Schema
	spec, status := root.Properties["spec"], root.Properties["status"]
	problems := hiddenObjects(crd)
	described := map[string]bool{}
	for _, d := range kind.SpecDescriptors {
		schema := fieldAt(&spec, d.Path)
		switch {
		case schema == nil:
			problems = append(problems, d.Path+": the schema has no such field")
			continue
		case described[d.Path]:
			problems = append(problems, d.Path+": has two descriptors")
		case schema.Title != "" && schema.Title != d.DisplayName:
			problems = append(problems, d.Path+": the schema has another title")
		}
		described[d.Path] = true
		if problem := widgetProblem(schema, d.XDescriptors, served); problem != "" {
			problems = append(problems, d.Path+": "+problem)
		}
	}
	for _, path := range fieldPaths(&spec, "") {
		if !described[path] {
			problems = append(problems, path+": has no descriptor")
		}
	}
	for _, d := range kind.StatusDescriptors {
		if fieldAt(&status, d.Path) == nil {
			problems = append(problems, "status "+d.Path+": the schema has no such field")
		}
	}
	return problems
}

// hiddenObjects returns the objects that hold the whole form and that the console hides behind a collapsed bar: those with a title.
func hiddenObjects(crd *apiextensionsv1.CustomResourceDefinition) []string {
	var hidden []string
	for _, version := range crd.Spec.Versions {
		root := version.Schema.OpenAPIV3Schema
		for place, title := range map[string]string{"the root": root.Title, "spec": root.Properties["spec"].Title} {
			if title != "" {
				hidden = append(hidden, fmt.Sprintf("%s of version %s has a title, which hides the form", place, version.Name))
			}
		}
	}
	return hidden
}

var pathStep = regexp.MustCompile(`^([A-Za-z0-9_]+)(\[0\])?$`)

// fieldAt follows a path such as "a[0].b", or returns nil.
func fieldAt(schema *apiextensionsv1.JSONSchemaProps, path string) *apiextensionsv1.JSONSchemaProps {
	for step := range strings.SplitSeq(path, ".") {
		m := pathStep.FindStringSubmatch(step)
		if m == nil {
			return nil
		}
		property, exists := schema.Properties[m[1]]
		if !exists {
			return nil
		}
		schema = &property
		if m[2] != "" {
			if schema.Items == nil {
				return nil
			}
			schema = schema.Items.Schema
		}
	}
	return schema
}

// fieldPaths returns the paths of all fields below a schema.
func fieldPaths(schema *apiextensionsv1.JSONSchemaProps, prefix string) []string {
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property, path := schema.Properties[name], prefix+name
		paths = append(paths, path)
		if property.Items != nil {
			path += "[0]"
			paths = append(paths, path)
			property = *property.Items.Schema
		}
		paths = append(paths, fieldPaths(&property, path+".")...)
	}
	return paths
}

// widgetProblem returns the reason why a field with these x-descriptors has the wrong widget, or "".
func widgetProblem(schema *apiextensionsv1.JSONSchemaProps, xDescriptors []string, served map[string]bool) string {
	isGroup := schema.Type == "object" || schema.Type == "array"
	switch {
	case schema.Type == "":
		return "a field without a type vanishes from the form"
	case schema.Type == "object" && len(schema.Properties) == 0:
		return "an object without fields vanishes from the form"
	case len(schema.Enum) > 0 && schema.Type != "string":
		return "a list to choose from sends texts only"
	case len(xDescriptors) > 1:
		return "has several widgets"
	case len(xDescriptors) == 0 && len(schema.Enum) == 0 && !isGroup:
		return "needs a widget"
	case len(xDescriptors) == 0:
		return ""
	case len(schema.Enum) > 0:
		return "an enum makes its own list"
	}
	widget := strings.TrimPrefix(strings.TrimPrefix(xDescriptors[0], "urn:alm:descriptor:com.tectonic.ui:"), descriptorResource)
	fits := map[string][]string{"text": {"string"}, "number": {"number", "integer"}, "checkbox": {"boolean"}}[widget]
	if strings.HasPrefix(xDescriptors[0], descriptorResource) {
		if widget != "Secret" && !served[widget] {
			return "nothing serves " + widget
		}
		fits = []string{"string"}
	}
	switch {
	case widget == "booleanSwitch":
		return "a booleanSwitch says true while it is off"
	case fits == nil:
		return "unknown x-descriptor " + xDescriptors[0]
	case !slices.Contains(fits, schema.Type):
		return widget + " does not fit " + schema.Type
	}
	return ""
}
