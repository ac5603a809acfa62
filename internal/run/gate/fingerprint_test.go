package gate

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func facts(changes ...func(*Facts)) Facts {
	f := Facts{
		Event: EventCreate,
		Kind: KindSettings{Variables: []Variable{
			{Name: "name"}, {Name: "size", Default: json.RawMessage("80")}, {Name: "list"}, {Name: "more"},
			{Name: "owner", Fields: []Variable{{Name: "name"}, {Name: "office", Default: json.RawMessage(`"Hursley"`)}}},
			{Name: "disks", Fields: []Variable{{Name: "name"}}},
		}},
		Variables:         map[string]any{"name": "a", "size": int64(80), "list": []any{"x", 1.5}, "disks": []any{map[string]any{"name": "d1"}}, "zosendpoint": "z1"},
		References:        map[string]map[string]any{"queues/q1": {"depth": int64(3)}},
		Secrets:           map[string]map[string][]byte{"s1": {"password": []byte("p")}},
		Digest:            "sha256:d",
		EndpointVariables: []byte("ansible_host: h"),
	}
	for _, change := range changes {
		change(&f)
	}
	return f
}

func declare(f *Facts, name, byDefault string) {
	f.Kind.Variables = append(f.Kind.Variables, Variable{Name: name, Default: json.RawMessage(byDefault)})
}

func TestFingerprintParts(t *testing.T) {
	base := key.Fingerprint(facts())
	variable := func(name string, value any) func(*Facts) {
		return func(f *Facts) { f.Variables[name] = value }
	}
	for name, tc := range map[string]struct {
		change func(*Facts)
		want   []Trigger
	}{
		"nothing":                    {func(*Facts) {}, nil},
		"event":                      {func(f *Facts) { f.Event = EventDelete }, []Trigger{TriggerSpec}},
		"variable":                   {variable("name", "b"), []Trigger{TriggerSpec}},
		"variable set":               {variable("more", ""), []Trigger{TriggerSpec}},
		"variable removed":           {func(f *Facts) { delete(f.Variables, "name") }, []Trigger{TriggerSpec}},
		"member set":                 {variable("owner", map[string]any{"name": "b"}), []Trigger{TriggerSpec}},
		"empty object":               {variable("owner", map[string]any{}), nil},
		"declared later":             {func(f *Facts) { declare(f, "later", `"x"`) }, nil},
		"declared later, by default": {func(f *Facts) { declare(f, "later", `"x"`); f.Variables["later"] = "x" }, nil},
		"declared later, and set":    {func(f *Facts) { declare(f, "later", `"x"`); f.Variables["later"] = "y" }, []Trigger{TriggerSpec}},
		"member of a list declared later": {func(f *Facts) {
			f.Kind.Variables[5].Fields = append(f.Kind.Variables[5].Fields, Variable{Name: "shared", Default: json.RawMessage("false")})
			f.Variables["disks"] = []any{map[string]any{"name": "d1", "shared": false}}
		}, nil},
		"member of a list set":     {func(f *Facts) { f.Variables["disks"] = []any{map[string]any{"name": "d2"}} }, []Trigger{TriggerSpec}},
		"declared no more":         {func(f *Facts) { f.Kind.Variables = f.Kind.Variables[1:] }, nil},
		"other default":            {func(f *Facts) { f.Kind.Variables[1].Default = json.RawMessage("81") }, nil},
		"endpoint name":            {variable("zosendpoint", "z2"), []Trigger{TriggerSpec}},
		"text instead of number":   {variable("size", "80"), []Trigger{TriggerSpec}},
		"other number":             {variable("size", 80.5), []Trigger{TriggerSpec}},
		"order of a list":          {variable("list", []any{1.5, "x"}), []Trigger{TriggerSpec}},
		"same number as float":     {variable("size", 80.0), nil},
		"same number as int":       {variable("size", 80), nil},
		"same number as text form": {variable("size", json.Number("80")), nil},
		"same number with point":   {variable("size", json.Number("80.0")), nil},
		"same number in a list":    {variable("list", []any{"x", json.Number("15e-1")}), nil},
		"generation":               {func(f *Facts) { f.References["queues/q1"] = map[string]any{"depth": int64(4)} }, []Trigger{TriggerSpec}},
		"reference gone":           {func(f *Facts) { f.References["queues/q1"] = nil }, []Trigger{TriggerSpec}},
		"password":                 {func(f *Facts) { f.Secrets["s1"]["password"] = []byte("q") }, []Trigger{TriggerSecret}},
		"Secret gone":              {func(f *Facts) { f.Secrets["s1"] = nil }, []Trigger{TriggerSecret}},
		"Secret empty":             {func(f *Facts) { f.Secrets["s1"] = map[string][]byte{} }, []Trigger{TriggerSecret}},
		"no Secret named":          {func(f *Facts) { f.Secrets = nil }, []Trigger{TriggerSecret}},
		"digest":                   {func(f *Facts) { f.Digest = "sha256:e" }, []Trigger{TriggerCollection}},
		"endpoint variables":       {func(f *Facts) { f.EndpointVariables = []byte("ansible_host: i") }, []Trigger{TriggerEndpoint}},
		"endpoint without any":     {func(f *Facts) { f.EndpointVariables = []byte{} }, []Trigger{TriggerEndpoint}},
		"endpoint gone":            {func(f *Facts) { f.EndpointVariables = nil }, []Trigger{TriggerEndpoint}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, key.Fingerprint(facts(tc.change)).changedSince(base, false, false)); diff != "" {
				t.Errorf("changed parts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFingerprintForm(t *testing.T) {
	got := key.Fingerprint(facts())
	parts := []string{got.Spec, got.Secret, got.Collection, got.Endpoint}
	seen := map[string]bool{}
	for _, part := range parts {
		if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(part) || seen[part] {
			t.Errorf("parts are %q, want four hashes of 32 digits that differ", parts)
		}
		seen[part] = true
	}
	if other := Key("another key").Fingerprint(facts()); len(other.changedSince(got, false, false)) != 4 {
		t.Errorf("with another key the fingerprint is %+v, want one that differs from %+v in all parts", other, got)
	}
	bare := key.Fingerprint(Facts{})
	if bare.Secret != "" || bare.Endpoint != "" || bare.Spec == "" || bare.Collection == "" {
		t.Errorf("without Secrets and endpoint: %+v", bare)
	}
}

// Equal content in different parts of the facts has different hashes.
func TestFingerprintSeparatesParts(t *testing.T) {
	got := key.Fingerprint(Facts{Digest: "same", EndpointVariables: []byte("same")})
	if got.Collection == got.Endpoint {
		t.Errorf("digest and endpoint have the same hash: %+v", got)
	}
	moved := key.Fingerprint(facts(func(f *Facts) { f.Variables["name"], f.Variables["more"] = "", "a" }))
	if moved.Variables["more"] == key.Fingerprint(facts()).Variables["name"] {
		t.Error("the same value of two variables has the same hash")
	}
}

func TestNumbersOfEqualValueAreEqual(t *testing.T) {
	for want, values := range map[json.Number][]any{
		"80":                  {80, int32(80), int64(80), 80.0, json.Number("80"), json.Number("80.0"), json.Number("8e1")},
		"0":                   {0, 0.0, json.Number("-0"), json.Number("-0.0"), json.Number("0e5")},
		"-1.5":                {-1.5, json.Number("-1.50")},
		"9007199254740993":    {int64(9007199254740993), json.Number("9007199254740993")},
		"1e+21":               {1e21, json.Number("1000000000000000000000"), json.Number("1E21")},
		"1e999":               {json.Number("1e999")},
		"9223372036854775807": {int64(9223372036854775807)},
	} {
		for _, value := range values {
			if got := normalize(value); got != want {
				t.Errorf("%T %v is %v, want %v", value, value, got, want)
			}
		}
	}
}
