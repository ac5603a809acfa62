package crd

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// versionAsPublished returns a copy of a version in which booleans without a default have the default false that the live version has:
// earlier managers set it, and a published version does not change with the manager. With it, objects are complete that would
// otherwise need the boolean from the user.
func versionAsPublished(version, live apiextensionsv1.CustomResourceDefinitionVersion) apiextensionsv1.CustomResourceDefinitionVersion {
	version = *version.DeepCopy()
	schema, published := specOf(&version), specOf(&live)
	if schema != nil && published != nil {
		keepFalse(schema, published)
	}
	return version
}

// keepFalse changes the fields of an object's schema.
func keepFalse(schema, published *apiextensionsv1.JSONSchemaProps) {
	for name, field := range schema.Properties {
		was, ok := published.Properties[name]
		if !ok || was.Type != field.Type {
			continue
		}
		switch {
		case hasItems(&field) && hasItems(&was):
			keepFalse(field.Items.Schema, was.Items.Schema)
		case len(field.Properties) > 0:
			keepFalse(&field, &was)
		}
		kept := field.Type == "boolean" && isFalse(&was) ||
			field.Type == "object" && len(field.Required) == 0 && isJSON(was.Default, "{}")
		if field.Default == nil && kept {
			field.Default = was.Default.DeepCopy()
			if !slices.Contains(published.Required, name) {
				schema.Required = without(schema.Required, name)
			}
		}
		schema.Properties[name] = field
	}
}

func isJSON(value *apiextensionsv1.JSON, text string) bool {
	return value != nil && string(value.Raw) == text
}

// without returns nil for no names, as in a schema that was read from the API server.
func without(names []string, name string) []string {
	names = slices.DeleteFunc(names, func(other string) bool { return other == name })
	if len(names) == 0 {
		return nil
	}
	return names
}

// AsPublished returns a collection with the default false of those booleans without one that have it in the CRDs of the kinds, as they
// are or will be in the cluster. All that is rendered of the result, or compared with it, says what the API server does: what a
// published version gives to playbooks does not change with the manager. A kind that is not in definitions stays as it is, as does the
// argument.
func AsPublished(c *model.Collection, definitions map[string]*apiextensionsv1.CustomResourceDefinition) *model.Collection {
	published := *c
	published.Resources = slices.Clone(c.Resources)
	for i := range published.Resources {
		r := &published.Resources[i]
		definition := definitions[r.Kind]
		if definition == nil {
			continue
		}
		at := slices.IndexFunc(definition.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == c.APIVersion() })
		if at < 0 {
			continue
		}
		if spec := specOf(&definition.Spec.Versions[at]); spec != nil {
			r.Vars = withFalse(r.Vars, spec)
		}
	}
	return &published
}

func withFalse(vars []model.Var, published *apiextensionsv1.JSONSchemaProps) []model.Var {
	vars = slices.Clone(vars)
	for i := range vars {
		v := &vars[i]
		was, ok := published.Properties[v.Name]
		switch {
		case !ok:
		case v.Type == model.Object && v.Array:
			if hasItems(&was) {
				v.Fields = withFalse(v.Fields, was.Items.Schema)
			}
		case v.Type == model.Object:
			v.Fields = withFalse(v.Fields, &was)
		case isFalse(&was) && v.Type == model.Boolean && !v.Array && v.Default == nil:
			v.Default = false
		}
	}
	return vars
}

func isFalse(schema *apiextensionsv1.JSONSchemaProps) bool {
	return schema.Type == "boolean" && isJSON(schema.Default, "false")
}

// OnlyFalse returns what [AsPublished] needs of the schema of a version: the booleans with the default false, or nil if there are none.
// A CRD with such schemas is much smaller.
func OnlyFalse(version *apiextensionsv1.CustomResourceDefinitionVersion) *apiextensionsv1.CustomResourceValidation {
	spec := specOf(version)
	if spec == nil {
		return nil
	}
	only := onlyFalse(spec)
	if only == nil {
		return nil
	}
	return &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
		Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": *only},
	}}
}

func onlyFalse(schema *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	var only map[string]apiextensionsv1.JSONSchemaProps
	for name, field := range schema.Properties {
		kept := onlyFalseOf(&field)
		if kept == nil {
			continue
		}
		if only == nil {
			only = map[string]apiextensionsv1.JSONSchemaProps{}
		}
		only[strings.Clone(name)] = *kept
	}
	if only == nil {
		return nil
	}
	return &apiextensionsv1.JSONSchemaProps{Properties: only}
}

func onlyFalseOf(field *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if isFalse(field) {
		return &apiextensionsv1.JSONSchemaProps{Type: "boolean", Default: &apiextensionsv1.JSON{Raw: []byte("false")}}
	}
	if !hasItems(field) {
		return onlyFalse(field)
	}
	items := onlyFalse(field.Items.Schema)
	if items == nil {
		return nil
	}
	return &apiextensionsv1.JSONSchemaProps{Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: items}}
}

// specOf returns the schema of spec, or nil. Changes to its maps also change the version, since copies of a schema share
// them.
func specOf(v *apiextensionsv1.CustomResourceDefinitionVersion) *apiextensionsv1.JSONSchemaProps {
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return nil
	}
	spec, ok := v.Schema.OpenAPIV3Schema.Properties["spec"]
	if !ok || spec.Properties == nil {
		return nil
	}
	return &spec
}

func hasItems(schema *apiextensionsv1.JSONSchemaProps) bool {
	return schema.Items != nil && schema.Items.Schema != nil
}
