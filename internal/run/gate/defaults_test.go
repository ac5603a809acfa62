package gate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// versionOne and versionTwo are the variables of two versions of a kind.
var (
	versionOne = KindSettings{Variables: []Variable{
		{Name: "title"}, {Name: "mode", Default: json.RawMessage(`"x"`)}, {Name: "gained"}, {Name: "lost", Default: json.RawMessage("1")},
		{Name: "owner", Fields: []Variable{{Name: "office", Default: json.RawMessage(`"Hursley"`)}}},
		{Name: "items", Fields: []Variable{{Name: "a"}, {Name: "b", Default: json.RawMessage(`"x"`)}}},
	}}
	versionTwo = KindSettings{Variables: []Variable{
		{Name: "title"}, {Name: "mode", Default: json.RawMessage(`"y"`)}, {Name: "gained", Default: json.RawMessage("true")}, {Name: "lost"},
		{Name: "added", Default: json.RawMessage(`{"n": 1}`)},
		{Name: "owner", Fields: []Variable{{Name: "office", Default: json.RawMessage(`"Yorktown"`)}}},
		{Name: "items", Fields: []Variable{{Name: "a"}, {Name: "b", Default: json.RawMessage(`"y"`)}, {Name: "c", Default: json.RawMessage("7")}}},
	}}
)

func supply(kind KindSettings, spec map[string]any, set Set, last *Record, accepts bool) (Supply, map[string]any) {
	s := NewSupply(kind, last, set, accepts)
	vars, _ := s.Declared(spec)
	return s, vars
}

// ranAs returns the record of a run with a spec as the API server returns it.
func ranAs(kind KindSettings, digest string, spec map[string]any) *Record {
	s, vars := supply(kind, spec, Set{}, nil, false)
	return &Record{RunID: "1", Event: EventCreate, Outcome: OutcomeSucceeded, Defaults: s.RanWith(vars),
		Fingerprint: key.Fingerprint(Facts{Event: EventCreate, Kind: kind, Variables: vars, Digest: digest})}
}

func item(a, b string) map[string]any { return map[string]any{"a": a, "b": b} }

func owned(manager, operation, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationType(operation), FieldsV1: metav1.NewFieldsV1(`{"f:spec":` + fields + `}`),
	}
}

func TestSupply(t *testing.T) {
	resource := func(annotation string, entries ...metav1.ManagedFieldsEntry) Set {
		meta := &metav1.ObjectMeta{ManagedFields: entries}
		if annotation != "" {
			meta.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": annotation}
		}
		return SetOf(meta)
	}
	for name, tc := range map[string]struct {
		was, is  map[string]any
		set      Set
		accepts  bool
		want     string
		starts   bool
		kept     string
		newNames string
	}{
		"stored defaults stay": {
			was: map[string]any{"mode": "x", "lost": int64(1)}, is: map[string]any{"mode": "x", "lost": int64(1)},
			want: `{"added":{"n":1},"gained":true,"lost":1,"mode":"x"}`, newNames: "added gained",
		},
		"defaults that are not stored": {
			want: `{"added":{"n":1},"gained":true,"lost":1,"mode":"x"}`, kept: `lost:1< mode:"x"<"y"`, newNames: "added gained",
		},
		"stored new defaults": {
			is:   map[string]any{"mode": "y", "gained": true, "added": map[string]any{"n": int64(1)}},
			want: `{"added":{"n":1},"gained":true,"lost":1,"mode":"x"}`, kept: `lost:1< mode:"x"<"y"`, newNames: "added gained",
		},
		"the gate and ansible-operator own the new default": {
			is:   map[string]any{"mode": "y"},
			set:  resource("", owned(FieldManager, "Update", `{"f:mode":{}}`), owned("ansible-operator", "Update", `{"f:mode":{}}`)),
			want: `{"added":{"n":1},"gained":true,"lost":1,"mode":"x"}`, kept: `lost:1< mode:"x"<"y"`, newNames: "added gained",
		},
		"a user has set the new default": {
			is: map[string]any{"mode": "y"}, set: resource("", owned("flux", "Apply", `{"f:mode":{}}`)),
			want: `{"added":{"n":1},"gained":true,"lost":1,"mode":"y"}`, starts: true, kept: "lost:1<", newNames: "added gained",
		},
		"kubectl apply without the field": {
			is: map[string]any{"mode": "y"}, set: resource(`{"spec":{"title":"t"}}`, owned("kubectl-client-side-apply", "Update", `{"f:mode":{}}`)),
			want: `{"added":{"n":1},"gained":true,"lost":1,"mode":"x"}`, kept: `lost:1< mode:"x"<"y"`, newNames: "added gained",
		},
		"kubectl apply with the field": {
			is: map[string]any{"mode": "y"}, set: resource(`{"spec":{"mode":"y"}}`),
			want: `{"added":{"n":1},"gained":true,"lost":1,"mode":"y"}`, starts: true, kept: "lost:1<", newNames: "added gained",
		},
		"another value": {
			is: map[string]any{"mode": "z"}, want: `{"added":{"n":1},"gained":true,"lost":1,"mode":"z"}`, starts: true, kept: "lost:1<", newNames: "added gained",
		},
		"a member of an object": {
			was: map[string]any{"owner": map[string]any{"office": "Hursley"}}, is: map[string]any{"owner": map[string]any{"office": "Yorktown"}},
			want: `{"added":{"n":1},"gained":true,"lost":1,"mode":"x","owner":{"office":"Hursley"}}`,
			kept: `lost:1< mode:"x"<"y" owner.office:"Hursley"<"Yorktown"`, newNames: "added gained",
		},
		"a list that is applied again": {
			was: map[string]any{"items": []any{item("1", "x")}}, is: map[string]any{"items": []any{item("1", "y")}},
			set:  resource("", owned("flux", "Apply", `{"f:items":{}}`)),
			want: `{"added":{"n":1},"gained":true,"items":[{"a":"1","b":"x","c":7}],"lost":1,"mode":"x"}`,
			kept: `items.b:"x"<"y" lost:1< mode:"x"<"y"`, newNames: "added gained items.c",
		},
		"a list of kubectl apply": {
			was: map[string]any{"items": []any{item("1", "x")}}, is: map[string]any{"items": []any{item("1", "y"), item("2", "y")}},
			set:  resource(`{"spec":{"items":[{"a":"1"},{"a":"2","b":"y"}]}}`),
			want: `{"added":{"n":1},"gained":true,"items":[{"a":"1","b":"x","c":7},{"a":"2","b":"y","c":7}],"lost":1,"mode":"x"}`, starts: true,
			kept: `items.b:"x"<"y" lost:1< mode:"x"<"y"`, newNames: "added gained items.c",
		},
		"a list with other values is as it is": {
			was: map[string]any{"items": []any{item("1", "x"), item("2", "y")}}, is: map[string]any{"items": []any{item("1", "x"), item("2", "y")}},
			want: `{"added":{"n":1},"gained":true,"items":[{"a":"1","b":"x","c":7},{"a":"2","b":"y","c":7}],"lost":1,"mode":"x"}`,
			kept: `lost:1< mode:"x"<"y"`, newNames: "added gained items.c",
		},
		"accepted": {
			accepts: true, want: `{"added":{"n":1},"gained":true,"mode":"y"}`, starts: true, newNames: "added gained mode",
		},
	} {
		t.Run(name, func(t *testing.T) {
			last := ranAs(versionOne, "sha256:1", tc.was)
			s, vars := supply(versionTwo, tc.is, tc.set, last, tc.accepts)
			if diff := cmp.Diff(tc.want, string(document(vars))); diff != "" {
				t.Errorf("supplied (-want +got):\n%s", diff)
			}
			now := key.Fingerprint(Facts{Event: EventCreate, Kind: s.Kind, Variables: vars, Digest: "sha256:2"})
			in := Input{
				Settings: &Settings{RerunOn: DefaultRerunOn()}, Event: EventCreate, Current: now, Record: last, Accepts: tc.accepts, Defaults: s.RanWith(vars),
			}
			d := Decide(in)
			if starts := d.Action == ActionRun; starts != tc.starts {
				t.Errorf("decision is %+v, want a run: %t", d, tc.starts)
			}
			if got := describe(s.Kept(tc.is)); got != tc.kept {
				t.Errorf("kept: %s, want %s", got, tc.kept)
			}
			if got := names(s.New(key, tc.is)); got != tc.newNames {
				t.Errorf("new: %s, want %s", got, tc.newNames)
			}
			secondRun(t, in, tc.is, tc.set, tc.want, tc.kept)
		})
	}
}

// secondRun asserts what is said and done after a run with the second version.
func secondRun(t *testing.T, in Input, spec map[string]any, set Set, want, kept string) {
	t.Helper()
	record := Next(in, Decision{Action: ActionRun}, "2", OutcomeSucceeded, in.Now, 0)
	s, vars := supply(versionTwo, spec, set, &record, in.Accepts)
	if diff := cmp.Diff(want, string(document(vars))); diff != "" {
		t.Errorf("supplied to the run after it (-want +got):\n%s", diff)
	}
	if got := describe(s.Kept(spec)); got != kept {
		t.Errorf("kept after the run: %s, want %s", got, kept)
	}
	if got := s.New(key, spec); len(got) > 0 {
		t.Errorf("new after the run: %+v", got)
	}
	in.Record, in.Current = &record, key.Fingerprint(Facts{Event: EventCreate, Kind: s.Kind, Variables: vars, Digest: "sha256:2"})
	if d := Decide(in); d.Action != ActionSkip {
		t.Errorf("after the run: %+v", d)
	}
}

func describe(changes []ChangedDefault) string {
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = fmt.Sprintf("%s:%s<%s", c.Field, c.Supplied, c.Present)
	}
	return strings.Join(texts, " ")
}

func names(changes []ChangedDefault) string {
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = c.Field
	}
	return strings.Join(texts, " ")
}

func TestSupplyOfARecordWithoutDefaults(t *testing.T) {
	spec := map[string]any{"lost": int64(2)}
	last := ranAs(versionOne, "sha256:1", spec)
	last.Defaults = nil
	s, vars := supply(versionTwo, spec, Set{}, last, false)
	if vars["mode"] != "y" || names(s.New(key, spec)) != "added gained mode" {
		t.Errorf("supplied %v, new %v: a default that was not recorded cannot be kept, and is reported", vars, s.New(key, spec))
	}
	in := Input{Settings: &Settings{RerunOn: DefaultRerunOn()}, Event: EventCreate, Record: last,
		Current: key.Fingerprint(Facts{Event: EventCreate, Kind: s.Kind, Variables: vars, Digest: "sha256:2"})}
	if d := Decide(in); d.Action != ActionSkip {
		t.Errorf("decision is %+v: another default starts nothing", d)
	}
}

func TestAcceptedDefaultsOfLists(t *testing.T) {
	kind := func(byDefault string) KindSettings {
		return KindSettings{Variables: []Variable{{Name: "items", Fields: []Variable{{Name: "a"}, {Name: "b", Default: json.RawMessage(byDefault)}}}}}
	}
	spec := func(b string) map[string]any { return map[string]any{"items": []any{item("1", b)}} }
	last := ranAs(kind(`"x"`), "sha256:1", spec("x"))
	decide := func(accepts bool) (Input, Decision) {
		s, vars := supply(kind(`"y"`), spec("y"), Set{}, last, accepts)
		in := Input{Settings: &Settings{RerunOn: DefaultRerunOn()}, Event: EventCreate, Record: last, Accepts: accepts, Defaults: s.RanWith(vars),
			Current: key.Fingerprint(Facts{Event: EventCreate, Kind: s.Kind, Variables: vars, Digest: "sha256:2"})}
		return in, Decide(in)
	}
	if _, d := decide(false); d.Action != ActionSkip {
		t.Errorf("before: %+v", d)
	}
	in, d := decide(true)
	if d.Action != ActionRun || d.Reason != ReasonChanged {
		t.Errorf("accepted: %+v", d)
	}
	record := Next(in, d, "2", OutcomeSucceeded, in.Now, 0)
	last = &record
	for _, accepts := range []bool{true, false} {
		if _, d := decide(accepts); d.Action != ActionSkip {
			t.Errorf("after the run, accepted %t: %+v", accepts, d)
		}
	}
}

func TestSupplyOverSeveralVersions(t *testing.T) {
	kind := func(byDefault string) KindSettings {
		return KindSettings{Variables: []Variable{{Name: "mode", Default: json.RawMessage(byDefault)}}}
	}
	last := ranAs(kind(`"x"`), "sha256:1", nil)
	for i, byDefault := range []string{`"y"`, `"w"`, `"x"`, `"y"`} {
		s, vars := supply(kind(byDefault), map[string]any{"mode": "y"}, Set{}, last, false) // The API server has stored it.
		in := Input{Settings: &Settings{RerunOn: DefaultRerunOn()}, Event: EventCreate, Record: last, Defaults: s.RanWith(vars),
			Current: key.Fingerprint(Facts{Event: EventCreate, Kind: s.Kind, Variables: vars, Digest: fmt.Sprint(i)})}
		if d := Decide(in); vars["mode"] != "x" || d.Action != ActionSkip {
			t.Errorf("with default %s: supplied %v, %+v", byDefault, vars, d)
		}
		record := Next(in, Decision{Action: ActionRun}, fmt.Sprint(i+2), OutcomeSucceeded, in.Now, 0)
		last = &record
	}
	if n := len(last.Defaults.Replaced["mode"]); n != 2 {
		t.Errorf("%d defaults are replaced, want 2: %s", n, document(last.Defaults))
	}
}

func TestSupplyOfReferences(t *testing.T) {
	last := ranAs(versionOne, "sha256:1", nil)
	s, vars := supply(versionTwo, map[string]any{"mode": "y"}, Set{}, last, false)
	former, _ := versionOne.Declared(nil)
	if diff := cmp.Diff(string(document(former)), string(document(s.WithoutNew(vars)))); diff != "" {
		t.Errorf("what others depend on has changed (-before +after):\n%s", diff)
	}
}

func TestDefaultsAreBounded(t *testing.T) {
	kind := KindSettings{Variables: []Variable{{Name: "small", Default: json.RawMessage("1")}}}
	for i := range 20 {
		kind.Variables = append(kind.Variables, Variable{
			Name: fmt.Sprintf("v%02d", i), Default: json.RawMessage(`"` + strings.Repeat("x", 1000) + `"`),
		})
	}
	s, vars := supply(kind, nil, Set{}, nil, false)
	d := s.RanWith(vars)
	if len(d.Values) != 17 || d.Values["small"] == nil || d.Values["v15"] == nil || d.Values["v16"] != nil {
		t.Errorf("%d values are recorded, want the shortest, and of those of equal length the first ones", len(d.Values))
	}
	var again Defaults
	if err := json.Unmarshal(document(d), &again); err != nil {
		t.Error(err)
	}
	again.Replaced = d.Replaced // Empty and absent are the same.
	if diff := cmp.Diff(d, &again); diff != "" {
		t.Errorf("a record changes them (-before +after):\n%s", diff)
	}
}
