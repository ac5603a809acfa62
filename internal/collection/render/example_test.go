package render

import (
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

func TestExample(t *testing.T) {
	c := &model.Collection{Domain: "acme", Name: "things", Version: semver.MustParse("1.2.0")}
	resource := model.Resource{Kind: "Thing", Vars: []model.Var{
		{Name: "optional", Type: model.String, Default: "x"},
		{Name: "text", Type: model.String, Required: true},
		{Name: "chosen", Type: model.String, Required: true, Options: []string{"b", "a"}},
		{Name: "given", Type: model.String, Required: true, Options: []string{"b", "a"}, Default: "a"},
		{Name: "secret", Type: model.Password, Required: true},
		{Name: "whole", Type: model.Integer, Required: true},
		{Name: "number", Type: model.Number, Required: true, Default: 1.5},
		{Name: "flag", Type: model.Boolean, Required: true},
		{Name: "list", Type: model.Integer, Array: true, Required: true},
		{Name: "object", Type: model.Object, Required: true, Fields: []model.Var{
			{Name: "inside", Type: model.String, Required: true}, {Name: "optional", Type: model.String},
		}},
		{Name: "defaulted", Type: model.Object, Required: true, Default: map[string]any{"inside": "x"}, Fields: []model.Var{
			{Name: "inside", Type: model.String},
		}},
		{Name: "objects", Type: model.Object, Array: true, Required: true, Fields: []model.Var{
			{Name: "inside", Type: model.Boolean, Required: true, Default: true},
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
