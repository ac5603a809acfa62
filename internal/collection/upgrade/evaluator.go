package upgrade

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

const (
	// maxProblems limits the problems of one custom resource.
	maxProblems = 20
	// maxMessage limits a message, in bytes.
	maxMessage = 200
)

// Evaluator evaluates living custom resources of a collection against another version of it. It may be used concurrently.
type Evaluator struct {
	was, is *model.Collection
	kinds   map[string]*kindRules
}

// kindRules are what one kind was and is.
type kindRules struct {
	kind string
	// before and after are the schemas of the versions. Before is nil without was, and after is nil for a kind that is removed.
	before, after *crd.Schema
	fields        []fieldRule
	version       string
}

// NewEvaluator returns an evaluator of the custom resources of was against is. Was is the version that runs; if it is nil, resources are
// evaluated by the API server's rules alone. Planned are the CRDs of is as they will be written, by kind. It fails if one of them is
// missing, or its schema cannot be used. Booleans have the default false that the CRDs give to them in the version.
func NewEvaluator(was, is *model.Collection, planned map[string]*apiextensionsv1.CustomResourceDefinition) (*Evaluator, error) {
	is = crd.AsPublished(is, planned)
	if was != nil {
		was = crd.AsPublished(was, planned)
	}
	j := &Evaluator{was: was, is: is, kinds: map[string]*kindRules{}}
	for _, r := range is.Resources {
		definition := planned[r.Kind]
		if definition == nil {
			return nil, fmt.Errorf("kind %s of version %s has no planned CRD", r.Kind, is.Version.Original())
		}
		after, err := crd.NewSchema(definition, is.APIVersion())
		if err != nil {
			return nil, err
		}
		j.kinds[r.Kind] = &kindRules{kind: r.Kind, after: after, version: is.Version.Original()}
	}
	if was == nil {
		return j, nil
	}
	definitions, err := render.CRDs(was, model.Group)
	if err != nil {
		return nil, fmt.Errorf("version %s: %w", was.Version.Original(), err)
	}
	for i, r := range was.Resources {
		before, err := crd.NewSchema(definitions[i], was.APIVersion())
		if err != nil {
			return nil, err
		}
		rules := j.kinds[r.Kind]
		if rules == nil {
			rules = &kindRules{kind: r.Kind, version: is.Version.Original()}
			j.kinds[r.Kind] = rules
		}
		rules.before = before
		if now, exists := is.Resource(r.Kind); exists {
			wasSpec, isSpec := before.Structural.Properties["spec"], rules.after.Structural.Properties["spec"]
			rules.fields = fieldRules(r.Vars, now.Vars, &wasSpec, &isSpec)
		}
	}
	return j, nil
}

// Version is the version that resources are evaluated against.
func (j *Evaluator) Version() string { return j.is.Version.Original() }

// Changes returns what changes between the versions, whether a custom resource is affected or not. It is nil without a version
// that runs.
func (j *Evaluator) Changes() []Change {
	if j.was == nil {
		return nil
	}
	return Compare(j.was, j.is)
}

// Kinds returns the kinds whose resources can be evaluated, sorted: those of both versions.
func (j *Evaluator) Kinds() []string { return slices.Sorted(maps.Keys(j.kinds)) }

// Resource returns what the new version means for a custom resource, at most 20 problems, those that block first. The resource is
// not changed. A kind of neither version has no problems.
func (j *Evaluator) Resource(resource *unstructured.Unstructured) []Problem {
	rules := j.kinds[resource.GetKind()]
	if rules == nil {
		return nil
	}
	var problems []Problem
	if rules.after == nil {
		problems = []Problem{{Removed: true, Message: "version " + rules.version + " does not have this kind"}}
	} else {
		problems = rules.evaluate(resource.Object)
	}
	problems = append(problems, j.irreversible(resource)...)
	for i := range problems {
		p := &problems[i]
		p.Kind, p.Namespace, p.Name = resource.GetKind(), resource.GetNamespace(), resource.GetName()
		p.Message = printable.Cut(p.Message, maxMessage)
	}
	sortProblems(problems)
	return problems[:min(len(problems), maxProblems)]
}

func (k *kindRules) evaluate(object map[string]any) []Problem {
	problems := k.refused(object)
	spec, _, _ := unstructured.NestedMap(object, "spec")
	u := &usage{version: k.version}
	u.fields("spec", spec, k.fields, false)
	return append(problems, u.problems...)
}

// refused returns what the API server does not accept.
func (k *kindRules) refused(object map[string]any) []Problem {
	created := defaulted(k.after, object)
	refusals := k.after.Create(created)
	if len(refusals) == 0 {
		return nil
	}
	untouched := keys(k.after.Update(touched(created), created))
	already := map[string]bool{}
	if k.before != nil {
		already = keys(k.before.Create(defaulted(k.before, object)))
	}
	problems := make([]Problem, 0, len(refusals))
	for _, refusal := range refusals {
		problems = append(problems, Problem{
			Field: cmp.Or(strings.TrimPrefix(refusal.Field, "."), "spec"), Message: k.message(refusal), Refused: true,
			RefusedUntouched: untouched[key(refusal)], Already: already[key(refusal)],
		})
	}
	return problems
}

func defaulted(schema *crd.Schema, object map[string]any) map[string]any {
	object = (&unstructured.Unstructured{Object: object}).DeepCopy().Object
	schema.Default(object)
	return object
}

// touched returns the resource with another endpoint: a field that every kind has, and that no version constrains differently.
func touched(object map[string]any) map[string]any {
	object = (&unstructured.Unstructured{Object: object}).DeepCopy().Object
	if spec, ok := object["spec"].(map[string]any); ok {
		name := "a"
		if spec[render.EndpointField] == name {
			name = "b"
		}
		spec[render.EndpointField] = name
	}
	return object
}

func key(refusal *field.Error) string { return string(refusal.Type) + " " + refusal.Field }

func keys(refusals field.ErrorList) map[string]bool {
	set := make(map[string]bool, len(refusals))
	for _, refusal := range refusals {
		set[key(refusal)] = true
	}
	return set
}

// message describes a refusal without the value that is refused.
func (k *kindRules) message(refusal *field.Error) string {
	switch refusal.Type {
	case field.ErrorTypeRequired:
		return "must be set in version " + k.version
	case field.ErrorTypeNotSupported:
		return "has a value that version " + k.version + " does not allow (" + refusal.Detail + ")"
	}
	return "is refused by version " + k.version + ": " + refusal.Detail
}

// irreversible returns a problem if a custom resource was migrated to a newer version than the one it is evaluated against, and the
// version that runs does not say that older ones can manage such resources.
func (j *Evaluator) irreversible(resource *unstructured.Unstructured) []Problem {
	if j.was == nil || j.was.MigrationReversible || j.was.ID() != j.is.ID() { // Versions of two collections have no order.
		return nil
	}
	if !gate.IsOlder(j.is.Version.String(), j.was.Version.String()) {
		return nil // It does not go back: the user has gone back before.
	}
	status, _ := resource.Object["status"].(map[string]any)
	migration := runstatus.LastMigration(status)
	if migration == nil || !gate.IsOlder(j.is.Version.String(), migration.To) {
		return nil
	}
	return []Problem{{Migrated: true, Message: fmt.Sprintf(
		"was migrated to version %s, and version %s does not declare migrationReversible: version %s cannot manage it",
		printable.Line(migration.To, maxMessage/3), j.was.Version.Original(), j.Version())}}
}
