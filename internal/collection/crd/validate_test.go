package crd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

func made(r model.Resource) *model.Collection {
	return &model.Collection{
		Domain: "acme", Name: "things", Version: semver.MustParse("1.0.0"), Resources: []model.Resource{r},
	}
}

// Load lets none of these through. This is what happens should it, or render, forget something.
func TestKindsThatTheAPIServerWouldRefuse(t *testing.T) {
	place := findings.Problem{File: "operator-config.yml", Line: 6, Column: 11, Path: "resources[0].kind"}
	thing := func(vars ...model.Var) model.Resource {
		return model.Resource{Kind: "Thing", Place: place, Vars: vars}
	}
	for _, tt := range []struct {
		name     string
		resource model.Resource
		want     []string
	}{
		{"accepted", thing(model.Var{Name: "a", Type: model.String, Required: true}), nil},
		{"kind", model.Resource{Kind: "No Kind", Place: place}, []string{"crd-schema: the API server would refuse the kind's CustomResourceDefinition: metadata.name"}},
		{"default", thing(model.Var{Name: "a", Type: model.Integer, Default: "text"}),
			[]string{"crd-schema: the API server would refuse the kind's CustomResourceDefinition: spec.validation.openAPIV3Schema.properties[spec].properties[a].default"}},
		{"type", thing(model.Var{Name: "a", Type: "text"}), []string{"crd-schema: kind Thing: variable a: type"}},
		{"field", thing(model.Var{Name: render.EndpointField, Type: model.String}), []string{"crd-schema: kind Thing: variable zosendpoint"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			problems := Validate(made(tt.resource))
			if len(tt.want) == 0 && len(problems) > 0 || len(problems) > maxKindProblems {
				t.Errorf("%d problems: %v", len(problems), problems)
			}
			for i, want := range tt.want {
				if len(problems) <= i {
					t.Fatalf("%d problems, want %d", len(problems), len(tt.want))
				}
				p := problems[i]
				if got := p.Rule + ": " + p.Message; !strings.HasPrefix(got, want) || len(p.Message) > maxMessage+100 {
					t.Errorf("problem is\n%s, want\n%s...", got, want)
				}
				p.Rule, p.Message, p.Severity, p.Refused = "", "", "", false
				if diff := cmp.Diff(place, p); diff != "" {
					t.Errorf("place (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestExamplesThatTheAPIServerWouldRefuse(t *testing.T) {
	r := model.Resource{Kind: "Thing", Vars: []model.Var{{Name: "a", Type: model.Integer, Required: true}}}
	c := made(r)
	crds, err := render.CRDs(c, model.Group)
	if err != nil {
		t.Fatal(err)
	}
	crd, err := stored(crds[0])
	if err != nil {
		t.Fatal(err)
	}
	example := render.Example(c, r, model.Group)
	if messages := checkInstance(crd, example.DeepCopy()); len(messages) > 0 {
		t.Errorf("the example is refused: %q", messages)
	}
	example.Object["spec"] = map[string]any{"a": "text"}
	want := []string{
		`spec.a: Invalid value: "string": spec.a in body must be of type integer: "string"`,
		"spec.zosendpoint: Required value",
	}
	if diff := cmp.Diff(want, checkInstance(crd, example)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestKindsOfOurCollectionsAreAccepted(t *testing.T) {
	files, err := filepath.Glob("../../../test/collections/*/*/operator-config.y*ml")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range append(files, "../../../test/collections/files/operator-config.yml", "../model/testdata/users/operator-config.yml") {
		c, err := model.Load(os.DirFS(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range Validate(c) {
			t.Errorf("%s: %v", file, p)
		}
	}
}
