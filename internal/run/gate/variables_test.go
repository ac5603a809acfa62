package gate

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var kind = KindSettings{Variables: []Variable{
	{Name: "name"},
	{Name: "size", Default: json.RawMessage(`80`)},
	{Name: "mode", Default: json.RawMessage(`"{{ x }}"`)},
	{Name: "password", Secret: true},
	{Name: "passwords", Secret: true},
	{Name: "queue", Reference: "queues"},
	{Name: "owner_info", Fields: []Variable{
		{Name: "user"}, {Name: "level", Default: json.RawMessage(`1`)}, {Name: "token", Secret: true}, {Name: "topic", Reference: "topics"},
	}},
	{Name: "disks", Fields: []Variable{{Name: "volume"}, {Name: "unit", Default: json.RawMessage(`"CYL"`)}}},
	{Name: "limits", Default: json.RawMessage(`{}`), Fields: []Variable{{Name: "max", Default: json.RawMessage(`3`)}}},
	{Name: "free"},
}}

// decode reads JSON; its numbers are json.Number if exact, else float64.
func decode(t *testing.T, text string, exact bool) map[string]any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	if exact {
		decoder.UseNumber()
	}
	var out map[string]any
	if err := decoder.Decode(&out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

var declaredCases = map[string]struct {
	spec, want string
	ignored    []string
}{
	"empty": {`{}`, `{"size":80,"mode":"{{ x }}","limits":{"max":3}}`, nil},
	"given": {
		`{"zosendpoint":"z1","name":"a","size":1.0,"mode":"","limits":{"max":4},"free":[1,"x",null,{"y":true}]}`,
		`{"zosendpoint":"z1","name":"a","size":1,"mode":"","limits":{"max":4},"free":[1,"x",null,{"y":true}]}`, nil,
	},
	"null is no value where there is a default": {`{"size":null,"mode":"m","name":null}`, `{"size":80,"mode":"m","name":null,"limits":{"max":3}}`, nil},
	"undeclared": {
		`{"pyz":"/tmp","Name":"x","size":1,"mode":"m","limits":{"max":1}}`, `{"size":1,"mode":"m","limits":{"max":1}}`, []string{"Name", "pyz"},
	},
	"undeclared in objects": {
		`{"size":1,"mode":"m","limits":{"max":1,"pyz":{"a":1}},"owner_info":{"user":"u","pyz":2}}`,
		`{"size":1,"mode":"m","limits":{"max":1},"owner_info":{"user":"u","level":1}}`, []string{"limits.pyz", "owner_info.pyz"},
	},
	"undeclared in lists, once each": {
		`{"size":1,"mode":"m","limits":{"max":1},"disks":[{"volume":"A","pyz":1},{"unit":"TRK","pyz":2},"odd",[{"pyz":3}]]}`,
		`{"size":1,"mode":"m","limits":{"max":1},"disks":[{"volume":"A","unit":"CYL"},{"unit":"TRK"},"odd",[{"unit":"CYL"}]]}`, []string{"disks.pyz"},
	},
	"another type than declared": {`{"size":1,"mode":"m","limits":"many","disks":7}`, `{"size":1,"mode":"m","limits":"many","disks":7}`, nil},
	"an object that looks like a mark": {
		`{"size":1,"mode":"m","limits":{},"free":{"__ansible_unsafe":"x"},"name":{"__ansible_unsafe":{"__ansible_unsafe":"x"}}}`,
		`{"size":1,"mode":"m","limits":{"max":3},"free":{"__ansible_unsafe":"x"},"name":{"__ansible_unsafe":{"__ansible_unsafe":"x"}}}`, nil,
	},
	"a declared object that looks like a mark": {
		`{"size":1,"mode":"m","limits":{"__ansible_unsafe":"x"}}`, `{"size":1,"mode":"m","limits":{"max":3}}`, []string{"limits.__ansible_unsafe"},
	},
	"names of the watch": {
		`{"size":1,"mode":"m","limits":{},"zoscb_odd":"x"}`, `{"size":1,"mode":"m","limits":{"max":3}}`, []string{"zoscb_odd"},
	},
}

// The live spec, and the same handed over, give the same variables, whatever the type of their numbers.
func TestDeclared(t *testing.T) {
	for name, tc := range declaredCases {
		t.Run(name, func(t *testing.T) {
			want := normalize(decode(t, tc.want, true))
			for form, spec := range map[string]map[string]any{
				"live":        decode(t, tc.spec, false),
				"live, exact": decode(t, tc.spec, true),
				"handed over": ReceivedSpec(handOver(decode(t, tc.spec, false))),
			} {
				got, ignored := kind.Declared(spec)
				if !reflect.DeepEqual(any(got), want) {
					t.Errorf("%s: variables (-want +got):\n%s", form, cmp.Diff(want, got))
				}
				if diff := cmp.Diff(tc.ignored, ignored); diff != "" {
					t.Errorf("%s: ignored (-want +got):\n%s", form, diff)
				}
			}
		})
	}
}

const object = "_acme_example_com_queue"

// handOver returns what ansible-operator writes for a spec.
func handOver(spec map[string]any) map[string]any {
	vars := map[string]any{}
	for name, value := range spec {
		vars[name] = MarkUnsafe(value)
	}
	vars["ansible_operator_meta"] = map[string]any{"name": "q1", "namespace": "team-a"}
	vars[object+"_spec"] = MarkUnsafe(spec)
	for name, value := range map[string]any{
		"zoscb_playbook": "/opt/ansible/content/p.yml", "zoscb_inventory_name": "", "k8s_managed": true, "k8s_cr_event": "create",
		"k8s_cr_group": "acme.example.com", "k8s_cr_version": "acme.example.com/v1", "k8s_cr_kind": "Queue", object: map[string]any{},
	} {
		vars[name] = value
	}
	return vars
}

func TestExtraVars(t *testing.T) {
	for name, tc := range declaredCases {
		t.Run(name, func(t *testing.T) {
			vars, ignored := NewSupply(kind, nil, Set{}, false).ExtraVars(handOver(decode(t, tc.spec, true)))
			want := handOver(normalize(decode(t, tc.want, true)).(map[string]any))
			if diff := cmp.Diff(want, vars); diff != "" {
				t.Errorf("extra vars (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.ignored, ignored); diff != "" {
				t.Errorf("ignored (-want +got):\n%s", diff)
			}
		})
	}
}

// What is added to a collection later reaches no run of the version that does not declare it.
func TestExtraVarsDropWhatAnotherVersionDeclares(t *testing.T) {
	given := handOver(map[string]any{"name": "a", "PYZ": "/tmp/evil", "owner_info": map[string]any{"PYZ": "/tmp/evil"}})
	vars, ignored := NewSupply(kind, nil, Set{}, false).ExtraVars(given)
	if diff := cmp.Diff([]string{"PYZ", "owner_info.PYZ"}, ignored); diff != "" {
		t.Errorf("ignored (-want +got):\n%s", diff)
	}
	out, err := json.Marshal(vars)
	if err != nil || strings.Contains(string(out), "evil") {
		t.Errorf("extra vars have the dropped value: %s, %v", out, err)
	}
}

func TestExtraVarsKeepTheNamesOfTheWatch(t *testing.T) {
	hostile := KindSettings{Variables: []Variable{
		{Name: "zoscb_playbook", Default: json.RawMessage(`"/evil"`)}, {Name: "k8s_cr_event", Default: json.RawMessage(`"evil"`)},
		{Name: object, Default: json.RawMessage(`"evil"`)}, {Name: object + "_spec", Default: json.RawMessage(`"evil"`)},
	}}
	given := handOver(map[string]any{})
	given[object] = map[string]any{"spec": "{{ evil }}"}
	vars, _ := NewSupply(hostile, nil, Set{}, false).ExtraVars(given)
	if out, err := json.Marshal(vars[object]); err != nil || string(out) != "{}" {
		t.Errorf("%s is %s", object, out)
	}
	if vars["zoscb_playbook"] != "/opt/ansible/content/p.yml" || vars["k8s_cr_event"] != "create" {
		t.Errorf("variables of the watch are overridden: %v", vars)
	}
	if spec, ok := vars[object+"_spec"].(map[string]any); !ok {
		t.Errorf("%s_spec is %v", object, spec)
	}
	delete(given, "zoscb_inventory_name")
	absent := KindSettings{Variables: []Variable{{Name: "zoscb_inventory_name", Default: json.RawMessage(`"evil"`)}}}
	if vars, _ := NewSupply(absent, nil, Set{}, false).ExtraVars(given); vars["zoscb_inventory_name"] != nil {
		t.Errorf("a variable of the watch that is absent is set to %v", vars["zoscb_inventory_name"])
	}
}

func TestMarkedTextIsNeverATemplate(t *testing.T) {
	vars, _ := NewSupply(kind, nil, Set{}, false).ExtraVars(handOver(map[string]any{"name": "{{ lookup('pipe', 'id') }}"}))
	for _, name := range []string{"name", "mode"} {
		marked, ok := vars[name].(map[string]any)
		if _, isText := marked[unsafeKey].(string); !ok || !isText || len(marked) != 1 {
			t.Errorf("%s is %v, want marked text", name, vars[name])
		}
	}
}

func TestNamesInVariables(t *testing.T) {
	for name, tc := range map[string]struct {
		spec                string
		secrets, references []string
	}{
		"none":    {`{"name":"a"}`, nil, nil},
		"empty":   {`{"password":"","queue":"","passwords":[]}`, nil, nil},
		"odd":     {`{"password":7,"queue":{"a":"b"},"passwords":[null,true]}`, nil, nil},
		"several": {`{"password":"s2","passwords":["s3","s1","s2"],"queue":"q1"}`, []string{"s1", "s2", "s3"}, []string{"queues/q1"}},
		"nested": {
			`{"owner_info":{"token":"t1","topic":"x","user":"u"},"queue":["q2","q1"]}`, []string{"t1"},
			[]string{"queues/q1", "queues/q2", "topics/x"},
		},
		"nested in a list": {`{"owner_info":[{"token":"t2"},{"token":"t1"}]}`, []string{"t1", "t2"}, nil},
		"lists in lists":   {`{"passwords":[["s2"],[["s1"]]],"owner_info":[[{"token":"t1"}]]}`, []string{"s1", "s2", "t1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			vars, _ := kind.Declared(decode(t, tc.spec, true))
			if diff := cmp.Diff(tc.secrets, kind.SecretNames(vars)); diff != "" {
				t.Errorf("Secrets (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.references, kind.References(vars)); diff != "" {
				t.Errorf("references (-want +got):\n%s", diff)
			}
		})
	}
}

// A value that is not marked stays as it is.
func TestHandedOverKeepsPlainValues(t *testing.T) {
	given := map[string]any{"name": "a", "free": map[string]any{unsafeKey: "x", "more": []any{"y"}}}
	if diff := cmp.Diff(given, ReceivedSpec(given)); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}
