package render

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

func runSettings(t *testing.T, c *model.Collection, runtime v2beta2.RuntimeSpec) gate.Settings {
	t.Helper()
	o := testOptions(model.Group)
	o.Runtime = runtime
	text, err := runsJSON(c, o)
	if err != nil {
		t.Fatal(err)
	}
	var settings gate.Settings
	if err := json.Unmarshal([]byte(text), &settings); err != nil {
		t.Fatal(err)
	}
	return settings
}

func TestRunsByDefault(t *testing.T) {
	c := testCollection("1.0.0")
	c.Resources[0].Vars = nil
	want := gate.Settings{
		Version: "1.0.0", Digest: testDigest, Operator: "acme-things-operator",
		Group: model.Group, APIVersion: "v1minor0patch0",
		RerunOn: []gate.Trigger{gate.TriggerSpec, gate.TriggerSecret}, MaxRetries: 5, MaxArtifacts: 5,
		Kinds: map[string]gate.KindSettings{"Thing": {
			Plural: c.Resources[0].Plural(), Variables: []gate.Variable{},
		}},
	}
	if diff := cmp.Diff(want, runSettings(t, c, v2beta2.RuntimeSpec{})); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestRunsFollowTheRuntime(t *testing.T) {
	got := runSettings(t, testCollection("1.0.0"), v2beta2.RuntimeSpec{
		RerunOn:      []v2beta2.RerunTrigger{v2beta2.RerunOnEndpoint, v2beta2.RerunOnSpec},
		MaxRetries:   ptr.To[int32](0),
		RunTimeout:   &metav1.Duration{Duration: time.Hour},
		MaxArtifacts: ptr.To[int32](20),

		DriftCheckPeriod: &metav1.Duration{Duration: 10 * time.Minute}, DriftCheckSkipModules: []string{"b.c.d", "a", "b.c.d"},
	})
	want := []any{[]gate.Trigger{gate.TriggerSpec, gate.TriggerEndpoint}, 0, int64(3600), 20, int64(600), []string{"a", "b.c.d"}}
	if diff := cmp.Diff(want, []any{
		got.RerunOn, got.MaxRetries, got.RunTimeoutSeconds, got.MaxArtifacts, got.DriftCheckPeriodSeconds, got.DriftCheckSkipModules,
	}); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestRunsKnowWhichKindsSupportCheckMode(t *testing.T) {
	c := testCollection("1.0.0")
	thing := &c.Resources[0]
	for _, want := range []gate.KindSettings{{}, {CheckMode: true}, {CheckMode: true, ShowDiff: true}} {
		thing.SupportsCheckMode, thing.ShowDiff = want.CheckMode, want.ShowDiff
		if got := runSettings(t, c, v2beta2.RuntimeSpec{}).Kinds["Thing"]; got.CheckMode != want.CheckMode || got.ShowDiff != want.ShowDiff {
			t.Errorf("settings %+v, want %+v", got, want)
		}
	}
}

func TestReconcilePeriod(t *testing.T) {
	period := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	of := func(kind string, d time.Duration) []v2beta2.KindReconcilePeriod {
		return []v2beta2.KindReconcilePeriod{{Kind: kind, Period: *period(d)}}
	}
	for name, tt := range map[string]struct {
		runtime v2beta2.RuntimeSpec
		want    time.Duration
	}{
		"unset":                      {v2beta2.RuntimeSpec{}, 0},
		"off":                        {v2beta2.RuntimeSpec{ReconcilePeriod: period(0)}, 0},
		"of all kinds":               {v2beta2.RuntimeSpec{ReconcilePeriod: period(time.Hour)}, time.Hour},
		"from before the minimum":    {v2beta2.RuntimeSpec{ReconcilePeriod: period(time.Second)}, 5 * time.Minute},
		"negative":                   {v2beta2.RuntimeSpec{ReconcilePeriod: period(-time.Hour)}, 0},
		"of the kind":                {v2beta2.RuntimeSpec{ReconcilePeriod: period(time.Hour), ReconcilePeriods: of("Thing", 2*time.Hour)}, 2 * time.Hour},
		"off for the kind":           {v2beta2.RuntimeSpec{ReconcilePeriod: period(time.Hour), ReconcilePeriods: of("Thing", 0)}, 0},
		"of another kind":            {v2beta2.RuntimeSpec{ReconcilePeriod: period(time.Hour), ReconcilePeriods: of("Other", 0)}, time.Hour},
		"of the kind, but too short": {v2beta2.RuntimeSpec{ReconcilePeriods: of("Thing", time.Minute)}, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			if got := runSettings(t, testCollection("1.0.0"), tt.runtime).Kinds["Thing"].ReconcilePeriodSeconds; got != int64(tt.want/time.Second) {
				t.Errorf("got %d s, want %s", got, tt.want)
			}
		})
	}
}

func TestMaxArtifactsOfTheAuthor(t *testing.T) {
	c := testCollection("1.0.0")
	c.Resources[0].MaxArtifacts = 2
	if got := runSettings(t, c, v2beta2.RuntimeSpec{}); got.MaxArtifacts != 5 || got.Kinds["Thing"].MaxArtifacts != 2 {
		t.Errorf("got %d, and %d for the kind", got.MaxArtifacts, got.Kinds["Thing"].MaxArtifacts)
	}
	if got := runSettings(t, c, v2beta2.RuntimeSpec{MaxArtifacts: ptr.To[int32](7)}); got.MaxArtifacts != 7 || got.Kinds["Thing"].MaxArtifacts != 0 {
		t.Errorf("an administrator's 7: got %d, and %d for the kind", got.MaxArtifacts, got.Kinds["Thing"].MaxArtifacts)
	}
}

func TestReconcilePeriodOfTheAuthor(t *testing.T) {
	c := testCollection("1.0.0")
	c.Resources[0].ReconcilePeriod = 12 * time.Hour
	for name, tt := range map[string]struct {
		runtime v2beta2.RuntimeSpec
		want    time.Duration
	}{
		"nothing else":                   {v2beta2.RuntimeSpec{}, 12 * time.Hour},
		"administrator's":                {v2beta2.RuntimeSpec{ReconcilePeriod: &metav1.Duration{Duration: time.Hour}}, time.Hour},
		"administrator's for all is off": {v2beta2.RuntimeSpec{ReconcilePeriod: &metav1.Duration{}}, 0},
		"administrator's for the kind":   {v2beta2.RuntimeSpec{ReconcilePeriods: []v2beta2.KindReconcilePeriod{{Kind: "Thing"}}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := runSettings(t, c, tt.runtime).Kinds["Thing"].ReconcilePeriodSeconds; got != int64(tt.want/time.Second) {
				t.Errorf("got %d s, want %s", got, tt.want)
			}
		})
	}
}

// Specification: Operator Resources, vars SHOULD: are provided to the playbook
// Specification: Resource Variables, vars MAY: be overridden by users when the playbook runs
// Specification: Resource Variables, name SHALL: is passed as extra variable of this name
// Specification: Object Variables, name SHALL: is passed to the playbook
func TestRunVariables(t *testing.T) {
	c := testCollection("1.0.0")
	c.Resources[0].Vars = []model.Var{
		{Name: "text", Type: model.String, Default: "ab"},
		{Name: "switch", Type: model.Boolean},
		{Name: "password", Type: model.Password},
		{Name: "own", Type: model.String, KindReference: "Thing", Array: true},
		{Name: "foreign", Type: model.String, KindReference: "Other"},
		{Name: "object", Type: model.Object, Fields: []model.Var{
			{Name: "secret", Type: model.Password}, {Name: "flag", Type: model.Boolean},
		}},
		{Name: "partly", Type: model.Object, Fields: []model.Var{{Name: "must", Type: model.String, Required: true}}},
		{Name: "list", Type: model.Object, Array: true, Fields: []model.Var{{Name: "size", Type: model.Integer, Default: int64(1)}}},
	}
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	want := []gate.Variable{
		{Name: "text", Default: raw(`"ab"`)},
		{Name: "switch"},
		{Name: "password", Secret: true},
		{Name: "own", Reference: "things"},
		{Name: "foreign"},
		{Name: "object", Default: raw("{}"), Fields: []gate.Variable{{Name: "secret", Secret: true}, {Name: "flag"}}},
		{Name: "partly", Fields: []gate.Variable{{Name: "must"}}},
		{Name: "list", Fields: []gate.Variable{{Name: "size", Default: raw("1")}}},
	}
	got := runSettings(t, c, v2beta2.RuntimeSpec{}).Kinds["Thing"].Variables
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	checkDefaults(t, c, got)
}

// checkDefaults compares the defaults with those that the API server sets.
func checkDefaults(t *testing.T, c *model.Collection, got []gate.Variable) {
	t.Helper()
	crds, err := CRDs(c, model.Group)
	if err != nil {
		t.Fatal(err)
	}
	spec := crds[0].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	for _, v := range got {
		if def := ptr.Deref(spec.Properties[v.Name].Default, apiextensionsv1.JSON{}); string(def.Raw) != string(v.Default) {
			t.Errorf("%s: default %s, and %s in the CRD", v.Name, v.Default, def.Raw)
		}
	}
}
