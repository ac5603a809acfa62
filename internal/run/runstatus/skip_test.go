package runstatus

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/run/gate"
)

var skip = gate.Decision{Action: gate.ActionSkip}

func later(r *Resource) { r.Now = t0.Add(24 * time.Hour) }

func TestSkipChangesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		status string
		record gate.Record
	}{
		"succeeded": {succeededStatus, newRecord(gate.OutcomeSucceeded)},
		"failed":    {failedStatus, newRecord(gate.OutcomeFailed, nextRetry)},
	} {
		checkStatus(t, tc.status, Skip(parse(t, tc.status), resource(later), tc.record, skip))
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// A restore from a backup without status has the record only.
func TestSkipRestoresALostStatus(t *testing.T) {
	checkStatus(t, `
phase: Succeeded
message: the playbook ended successfully
observedGeneration: 3
conditions:
- {type: Running, status: "True", reason: Successful, message: Awaiting next reconciliation, lastTransitionTime: "2026-11-23T09:00:00Z"}
- {type: Successful, status: "True", reason: Successful, message: Last reconciliation succeeded, lastTransitionTime: "2026-11-23T09:00:00Z"}
- {type: Failure, status: "False", reason: "", message: "", lastTransitionTime: "2026-11-23T09:00:00Z"}
- {type: Ready, status: "True", reason: Succeeded, message: the playbook ended successfully, observedGeneration: 3, lastTransitionTime: "2026-11-23T09:00:00Z"}
lastRun: {id: r2, event: create, reason: "", started: "2026-11-22T09:00:00Z", finished: "2026-11-22T09:00:00Z", outcome: Succeeded, version: 1.0.0, digest: "sha256:d"}
lastSuccess: {id: r2, event: create, started: "2026-11-22T09:00:00Z", finished: "2026-11-22T09:00:00Z", outcome: Succeeded, version: 1.0.0}
history:
- {id: r2, event: create, started: "2026-11-22T09:00:00Z", finished: "2026-11-22T09:00:00Z", outcome: Succeeded, version: 1.0.0}
`, Skip(nil, resource(later), newRecord(gate.OutcomeSucceeded), skip))

	record := newRecord(gate.OutcomeFailed, func(r *gate.Record) { r.Attempt = 6 })
	failed := Skip(nil, resource(later), record, skip)
	message := "the last run failed; attempt 6 of 6, it is not tried again until the resource is changed or a run is requested: " +
		"kubectl collection rerun Queue/q1"
	checkSummary(t, failed, PhaseFailed, false, true, message)
	checkConditions(t, failed, map[string]string{
		"Failure":    "True|Failed|the last run failed|2026-11-23T09:00:00Z",
		"Successful": "False|||2026-11-23T09:00:00Z",
		"Ready":      "False|Failed|" + message + "|2026-11-23T09:00:00Z",
		"Stalled":    "True|Failed|" + message + "|2026-11-23T09:00:00Z",
	})
	if again := Skip(failed, resource(), record, skip); !Equal(failed, again) {
		t.Errorf("the second skip changes the restored status (-before +after):\n%s", cmp.Diff(failed, again))
	}
}

func TestSkipAfterAnUnwrittenOutcome(t *testing.T) {
	status := Progress(started(), resource(), Report{Host: "h", CurrentTask: &Task{Name: "Create", Since: at(0)}})
	got := Skip(status, resource(), newRecord(gate.OutcomeSucceeded), skip)
	checkSummary(t, got, PhaseSucceeded, true, false, "the playbook ended successfully")
	run := typedStatus(t, got).LastRun
	if run.Outcome != gate.OutcomeSucceeded || run.Host != "h" || run.CurrentTask != nil || run.Reason != gate.ReasonChanged {
		t.Errorf("last run is %+v", run)
	}
}

// The pod ends in a run, and the change that started it is taken back before the next pod decides.
func TestSkipAfterAnInterruptedRun(t *testing.T) {
	status := Start(failedOnce(), resource(), newRun(func(run *Run) { run.ID, run.Started = "r3", at(time.Minute) }))
	got := Skip(status, resource(), newRecord(gate.OutcomeFailed, nextRetry), skip)
	checkSummary(t, got, PhaseFailed, false, false, "disk is full; user is unknown; attempt 1 of 6, the next one at 2026-11-22T09:00:10Z")
	typed := typedStatus(t, got)
	if typed.LastRun.ID != "r2" || typed.LastRun.Reason != gate.ReasonChanged || !typed.LastRun.Started.Time.Equal(t0.Add(-time.Minute)) {
		t.Errorf("last run is %+v", typed.LastRun)
	}
	if len(typed.History) != 2 || typed.History[0].ID != "r3" || typed.History[0].Outcome != gate.OutcomeInterrupted || typed.History[1].ID != "r2" {
		t.Errorf("history is %+v", typed.History)
	}
	if again := Skip(got, resource(later), newRecord(gate.OutcomeFailed, nextRetry), skip); !Equal(got, again) {
		t.Errorf("the second skip changes status (-before +after):\n%s", cmp.Diff(got, again))
	}
}

func TestSkipOfAnOutdatedResource(t *testing.T) {
	const rerun = "; run it again: kubectl collection rerun --outdated"
	newer := resource(later, func(r *Resource) { r.Version = "1.1.0" })
	for name, tc := range map[string]struct {
		resource Resource
		changed  []gate.Trigger
		ready    bool
		want     string
	}{
		"version":  {newer, []gate.Trigger{gate.TriggerCollection}, true, "version 1.1.0 of the collection is installed, the last run used 1.0.0" + rerun},
		"archive":  {resource(), []gate.Trigger{gate.TriggerCollection}, true, "the collection has changed since the last run" + rerun},
		"endpoint": {resource(), []gate.Trigger{gate.TriggerEndpoint}, true, "the variables of its endpoint have changed since the last run" + rerun},
		"Secret":   {resource(), []gate.Trigger{gate.TriggerSecret}, true, "a Secret that it names has changed since the last run" + rerun},
		"spec": {
			resource(), []gate.Trigger{gate.TriggerSpec, gate.TriggerCollection}, false,
			"the resource has changed since the last run; the collection has changed since the last run" + rerun,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Skip(succeeded(), tc.resource, newRecord(gate.OutcomeSucceeded), gate.Decision{Action: gate.ActionSkip, Changed: tc.changed})
			checkSummary(t, got, PhaseOutdated, tc.ready, false, tc.want)
			current := Skip(got, resource(), newRecord(gate.OutcomeSucceeded), skip)
			checkSummary(t, current, PhaseSucceeded, true, false, "the playbook ended successfully")
		})
	}
	failing := gate.Decision{Action: gate.ActionSkip, Changed: []gate.Trigger{gate.TriggerCollection}}
	if got := Skip(failedOnce(), resource(), newRecord(gate.OutcomeFailed, nextRetry), failing); got["phase"] != "Failed" {
		t.Errorf("a failed resource is %v, not Failed", got["phase"])
	}
}

const ansibleOperatorStatus = `
conditions:
- {type: Running, status: "True", reason: Successful, message: Awaiting next reconciliation, lastTransitionTime: "2026-01-01T00:00:00Z",
   ansibleResult: {ok: 3, changed: 0, skipped: 0, failures: 0, completion: "2026-01-01T00:00:00.123456"}}
- {type: Successful, status: "True", reason: Successful, message: Last reconciliation succeeded, lastTransitionTime: "2026-01-01T00:00:00Z"}
- {type: Failure, status: "False", reason: "", message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
`

func TestSkipAfterAdoption(t *testing.T) {
	status := parse(t, ansibleOperatorStatus)
	record := newRecord(gate.OutcomeSucceeded, func(r *gate.Record) { r.RunID = "" })
	adopted := Skip(status, resource(), record, gate.Decision{Action: gate.ActionAdopt})
	checkSummary(t, adopted, PhaseSucceeded, true, false, "the playbook ended successfully")
	if diff := cmp.Diff(status["conditions"], any(adopted["conditions"].([]any)[:3])); diff != "" {
		t.Errorf("conditions of ansible-operator (-want +got):\n%s", diff)
	}
	for _, field := range []string{"lastRun", "lastSuccess", "history"} {
		if adopted[field] != nil {
			t.Errorf("%s is %v, but there was no run", field, adopted[field])
		}
	}
	if again := Skip(adopted, resource(later), record, skip); !Equal(adopted, again) {
		t.Errorf("the second skip changes status (-before +after):\n%s", cmp.Diff(adopted, again))
	}
	restored := Skip(nil, resource(), record, skip)
	if !IsBaseline(restored, 3) {
		t.Errorf("a restored baseline does not say that it was successful: %v", restored)
	}
}

func TestIsBaseline(t *testing.T) {
	running := `
conditions:
- {type: Running, status: "True", reason: Running, message: Running reconciliation}
- {type: Successful, status: "False", reason: Successful, message: Last reconciliation succeeded}
`
	contradiction := `{conditions: [{type: Successful, status: "True"}, {type: Failure, status: "True"}]}`
	lastRun := func(outcome gate.Outcome, changes ...func(*gate.Record)) map[string]any {
		record := newRecord(outcome, changes...)
		return End(nil, resource(), newRun(), success, record)
	}
	for name, tc := range map[string]struct {
		status map[string]any
		want   bool
	}{
		"nothing":                        {nil, false},
		"ansible-operator":               {parse(t, ansibleOperatorStatus), true},
		"ansible-operator, at first":     {parse(t, ansibleOperatorStatus+"\nobservedGeneration: -1\n"), true},
		"the API server":                 {parse(t, `{phase: Pending, message: not yet, observedGeneration: -1}`), false},
		"ansible-operator, running":      {parse(t, running), false},
		"ansible-operator, failed":       {parse(t, contradiction), false},
		"no conditions":                  {parse(t, `{phase: Succeeded}`), false},
		"odd conditions":                 {parse(t, `{conditions: {type: Successful, status: "True"}}`), false},
		"gate, succeeded":                {lastRun(gate.OutcomeSucceeded), true},
		"gate, requeued":                 {lastRun(gate.OutcomeRequeued), false},
		"gate, failed":                   {failedOnce(), false},
		"gate, running":                  {Start(succeeded(), resource(), newRun(func(run *Run) { run.ID = "r3" })), false},
		"gate, deleted":                  {lastRun(gate.OutcomeSucceeded, isDeletion), false},
		"gate, another generation":       {End(nil, resource(func(r *Resource) { r.Generation = 2 }), newRun(), success, newRecord(gate.OutcomeSucceeded)), false},
		"last run without generation":    {parse(t, `{lastRun: {id: r1, event: create, outcome: Succeeded}}`), false},
		"last run that cannot be read":   {parse(t, `{observedGeneration: 3, lastRun: [], conditions: [{type: Successful, status: "True"}]}`), false},
		"author's generation is another": {parse(t, `{observedGeneration: 2, conditions: [{type: Successful, status: "True"}]}`), false},
	} {
		if got := IsBaseline(tc.status, 3); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

func TestEqual(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b map[string]any
		want bool
	}{
		"nothing":       {nil, map[string]any{}, true},
		"nothing and a": {nil, map[string]any{"a": nil}, false},
		"number types":  {map[string]any{"a": int64(1), "b": "x"}, map[string]any{"b": "x", "a": 1.0}, true},
		"other number":  {map[string]any{"a": int64(1)}, map[string]any{"a": int64(2)}, false},
		"text":          {map[string]any{"a": int64(1)}, map[string]any{"a": "1"}, false},
		"list order":    {map[string]any{"a": []any{"x", "y"}}, map[string]any{"a": []any{"y", "x"}}, false},
		"not JSON":      {map[string]any{"a": func() {}}, map[string]any{"a": "x"}, false},
	} {
		if Equal(tc.a, tc.b) != tc.want || Equal(tc.b, tc.a) != tc.want {
			t.Errorf("%s: not %t", name, tc.want)
		}
	}
}

func TestAuthorsOf(t *testing.T) {
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	both := `{"f:status":{"f:phase":{},"f:message":{},"f:lastRun":{"f:id":{}}}}`
	for name, tc := range map[string]struct {
		fields []metav1.ManagedFieldsEntry
		want   Authors
	}{
		"nobody":            {nil, Authors{}},
		"the gate":          {[]metav1.ManagedFieldsEntry{entry(FieldManager, both)}, Authors{}},
		"the author":        {[]metav1.ManagedFieldsEntry{entry("python", both), entry(FieldManager, `{"f:status":{"f:lastRun":{}}}`)}, Authors{true, true}},
		"phase only":        {[]metav1.ManagedFieldsEntry{entry("python", `{"f:status":{"f:phase":{}}}`)}, Authors{Phase: true}},
		"message elsewhere": {[]metav1.ManagedFieldsEntry{entry("kubectl", `{"f:spec":{"f:phase":{},"f:message":{}}}`)}, Authors{}},
		"both write it":     {[]metav1.ManagedFieldsEntry{entry(FieldManager, both), entry("python", `{"f:status":{"f:message":{}}}`)}, Authors{Message: true}},
		"odd fields":        {[]metav1.ManagedFieldsEntry{entry("python", `[]`), {Manager: "python"}}, Authors{}},
	} {
		if got := AuthorsOf(tc.fields); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

// The event plugin and the gate agree on the form of reports.
func TestReportForm(t *testing.T) {
	var report Report
	err := json.Unmarshal([]byte(`{"ended":"failed","host":"h","tasks":{"ok":1,"changed":0,"failed":1,"unreachable":0,"skipped":0},
		"failures":[{"message":"m","task":"t","file":"f","line":2,"returnCode":8,"output":"o"}],"jobs":[{"id":"J1"}],"requeueAfter":"1m"}`), &report)
	want := Report{
		Ended: "failed", Host: "h", Tasks: &TaskCounts{OK: 1, Failed: 1}, Jobs: []Job{{ID: "J1"}}, RequeueAfter: "1m",
		Failures: []Failure{{Message: "m", Task: "t", File: "f", Line: 2, ReturnCode: new(8), Output: "o"}},
	}
	if err != nil || !cmp.Equal(want, report) {
		t.Errorf("report is %+v, %v", report, err)
	}
}

// Authors may write anything to status: no change of it fails, and a skip after a run changes nothing.
func FuzzStatus(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"conditions":[1,{"type":[]},{"type":"Ready","status":{},"lastTransitionTime":7}],"history":{},"lastRun":[]}`,
		`{"lastRun":{"id":"r1","started":5,"tasks":"x"},"history":[null,{"id":"r1","started":"x"},{"id":"r2","outcome":"Failed"}]}`,
		`{"phase":{},"message":[],"observedGeneration":"3","lastSuccess":0,"lastRun":{"id":"r1","event":"create","started":null}}`,
		`{"provedAt":5,"drift":[],"conditions":[{"type":"Drifted"}]}`, `{"provedAt":"2027-01-01T00:00:00Z","drift":{"checkedAt":5}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var anything map[string]any
		if json.Unmarshal(raw, &anything) != nil {
			return
		}
		status := exact(t, raw)
		IsBaseline(status, 3)
		record := newRecord(gate.OutcomeFailed, nextRetry)
		Skip(status, resource(), record, skip)
		EndCheck(status, resource(), Check{Report: drifted, Outcome: gate.OutcomeSucceeded, Finished: t0})
		succeeded := Skip(status, resource(), newRecord(gate.OutcomeSucceeded), skip)
		if again := Skip(succeeded, resource(later), newRecord(gate.OutcomeSucceeded), skip); !Equal(succeeded, again) {
			t.Errorf("a second skip changes status (-before +after):\n%s", cmp.Diff(succeeded, again))
		}
		status = End(Progress(Start(status, resource(), newRun()), resource(), failure), resource(), newRun(), failure, record)
		if again := Skip(status, resource(later), record, skip); !Equal(status, again) {
			t.Errorf("a skip changes status (-before +after):\n%s", cmp.Diff(status, again))
		}
	})
}
