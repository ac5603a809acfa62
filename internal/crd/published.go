package crd

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// asPublished returns a copy of a version in which booleans without a default have the default false that the live version has:
// earlier managers set it, and a published version does not change with the manager. With it, objects are complete that would
// otherwise need the boolean from the user.
func asPublished(version, live apiextensionsv1.CustomResourceDefinitionVersion) apiextensionsv1.CustomResourceDefinitionVersion {
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
		kept := field.Type == "boolean" && isJSON(was.Default, "false") ||
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
