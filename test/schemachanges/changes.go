// Package schemachanges is a table of changes between two versions of a kind, and of what they mean for custom resources: for none,
// for valid ones, and for one that the new version breaks.
package schemachanges

import (
	"github.com/Masterminds/semver/v3"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// Verdict is what becomes of an upgrade.
type Verdict string

// The verdicts.
const (
	GoesAhead Verdict = "goes ahead"
	// Warns goes ahead too, and something is to be known: a change can break resources but breaks none, or a default changes.
	Warns   Verdict = "goes ahead with a warning"
	Blocked Verdict = "blocked"
	// Conflict is refused by the merge of the CRDs, whether there are resources or not.
	Conflict Verdict = "SchemaConflict"
)

// Effect is what is wrong with a resource that a change breaks.
type Effect string

// The effects.
const (
	// Refused by an API server that validates the whole resource.
	Refused Effect = "refused"
	// RefusedUntouched is Refused also by an API server that ratchets, when another field changes.
	RefusedUntouched Effect = "refused untouched"
	Ignored          Effect = "ignored"
	MeaningChanged   Effect = "meaning changed"
	Removed          Effect = "kind removed"
)

// Spec is a resource's spec without its endpoint.
type Spec map[string]any

// Change is a line of the table. Was and Is are the variables of the kind Thing; a nil Is is a version without the kind.
type Change struct {
	Name    string
	Was, Is []model.Var
	// Back is true if Is is the older version.
	Back bool

	// None is the verdict without a resource.
	None Verdict
	// Valid is a resource that the change does not break, nil if there is none, and WithValid the verdict.
	Valid     Spec
	WithValid Verdict
	// Broken is a resource that blocks the upgrade, nil if there is none, for its Field, with these Effects.
	Broken  Spec
	Field   string
	Effects []Effect
}

// Versions returns the two versions of the collection with a name.
func (c Change) Versions(name string) (was, is *model.Collection) {
	older, newer := "1.0.0", "2.0.0"
	if c.Back {
		older, newer = newer, older
	}
	return version(name, older, c.Was), version(name, newer, c.Is)
}

func version(name, number string, vars []model.Var) *model.Collection {
	c := &model.Collection{
		Domain: "acme", Name: name, Version: semver.MustParse(number), Galaxy: model.Galaxy{Namespace: "acme", Name: "things"},
		Resources: []model.Resource{{Kind: "Other", DisplayName: "Other", Playbook: "other.yml"}},
	}
	if vars != nil {
		c.Resources = append(c.Resources, model.Resource{Kind: "Thing", DisplayName: "Thing", Playbook: "thing.yml", Vars: vars})
	}
	return c
}

// edit returns a variable with changes.
func edit(v model.Var, edits ...func(*model.Var)) model.Var {
	for _, change := range edits {
		change(&v)
	}
	return v
}

func text(name string, edits ...func(*model.Var)) model.Var {
	return edit(model.Var{Name: name, Type: model.String}, edits...)
}

func typed(t model.VarType) func(*model.Var) {
	return func(v *model.Var) { v.Type = t }
}
func required(v *model.Var) { v.Required = true }
func array(v *model.Var)    { v.Array = true }
func defaultTo(value any) func(*model.Var) {
	return func(v *model.Var) { v.Default = value }
}
func options(values ...string) func(*model.Var) {
	return func(v *model.Var) { v.Options = values }
}
func reference(kind string) func(*model.Var) {
	return func(v *model.Var) { v.KindReference = kind }
}
func object(name string, fields []model.Var, edits ...func(*model.Var)) model.Var {
	return edit(model.Var{Name: name, Type: model.Object, Fields: fields}, edits...)
}
func vars(vars ...model.Var) []model.Var {
	return append([]model.Var{text("x")}, vars...)
}

// All is the table.
func All() []Change {
	table := make([]Change, 0, 64)
	for _, part := range [][]Change{added(), requirements(), defaults(), allowed(), removed(), members(), types(), meanings()} {
		table = append(table, part...)
	}
	return table
}

func added() []Change {
	return []Change{
		{Name: "nothing", Was: vars(), Is: vars(), None: GoesAhead, Valid: Spec{"x": "a"}, WithValid: GoesAhead},
		{Name: "other texts", Was: vars(), Is: []model.Var{{Name: "x", Type: model.String, DisplayName: "X", Description: "more"}},
			None: GoesAhead, Valid: Spec{"x": "a"}, WithValid: GoesAhead},
		{Name: "optional field added", Was: vars(), Is: vars(text("y")), None: GoesAhead, Valid: Spec{"x": "a"}, WithValid: GoesAhead},
		{Name: "optional field with default added", Was: vars(), Is: vars(text("y", defaultTo("b"))),
			None: GoesAhead, Valid: Spec{"x": "a"}, WithValid: GoesAhead},
		{Name: "required field added", Was: vars(), Is: vars(text("y", required)), None: Warns,
			Broken: Spec{"x": "a"}, Field: "spec.y", Effects: []Effect{Refused, RefusedUntouched}},
		{Name: "required field with default added", Was: vars(), Is: vars(text("y", required, defaultTo("b"))),
			None: GoesAhead, Valid: Spec{"x": "a"}, WithValid: GoesAhead},
		{Name: "optional switch added", Was: vars(), Is: vars(text("y", typed(model.Boolean))),
			None: GoesAhead, Valid: Spec{"x": "a"}, WithValid: GoesAhead},
		{Name: "required switch added", Was: vars(), Is: vars(text("y", typed(model.Boolean), required)), None: Warns,
			Broken: Spec{"x": "a"}, Field: "spec.y", Effects: []Effect{Refused, RefusedUntouched}},
		{Name: "optional object with a required member added", Was: vars(), Is: vars(object("y", []model.Var{text("a", required)})),
			None: GoesAhead, Valid: Spec{"x": "a"}, WithValid: GoesAhead},
		{Name: "required object added", Was: vars(), Is: vars(object("y", []model.Var{text("a", required)}, required)), None: Warns,
			Broken: Spec{"x": "a"}, Field: "spec.y", Effects: []Effect{Refused, RefusedUntouched}},
		{Name: "required array added", Was: vars(), Is: vars(text("y", array, required)), None: Warns,
			Broken: Spec{"x": "a"}, Field: "spec.y", Effects: []Effect{Refused, RefusedUntouched}},
	}
}

func requirements() []Change {
	return []Change{
		{Name: "now required", Was: vars(text("y")), Is: vars(text("y", required)), None: Warns,
			Valid: Spec{"y": "b"}, WithValid: Warns,
			Broken: Spec{"x": "a"}, Field: "spec.y", Effects: []Effect{Refused, RefusedUntouched}},
		{Name: "array now required", Was: vars(text("y", array)), Is: vars(text("y", array, required)), None: Warns,
			Valid: Spec{"y": []any{}}, WithValid: Warns,
			Broken: Spec{"x": "a"}, Field: "spec.y", Effects: []Effect{Refused, RefusedUntouched}},
		{Name: "object now required", Was: vars(object("y", []model.Var{text("a", required)})), Is: vars(object("y", []model.Var{text("a", required)}, required)),
			None: Warns, Valid: Spec{"y": map[string]any{"a": "b"}}, WithValid: Warns,
			Broken: Spec{"x": "a"}, Field: "spec.y", Effects: []Effect{Refused, RefusedUntouched}},
		{Name: "now required with its default", Was: vars(text("y", defaultTo("b"))), Is: vars(text("y", required, defaultTo("b"))),
			None: GoesAhead, Valid: Spec{"x": "a"}, WithValid: GoesAhead},
		{Name: "switch now required", Was: vars(text("y", typed(model.Boolean))), Is: vars(text("y", typed(model.Boolean), required)),
			None: Warns, Valid: Spec{"y": false}, WithValid: Warns,
			Broken: Spec{"x": "a"}, Field: "spec.y", Effects: []Effect{Refused, RefusedUntouched}},
		{Name: "now optional", Was: vars(text("y", required)), Is: vars(text("y")), None: GoesAhead, Valid: Spec{"y": "b"}, WithValid: GoesAhead},
	}
}

func defaults() []Change {
	return []Change{
		{Name: "required field loses its default", Was: vars(text("y", required, defaultTo("b"))), Is: vars(text("y", required)),
			None: Warns, Valid: Spec{"x": "a"}, WithValid: Warns},
		{Name: "required switch was published with false", Was: vars(text("y", typed(model.Boolean), required, defaultTo(false))), Is: vars(text("y", typed(model.Boolean), required)),
			None: Warns, Valid: Spec{"x": "a"}, WithValid: Warns},
		{Name: "optional field loses its default, resource has it", Was: vars(text("y", defaultTo("b"))), Is: vars(text("y")),
			None: GoesAhead, Valid: Spec{"x": "a"}, WithValid: Warns},
		{Name: "optional field loses its default, resource has another value", Was: vars(text("y", defaultTo("b"))), Is: vars(text("y")),
			None: GoesAhead, Valid: Spec{"y": "c"}, WithValid: GoesAhead},
		{Name: "other default, resource has the former", Was: vars(text("y", typed(model.Integer), defaultTo(int64(3)))), Is: vars(text("y", typed(model.Integer), defaultTo(int64(4)))),
			None: GoesAhead, Valid: Spec{"x": "a"}, WithValid: Warns},
		{Name: "other default, resource has another value", Was: vars(text("y", defaultTo("b"))), Is: vars(text("y", defaultTo("c"))),
			None: GoesAhead, Valid: Spec{"y": "d"}, WithValid: GoesAhead},
		{Name: "new default, resource lacks the field", Was: vars(text("y")), Is: vars(text("y", defaultTo("c"))),
			None: GoesAhead, Valid: Spec{"x": "a"}, WithValid: Warns},
		{Name: "new default, resource sets the field", Was: vars(text("y")), Is: vars(text("y", defaultTo("c"))),
			None: GoesAhead, Valid: Spec{"y": "a"}, WithValid: GoesAhead},
		{Name: "switch is on by default", Was: vars(text("y", typed(model.Boolean))), Is: vars(text("y", typed(model.Boolean), defaultTo(true))),
			None: GoesAhead, Valid: Spec{"x": "a"}, WithValid: Warns},
		{Name: "other default of a member", Was: vars(object("y", []model.Var{text("a", defaultTo("b"))})), Is: vars(object("y", []model.Var{text("a", defaultTo("c"))})),
			None: GoesAhead, Valid: Spec{"x": "a"}, WithValid: Warns},
	}
}

func allowed() []Change {
	return []Change{
		{Name: "option removed", Was: vars(text("y", options("cold", "auto"))), Is: vars(text("y", options("auto"))), None: Warns,
			Valid: Spec{"y": "auto"}, WithValid: Warns,
			Broken: Spec{"y": "cold"}, Field: "spec.y", Effects: []Effect{Refused}},
		{Name: "option replaced", Was: vars(text("y", options("cold", "auto"))), Is: vars(text("y", options("warm", "auto"))), None: Warns,
			Valid: Spec{"y": "auto"}, WithValid: Warns,
			Broken: Spec{"y": "cold"}, Field: "spec.y", Effects: []Effect{Refused}},
		{Name: "option that was the default removed", Was: vars(text("y", options("cold", "auto"), defaultTo("cold"))), Is: vars(text("y", options("auto"), defaultTo("auto"))),
			None: Warns, Valid: Spec{"y": "auto"}, WithValid: Warns,
			Broken: Spec{"x": "a"}, Field: "spec.y", Effects: []Effect{Refused}},
		{Name: "option of a required field removed", Was: vars(text("y", required, options("cold", "auto"))), Is: vars(text("y", required, options("auto"))),
			None: Warns, Valid: Spec{"y": "auto"}, WithValid: Warns,
			Broken: Spec{"y": "cold"}, Field: "spec.y", Effects: []Effect{Refused}},
		{Name: "option added", Was: vars(text("y", options("auto"))), Is: vars(text("y", options("cold", "auto"))), None: GoesAhead,
			Valid: Spec{"y": "auto"}, WithValid: GoesAhead},
		{Name: "options where there were none", Was: vars(text("y")), Is: vars(text("y", options("auto"))), None: Warns,
			Valid: Spec{"x": "a"}, WithValid: Warns,
			Broken: Spec{"y": "b"}, Field: "spec.y", Effects: []Effect{Refused}},
		{Name: "no more options", Was: vars(text("y", options("auto"))), Is: vars(text("y")), None: GoesAhead,
			Valid: Spec{"y": "auto"}, WithValid: GoesAhead},
		{Name: "option of elements removed", Was: vars(text("y", array, options("a", "b"))), Is: vars(text("y", array, options("a"))), None: Warns,
			Valid: Spec{"y": []any{"a", "a"}}, WithValid: Warns,
			Broken: Spec{"y": []any{"a", "b"}}, Field: "spec.y[1]", Effects: []Effect{Refused}},
	}
}

func removed() []Change {
	return []Change{
		{Name: "field removed", Was: vars(text("y")), Is: vars(), None: Warns, Valid: Spec{"x": "a"}, WithValid: Warns,
			Broken: Spec{"y": "b"}, Field: "spec.y", Effects: []Effect{Ignored}},
		{Name: "field removed, resource has an empty text", Was: vars(text("y")), Is: vars(), None: Warns, Valid: Spec{"y": ""}, WithValid: Warns},
		{Name: "field with default removed", Was: vars(text("y", defaultTo("b"))), Is: vars(), None: Warns,
			Valid: Spec{"x": "a"}, WithValid: Warns,
			Broken: Spec{"y": "c"}, Field: "spec.y", Effects: []Effect{Ignored}},
		{Name: "required field removed", Was: vars(text("y", required)), Is: vars(), None: Warns,
			Broken: Spec{"y": "b"}, Field: "spec.y", Effects: []Effect{Ignored}},
		{Name: "switch removed", Was: vars(text("y", typed(model.Boolean))), Is: vars(), None: Warns, Valid: Spec{"x": "a"}, WithValid: Warns,
			Broken: Spec{"y": true}, Field: "spec.y", Effects: []Effect{Ignored}},
		{Name: "number removed", Was: vars(text("y", typed(model.Integer), defaultTo(int64(3)))), Is: vars(), None: Warns, Valid: Spec{"y": int64(3)}, WithValid: Warns,
			Broken: Spec{"y": int64(0)}, Field: "spec.y", Effects: []Effect{Ignored}},
		{Name: "array removed", Was: vars(text("y", array)), Is: vars(), None: Warns, Valid: Spec{"y": []any{}}, WithValid: Warns,
			Broken: Spec{"y": []any{"a"}}, Field: "spec.y", Effects: []Effect{Ignored}},
		{Name: "object removed", Was: vars(object("y", []model.Var{text("a", defaultTo("b"))})), Is: vars(), None: Warns, Valid: Spec{"x": "a"}, WithValid: Warns,
			Broken: Spec{"y": map[string]any{"a": "c"}}, Field: "spec.y", Effects: []Effect{Ignored}},
		{Name: "field renamed", Was: vars(text("y")), Is: vars(text("z")), None: Warns, Valid: Spec{"x": "a"}, WithValid: Warns,
			Broken: Spec{"y": "b"}, Field: "spec.y", Effects: []Effect{Ignored}},
		{Name: "required field renamed", Was: vars(text("y", required)), Is: vars(text("z", required)), None: Warns,
			Broken: Spec{"y": "b"}, Field: "spec.z", Effects: []Effect{Refused, RefusedUntouched}},
		{Name: "back to a version without a field", Was: vars(text("y")), Is: vars(), Back: true, None: Warns, Valid: Spec{"x": "a"}, WithValid: Warns,
			Broken: Spec{"y": "b"}, Field: "spec.y", Effects: []Effect{Ignored}},
		{Name: "back to a version with fewer options", Was: vars(text("y", options("a", "b"))), Is: vars(text("y", options("a"))), Back: true, None: Warns,
			Valid: Spec{"y": "a"}, WithValid: Warns,
			Broken: Spec{"y": "b"}, Field: "spec.y", Effects: []Effect{Refused}},
		{Name: "kind removed", Was: vars(), None: Warns, Broken: Spec{"x": "a"}, Effects: []Effect{Removed}},
	}
}

func members() []Change {
	one := func(fields ...model.Var) []model.Var { return vars(object("y", fields)) }
	many := func(fields ...model.Var) []model.Var { return vars(object("y", fields, array)) }
	return []Change{
		{Name: "optional member added", Was: one(text("a")), Is: one(text("a"), text("b")), None: GoesAhead,
			Valid: Spec{"y": map[string]any{"a": "c"}}, WithValid: GoesAhead},
		{Name: "required member added", Was: one(text("a")), Is: one(text("a"), text("b", required)), None: Warns,
			Broken: Spec{"y": map[string]any{"a": "c"}}, Field: "spec.y.b", Effects: []Effect{Refused}},
		{Name: "required member with default added", Was: one(text("a")), Is: one(text("a"), text("b", required, defaultTo("d"))), None: GoesAhead,
			Valid: Spec{"y": map[string]any{"a": "c"}}, WithValid: GoesAhead},
		{Name: "required member of elements added", Was: many(text("a")), Is: many(text("a"), text("b", required)), None: Warns,
			Valid: Spec{"y": []any{}}, WithValid: Warns,
			Broken: Spec{"y": []any{map[string]any{"a": "c"}}}, Field: "spec.y[0].b", Effects: []Effect{Refused}},
		{Name: "member now required", Was: one(text("a"), text("b")), Is: one(text("a"), text("b", required)), None: Warns,
			Valid: Spec{"y": map[string]any{"b": "c"}}, WithValid: Warns,
			Broken: Spec{"y": map[string]any{"a": "c"}}, Field: "spec.y.b", Effects: []Effect{Refused}},
		{Name: "member removed", Was: one(text("a"), text("b")), Is: one(text("a")), None: Warns,
			Valid: Spec{"y": map[string]any{"a": "c"}}, WithValid: Warns,
			Broken: Spec{"y": map[string]any{"b": "c"}}, Field: "spec.y.b", Effects: []Effect{Ignored}},
		{Name: "member of elements removed", Was: many(text("a"), text("b")), Is: many(text("a")), None: Warns,
			Valid: Spec{"y": []any{map[string]any{"a": "c"}}}, WithValid: Warns,
			Broken: Spec{"y": []any{map[string]any{"a": "c"}, map[string]any{"b": "c"}}}, Field: "spec.y[1].b", Effects: []Effect{Ignored}},
		{Name: "option of a member removed", Was: one(text("a", options("b", "c"))), Is: one(text("a", options("b"))), None: Warns,
			Valid: Spec{"y": map[string]any{"a": "b"}}, WithValid: Warns,
			Broken: Spec{"y": map[string]any{"a": "c"}}, Field: "spec.y.a", Effects: []Effect{Refused}},
		{Name: "option of a member of elements removed", Was: many(text("a", options("b", "c"))), Is: many(text("a", options("b"))), None: Warns,
			Valid: Spec{"y": []any{map[string]any{"a": "b"}}}, WithValid: Warns,
			Broken: Spec{"y": []any{map[string]any{"a": "c"}}}, Field: "spec.y[0].a", Effects: []Effect{Refused}},
	}
}

func types() []Change {
	change := func(name string, was, is model.Var) Change {
		return Change{Name: name, Was: vars(was), Is: vars(is), None: Conflict}
	}
	return []Change{
		change("text becomes a number", text("y"), text("y", typed(model.Integer))),
		change("integer becomes a number", text("y", typed(model.Integer)), text("y", typed(model.Number))),
		change("text becomes an array", text("y"), text("y", array)),
		change("text becomes a switch", text("y"), text("y", typed(model.Boolean))),
		change("object becomes a text", object("y", []model.Var{text("a")}), text("y")),
		change("object becomes an array", object("y", []model.Var{text("a")}), object("y", []model.Var{text("a")}, array)),
		change("type of a member", object("y", []model.Var{text("a")}), object("y", []model.Var{text("a", typed(model.Number))})),
		change("type of elements", text("y", array), text("y", array, typed(model.Integer))),
	}
}

func meanings() []Change {
	change := func(name string, was, is model.Var) Change {
		return Change{Name: name, Was: vars(was), Is: vars(is), None: Warns, Valid: Spec{"x": "a"}, WithValid: Warns,
			Broken: Spec{"y": "b"}, Field: "spec.y", Effects: []Effect{MeaningChanged}}
	}
	password := typed(model.Password)
	member := change("member becomes a password", object("y", []model.Var{text("a")}), object("y", []model.Var{text("a", password)}))
	member.Broken, member.Field = Spec{"y": map[string]any{"a": "b"}}, "spec.y.a"
	elements := change("reference of elements", text("y", array, reference("Thing")), text("y", array, reference("Other")))
	elements.Broken = Spec{"y": []any{"b"}}
	return []Change{
		change("text becomes a password", text("y"), text("y", password)),
		change("password becomes a text", text("y", password), text("y")),
		change("text becomes a reference", text("y"), text("y", reference("Other"))),
		change("reference becomes a text", text("y", reference("Other")), text("y")),
		change("reference to another kind", text("y", reference("Thing")), text("y", reference("Other"))),
		member, elements,
	}
}
