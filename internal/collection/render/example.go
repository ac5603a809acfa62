package render

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// exampleName is the placeholder for names and texts that the user has to choose.
const exampleName = "example"

// Example renders a valid instance of a kind of the collection. It only has the required variables, each with its default or
// the simplest valid value.
func Example(c *model.Collection, r model.Resource, group string) *unstructured.Unstructured {
	spec := exampleFields(r.Vars)
	spec[EndpointField] = exampleName
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/" + c.APIVersion(),
		"kind":       r.Kind,
		"metadata":   map[string]any{"name": exampleName},
		"spec":       spec,
	}}
}

func exampleFields(vars []model.Var) map[string]any {
	fields := map[string]any{}
	for _, v := range vars {
		if v.Required {
			fields[v.Name] = exampleValue(v)
		}
	}
	return fields
}

func exampleValue(v model.Var) any {
	if v.Default != nil {
		return runtime.DeepCopyJSONValue(v.Default)
	}
	if v.Array {
		v.Array = false
		return []any{exampleValue(v)}
	}
	switch v.Type {
	case model.Number, model.Integer:
		return int64(1)
	case model.Boolean:
		return false
	case model.Object:
		return exampleFields(v.Fields)
	}
	if len(v.Options) > 0 {
		return v.Options[0]
	}
	return exampleName
}

// formExample returns an Example for a form: with the defaults of optional variables, and without empty values, which a
// console would submit.
func formExample(c *model.Collection, r model.Resource, group string) *unstructured.Unstructured {
	example := Example(c, r, group)
	spec := formFields(r.Vars)
	spec[EndpointField] = exampleName
	example.Object["spec"] = spec
	return example
}

func formFields(vars []model.Var) map[string]any {
	fields := map[string]any{}
	for _, v := range vars {
		if value := formValue(v); value != nil {
			fields[v.Name] = value
		}
	}
	return fields
}

// formValue returns nil for a variable that is optional or that the API server sets.
func formValue(v model.Var) any {
	isObject := v.Type == model.Object
	switch {
	case holdsEmpty(v.Default):
		return nil
	case v.Default != nil:
		return exampleValue(v)
	case isObject && v.Array && v.Required:
		if element := formElement(v); len(element) > 0 {
			return []any{element}
		}
		return nil
	case isObject && !v.Array && (v.Required || v.CompletesItself()):
		if fields := formFields(v.Fields); len(fields) > 0 {
			return fields
		}
		return nil
	case v.Required && !isChoice(v):
		return exampleValue(v)
	}
	return nil
}

// isChoice reports whether a value in a form would decide for the user: a required boolean must be input by the user
// (Operator Collection Specification, Resource Variables).
func isChoice(v model.Var) bool { return v.Type == model.Boolean && v.Default == nil }

// formElement returns an object for a list. It is only empty if all members are for the user to choose.
func formElement(v model.Var) map[string]any {
	fields := formFields(v.Fields)
	first := slices.IndexFunc(v.Fields, func(f model.Var) bool { return !isChoice(f) })
	if len(fields) == 0 && first >= 0 {
		fields[v.Fields[first].Name] = exampleValue(v.Fields[first])
	}
	return fields
}

// holdsEmpty reports whether a default contains an empty value. Such a default is left to the schema.
func holdsEmpty(v any) bool {
	switch v := v.(type) {
	case string:
		return v == ""
	case []any:
		return len(v) == 0 || slices.ContainsFunc(v, holdsEmpty)
	case map[string]any:
		return len(v) == 0 || slices.ContainsFunc(slices.Collect(maps.Values(v)), holdsEmpty)
	}
	return false
}
