package model_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/author/lint"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// The loader and the schema know the same keys.
func TestConfigSchemaHasTheKeysOfTheLoader(t *testing.T) {
	type schema struct {
		Properties map[string]*schema
		Items      *schema
		AnyOf      []*schema
	}
	raw, err := lint.ConfigSchema()
	if err != nil {
		t.Fatal(err)
	}
	root := &schema{}
	if err := json.Unmarshal(raw, root); err != nil {
		t.Fatal(err)
	}
	resource := root.Properties["resources"].Items
	variable := resource.Properties["vars"].Items
	levels := map[string]*schema{
		"root":            root,
		"icon":            root.Properties["icon"].Items,
		"resource":        resource,
		"variable":        variable,
		"object variable": variable.Properties["objectVariables"].Items,
		"policy rule":     root.Properties["roles"].AnyOf[1].AnyOf[1],
	}
	for name, keys := range model.LoaderKeys {
		want := slices.Sorted(slices.Values(keys))
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(levels[name].Properties))); diff != "" {
			t.Errorf("%s: keys of the loader and of the schema differ (-loader +schema):\n%s", name, diff)
		}
	}
}
