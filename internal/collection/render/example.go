package render

import (
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
