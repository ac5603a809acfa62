package runstatus

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/test/hostile"
)

// cutMark ends texts that were cut.
const cutMark = " ..."

var t0 = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

func at(d time.Duration) metav1.Time { return metav1.NewTime(t0.Add(d)) }

// parse reads a status with the types that unstructured objects have.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if string(raw) == "null" {
		return nil
	}
	return exact(t, raw)
}

// exact decodes integers as int64.
func exact(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.UseNumber()
	var out map[string]any
	if err := decoder.Decode(&out); err != nil {
		t.Fatal(err)
	}
	var convert func(any) any
	convert = func(value any) any {
		switch value := value.(type) {
		case map[string]any:
			for name := range value {
				value[name] = convert(value[name])
			}
		case []any:
			for i := range value {
				value[i] = convert(value[i])
			}
		case json.Number:
			if n, err := value.Int64(); err == nil {
				return n
			}
		}
		return value
	}
	convert(out)
	return out
}

func resource(changes ...func(*Resource)) Resource {
	r := Resource{Kind: "Queue", Name: "q1", Generation: 3, Version: "1.0.0", MaxRetries: 5, Now: t0}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func newRun(changes ...func(*Run)) Run {
	run := Run{
		ID: "r2", Event: gate.EventCreate, Reason: gate.ReasonChanged, Attempt: 1, Started: at(-time.Minute), Version: "1.0.0",
		Digest: "sha256:d", Endpoint: "z1",
	}
	for _, change := range changes {
		change(&run)
	}
	return run
}

func newRecord(outcome gate.Outcome, changes ...func(*gate.Record)) gate.Record {
	r := gate.Record{Event: gate.EventCreate, Outcome: outcome, RunID: "r2", Finished: t0, Version: "1.0.0", Digest: "sha256:d"}
	if !outcome.Succeeded() {
		r.Attempt = 1
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func nextRetry(r *gate.Record) { r.NextRetry = t0.Add(10 * time.Second) }

func isDeletion(r *gate.Record) { r.Event = gate.EventDelete }

// checkStatus compares a status with YAML.
func checkStatus(t *testing.T, want string, got map[string]any) {
	t.Helper()
	if diff := cmp.Diff(parse(t, want), got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	_ = runtime.DeepCopyJSON(got) // It panics if a type cannot be in an unstructured object.
}

const startedStatus = `
phase: Running
message: the playbook is running
observedGeneration: 3
conditions:
- {type: Running, status: "True", reason: Running, message: Running reconciliation, lastTransitionTime: "2026-11-22T09:00:00Z"}
- {type: Ready, status: "False", reason: Running, message: the playbook is running, observedGeneration: 3, lastTransitionTime: "2026-11-22T09:00:00Z"}
lastRun: {id: r2, event: create, reason: Changed, attempt: 1, started: "2026-11-22T08:59:00Z", version: 1.0.0, digest: "sha256:d", endpoint: z1}
`

const succeededStatus = `
phase: Succeeded
message: the playbook ended successfully
observedGeneration: 3
conditions:
- {type: Running, status: "True", reason: Successful, message: Awaiting next reconciliation, lastTransitionTime: "2026-11-22T09:00:00Z",
   ansibleResult: {ok: 5, changed: 2, skipped: 1, failures: 0, completion: "2026-11-22T09:00:00"}}
- {type: Ready, status: "True", reason: Succeeded, message: the playbook ended successfully, observedGeneration: 3, lastTransitionTime: "2026-11-22T09:00:00Z"}
- {type: Successful, status: "True", reason: Successful, message: Last reconciliation succeeded, lastTransitionTime: "2026-11-22T09:00:00Z"}
- {type: Failure, status: "False", reason: "", message: "", lastTransitionTime: "2026-11-22T09:00:00Z"}
lastRun: {id: r2, event: create, reason: Changed, attempt: 1, started: "2026-11-22T08:59:00Z", finished: "2026-11-22T09:00:00Z", outcome: Succeeded,
  version: 1.0.0, digest: "sha256:d", endpoint: z1, host: h, user: u, tasks: {ok: 5, changed: 2, failed: 0, unreachable: 0, skipped: 1},
  jobs: [{name: JOB1, id: JOB00001, returnCode: CC 0000}]}
lastSuccess: {id: r2, event: create, reason: Changed, started: "2026-11-22T08:59:00Z", finished: "2026-11-22T09:00:00Z", outcome: Succeeded, version: 1.0.0}
history:
- {id: r2, event: create, reason: Changed, started: "2026-11-22T08:59:00Z", finished: "2026-11-22T09:00:00Z", outcome: Succeeded, version: 1.0.0}
`

const failedStatus = `
phase: Failed
message: disk is full; user is unknown; attempt 1 of 6, the next one at 2026-11-22T09:00:10Z
observedGeneration: 3
conditions:
- {type: Running, status: "False", reason: Running, message: Running reconciliation, lastTransitionTime: "2026-11-22T09:00:00Z"}
- {type: Ready, status: "False", reason: Failed, observedGeneration: 3, lastTransitionTime: "2026-11-22T09:00:00Z",
   message: "disk is full; user is unknown; attempt 1 of 6, the next one at 2026-11-22T09:00:10Z"}
- {type: Failure, status: "True", reason: Failed, message: "disk is full\nuser is unknown", lastTransitionTime: "2026-11-22T09:00:00Z",
   ansibleResult: {ok: 5, changed: 2, skipped: 1, failures: 2, completion: "2026-11-22T09:00:00"}}
- {type: Successful, status: "False", reason: "", message: "", lastTransitionTime: "2026-11-22T09:00:00Z"}
lastRun: {id: r2, event: create, reason: Changed, attempt: 1, started: "2026-11-22T08:59:00Z", finished: "2026-11-22T09:00:00Z", outcome: Failed,
  nextRetry: "2026-11-22T09:00:10Z", version: 1.0.0, digest: "sha256:d", endpoint: z1, tasks: {ok: 5, changed: 2, failed: 1, unreachable: 1, skipped: 1},
  failure: {message: "disk is full\nuser is unknown", task: Create, file: playbooks/create.yml, line: 7, returnCode: 8, output: "IEC 1\nIEC 2"}}
history:
- {id: r2, event: create, reason: Changed, started: "2026-11-22T08:59:00Z", finished: "2026-11-22T09:00:00Z", outcome: Failed, version: 1.0.0,
   message: "disk is full\nuser is unknown"}
`

var (
	success = Report{
		Ended: "successful", Host: "h", User: "u", Tasks: &TaskCounts{OK: 5, Changed: 2, Skipped: 1},
		CurrentTask: &Task{Name: "last", Since: at(0)}, Jobs: []Job{{Name: "JOB1", ID: "JOB00001", ReturnCode: "CC 0000"}},
	}
	failure = Report{
		Ended: "failed", Tasks: &TaskCounts{OK: 5, Changed: 2, Failed: 1, Unreachable: 1, Skipped: 1},
		Failures: []Failure{
			{Message: "disk is full", Task: "Create", File: "playbooks/create.yml", Line: 7, ReturnCode: new(8), Output: "IEC 1\nIEC 2\n"},
			{Message: "user\nis unknown"},
		},
	}
)

func started() map[string]any { return Start(nil, resource(), newRun()) }

func succeeded() map[string]any {
	return End(started(), resource(), newRun(), success, newRecord(gate.OutcomeSucceeded))
}

func failedOnce() map[string]any {
	return End(started(), resource(), newRun(), failure, newRecord(gate.OutcomeFailed, nextRetry))
}

func TestARunFromStartToEnd(t *testing.T) {
	checkStatus(t, startedStatus, started())
	checkStatus(t, succeededStatus, succeeded())
	checkStatus(t, failedStatus, failedOnce())
}

func TestInputsAreNotChanged(t *testing.T) {
	status := parse(t, succeededStatus)
	r := resource(func(r *Resource) { r.Now, r.Ignored = t0.Add(time.Hour), []string{"pyz"} })
	Start(status, r, newRun(func(run *Run) { run.ID = "r3" }))
	Progress(status, resource(), Report{CurrentTask: &Task{Name: "x"}})
	End(status, r, newRun(func(run *Run) { run.ID = "r3" }), failure, newRecord(gate.OutcomeFailed))
	Skip(status, r, newRecord(gate.OutcomeFailed), gate.Decision{Action: gate.ActionSkip})
	checkStatus(t, succeededStatus, status)
}

// ansible-operator changes no more than the status of Successful and Failure when a run starts or has failed.
func TestStartAfterARun(t *testing.T) {
	next := newRun(func(run *Run) {
		run.ID, run.Attempt, run.Reason, run.Started = "r3", 2, gate.ReasonRetry, at(time.Hour)
	})
	later := resource(func(r *Resource) { r.Now = t0.Add(time.Hour) })
	got := Start(succeeded(), later, next)
	checkConditions(t, got, map[string]string{
		"Running":    "True|Running|Running reconciliation|2026-11-22T09:00:00Z",
		"Successful": "False|Successful|Last reconciliation succeeded|2026-11-22T10:00:00Z",
		"Failure":    "False|||2026-11-22T09:00:00Z",
		"Ready":      "False|Running|the playbook is running (attempt 2 of 6)|2026-11-22T10:00:00Z",
	})
	got = Start(failedOnce(), later, next)
	checkConditions(t, got, map[string]string{
		"Running":    "True|Running|Running reconciliation|2026-11-22T10:00:00Z",
		"Successful": "False|||2026-11-22T09:00:00Z",
		"Failure":    "True|Failed|disk is full\nuser is unknown|2026-11-22T09:00:00Z",
		"Ready":      "False|Running|the playbook is running (attempt 2 of 6)|2026-11-22T09:00:00Z",
	})
	if got["lastSuccess"] != nil || len(got["history"].([]any)) != 1 {
		t.Errorf("history after a failure: %v, %v", got["history"], got["lastSuccess"])
	}
}

func checkConditions(t *testing.T, status map[string]any, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for _, item := range status["conditions"].([]any) {
		c := item.(map[string]any)
		got[c["type"].(string)] = fmt.Sprintf("%s|%s|%s|%s", c["status"], c["reason"], c["message"], c["lastTransitionTime"])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func TestPhaseAndReadyAfterARun(t *testing.T) {
	deletion := newRun(func(run *Run) { run.Event = gate.EventDelete })
	deleting := resource(func(r *Resource) { r.Deleting = true })
	due := func(r *gate.Record) { r.Due = t0.Add(time.Hour) }
	rest := "; it is not tried again until the resource is changed or a run is requested: kubectl collection rerun"
	for name, tc := range map[string]struct {
		resource Resource
		run      Run
		report   Report
		record   gate.Record
		phase    Phase
		ready    bool
		stalled  bool
		message  string
	}{
		"requeued": {
			resource(), newRun(), success, newRecord(gate.OutcomeRequeued, due),
			PhaseWaiting, false, false, "the playbook asked to run again at 2026-11-22T10:00:00Z",
		},
		"rests": {
			resource(), newRun(), failure, newRecord(gate.OutcomeFailed),
			PhaseFailed, false, true, "disk is full; user is unknown" + rest + " Queue/q1",
		},
		"rests after retries": {
			resource(), newRun(func(run *Run) { run.Attempt = 6 }), failure, newRecord(gate.OutcomeFailed, func(r *gate.Record) { r.Attempt = 6 }),
			PhaseFailed, false, true, "disk is full; user is unknown; attempt 6 of 6, " + strings.TrimPrefix(rest, "; ") + " Queue/q1",
		},
		"kind unknown": {
			resource(func(r *Resource) { r.Kind = "" }), newRun(), failure, newRecord(gate.OutcomeFailed),
			PhaseFailed, false, true, "disk is full; user is unknown" + rest,
		},
		"retries unknown": {
			resource(func(r *Resource) { r.MaxRetries = 0 }), newRun(), failure, newRecord(gate.OutcomeFailed, nextRetry),
			PhaseFailed, false, false, "disk is full; user is unknown; attempt 1, the next one at 2026-11-22T09:00:10Z",
		},
		"cancelled": {
			resource(), newRun(), failure, newRecord(gate.OutcomeCancelled), PhaseFailed, false, true, "the run was cancelled" + rest + " Queue/q1",
		},
		"timed out": {
			resource(), newRun(), Report{}, newRecord(gate.OutcomeTimedOut, nextRetry), PhaseFailed, false, false,
			"the run exceeded the time limit runtime.runTimeout; attempt 1 of 6, the next one at 2026-11-22T09:00:10Z",
		},
		"interrupted": {
			resource(), newRun(), Report{}, newRecord(gate.OutcomeInterrupted, nextRetry), PhaseFailed, false, false,
			"the run ended without a report; attempt 1 of 6, the next one at 2026-11-22T09:00:10Z",
		},
		"interrupted too often": {
			resource(), newRun(), Report{}, newRecord(gate.OutcomeInterrupted), PhaseFailed, false, true,
			"the run ended without a report; 3 runs in a row ended like this, it is not tried again until the resource is changed or a run is " +
				"requested: kubectl collection rerun Queue/q1",
		},
		"last retry of a delete playbook": {
			deleting, deletion, Report{}, newRecord(gate.OutcomeFailed, isDeletion, func(r *gate.Record) { r.Attempt = 6 }), PhaseFailed, false, true,
			"the playbook ended without a result; attempt 6 of 6, it is not tried again until a run is requested: " +
				"kubectl collection rerun Queue/q1; to remove the resource without a run: kubectl collection abandon Queue/q1",
		},
		"no result": {
			resource(), newRun(), Report{}, newRecord(gate.OutcomeFailed, nextRetry), PhaseFailed, false, false,
			"the playbook ended without a result; attempt 1 of 6, the next one at 2026-11-22T09:00:10Z",
		},
		"deleted while it ran": {
			deleting, newRun(), success, newRecord(gate.OutcomeSucceeded), PhaseDeleting, false, false, "the resource is being deleted",
		},
		"delete playbook": {
			deleting, deletion, success, newRecord(gate.OutcomeSucceeded, isDeletion), PhaseDeleting, false, false,
			"the delete playbook ended successfully",
		},
		"delete playbook requeued": {
			deleting, deletion, success, newRecord(gate.OutcomeRequeued, isDeletion, due), PhaseDeleting, false, false,
			"the delete playbook asked to run again at 2026-11-22T10:00:00Z",
		},
		"delete playbook failed": {
			deleting, deletion, failure, newRecord(gate.OutcomeFailed, isDeletion, nextRetry), PhaseFailed, false, false,
			"disk is full; user is unknown; attempt 1 of 6, the next one at 2026-11-22T09:00:10Z",
		},
	} {
		t.Run(name, func(t *testing.T) {
			status := End(Start(nil, tc.resource, tc.run), tc.resource, tc.run, tc.report, tc.record)
			checkSummary(t, status, tc.phase, tc.ready, tc.stalled, tc.message)
			again := Skip(status, tc.resource, tc.record, gate.Decision{Action: gate.ActionSkip})
			if diff := cmp.Diff(status, again); diff != "" {
				t.Errorf("a skip afterwards changes status (-before +after):\n%s", diff)
			}
		})
	}
}

func checkSummary(t *testing.T, status map[string]any, phase Phase, ready, stalled bool, message string) {
	t.Helper()
	typed := typedStatus(t, status)
	if typed.Phase != phase || typed.Message != message || typed.ObservedGeneration != 3 {
		t.Errorf("got phase %s, generation %d, message %q\nwant      %s, generation 3, message %q",
			typed.Phase, typed.ObservedGeneration, typed.Message, phase, message)
	}
	for conditionType, want := range map[string]bool{ConditionReady: ready, ConditionStalled: stalled} {
		i := indexOf(typed.Conditions, conditionType)
		if i < 0 {
			if want || conditionType == ConditionReady {
				t.Errorf("condition %s is missing", conditionType)
			}
			continue
		}
		c := typed.Conditions[i]
		if got := c.Status == metav1.ConditionTrue; got != want || c.Reason != string(phase) || c.Message != message || c.ObservedGeneration != 3 {
			t.Errorf("condition %+v, want %t with the phase and its message", c, want)
		}
	}
}

func indexOf(conditions []metav1.Condition, conditionType string) int {
	for i, c := range conditions {
		if c.Type == conditionType {
			return i
		}
	}
	return -1
}

func typedStatus(t *testing.T, status map[string]any) Status {
	t.Helper()
	var typed Status
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(status, &typed); err != nil {
		t.Fatal(err)
	}
	return typed
}

func TestStartOfADeletion(t *testing.T) {
	run := newRun(func(run *Run) { run.Event = gate.EventDelete })
	checkSummary(t, Start(nil, resource(), run), PhaseDeleting, false, false, "the delete playbook is running")
}

// A run that follows requeue_after leaves ansible-operator's conditions as they are while it runs.
func TestConditionsAfterRequeue(t *testing.T) {
	status := End(started(), resource(), newRun(), success, newRecord(gate.OutcomeRequeued))
	checkConditions(t, status, map[string]string{
		"Running": "True|Running|Running reconciliation|2026-11-22T09:00:00Z",
		"Ready":   "False|Waiting|the playbook asked to run again|2026-11-22T09:00:00Z",
	})
}

func TestStalledGoesWithTheNextRun(t *testing.T) {
	status := End(started(), resource(), newRun(), failure, newRecord(gate.OutcomeFailed))
	checkSummary(t, Start(status, resource(), newRun()), PhaseRunning, false, false, "the playbook is running")
}

func TestFieldsOfAuthorsStay(t *testing.T) {
	status := parse(t, `
phase: Provisioned
message: mine
address: 10.0.0.1
conditions:
- {type: Custom, status: "True", reason: Mine, message: mine, extra: {a: 1}}
- odd
- {type: Ready, status: "True", reason: Mine, message: old, lastTransitionTime: "2026-01-01T00:00:00Z"}
`)
	mine := resource(func(r *Resource) { r.Authors = Authors{Phase: true, Message: true} })
	got := End(status, mine, newRun(), failure, newRecord(gate.OutcomeFailed))
	if got["phase"] != "Provisioned" || got["message"] != "mine" || got["address"] != "10.0.0.1" {
		t.Errorf("fields of the author have changed: %v", got)
	}
	items := got["conditions"].([]any)
	if diff := cmp.Diff(status["conditions"].([]any)[:2], items[:2]); diff != "" {
		t.Errorf("conditions of the author (-want +got):\n%s", diff)
	}
	if c := items[2].(map[string]any); c["type"] != "Ready" || c["reason"] != "Failed" || c["lastTransitionTime"] != "2026-11-22T09:00:00Z" {
		t.Errorf("the place of Ready has %v", c)
	}
	ours := End(status, resource(), newRun(), success, newRecord(gate.OutcomeSucceeded))
	if ours["phase"] != "Succeeded" || ours["message"] == "mine" {
		t.Errorf("phase and message are not the author's, and are %v, %v", ours["phase"], ours["message"])
	}
}

func TestHistory(t *testing.T) {
	status := map[string]any{}
	ids := func() string {
		var out []string
		for _, past := range historyOf(status) {
			out = append(out, past.ID+" "+string(past.Outcome))
		}
		return strings.Join(out, ", ")
	}
	start := func(i int) Run {
		run := newRun(func(run *Run) { run.ID, run.Started = fmt.Sprintf("r%d", i), at(time.Duration(i)*time.Minute) })
		status = Start(status, resource(), run)
		return run
	}
	for i := 1; i <= 6; i++ {
		run := start(i)
		if i == 4 {
			continue // The pod ends.
		}
		status = End(status, resource(), run, success, newRecord(gate.OutcomeSucceeded, func(r *gate.Record) { r.RunID = run.ID }))
	}
	if got, want := ids(), "r6 Succeeded, r5 Succeeded, r4 Interrupted, r3 Succeeded, r2 Succeeded"; got != want {
		t.Errorf("history is %s, want %s", got, want)
	}
	if message := historyOf(status)[2].Message; message != "the run ended without a report" {
		t.Errorf("message of the interrupted run is %q", message)
	}
	start(6)
	if got := len(historyOf(status)); got != HistoryLimit {
		t.Errorf("history has %d runs after a run was started twice", got)
	}
}

func TestProgress(t *testing.T) {
	report := Report{Host: "h", User: "u", CurrentTask: &Task{Name: "Create\x1b[31m it", Since: at(0)}}
	run := typedStatus(t, Progress(started(), resource(), report)).LastRun
	if diff := cmp.Diff(&Task{Name: "Create it", Since: at(0)}, run.CurrentTask, cmp.Comparer(sameTime)); diff != "" {
		t.Errorf("task (-want +got):\n%s", diff)
	}
	if run.Host != "h" || run.User != "u" || run.ID != "r2" {
		t.Errorf("run is %+v", run)
	}
	for name, status := range map[string]map[string]any{"no run": {}, "a run that has ended": succeeded()} {
		if got := Progress(status, resource(), report); !Equal(status, got) {
			t.Errorf("%s: status has changed to %v", name, got)
		}
	}
}

func TestProgressOfALongRun(t *testing.T) {
	deleted := func(r *Resource) { r.Deleting = true }
	for after, want := range map[time.Duration]string{
		time.Hour:     "the playbook is running",
		2 * time.Hour: "the playbook is running, for more than 2 hours now",
		9 * time.Hour: "the playbook is running, for more than 2 hours now",
	} {
		status := typedStatus(t, Progress(started(), resource(deleted, func(r *Resource) { r.Now = t0.Add(after) }), Report{}))
		if ready := meta.FindStatusCondition(status.Conditions, ConditionReady); status.Message != want || ready.Message != want {
			t.Errorf("after %s: %q, and Ready says %q", after, status.Message, ready.Message)
		}
	}
}

func sameTime(a, b metav1.Time) bool { return a.Time.Equal(b.Time) }

func TestFieldsIgnored(t *testing.T) {
	var many []string
	for i := range 25 {
		many = append(many, fmt.Sprintf("f%02d", i))
	}
	const prefix = "playbooks do not get these fields, because version 1.0.0 of the collection does not declare them: "
	for name, tc := range map[string]struct {
		ignored []string
		want    string
	}{
		"none":      {nil, ""},
		"some":      {[]string{"a.b", "pyz"}, prefix + "a.b, pyz"},
		"many":      {many, prefix + strings.Join(many[:20], ", ") + " and 5 more"},
		"unclean":   {[]string{"a\n\x1b[1mb\x00"}, prefix + "a b"},
		"very long": {append([]string{strings.Repeat("é", 400)}, many...), prefix + strings.Repeat("é", 126) + cutMark + ", " + strings.Join(many[:19], ", ") + " and 6 more"},
	} {
		t.Run(name, func(t *testing.T) {
			r := resource(func(r *Resource) { r.Ignored = tc.ignored })
			status := End(started(), r, newRun(), success, newRecord(gate.OutcomeSucceeded))
			typed := typedStatus(t, status)
			i := indexOf(typed.Conditions, ConditionFieldsIgnored)
			if tc.want == "" {
				if i >= 0 {
					t.Errorf("condition is %+v", typed.Conditions[i])
				}
				return
			}
			if i < 0 || typed.Conditions[i].Message != tc.want || typed.Conditions[i].Status != metav1.ConditionTrue {
				t.Fatalf("conditions are %+v, want %q", typed.Conditions, tc.want)
			}
			gone := typedStatus(t, Start(status, resource(), newRun()))
			if indexOf(gone.Conditions, ConditionFieldsIgnored) >= 0 {
				t.Error("the condition stays although no field is ignored")
			}
		})
	}
}

func TestTextsAreBounded(t *testing.T) {
	long := strings.Repeat("ö\x07x\r\n", 3000)
	report := Report{
		Ended: "failed", Host: long, User: long, CurrentTask: &Task{Name: long},
		Failures: []Failure{{Message: long, Task: long, File: long, Output: long + "end"}, {Message: long}},
	}
	for range 100 {
		report.Jobs = append(report.Jobs, Job{Name: long, ID: long, ReturnCode: long})
	}
	report.Jobs[99].ID = "JOB00099"
	r := resource(func(r *Resource) { r.Name = "q1"; r.Ignored = []string{long, long, long, long, long, long} })
	status := End(started(), r, newRun(func(run *Run) { run.Endpoint = long }), report, newRecord(gate.OutcomeFailed))
	typed := typedStatus(t, status)
	run := typed.LastRun
	for name, tc := range map[string]struct {
		text  string
		limit int
	}{
		"message": {typed.Message, 1024}, "failure": {run.Failure.Message, 1024}, "history": {typed.History[0].Message, 1024},
		"output": {run.Failure.Output, 2048}, "task": {run.Failure.Task, 256}, "file": {run.Failure.File, 256},
		"endpoint": {run.Endpoint, 256}, "host": {run.Host, 256}, "user": {run.User, 256}, "job": {run.Jobs[0].Name, 256},
		"ignored": {typed.Conditions[indexOf(typed.Conditions, ConditionFieldsIgnored)].Message, 1024},
	} {
		if len(tc.text) > tc.limit || len(tc.text) < tc.limit-8 || strings.ContainsAny(tc.text, "\a\r\x1b�") {
			t.Errorf("%s has %d bytes, want %d at most, without control characters: %q", name, len(tc.text), tc.limit, tc.text)
		}
	}
	if !strings.HasSuffix(run.Failure.Output, "x\nend") || !strings.HasSuffix(typed.Message, "rerun Queue/q1") {
		t.Errorf("the ends are lost: %q, %q", run.Failure.Output, typed.Message)
	}
	if len(run.Jobs) != 20 || run.Jobs[19].ID != "JOB00099" {
		t.Errorf("%d jobs, the last is %v", len(run.Jobs), run.Jobs[len(run.Jobs)-1])
	}
}

func TestFailureOf(t *testing.T) {
	task := &Task{Name: "Create"}
	for name, tc := range map[string]struct {
		outcome gate.Outcome
		report  Report
		want    Failure
	}{
		"hidden by no_log": {
			gate.OutcomeFailed, Report{Failures: []Failure{{}}}, Failure{Message: "a task failed, and no_log hides its result"},
		},
		"no message": {
			gate.OutcomeFailed, Report{Failures: []Failure{{Task: "Create"}}},
			Failure{Message: `task "Create" failed without a message`, Task: "Create"},
		},
		"cancelled in a task": {
			gate.OutcomeCancelled, Report{CurrentTask: task}, Failure{Message: "the run was cancelled", Task: "Create"},
		},
		"cancelled, and the task failed by that": {
			gate.OutcomeCancelled, Report{Failures: []Failure{{Message: "killed", Task: "Create", Line: 3}}},
			Failure{Message: "the run was cancelled", Task: "Create", Line: 3},
		},
		"colors": {
			gate.OutcomeFailed, Report{Failures: []Failure{{Message: "\x1b[0;31mno\x1b[0m \xff disk\u0085next"}}}, Failure{Message: "no ? disk next"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, failureOf(tc.outcome, tc.report)); diff != "" {
				t.Errorf("failure (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOutcomeOf(t *testing.T) {
	for name, tc := range map[string]struct {
		report Report
		want   gate.Outcome
	}{
		"successful":                {Report{Ended: "successful"}, gate.OutcomeSucceeded},
		"successful, requeue_after": {Report{Ended: "successful", RequeueAfter: "1m"}, gate.OutcomeSucceeded},
		"host lost":                 {Report{Ended: "successful", Failures: []Failure{{}}}, gate.OutcomeFailed},
		"failed":                    {Report{Ended: "failed"}, gate.OutcomeFailed},
		"error":                     {Report{Ended: "error"}, gate.OutcomeFailed},
		"timeout":                   {Report{Ended: "timeout"}, gate.OutcomeTimedOut},
		"canceled":                  {Report{Ended: "canceled"}, gate.OutcomeInterrupted},
		"killed":                    {Report{}, gate.OutcomeFailed},
	} {
		if got := OutcomeOf(tc.report); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// What a host says reaches status as printable text: one line, except the output of a task.
func TestHostileTextsAreCleaned(t *testing.T) {
	long := strings.Repeat(hostile.Text, 1000)
	report := Report{
		Connection: endpoint.ConnectionUnreachable, ConnectionMessage: long,
		Failures: []Failure{{Task: long, File: long, Message: long, Output: long}},
	}
	failure := failureOf(gate.OutcomeFailed, report)
	for name, text := range map[string]string{
		"cause": report.Cause(), "task": failure.Task, "file": failure.File, "message": failure.Message,
		"output": strings.ReplaceAll(failure.Output, "\n", ""),
	} {
		if text == "" || len(text) > maxOutput || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: %d bytes: %q", name, len(text), text)
		}
	}
}
