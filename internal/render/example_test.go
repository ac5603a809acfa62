package render

import (
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/collection"
)

func TestExample(t *testing.T) {
	c := &collection.Collection{Domain: "acme", Name: "things", Version: semver.MustParse("1.2.0")}
	resource := collection.Resource{Kind: "Thing", Vars: []collection.Var{
		{Name: "optional", Type: collection.String, Default: "x"},
		{Name: "text", Type: collection.String, Required: true},
		{Name: "chosen", Type: collection.String, Required: true, Options: []string{"b", "a"}},
		{Name: "given", Type: collection.String, Required: true, Options: []string{"b", "a"}, Default: "a"},
		{Name: "secret", Type: collection.Password, Required: true},
		{Name: "whole", Type: collection.Integer, Required: true},
		{Name: "number", Type: collection.Number, Required: true, Default: 1.5},
		{Name: "flag", Type: collection.Boolean, Required: true},
		{Name: "list", Type: collection.Integer, Array: true, Required: true},
		{Name: "object", Type: collection.Object, Required: true, Fields: []collection.Var{
			{Name: "inside", Type: collection.String, Required: true}, {Name: "optional", Type: collection.String},
		}},
		{Name: "defaulted", Type: collection.Object, Required: true, Default: map[string]any{"inside": "x"}, Fields: []collection.Var{
			{Name: "inside", Type: collection.String},
		}},
		{Name: "objects", Type: collection.Object, Array: true, Required: true, Fields: []collection.Var{
			{Name: "inside", Type: collection.Boolean, Required: true, Default: true},
		}},
	}}
	want := map[string]any{
		"apiVersion": "things.acme.suboperator.zoscb.ibm.com/v1minor2patch0",
		"kind":       "Thing",
		"metadata":   map[string]any{"name": "example"},
		"spec": map[string]any{
			"zosendpoint": "example",
			"text":        "example", "chosen": "b", "given": "a", "secret": "example",
			"whole": int64(1), "number": 1.5, "flag": false, "list": []any{int64(1)},
			"object":    map[string]any{"inside": "example"},
			"defaulted": map[string]any{"inside": "x"},
			"objects":   []any{map[string]any{"inside": true}},
		},
	}
	got := Example(c, resource, c.Group(true))
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Errorf("example (-want +got):\n%s", diff)
	}
	// It belongs to the caller: changing it changes no default.
	got.Object["spec"].(map[string]any)["defaulted"].(map[string]any)["inside"] = "changed"
	if diff := cmp.Diff(want, Example(c, resource, c.Group(true)).Object); diff != "" {
		t.Errorf("a second example (-want +got):\n%s", diff)
	}
}
