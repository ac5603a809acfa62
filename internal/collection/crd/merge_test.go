package crd

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

// testCollection has one kind, Thing, with the given variables.
func testCollection(version string, vars ...model.Var) *model.Collection {
	return &model.Collection{
		Domain: "acme", Name: "things", Version: semver.MustParse(version),
		Galaxy:    model.Galaxy{Namespace: "acme", Name: "things"},
		Resources: []model.Resource{{Kind: "Thing", DisplayName: "Thing", Playbook: "playbooks/thing.yml", Vars: vars}},
	}
}

func contribution(t *testing.T, version string, vars ...model.Var) Contribution {
	t.Helper()
	c := testCollection(version, vars...)
	crds, err := render.CRDs(c, model.Group)
	if err != nil {
		t.Fatal(err)
	}
	return Contribution{Version: c.Version, CRD: crds[0]}
}

func merge(t *testing.T, live *apiextensionsv1.CustomResourceDefinition, contributions ...Contribution) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	merged, err := Merge(live, contributions)
	if err != nil {
		t.Fatal(err)
	}
	validate(t, merged)
	return merged
}

// validate asks what the API server asks of a new CRD.
func validate(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	internal, defaulted := &apiextensions.CustomResourceDefinition{}, crd.DeepCopy()
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(defaulted)
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(defaulted, internal, nil); err != nil {
		t.Fatal(err)
	}
	for _, problem := range validation.ValidateCustomResourceDefinition(t.Context(), internal) {
		t.Errorf("%s: %v", crd.Name, problem)
	}
}

func versionNames(crd *apiextensionsv1.CustomResourceDefinition) []string {
	var names []string
	for _, version := range crd.Spec.Versions {
		names = append(names, version.Name)
	}
	return names
}

func fieldOf(crd *apiextensionsv1.CustomResourceDefinition, version string, path ...string) (apiextensionsv1.JSONSchemaProps, bool) {
	i := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version })
	schema := crd.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["spec"]
	for _, name := range path {
		if schema.Items != nil {
			schema = *schema.Items.Schema
		}
		child, ok := schema.Properties[name]
		if !ok {
			return child, false
		}
		schema = child
	}
	return schema, true
}

func TestMergeOrdersVersions(t *testing.T) {
	var contributions []Contribution
	for _, version := range []string{"1.0.0", "1.10.0", "1.2.0", "2.0.0-rc.10", "2.0.0-rc.2", "1.10.0-beta"} {
		contributions = append(contributions, contribution(t, version))
	}
	want := []string{
		"v2minor0patch0-rc-10", "v2minor0patch0-rc-2", "v1minor10patch0", "v1minor10patch0-beta", "v1minor2patch0", "v1minor0patch0",
	}
	merged := merge(t, nil, contributions...)
	if diff := cmp.Diff(want, versionNames(merged)); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	for i, version := range merged.Spec.Versions {
		if version.Storage != (i == 0) || !version.Served {
			t.Errorf("version %s: storage %v, served %v", version.Name, version.Storage, version.Served)
		}
	}
	// Without contributions, their order is derived from their names.
	if diff := cmp.Diff(merged, merge(t, merged)); diff != "" {
		t.Errorf("merged again without contributions (-first +second):\n%s", diff)
	}
}

func TestMergeGivesEveryVersionAllFields(t *testing.T) {
	v1 := contribution(t, "1.0.0",
		model.Var{Name: "old", Type: model.String, Required: true, Options: []string{"a"}, Default: "a"},
		model.Var{Name: "box", Type: model.Object, Fields: []model.Var{{Name: "left", Type: model.String}}},
	)
	v2 := contribution(t, "2.0.0",
		model.Var{Name: "new", Type: model.Integer, Required: true, Default: int64(1)},
		model.Var{Name: "flag", Type: model.Boolean},
		model.Var{Name: "box", Type: model.Object, Fields: []model.Var{
			{Name: "right", Type: model.String, Required: true, Default: "r"},
		}},
		model.Var{Name: "list", Type: model.Object, Array: true, Fields: []model.Var{
			{Name: "dsn", Type: model.String, Required: true, Options: []string{"x"}},
		}},
	)
	merged := merge(t, nil, v1, v2)
	foreign := []struct {
		version string
		path    []string
	}{
		{"v1minor0patch0", []string{"new"}},
		{"v1minor0patch0", []string{"flag"}},
		{"v1minor0patch0", []string{"box", "right"}},
		{"v1minor0patch0", []string{"list"}},
		{"v1minor0patch0", []string{"list", "dsn"}},
		{"v2minor0patch0", []string{"old"}},
		{"v2minor0patch0", []string{"box", "left"}},
	}
	for _, f := range foreign {
		schema, ok := fieldOf(merged, f.version, f.path...)
		if !ok {
			t.Errorf("%s lacks %v", f.version, f.path)
			continue
		}
		if schema.Default != nil || schema.Enum != nil || schema.Required != nil {
			t.Errorf("%s: %v is not optional: %+v", f.version, f.path, schema)
		}
		parent, _ := fieldOf(merged, f.version, f.path[:len(f.path)-1]...)
		if slices.Contains(parent.Required, f.path[len(f.path)-1]) {
			t.Errorf("%s: %v is required", f.version, f.path)
		}
	}
	if own, _ := fieldOf(merged, "v1minor0patch0", "old"); own.Default == nil || len(own.Enum) != 1 {
		t.Errorf("v1 lost default or options of its own field: %+v", own)
	}
	if own, _ := fieldOf(merged, "v2minor0patch0", "box", "right"); own.Default == nil {
		t.Errorf("v2 lost the default of its own field: %+v", own)
	}
	if _, ok := fieldOf(v1.CRD, "v1minor0patch0", "new"); ok {
		t.Error("the contribution was changed")
	}
}

func TestMergeKeepsWhatIsLive(t *testing.T) {
	live := merge(t, nil, contribution(t, "1.0.0", model.Var{Name: "old", Type: model.String, Required: true}))
	live.ResourceVersion, live.UID = "42", "uid"
	live.Labels["team"] = "zos"
	live.Labels[render.LabelManagedBy] = "tampered"
	live.Annotations = map[string]string{"zoscb.ibm.com/owner-namespace": "zos"}

	added := contribution(t, "1.1.0", model.Var{Name: "new", Type: model.String})
	added.CRD.Annotations = map[string]string{"zoscb.ibm.com/owner-namespace": "other", "added": "yes"}
	merged := merge(t, live, added)
	if diff := cmp.Diff([]string{"v1minor1patch0", "v1minor0patch0"}, versionNames(merged)); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	if merged.ResourceVersion != "42" || merged.UID != "uid" || merged.Annotations["zoscb.ibm.com/owner-namespace"] != "zos" {
		t.Errorf("metadata lost: %+v", merged.ObjectMeta)
	}
	if merged.Annotations["added"] != "yes" {
		t.Errorf("annotations: %v", merged.Annotations)
	}
	if merged.Labels["team"] != "zos" || merged.Labels[render.LabelManagedBy] != render.ManagedBy {
		t.Errorf("labels: %v", merged.Labels)
	}
	if spec, _ := fieldOf(merged, "v1minor0patch0"); !slices.Contains(spec.Required, "old") {
		t.Errorf("the live version was changed: %v", spec.Required)
	}
	if live.Labels[render.LabelManagedBy] != "tampered" || len(live.Spec.Versions) != 1 {
		t.Error("the argument was changed")
	}
}

func TestMergeRepublishesAVersion(t *testing.T) {
	text := model.Var{Name: "size", Type: model.String}
	number := model.Var{Name: "size", Type: model.Integer}
	live := merge(t, nil, contribution(t, "1.0.0", text))
	merged := merge(t, live, contribution(t, "1.0.0", number))
	if schema, _ := fieldOf(merged, "v1minor0patch0", "size"); schema.Type != "integer" {
		t.Errorf("the only version kept its old content: %+v", schema)
	}
}

// Specification: Operator Resources, version, kind MUST: are unique in the cluster together
func TestMergeConflicts(t *testing.T) {
	object := func(fieldType model.VarType, array bool) model.Var {
		return model.Var{Name: "box", Type: model.Object, Array: array, Fields: []model.Var{{Name: "size", Type: fieldType}}}
	}
	tests := map[string]struct {
		a, b  model.Var
		field string
	}{
		"type":             {model.Var{Name: "x", Type: model.String}, model.Var{Name: "x", Type: model.Boolean}, "spec.x"},
		"array":            {model.Var{Name: "x", Type: model.String}, model.Var{Name: "x", Type: model.String, Array: true}, "spec.x"},
		"elements":         {model.Var{Name: "x", Type: model.Number, Array: true}, model.Var{Name: "x", Type: model.String, Array: true}, "spec.x[]"},
		"member":           {object(model.String, false), object(model.Integer, false), "spec.box.size"},
		"element's member": {object(model.String, true), object(model.Integer, true), "spec.box[].size"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Merge(contribution(t, "1.0.0", tt.a).CRD, []Contribution{contribution(t, "2.0.0", tt.b)})
			var conflict *Error
			if !errors.As(err, &conflict) || conflict.Reason != v2beta2.ReasonSchemaConflict {
				t.Fatalf("error %v", err)
			}
			if !strings.Contains(conflict.Error(), ": "+tt.field+" is ") {
				t.Errorf("conflict %v, want field %s", conflict, tt.field)
			}
		})
	}
	t.Run("version", func(t *testing.T) {
		var conflict *Error
		_, err := Merge(nil, []Contribution{
			contribution(t, "1.0.0", model.Var{Name: "a", Type: model.String}), contribution(t, "1.0.0"),
		})
		if !errors.As(err, &conflict) || conflict.Reason != v2beta2.ReasonVersionConflict {
			t.Errorf("error %v", err)
		}
	})
	t.Run("the same version twice is none", func(t *testing.T) {
		merge(t, nil, contribution(t, "1.0.0"), contribution(t, "1.0.0"))
	})
	t.Run("nothing", func(t *testing.T) {
		if _, err := Merge(nil, nil); err == nil {
			t.Error("no error")
		}
	})
}

// TestMergeIsIdempotent merges random histories, in random order, twice.
func TestMergeIsIdempotent(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		var live *apiextensionsv1.CustomResourceDefinition
		for range 4 {
			var contributions []Contribution
			for _, minor := range random.Perm(5)[:1+random.IntN(4)] {
				contributions = append(contributions, contribution(t, fmt.Sprintf("1.%d.0", minor), randomVars(random)...))
			}
			once := merge(t, live, contributions...)
			random.Shuffle(len(contributions), func(i, j int) {
				contributions[i], contributions[j] = contributions[j], contributions[i]
			})
			twice := merge(t, once, contributions...)
			first, _ := json.Marshal(once)
			if second, _ := json.Marshal(twice); string(first) != string(second) {
				t.Fatalf("seed %d: the second merge changed something (-first +second):\n%s", seed, cmp.Diff(once, twice))
			}
			live = twice
		}
	}
}

func randomVars(random *rand.Rand) []model.Var {
	var vars []model.Var
	for i := range 6 {
		if random.IntN(2) == 0 {
			continue
		}
		v := model.Var{Name: fmt.Sprintf("v%d", i), Type: model.String, Description: fmt.Sprint(random.IntN(100))}
		if i >= 3 {
			v.Type, v.Array = model.Object, i == 5
			for j := range 3 {
				if j == 0 || random.IntN(2) == 0 {
					v.Fields = append(v.Fields, model.Var{
						Name: fmt.Sprintf("f%d", j), Type: model.Integer, Required: random.IntN(2) == 0, Default: int64(j),
					})
				}
			}
		}
		vars = append(vars, v)
	}
	return vars
}

// Consoles hide what has a title. Versions that nobody contributes any more lose theirs too, and nothing is written twice for it.
func TestMergeLeavesOutTitles(t *testing.T) {
	live := merge(t, nil, contribution(t, "1.0.0", model.Var{Name: "size", DisplayName: "Size", Type: model.String}))
	asBefore(live)
	merged := merge(t, live, contribution(t, "1.1.0"))
	if len(merged.Spec.Versions) != 2 {
		t.Fatal("versions", versionNames(merged))
	}
	for _, version := range merged.Spec.Versions {
		root := version.Schema.OpenAPIV3Schema
		if root.Title+root.Properties["spec"].Title != "" {
			t.Errorf("version %s has a title", version.Name)
		}
		if size, _ := fieldOf(merged, version.Name, "size"); size.Title != "Size" {
			t.Errorf("version %s: the title of a field is %q", version.Name, size.Title)
		}
	}
	if diff := cmp.Diff([]string{render.Category}, merged.Spec.Names.Categories); diff != "" {
		t.Error(diff)
	}
	if live.Spec.Versions[0].Schema.OpenAPIV3Schema.Title == "" {
		t.Error("the live CRD was changed")
	}
	if diff := cmp.Diff(merged, merge(t, merged)); diff != "" {
		t.Errorf("merged again (-first +second):\n%s", diff)
	}
}
