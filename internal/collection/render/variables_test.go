package render

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func items(t testing.TB, values ...any) []apiextensionsv1.JSON {
	t.Helper()
	var items []apiextensionsv1.JSON
	for _, value := range values {
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, apiextensionsv1.JSON{Raw: raw})
	}
	return items
}

func TestVariables(t *testing.T) {
	pair := func(name string, value any) map[string]any { return map[string]any{"name": name, "value": value} }
	tests := map[string]struct {
		item any
		want map[string]any
	}{
		"text":                  {"PYZ: /usr/lpp/IBM/cyp/v3r8/pyz", map[string]any{"PYZ": "/usr/lpp/IBM/cyp/v3r8/pyz"}},
		"number":                {"n: 42", map[string]any{"n": int64(42)}},
		"float":                 {"n: 0.5", map[string]any{"n": 0.5}},
		"boolean":               {"b: true", map[string]any{"b": true}},
		"boolean of YAML 1.1":   {"b: yes", map[string]any{"b": true}},
		"quoted":                {`b: "yes"`, map[string]any{"b": "yes"}},
		"nothing":               {"x:", map[string]any{"x": nil}},
		"date":                  {"d: 2025-01-01", map[string]any{"d": "2025-01-01"}},
		"comment":               {"x: 1 # one", map[string]any{"x": int64(1)}},
		"colon in a value":      {"x: a:b", map[string]any{"x": "a:b"}},
		"equals in a value":     {"x: a=b", map[string]any{"x": "a=b"}},
		"quoted template":       {`x: "{{ PYZ }}/bin/python3"`, map[string]any{"x": "{{ PYZ }}/bin/python3"}},
		"template":              {`x: {{ PYZ }}/bin/python3`, map[string]any{"x": "{{ PYZ }}/bin/python3"}},
		"trailing line end":     {"x: 1\n", map[string]any{"x": int64(1)}},
		"assignment":            {"n=42", map[string]any{"n": "42"}},
		"assignment of YAML":    {"x=a: [b]", map[string]any{"x": "a: [b]"}},
		"assignment of equals":  {"x = a=b", map[string]any{"x": "a=b"}},
		"assignment of nothing": {"x=", map[string]any{"x": ""}},
		"pair":                  {pair("x", "42"), map[string]any{"x": "42"}},
		"pair with a number":    {pair("x", 42), map[string]any{"x": int64(42)}},
		"pair with null":        {pair("x", nil), map[string]any{"x": nil}},
		"pair with an object": {
			pair("env", map[string]any{"_BPXK_AUTOCVT": "ON", "n": []any{1, 2.5}}),
			map[string]any{"env": map[string]any{"_BPXK_AUTOCVT": "ON", "n": []any{int64(1), 2.5}}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Variables(items(t, tt.item))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVariablesRefuse(t *testing.T) {
	const secret = "s3cr3t"
	tests := map[string]struct {
		item any
		want string
	}{
		"no separator":           {secret, "must be"},
		"colon without a blank":  {"x:" + secret, "must be"},
		"number":                 {42, "must be"},
		"null":                   {nil, "must be"},
		"list":                   {[]any{secret}, "must be"},
		"no name":                {": " + secret, "not an Ansible variable name"},
		"name with a dash":       {"a-b: " + secret, "not an Ansible variable name"},
		"name with a blank":      {"a b: " + secret, "must be"},
		"keyword":                {"class: " + secret, "not an Ansible variable name"},
		"the operator's own":     {"zoscb_playbook: " + secret, "zoscb_playbook"},
		"list in text":           {"x: [" + secret + "]", "list or a mapping"},
		"mapping in text":        {"x: {a: " + secret + "}", "list or a mapping"},
		"mapping within text":    {"x: a: " + secret, "not YAML"},
		"unclosed":               {"x: [" + secret, "not YAML"},
		"alias":                  {"x: *" + secret, "not YAML"},
		"two lines":              {"x: 1\ny: " + secret, "one line"},
		"pair without value":     {map[string]any{"name": "x"}, "must have name"},
		"pair without name":      {map[string]any{"value": secret}, "must have name"},
		"pair with another key":  {map[string]any{"name": "x", "value": secret, "type": "string"}, "must have name"},
		"pair with a false name": {map[string]any{"name": 1, "value": secret}, "must have name"},
		"pair with a bad name":   {map[string]any{"name": "a.b", "value": secret}, "not an Ansible variable name"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Variables(items(t, "ok: 1", tt.item))
			if err == nil {
				t.Fatalf("accepted as %v", got)
			}
			if !strings.HasPrefix(err.Error(), "variables[1]: ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want %q at item 1", err, tt.want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("error %q repeats the value", err)
			}
		})
	}
}

func TestVariablesNamesAllProblems(t *testing.T) {
	_, err := Variables(items(t, "a: 1", "nonsense", "a=2", "b: 1", 7))
	want := []string{"variables[1]: ", "variables[2]: a is already set by item 0", "variables[4]: "}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d problems: %v", len(lines), err)
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("problem %d is %q, want %q", i, lines[i], want[i])
		}
	}
}

// FuzzVariables checks that accepted variables have valid names and can be written to the endpoints' Secret.
func FuzzVariables(f *testing.F) {
	for _, seed := range []any{
		"PYZ: /usr/lpp/IBM/cyp/v3r8/pyz",
		`ansible_python_interpreter: "{{ PYZ }}/bin/python3"`,
		"ansible_python_interpreter={{ PYZ }}/bin/python3",
		"x: .inf", "x: 0x1F", "x: 1e400", "x: !!binary aGk=", "x: &a [*a]", "x: |", "x: ---", "x: \u2028", "",
		map[string]any{"name": "environment_vars", "value": map[string]any{"_BPXK_AUTOCVT": "ON"}},
		42, nil,
	} {
		raw, err := json.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		vars, err := Variables([]apiextensionsv1.JSON{{Raw: raw}})
		if err != nil {
			return
		}
		if len(vars) != 1 {
			t.Fatalf("one item became %v", vars)
		}
		for name := range vars {
			if err := checkVariableName(name); err != nil {
				t.Errorf("accepted %q: %v", name, err)
			}
		}
		if _, err := (Endpoint{Name: "zos1", Variables: vars}).hostVars(true); err != nil {
			t.Errorf("variables %v cannot be written: %v", vars, err)
		}
	})
}
