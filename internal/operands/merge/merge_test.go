package merge

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	document, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var value map[string]any
	if err := utiljson.Unmarshal(document, &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

// rows are what the Operand Deployment Lifecycle Manager was seen to do.
var rows = []struct{ name, defaults, changed, want string }{
	{"1 maps", "{svc: {port: 8080, type: IP}}", "{svc: {port: 8081}}", "{svc: {port: 8081, type: IP}}"},
	{"2 lists of scalars", "{a: [x, y], z: [q]}", "{a: [w], p: [r]}", "{a: [w], z: [q], p: [r]}"},
	{"3 lists of maps, by index and not by name", "{e: [{n: A, v: 1, k: t}, {n: B}]}", "{e: [{n: B}]}", "{e: [{n: B, v: 1, k: t}]}"},
	{"4 a longer list of maps", "{e: [{n: A}]}", "{e: [{v: 2}, {n: C}]}", "{e: [{n: A, v: 2}, {n: C}]}"},
	{"5 null in changed", "{s: 3, m: {a: 1}, l: [1]}", "{s: null, m: null, n: null}", "{s: 3, m: {a: 1}, l: [1], n: null}"},
	{"6 null in defaults", "{a: null, b: 1}", "{}", "{b: 1}"},
	{"7 empty values", "{m: {a: 1}, l: [1], t: true, n: 5}", "{m: {}, l: [], t: false, n: 0}", "{m: {a: 1}, l: [], t: false, n: 0}"},
	{"8 other types", "{r: {c: 1}, l: [x]}", "{r: none, l: {k: 1}}", "{r: none, l: {k: 1}}"},
	{"9 maps and lists in lists", "{l: [{m: {a: 1, b: 2}, k: [1]}]}", "{l: [{m: {a: 5}}]}", "{l: [{m: {a: 5, b: 2}, k: [1]}]}"},
}

func TestMerge(t *testing.T) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if diff := cmp.Diff(parse(t, row.want), Merge(parse(t, row.defaults), parse(t, row.changed))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A list may have maps and scalars, and what is given may be nothing.
func TestMergeOfUnlikeItems(t *testing.T) {
	got := Merge(parse(t, "{l: [{a: 1}, x, {b: 1}]}"), parse(t, "{l: [y, {c: 1}, {d: 9007199254740993}]}"))
	if diff := cmp.Diff(parse(t, "{l: [y, {c: 1}, {b: 1, d: 9007199254740993}]}"), got); diff != "" {
		t.Error(diff)
	}
	if got := Merge(nil, nil); got == nil || len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

func TestUpdate(t *testing.T) {
	got := Update(parse(t, "{s: 1, new: t}"), parse(t, "{s: 5, u: x}"), parse(t, "{s: 3}")) // Row 10.
	if diff := cmp.Diff(parse(t, "{s: 3, u: x, new: t}"), got); diff != "" {
		t.Error(diff)
	}
}

func TestConfiguration(t *testing.T) {
	for name, test := range map[string]struct{ example, others, config, want string }{
		"a new resource":                         {"{s: 1, m: {a: 1}}", "{}", "{m: {b: 2}, n: null}", "{s: 1, m: {a: 1, b: 2}}"},
		"a field that others added":              {"{s: 1}", "{u: x, m: {v: 1}}", "{m: {b: 2}}", "{s: 1, m: {b: 2}}"},
		"a field of the example, set by others":  {"{s: 1}", "{s: 5}", "{}", "{s: 5}"},
		"a field of the config, set by others":   {"{s: 1}", "{s: 5}", "{s: 3}", "{s: 3}"},
		"a field that the config has no longer":  {"{s: 1}", "{}", "{}", "{s: 1}"},
		"a list, of which others wrote an entry": {"{}", "{l: [{a: 1}, {b: 1}]}", "{l: [{c: 1}]}", "{l: [{a: 1, c: 1}]}"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Configuration(parse(t, test.example), parse(t, test.others), parse(t, test.config))
			if diff := cmp.Diff(parse(t, test.want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWithoutOwned(t *testing.T) {
	entry := func(manager string, operation metav1.ManagedFieldsOperationType, text string) metav1.ManagedFieldsEntry {
		raw, err := json.Marshal(parse(t, text))
		if err != nil {
			t.Fatal(err)
		}
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw))}
	}
	managed := []metav1.ManagedFieldsEntry{
		entry("us", metav1.ManagedFieldsOperationApply, `{"f:spec": {".": {}, "f:own": {}, "f:shared": {}, "f:map": {"f:own": {}, "f:shared": {}}, "f:alone": {".": {}, "f:own": {}},
			"f:list": {}, "f:items": {'k:{"name":"a"}': {".": {}, "f:name": {}}}, "f:gone": {}}}`),
		entry("us", metav1.ManagedFieldsOperationUpdate, `{"f:spec": {"f:updated": {}}}`),
		entry("user", metav1.ManagedFieldsOperationUpdate, `{"f:spec": {"f:shared": {}, "f:map": {"f:shared": {}, "f:theirs": {}}}}`),
	}
	content := parse(t, "{spec: {own: 1, shared: 2, map: {own: 3, shared: 4, theirs: 5}, alone: {own: 6}, list: [7], items: [{name: a}], updated: 8, defaulted: 9}}")
	want := parse(t, "{spec: {shared: 2, map: {shared: 4, theirs: 5}, updated: 8, defaulted: 9}}")
	if diff := cmp.Diff(want, WithoutOwned(content, managed, "us")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(content, WithoutOwned(content, managed, "nobody")); diff != "" {
		t.Error(diff)
	}
	if !Owns(managed, "us", "f:spec", "f:items", `k:{"name":"a"}`) || Owns(managed, "us", "f:spec", "f:items", `k:{"name":"b"}`) || Owns(managed, "user", "f:spec", "f:own") {
		t.Error("wrong owner")
	}
}

// Whatever is merged, nothing that was given is changed, and merging again changes nothing.
func FuzzMerge(f *testing.F) {
	for _, row := range rows {
		f.Add(row.defaults, row.changed)
	}
	f.Add("{l: [{a: 1}, x]}", "{l: [x, {a: 1}, null]}")
	f.Fuzz(func(t *testing.T, first, second string) {
		var defaults, changed map[string]any
		if yaml.Unmarshal([]byte(first), &defaults) != nil || yaml.Unmarshal([]byte(second), &changed) != nil {
			return
		}
		before := []string{marshal(t, defaults), marshal(t, changed)}
		merged := Merge(defaults, changed)
		if again := Merge(defaults, merged); !reflect.DeepEqual(merged, again) {
			t.Errorf("%s has become %s", marshal(t, merged), marshal(t, again))
		}
		for key, value := range changed {
			if _, exists := merged[key]; !exists {
				t.Errorf("%s: %v is lost", key, value)
			}
		}
		configuration := Configuration(defaults, changed, changed)
		overlaid := Overlay(changed, configuration)
		if again := Overlay(overlaid, configuration); !reflect.DeepEqual(overlaid, again) {
			t.Errorf("%s has become %s", marshal(t, overlaid), marshal(t, again))
		}
		if after := []string{marshal(t, defaults), marshal(t, changed)}; !reflect.DeepEqual(before, after) {
			t.Errorf("%s has become %s", before, after)
		}
	})
}

func marshal(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Skip("YAML has values that JSON does not have")
	}
	return string(text)
}
