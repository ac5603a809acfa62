package render

import (
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// testCollection has one kind, Thing, with the given variables.
func testCollection(version string, vars ...model.Var) *model.Collection {
	return &model.Collection{
		Domain: "acme", Name: "things", Version: semver.MustParse(version),
		Galaxy:    model.Galaxy{Namespace: "acme", Name: "things"},
		Resources: []model.Resource{{Kind: "Thing", DisplayName: "Thing", Playbook: "playbooks/thing.yml", Vars: vars}},
	}
}

// internalSchema is the schema of a CRD's newest version, as the API server uses it.
func internalSchema(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) *apiextensions.JSONSchemaProps {
	t.Helper()
	internal := &apiextensions.JSONSchemaProps{}
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(schema, internal, nil); err != nil {
		t.Fatal(err)
	}
	return internal
}

func crdOf(t *testing.T, vars ...model.Var) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	c := testCollection("1.0.0", vars...)
	crds, err := CRDs(c, model.Group)
	if err != nil {
		t.Fatal(err)
	}
	validateCRD(t, crds[0])
	return crds[0]
}

// TestCRDDefaults checks that the API server sets defaults for fields that a user omits.
//
// Specification: Resource Variables, vars SHALL: are passed as extra variables
// Specification: Resource Variables, objectVariables SHOULD: are the variables in an object
// Specification: Object Variables, required MUST: is set where users must give a value
func TestCRDDefaults(t *testing.T) {
	level := model.Var{Name: "level", Type: model.String, Default: "info", Required: true}
	user := model.Var{Name: "user", Type: model.String, Required: true}
	verbose := model.Var{Name: "verbose", Type: model.Boolean}
	agreed := model.Var{Name: "agreed", Type: model.Boolean, Required: true}
	tests := map[string]struct {
		v    model.Var
		spec map[string]any
		want any
	}{
		"string without default": {v: model.Var{Name: "x", Type: model.String}},
		"string":                 {v: model.Var{Name: "x", Type: model.String, Default: "a"}, want: "a"},
		"integer":                {v: model.Var{Name: "x", Type: model.Integer, Default: int64(9800)}, want: int64(9800)},
		"number":                 {v: model.Var{Name: "x", Type: model.Number, Default: 0.5}, want: 0.5},
		"boolean":                {v: model.Var{Name: "x", Type: model.Boolean}},
		"boolean false":          {v: model.Var{Name: "x", Type: model.Boolean, Default: false}, want: false},
		"boolean true":           {v: model.Var{Name: "x", Type: model.Boolean, Default: true}, want: true},
		"array": {
			v:    model.Var{Name: "x", Type: model.String, Array: true, Default: []any{"a", "b"}},
			want: []any{"a", "b"},
		},
		"object whose members have defaults": {
			v:    model.Var{Name: "x", Type: model.Object, Fields: []model.Var{level, verbose}},
			want: map[string]any{"level": "info"},
		},
		"object with a required boolean": {
			v: model.Var{Name: "x", Type: model.Object, Fields: []model.Var{level, agreed}},
		},
		"object with a default of its own": {
			v: model.Var{
				Name: "x", Type: model.Object, Fields: []model.Var{level, user}, Default: map[string]any{"user": "me"},
			},
			want: map[string]any{"user": "me", "level": "info"},
		},
		"optional object with a member that only the user knows": {
			v: model.Var{Name: "x", Type: model.Object, Fields: []model.Var{level, user}},
		},
		"the same when it is given": {
			v:    model.Var{Name: "x", Type: model.Object, Fields: []model.Var{level, user}},
			spec: map[string]any{"x": map[string]any{"user": "me"}},
			want: map[string]any{"user": "me", "level": "info"},
		},
		"elements of an array": {
			v:    model.Var{Name: "x", Type: model.Object, Array: true, Fields: []model.Var{level, user}},
			spec: map[string]any{"x": []any{map[string]any{"user": "me"}}},
			want: []any{map[string]any{"user": "me", "level": "info"}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			schema := internalSchema(t, crdOf(t, tt.v))
			structural, err := structuralschema.NewStructural(schema)
			if err != nil {
				t.Fatal(err)
			}
			spec := map[string]any{EndpointField: "zos1"}
			for key, value := range tt.spec {
				spec[key] = value
			}
			defaulting.Default(map[string]any{"spec": spec}, structural)
			if diff := cmp.Diff(tt.want, spec["x"]); diff != "" {
				t.Errorf("x after defaulting (-want +got):\n%s", diff)
			}
		})
	}
}

// Specification: Resource Variables, required MUST: is set where users must give a value
func TestCRDValidation(t *testing.T) {
	crd := crdOf(t,
		model.Var{Name: "APPLID", Type: model.String, Required: true},
		model.Var{Name: "mode", Type: model.String, Options: []string{"cold", "auto"}},
		model.Var{Name: "features", Type: model.String, Array: true, Options: []string{"x", "y"}},
		model.Var{Name: "port", Type: model.Integer},
		model.Var{Name: "agreed", Type: model.Boolean, Required: true},
	)
	validator, _, err := validation.NewSchemaValidator(internalSchema(t, crd))
	if err != nil {
		t.Fatal(err)
	}
	valid := map[string]any{EndpointField: "zos1.example", "APPLID": "CICS1", "agreed": false}
	with := func(key string, value any) map[string]any {
		spec := map[string]any{key: value}
		for k, v := range valid {
			if _, ok := spec[k]; !ok {
				spec[k] = v
			}
		}
		return map[string]any{"spec": spec}
	}
	tests := map[string]struct {
		instance map[string]any
		invalid  bool
	}{
		"valid":                  {instance: map[string]any{"spec": valid}},
		"no spec":                {instance: map[string]any{}, invalid: true},
		"no endpoint":            {instance: map[string]any{"spec": map[string]any{"APPLID": "CICS1", "agreed": true}}, invalid: true},
		"required missing":       {instance: map[string]any{"spec": map[string]any{EndpointField: "zos1", "agreed": true}}, invalid: true},
		"boolean missing":        {instance: map[string]any{"spec": map[string]any{EndpointField: "zos1", "APPLID": "CICS1"}}, invalid: true},
		"endpoint is a path":     {instance: with(EndpointField, "../zos1"), invalid: true},
		"endpoint is a template": {instance: with(EndpointField, "{{ x }}"), invalid: true},
		"endpoint is empty":      {instance: with(EndpointField, ""), invalid: true},
		"option":                 {instance: with("mode", "cold")},
		"no option":              {instance: with("mode", "warm"), invalid: true},
		"options in an array":    {instance: with("features", []any{"x", "y"})},
		"no option in an array":  {instance: with("features", []any{"x", "z"}), invalid: true},
		"integer":                {instance: with("port", int64(9800))},
		"text for an integer":    {instance: with("port", "9800"), invalid: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			problems := validation.ValidateCustomResource(nil, tt.instance, validator)
			if (len(problems) > 0) != tt.invalid {
				t.Errorf("problems of %v: %v", tt.instance, problems)
			}
		})
	}
}

func TestCRDsRefuseWhatCannotBeRendered(t *testing.T) {
	for name, v := range map[string]model.Var{
		"name of the endpoint field": {Name: EndpointField, Type: model.String},
		"unknown type":               {Name: "x", Type: "date"},
		"default that is no JSON":    {Name: "x", Type: model.String, Default: func() {}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := CRDs(testCollection("1.0.0", v), model.Group); err == nil {
				t.Error("rendered")
			}
		})
	}
}
