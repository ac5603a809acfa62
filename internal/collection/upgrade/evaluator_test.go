package upgrade

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/test/schemachanges"
)

// merged are the CRDs of both versions, by kind, and those of the first alone.
func merged(t *testing.T, was, is *model.Collection) (planned map[string]*apiextensionsv1.CustomResourceDefinition, err error) {
	t.Helper()
	live := map[string]*apiextensionsv1.CustomResourceDefinition{}
	planned = map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, definition := range rendered(t, was) {
		live[definition.Spec.Names.Kind] = definition
	}
	for _, definition := range rendered(t, is) {
		kind := definition.Spec.Names.Kind
		if planned[kind], err = crd.Merge(live[kind], []crd.Contribution{{Version: is.Version, CRD: definition}}); err != nil {
			return nil, err
		}
	}
	return planned, nil
}

func rendered(t *testing.T, c *model.Collection) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	definitions, err := render.CRDs(c, model.Group)
	if err != nil {
		t.Fatal(err)
	}
	return definitions
}

// living returns a resource as the API server has it that created it with a version.
func living(t *testing.T, c *model.Collection, spec schemachanges.Spec) *unstructured.Unstructured {
	t.Helper()
	resource := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": model.Group + "/" + c.APIVersion(), "kind": "Thing",
		"metadata": map[string]any{"namespace": "team", "name": "one"}, "spec": map[string]any(spec),
	}}
	resource = resource.DeepCopy()
	if err := unstructured.SetNestedField(resource.Object, "zos1", "spec", render.EndpointField); err != nil {
		t.Fatal(err)
	}
	for _, definition := range rendered(t, c) {
		if definition.Spec.Names.Kind != "Thing" {
			continue
		}
		schema, err := crd.NewSchema(definition, c.APIVersion())
		if err != nil {
			t.Fatal(err)
		}
		schema.Default(resource.Object)
		if refused := schema.Create(resource.Object); len(refused) > 0 {
			t.Fatalf("the resource is not valid before: %v", refused)
		}
	}
	return resource
}

func verdict(evaluator *Evaluator, problems []Problem) schemachanges.Verdict {
	switch {
	case slices.ContainsFunc(problems, Problem.Blocks):
		return schemachanges.Blocked
	case len(problems) > 0 || slices.ContainsFunc(evaluator.Changes(), func(c Change) bool { return c.Breaking }):
		return schemachanges.Warns
	}
	return schemachanges.GoesAhead
}

func effects(p Problem) []schemachanges.Effect {
	var effects []schemachanges.Effect
	for _, e := range []struct {
		has    bool
		effect schemachanges.Effect
	}{
		{p.Refused, schemachanges.Refused}, {p.RefusedUntouched, schemachanges.RefusedUntouched}, {p.Ignored, schemachanges.Ignored},
		{p.MeaningChanged, schemachanges.MeaningChanged}, {p.Removed, schemachanges.Removed},
	} {
		if e.has {
			effects = append(effects, e.effect)
		}
	}
	return effects
}

func TestVerdicts(t *testing.T) {
	table := schemachanges.All()
	if len(table) < 40 {
		t.Errorf("the table has %d changes", len(table))
	}
	for _, change := range table {
		t.Run(change.Name, func(t *testing.T) {
			was, is := change.Versions("things")
			planned, err := merged(t, was, is)
			var conflict *crd.Error
			if errors.As(err, &conflict) != (change.None == schemachanges.Conflict) {
				t.Fatalf("merge: %v", err)
			}
			if conflict != nil {
				if conflict.Reason != v2beta2.ReasonSchemaConflict {
					t.Errorf("reason %s: %v", conflict.Reason, err)
				}
				return
			}
			evaluator, err := NewEvaluator(was, is, planned)
			if err != nil {
				t.Fatal(err)
			}
			if got := verdict(evaluator, nil); got != change.None {
				t.Errorf("without resources: %s, want %s: %v", got, change.None, evaluator.Changes())
			}
			if change.Valid != nil {
				problems := evaluator.Resource(living(t, was, change.Valid))
				if got := verdict(evaluator, problems); got != change.WithValid {
					t.Errorf("valid resource: %s, want %s: %v", got, change.WithValid, problems)
				}
			}
			if change.Broken == nil {
				return
			}
			resource := living(t, was, change.Broken)
			before := resource.DeepCopy()
			problems := evaluator.Resource(resource)
			if got := verdict(evaluator, problems); got != schemachanges.Blocked {
				t.Fatalf("broken resource: %s: %v", got, problems)
			}
			if !cmp.Equal(before, resource) {
				t.Error("the resource was changed")
			}
			i := slices.IndexFunc(problems, func(p Problem) bool { return p.Field == change.Field })
			if i < 0 {
				t.Fatalf("no problem of field %s: %v", change.Field, problems)
			}
			if diff := cmp.Diff(change.Effects, effects(problems[i])); diff != "" {
				t.Errorf("effects (-want +got):\n%s%v", diff, problems[i])
			}
			if text := problems[i].String(); !strings.HasPrefix(text, "Thing team/one: ") || !strings.Contains(text, is.Version.String()) {
				t.Errorf("message %q", text)
			}
		})
	}
}

// evaluatorOf evaluates variables of the kind Thing against others.
func evaluatorOf(t *testing.T, was, is []model.Var) (*Evaluator, *model.Collection) {
	t.Helper()
	older, newer := schemachanges.Change{Was: was, Is: is}.Versions("things")
	planned, err := merged(t, older, newer)
	if err != nil {
		t.Fatal(err)
	}
	evaluator, err := NewEvaluator(older, newer, planned)
	if err != nil {
		t.Fatal(err)
	}
	return evaluator, older
}

// What a version with AllowBreaking left behind does not keep a correction out.
func TestWhatIsRefusedAlreadyBlocksNothing(t *testing.T) {
	narrow := []model.Var{{Name: "y", Type: model.String, Options: []string{"a"}}}
	evaluator, older := evaluatorOf(t, narrow, append([]model.Var{{Name: "more", Type: model.String}}, narrow...))
	resource := living(t, older, schemachanges.Spec{"y": "a"})
	if err := unstructured.SetNestedField(resource.Object, "b", "spec", "y"); err != nil {
		t.Fatal(err)
	}
	problems := evaluator.Resource(resource)
	if len(problems) != 1 || !problems[0].Refused || !problems[0].Already || problems[0].Blocks() {
		t.Errorf("got %+v", problems)
	}
}

func TestAnElementHasManyProblems(t *testing.T) {
	evaluator, older := evaluatorOf(t,
		[]model.Var{{Name: "y", Type: model.String, Array: true}, {Name: "z", Type: model.String, Default: "a"}},
		[]model.Var{{Name: "y", Type: model.String, Array: true, Options: []string{strings.Repeat("long", 100)}}, {Name: "z", Type: model.String}})
	resource := living(t, older, schemachanges.Spec{"y": slices.Repeat([]any{"secret"}, 30)})
	problems := evaluator.Resource(resource)
	if len(problems) != maxProblems || !problems[0].Blocks() || problems[0].Field != "spec.y[0]" {
		t.Errorf("%d problems, the first is %+v", len(problems), problems[0])
	}
	for _, p := range problems {
		if len(p.Message) > maxMessage || strings.Contains(p.Message, "secret") {
			t.Errorf("message %q", p.Message)
		}
	}
}

// Without the archive of the version that runs, the API server's rules are what is known.
func TestJudgeWithoutTheVersionThatRuns(t *testing.T) {
	text := func(name string, required bool) model.Var {
		return model.Var{Name: name, Type: model.String, Required: required}
	}
	older, newer := schemachanges.Change{Was: []model.Var{text("y", false)}, Is: []model.Var{text("z", true)}}.Versions("things")
	planned, err := merged(t, older, newer)
	if err != nil {
		t.Fatal(err)
	}
	evaluator, err := NewEvaluator(nil, newer, planned)
	if err != nil {
		t.Fatal(err)
	}
	problems := evaluator.Resource(living(t, older, schemachanges.Spec{"y": "a"}))
	if len(problems) != 1 || problems[0].Field != "spec.z" || evaluator.Changes() != nil || evaluator.Version() != "2.0.0" {
		t.Errorf("got %+v, %v", problems, evaluator.Changes())
	}
	stranger := &unstructured.Unstructured{Object: map[string]any{"kind": "Stranger"}}
	if problems := evaluator.Resource(stranger); problems != nil {
		t.Errorf("got %+v", problems)
	}
	if diff := cmp.Diff([]string{"Other", "Thing"}, evaluator.Kinds()); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	delete(planned, "Thing")
	if _, err := NewEvaluator(older, newer, planned); err == nil || !strings.Contains(err.Error(), "kind Thing of version 2.0.0 has no planned CRD") {
		t.Errorf("got %v", err)
	}
}

// What counts is what the API server does with the version that runs: earlier managers published its booleans with false.
func TestJudgeComparesWithWhatIsPublished(t *testing.T) {
	flag := func(def any) []model.Var {
		return []model.Var{{Name: "flag", Type: model.Boolean, Required: true, Default: def}}
	}
	published, newer := schemachanges.Change{Was: flag(false), Is: flag(nil)}.Versions("things")
	planned, err := merged(t, published, newer)
	if err != nil {
		t.Fatal(err)
	}
	archive, _ := schemachanges.Change{Was: flag(nil), Is: flag(nil)}.Versions("things")
	evaluator, err := NewEvaluator(archive, newer, planned)
	if err != nil {
		t.Fatal(err)
	}
	want := []Change{{Type: Changed, Kind: "Thing", Field: "spec.flag", Property: "default", Old: "false", Breaking: true, Note: mustBeSetNote}}
	if diff := cmp.Diff(want, evaluator.Changes()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	resource := living(t, published, schemachanges.Spec{})
	if got := verdict(evaluator, evaluator.Resource(resource)); got != schemachanges.Warns {
		t.Errorf("a resource that has the default: %s", got)
	}
}
