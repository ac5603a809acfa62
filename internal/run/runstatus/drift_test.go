package runstatus

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/run/gate"
)

var (
	clean   = Report{Ended: "successful", Tasks: &TaskCounts{OK: 5}, Checked: 5, Changes: &Changes{}}
	drifted = Report{Ended: "successful", Checked: 4, Changes: &Changes{Tasks: 2, Names: []string{"Write", "Own"}, Diff: "--- before\n+++ after\n-a\n+\x1b[32mb\x1b[0m\n"}}
)

// hour is a time after the last run.
func hour(n int) time.Time { return t0.Add(time.Duration(n) * time.Hour) }

func check(report Report, outcome gate.Outcome) Check {
	return Check{Report: report, Outcome: outcome, Finished: hour(1).Add(time.Millisecond)}
}

// afterACheck is resource at the end of a check.
func afterACheck(r *Resource) { r.Now = hour(1) }

func TestResultOfACheck(t *testing.T) {
	const rerun = "; to correct it, run the playbook: kubectl collection rerun Queue/q1"
	of := func(report Report, checked, unchecked int) Report {
		report.Checked, report.Unchecked = checked, unchecked
		return report
	}
	many := of(drifted, 8, 1)
	many.Changes = &Changes{Tasks: 7, Names: []string{"A", "B", "C\x1b[31m", "D"}}
	failedAfter := failure
	failedAfter.Changes = &Changes{Tasks: 1}
	endless := Report{Ended: "failed", Failures: []Failure{{Message: strings.Repeat("x", 2000)}}, Changes: &Changes{Tasks: 1}}
	endlessMessage := "1 task would change the endpoint; then the drift check failed: "
	endlessMessage += strings.Repeat("x", maxMessage-len(endlessMessage)-len(cutMark)-len(rerun)) + cutMark + rerun
	const no, yes, unknown = metav1.ConditionFalse, metav1.ConditionTrue, metav1.ConditionUnknown
	for name, tc := range map[string]struct {
		check Check
		want  DriftResult
	}{
		"nothing":      {check(clean, gate.OutcomeSucceeded), DriftResult{no, ReasonNoDrift, "no difference found in 5 of 5 tasks"}},
		"nothing of 1": {check(of(clean, 1, 0), gate.OutcomeSucceeded), DriftResult{no, ReasonNoDrift, "no difference found in 1 of 1 task"}},
		"drift":        {check(drifted, gate.OutcomeSucceeded), DriftResult{yes, ReasonDrifted, "2 tasks would change the endpoint: Write, Own" + rerun}},
		"unchecked": {
			check(of(clean, 5, 2), gate.OutcomeSucceeded),
			DriftResult{unknown, ReasonUnchecked, "no difference found in 5 of 7 tasks; the others were not checked"},
		},
		"all unchecked": {check(of(clean, 0, 3), gate.OutcomeSucceeded), DriftResult{unknown, ReasonUnchecked, "nothing is known: none of 3 tasks was checked"}},
		"no tasks":      {check(of(clean, 0, 0), gate.OutcomeSucceeded), DriftResult{unknown, ReasonUnchecked, "nothing is known: none of 0 tasks was checked"}},
		"drift, unchecked": {
			check(many, gate.OutcomeSucceeded),
			DriftResult{yes, ReasonDrifted, "7 tasks would change the endpoint: A, B, C and 4 more; 8 of 9 tasks checked" + rerun},
		},
		"no result": {
			check(success, gate.OutcomeSucceeded),
			DriftResult{unknown, ReasonCheckFailed, "the drift check failed: its report does not say what would change"},
		},
		"failed": {
			check(of(failure, 0, 1), gate.OutcomeFailed),
			DriftResult{unknown, ReasonCheckFailed, "the drift check failed: disk is full; user is unknown"},
		},
		"drift, then failed": {
			check(failedAfter, gate.OutcomeFailed),
			DriftResult{yes, ReasonDrifted, "1 task would change the endpoint; then the drift check failed: disk is full; user is unknown" + rerun},
		},
		"timed out": {
			check(Report{}, gate.OutcomeTimedOut),
			DriftResult{unknown, ReasonCheckFailed, "the drift check failed: the run exceeded the time limit runtime.runTimeout"},
		},
		"drift, then timed out": {
			check(drifted, gate.OutcomeTimedOut), DriftResult{
				yes, ReasonDrifted,
				"2 tasks would change the endpoint: Write, Own; then the drift check failed: the run exceeded the time limit runtime.runTimeout" + rerun,
			},
		},
		"drift, then cancelled": {check(drifted, gate.OutcomeCancelled), DriftResult{unknown, ReasonCheckFailed, "the drift check failed: the run was cancelled"}},
		"drift, then no connection": {
			check(drifted, gate.OutcomeInterrupted), DriftResult{unknown, ReasonCheckFailed, "the drift check failed: the run ended without a report"},
		},
		"long": {check(endless, gate.OutcomeFailed), DriftResult{yes, ReasonDrifted, endlessMessage}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.check.Result(resource())); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

// checkDrift compares all that a check may change, and expects that the rest is as in the status before.
func checkDrift(t *testing.T, before, after map[string]any, want string) {
	t.Helper()
	got := map[string]any{}
	rest := copyOf(after)
	for _, field := range []string{"drift"} {
		if after[field] != nil {
			got[field] = after[field]
		}
		rest[field] = before[field]
		if before[field] == nil {
			delete(rest, field)
		}
	}
	conditions := conditionsOf(rest, t0)
	if c := conditions.get(ConditionDrifted); c != nil {
		got["condition"] = c
	}
	conditions.remove(ConditionDrifted)
	rest["conditions"] = conditions.items
	checkStatus(t, want, got)
	others := copyOf(before)
	conditions = conditionsOf(others, t0)
	conditions.remove(ConditionDrifted)
	others["conditions"] = conditions.items
	if diff := cmp.Diff(others, rest); diff != "" {
		t.Errorf("other fields (-before +after):\n%s", diff)
	}
}

func showsDiff(r *Resource) { r.ShowDiff = true }

func TestStatusAfterACheck(t *testing.T) {
	before := succeeded()
	same := EndCheck(before, resource(afterACheck), check(clean, gate.OutcomeSucceeded))
	checkDrift(t, before, same, `
drift: {checkedAt: "2026-11-22T10:00:00Z", checked: 5}
condition: {type: Drifted, status: "False", reason: NoDrift, message: no difference found in 5 of 5 tasks,
  observedGeneration: 3, lastTransitionTime: "2026-11-22T10:00:00Z"}
`)
	found := EndCheck(before, resource(afterACheck, showsDiff), check(drifted, gate.OutcomeSucceeded))
	const driftedCondition = `
condition: {type: Drifted, status: "True", reason: Drifted, observedGeneration: 3, lastTransitionTime: "2026-11-22T10:00:00Z",
  message: "2 tasks would change the endpoint: Write, Own; to correct it, run the playbook: kubectl collection rerun Queue/q1"}
`
	checkDrift(t, before, found, `
drift: {checkedAt: "2026-11-22T10:00:00Z", checked: 4, diff: "--- before\n+++ after\n-a\n+b"}`+driftedCondition)
	checkDrift(t, before, EndCheck(before, resource(afterACheck), check(drifted, gate.OutcomeSucceeded)), `
drift: {checkedAt: "2026-11-22T10:00:00Z", checked: 4}`+driftedCondition)
	skipped := Report{Ended: "successful", Checked: 4, Unchecked: 1, Changes: &Changes{}}
	checkDrift(t, found, EndCheck(found, resource(afterACheck), check(skipped, gate.OutcomeSucceeded)), `
drift: {checkedAt: "2026-11-22T10:00:00Z", checked: 4, unchecked: 1}
condition: {type: Drifted, status: Unknown, reason: Unchecked, message: no difference found in 4 of 5 tasks; the others were not checked,
  observedGeneration: 3, lastTransitionTime: "2026-11-22T10:00:00Z"}
`)
	interrupted := Check{Outcome: gate.OutcomeInterrupted, Finished: hour(2)}
	lost := EndCheck(found, resource(later), interrupted)
	checkDrift(t, found, lost, `
drift: {checkedAt: "2026-11-22T10:00:00Z", checked: 4, diff: "--- before\n+++ after\n-a\n+b"}
condition: {type: Drifted, status: Unknown, reason: CheckFailed, message: "the drift check failed: the run ended without a report",
  observedGeneration: 3, lastTransitionTime: "2026-11-23T09:00:00Z"}
`)
	interrupted.Finished = hour(3)
	if again := EndCheck(lost, resource(later), interrupted); !Equal(lost, again) {
		t.Errorf("status changes with each check that does not take place (-before +after):\n%s", cmp.Diff(lost, again))
	}
	checkDrift(t, before, RefuseCheck(before, resource(afterACheck)), `
condition: {type: Drifted, status: Unknown, reason: NotSupported, observedGeneration: 3, lastTransitionTime: "2026-11-22T10:00:00Z",
  message: "version 1.0.0 of the collection does not declare supportsCheckMode for kind Queue: its playbook cannot be checked"}
`)
	checkStatus(t, succeededStatus, before)
}

// A version of the collection, or of the operator, that does not show differences removes those that are shown.
func TestDiffIsRemoved(t *testing.T) {
	found := EndCheck(succeeded(), resource(afterACheck, showsDiff), check(drifted, gate.OutcomeSucceeded))
	record := newRecord(gate.OutcomeSucceeded)
	if shown := Skip(found, resource(later, showsDiff), record, skip); !Equal(found, shown) {
		t.Errorf("a skip changes status (-before +after):\n%s", cmp.Diff(found, shown))
	}
	hidden := Skip(found, resource(later), record, skip)
	if drift := typedStatus(t, hidden).Drift; drift.Diff != "" || drift.Checked != 4 {
		t.Errorf("drift is %+v", drift)
	}
	if again := Skip(hidden, resource(later), record, skip); !Equal(hidden, again) {
		t.Errorf("a second skip changes status (-before +after):\n%s", cmp.Diff(hidden, again))
	}
}

// Resources have what earlier versions proved by checks that had not looked.
func TestProofsOfEarlierVersionsAreDropped(t *testing.T) {
	old := func(result DriftResult) map[string]any {
		status := succeeded()
		status["provedAt"] = "2026-11-22T10:00:00Z"
		setDrifted(status, resource(afterACheck), result)
		return status
	}
	proved := old(DriftResult{metav1.ConditionFalse, ReasonNoDrift, "no drift is known since status.provedAt"})
	known := old(DriftResult{metav1.ConditionTrue, ReasonDrifted, "1 task would change the endpoint"})
	next := newRun(func(run *Run) { run.ID = "r3" })
	for name, tc := range map[string]struct {
		status  map[string]any
		drifted string
	}{
		"skipped":          {Skip(proved, resource(later), newRecord(gate.OutcomeSucceeded), skip), ""},
		"run":              {Start(proved, resource(later), next), ""},
		"checked":          {EndCheck(proved, resource(later), check(clean, gate.OutcomeSucceeded)), "False"},
		"drifted, skipped": {Skip(known, resource(later), newRecord(gate.OutcomeSucceeded), skip), "True"},
	} {
		drifted, _ := conditionsOf(tc.status, t0).get(ConditionDrifted)["status"].(string)
		if tc.status["provedAt"] != nil || drifted != tc.drifted {
			t.Errorf("%s: proved at %v, Drifted is %q", name, tc.status["provedAt"], drifted)
		}
	}
}

func TestDiffIsBounded(t *testing.T) {
	report := Report{Ended: "successful", Changes: &Changes{Tasks: 1, Diff: strings.Repeat("-a\n+ä\n", 2000)}}
	diff := typedStatus(t, EndCheck(nil, resource(showsDiff), check(report, gate.OutcomeSucceeded))).Drift.Diff
	if len(diff) > maxDiff || len(diff) < maxDiff-10 || !strings.HasSuffix(diff, cutMark) {
		t.Errorf("a diff of %d bytes that ends with %q", len(diff), diff[len(diff)-10:])
	}
}

func TestARunAfterADriftCheck(t *testing.T) {
	found := EndCheck(succeeded(), resource(afterACheck), check(drifted, gate.OutcomeSucceeded))
	next := newRun(func(run *Run) { run.ID, run.Started = "r3", at(2*time.Hour) })
	end := func(outcome gate.Outcome, report Report, changes ...func(*gate.Record)) map[string]any {
		record := newRecord(outcome, append(changes, laterRun)...)
		about := resource(later)
		return End(Start(found, about, next), about, next, report, record)
	}
	lost := EndCheck(end(gate.OutcomeSucceeded, success), resource(later), Check{Outcome: gate.OutcomeInterrupted, Finished: hour(4)})
	const no, yes, unknown = metav1.ConditionFalse, metav1.ConditionTrue, metav1.ConditionUnknown
	for name, tc := range map[string]struct {
		status  map[string]any
		drifted metav1.ConditionStatus
		checked int
	}{
		"running":             {Start(found, resource(later), next), yes, 4},
		"succeeded":           {end(gate.OutcomeSucceeded, success), no, 0},
		"failed":              {end(gate.OutcomeFailed, failure), yes, 4},
		"asked to run again":  {end(gate.OutcomeRequeued, success), yes, 4},
		"deleted":             {end(gate.OutcomeSucceeded, success, isDeletion), yes, 4},
		"skipped":             {Skip(found, resource(later), newRecord(gate.OutcomeSucceeded), skip), yes, 4},
		"succeeded, restored": {Skip(found, resource(later), newRecord(gate.OutcomeSucceeded, laterRun), skip), no, 0},
		"failed, restored":    {Skip(found, resource(later), newRecord(gate.OutcomeFailed, laterRun), skip), yes, 4},
		"then not checked":    {Skip(lost, resource(later), newRecord(gate.OutcomeSucceeded, laterRun), skip), unknown, 0},
	} {
		t.Run(name, func(t *testing.T) {
			typed := typedStatus(t, tc.status)
			c := typed.Conditions[indexOf(typed.Conditions, ConditionDrifted)]
			if c.Status != tc.drifted || typed.Drift.Checked != tc.checked || !typed.Drift.CheckedAt.Time.Equal(hour(1)) {
				t.Errorf("Drifted is %s, drift %+v", c.Status, typed.Drift)
			}
			if tc.drifted == no && c.Message != messageCorrected {
				t.Errorf("the message is %q", c.Message)
			}
		})
	}
}

func laterRun(r *gate.Record) { r.RunID, r.Finished = "r3", hour(3) }

func TestDriftOfAResourceThatWasNeverChecked(t *testing.T) {
	adopted := newRecord(gate.OutcomeSucceeded, func(r *gate.Record) { r.RunID = "" })
	for name, status := range map[string]map[string]any{"run": succeeded(), "adopted": Skip(nil, resource(), adopted, skip)} {
		if typed := typedStatus(t, status); indexOf(typed.Conditions, ConditionDrifted) >= 0 || typed.Drift != nil {
			t.Errorf("%s: %+v", name, typed)
		}
	}
}

func TestFoundDrift(t *testing.T) {
	before := succeeded()
	found := EndCheck(before, resource(), check(drifted, gate.OutcomeSucceeded))
	same := EndCheck(found, resource(), check(clean, gate.OutcomeSucceeded))
	const message = "2 tasks would change the endpoint: Write, Own; to correct it, run the playbook: kubectl collection rerun Queue/q1"
	for name, tc := range map[string]struct {
		before, after map[string]any
		want          string
	}{
		"first check":  {before, found, message},
		"again":        {found, found, ""},
		"corrected":    {found, same, ""},
		"after a time": {same, found, message},
		"never":        {before, before, ""},
	} {
		if got := FoundDrift(tc.before, tc.after); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
