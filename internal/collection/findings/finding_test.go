package findings

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCount(t *testing.T) {
	of := func(severities ...Severity) (problems Problems) {
		for _, severity := range severities {
			problems = append(problems, Problem{Severity: severity})
		}
		return problems
	}
	const e, w, i = SeverityError, SeverityWarning, SeverityInfo
	for _, test := range []struct {
		problems Problems
		want     string
	}{
		{of(), ""}, {of(w), "1 warning"}, {of(i, e, e), "2 errors and 1 hint"}, {of(w, i, w, e, i), "1 error, 2 warnings and 2 hints"},
	} {
		if got := test.problems.Count(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestWithoutIgnoresPlaces(t *testing.T) {
	a, b := Problem{File: "f", Line: 1, Rule: "r", Message: "a"}, Problem{File: "f", Line: 2, Rule: "r", Message: "b"}
	moved := a
	moved.Line = 7
	for _, test := range []struct{ problems, others, want Problems }{
		{Problems{a, b}, Problems{moved}, Problems{b}},
		{Problems{a, moved}, Problems{a}, Problems{moved}},
		{Problems{a}, Problems{a, moved}, nil},
		{Problems{a}, nil, Problems{a}},
	} {
		if diff := cmp.Diff(test.want, test.problems.Without(test.others)); diff != "" {
			t.Errorf("%v without %v (-want +got):\n%s", test.problems, test.others, diff)
		}
	}
}

func TestNoFindingsAreAListInJSON(t *testing.T) {
	if got, err := json.Marshal(Problems(nil).Listed("x")); err != nil || string(got) != "[]" {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestMeant(t *testing.T) {
	known := []string{"kind", "playbook", "finalizer", "displayName", "description", "apiGroups", "resources", "resourceNames"}
	for name, want := range map[string]string{
		"finaliser": "finalizer", "display_name": "displayName", "DISPLAY-NAME": "displayName", "knd": "kind", "ki": "", "kinds": "kind",
		"apiGroup": "apiGroups", "resource": "resources", "dezcriptiom": "description", "play": "", "": "", "resourceName": "resourceNames",
	} {
		if got := Meant(name, known); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	if got := Meant("sizes", []string{"size", "sizer"}); got != "" {
		t.Errorf("two are as near, and %q is taken", got)
	}
}

func TestFixApply(t *testing.T) {
	for _, test := range []struct {
		name, content string
		fix           Fix
		want          string
	}{
		{"plain", "a: b # c\n", Fix{Line: 1, Column: 4, Old: "b", New: "x"}, "a: x # c\n"},
		{"plain that needs quotes", "a: b\n", Fix{Line: 1, Column: 4, Old: "b", New: "x: y"}, "a: 'x: y'\n"},
		{"single quotes", "a: 'it''s'\n", Fix{Line: 1, Column: 4, Old: "it's", New: "isn't"}, "a: 'isn''t'\n"},
		{"double quotes", "a: \"b\"\n", Fix{Line: 1, Column: 4, Old: "b", New: "x"}, "a: \"x\"\n"},
		{"double quotes and a backslash", "a: \"b\"\n", Fix{Line: 1, Column: 4, Old: "b", New: `\d`}, "a: '\\d'\n"},
		{"another value", "a: b\n", Fix{Line: 1, Column: 4, Old: "c", New: "x"}, ""},
		{"the beginning of a value", "a: bc\n", Fix{Line: 1, Column: 4, Old: "b", New: "x"}, ""},
		{"no such line", "a: b\n", Fix{Line: 3, Column: 4, Old: "b", New: "x"}, ""},
		{"no such column", "a: b\n", Fix{Line: 1, Column: 9, Old: "b", New: "x"}, ""},
		{"another type", "a: true\n", Fix{Line: 1, Column: 4, Old: "true", New: "x"}, ""},
		{"several lines", "a: b\n  c\n", Fix{Line: 1, Column: 4, Old: "b c", New: "x"}, ""},
		{"block", "a: |\n  b\n", Fix{Line: 1, Column: 4, Old: "b\n", New: "x"}, ""},
		{"anchor", "a: &x b\nc: *x\n", Fix{Line: 1, Column: 4, Old: "b", New: "x"}, ""},
		{"no YAML", "a: [b\n", Fix{Line: 1, Column: 5, Old: "b", New: "x"}, ""},
		{"key", "{é: 1, b: 2}\n", Fix{Line: 1, Column: 8, Old: "b", New: "x"}, "{é: 1, x: 2}\n"},
		{"quotes", "a: b: c\n", Fix{Line: 1, Column: 4, Old: "b: c", Quote: true}, "a: 'b: c'\n"},
		{"quotes that are not enough", "a: b: c\nd: [\n", Fix{Line: 1, Column: 4, Old: "b: c", Quote: true}, ""},
		{"no quotes where the text has a meaning", "a: b\n", Fix{Line: 1, Column: 4, Old: "b", Quote: true}, ""},
	} {
		got, ok := test.fix.Apply([]byte(test.content))
		if test.want == "" {
			test.want = test.content
			if ok {
				t.Errorf("%s: is fixed", test.name)
			}
		}
		if string(got) != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}
