package runstatus

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/gate"
)

var (
	clean   = Report{Ended: "successful", Tasks: &TaskCounts{OK: 5}, Changes: &Changes{}}
	drifted = Report{Ended: "successful", Changes: &Changes{Tasks: 2, Diff: "--- before\n+++ after\n-a\n+\x1b[32mb\x1b[0m\n"}}
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
	unchecked := func(report Report, n int) Report {
		report.Unchecked = n
		return report
	}
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
		"nothing":       {check(clean, gate.OutcomeSucceeded), DriftResult{no, ReasonNoDrift, "no drift is known since status.provedAt"}},
		"drift":         {check(drifted, gate.OutcomeSucceeded), DriftResult{yes, ReasonDrifted, "2 tasks would change the endpoint" + rerun}},
		"one unchecked": {check(unchecked(clean, 1), gate.OutcomeSucceeded), DriftResult{unknown, ReasonUnchecked, "1 task was skipped because it does not support check mode"}},
		"unchecked":     {check(unchecked(clean, 3), gate.OutcomeSucceeded), DriftResult{unknown, ReasonUnchecked, "3 tasks were skipped because they do not support check mode"}},
		"drift, unchecked": {
			check(unchecked(drifted, 3), gate.OutcomeSucceeded),
			DriftResult{yes, ReasonDrifted, "2 tasks would change the endpoint; 3 tasks were skipped because they do not support check mode" + rerun},
		},
		"no result": {
			check(success, gate.OutcomeSucceeded),
			DriftResult{unknown, ReasonCheckFailed, "the drift check failed: its report does not say what would change"},
		},
		"failed": {
			check(unchecked(failure, 1), gate.OutcomeFailed),
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
				"2 tasks would change the endpoint; then the drift check failed: the run exceeded the time limit runtime.runTimeout" + rerun,
			},
		},
		"drift, then cancelled": {check(drifted, gate.OutcomeCancelled), DriftResult{unknown, ReasonCheckFailed, "the drift check failed: the run was cancelled"}},
		"drift, then no connection": {
			check(drifted, gate.OutcomeInterrupted), DriftResult{unknown, ReasonCheckFailed, "the drift check failed: the pod ended before the run did"},
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
	for _, field := range []string{"drift", "provedAt"} {
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

func TestStatusAfterACheck(t *testing.T) {
	before := succeeded()
	same := EndCheck(before, resource(afterACheck), check(clean, gate.OutcomeSucceeded))
	checkDrift(t, before, same, `
provedAt: "2026-11-22T10:00:00Z"
drift: {checkedAt: "2026-11-22T10:00:00Z"}
condition: {type: Drifted, status: "False", reason: NoDrift, message: no drift is known since status.provedAt,
  observedGeneration: 3, lastTransitionTime: "2026-11-22T10:00:00Z"}
`)
	found := EndCheck(before, resource(afterACheck), check(drifted, gate.OutcomeSucceeded))
	checkDrift(t, before, found, `
provedAt: "2026-11-22T09:00:00Z"
drift: {checkedAt: "2026-11-22T10:00:00Z", diff: "--- before\n+++ after\n-a\n+b"}
condition: {type: Drifted, status: "True", reason: Drifted, observedGeneration: 3, lastTransitionTime: "2026-11-22T10:00:00Z",
  message: "2 tasks would change the endpoint; to correct it, run the playbook: kubectl collection rerun Queue/q1"}
`)
	skipped := Report{Ended: "successful", Unchecked: 1}
	checkDrift(t, found, EndCheck(found, resource(afterACheck), check(skipped, gate.OutcomeSucceeded)), `
provedAt: "2026-11-22T09:00:00Z"
drift: {checkedAt: "2026-11-22T10:00:00Z", unchecked: 1}
condition: {type: Drifted, status: Unknown, reason: Unchecked, message: 1 task was skipped because it does not support check mode,
  observedGeneration: 3, lastTransitionTime: "2026-11-22T10:00:00Z"}
`)
	interrupted := Check{Outcome: gate.OutcomeInterrupted, Finished: hour(2)}
	lost := EndCheck(found, resource(later), interrupted)
	checkDrift(t, found, lost, `
provedAt: "2026-11-22T09:00:00Z"
drift: {checkedAt: "2026-11-22T10:00:00Z", diff: "--- before\n+++ after\n-a\n+b"}
condition: {type: Drifted, status: Unknown, reason: CheckFailed, message: "the drift check failed: the pod ended before the run did",
  observedGeneration: 3, lastTransitionTime: "2026-11-23T09:00:00Z"}
`)
	interrupted.Finished = hour(3)
	if again := EndCheck(lost, resource(later), interrupted); !Equal(lost, again) {
		t.Errorf("status changes with each check that does not take place (-before +after):\n%s", cmp.Diff(lost, again))
	}
	checkDrift(t, before, RefuseCheck(before, resource(afterACheck)), `
provedAt: "2026-11-22T09:00:00Z"
condition: {type: Drifted, status: Unknown, reason: NotSupported, observedGeneration: 3, lastTransitionTime: "2026-11-22T10:00:00Z",
  message: "version 1.0.0 of the collection does not declare supportsCheckMode for kind Queue: its playbook cannot be checked"}
`)
	checkStatus(t, succeededStatus, before)
}

func TestDiffIsBounded(t *testing.T) {
	report := Report{Ended: "successful", Changes: &Changes{Tasks: 1, Diff: strings.Repeat("-a\n+ä\n", 2000)}}
	diff := typedStatus(t, EndCheck(nil, resource(), check(report, gate.OutcomeSucceeded))).Drift.Diff
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
	for name, tc := range map[string]struct {
		status  map[string]any
		drifted metav1.ConditionStatus
		proved  time.Time
	}{
		"running":             {Start(found, resource(later), next), metav1.ConditionTrue, t0},
		"succeeded":           {end(gate.OutcomeSucceeded, success), metav1.ConditionFalse, hour(3)},
		"failed":              {end(gate.OutcomeFailed, failure), metav1.ConditionTrue, t0},
		"asked to run again":  {end(gate.OutcomeRequeued, success), metav1.ConditionTrue, t0},
		"deleted":             {end(gate.OutcomeSucceeded, success, isDeletion), metav1.ConditionTrue, t0},
		"skipped":             {Skip(found, resource(later), newRecord(gate.OutcomeSucceeded), skip), metav1.ConditionTrue, t0},
		"succeeded, restored": {Skip(found, resource(later), newRecord(gate.OutcomeSucceeded, laterRun), skip), metav1.ConditionFalse, hour(3)},
		"failed, restored":    {Skip(found, resource(later), newRecord(gate.OutcomeFailed, laterRun), skip), metav1.ConditionTrue, t0},
	} {
		t.Run(name, func(t *testing.T) {
			typed := typedStatus(t, tc.status)
			c := typed.Conditions[indexOf(typed.Conditions, ConditionDrifted)]
			if c.Status != tc.drifted || (typed.Drift.Diff == "") != (tc.drifted == metav1.ConditionFalse) {
				t.Errorf("Drifted is %s, drift %+v", c.Status, typed.Drift)
			}
			if !typed.ProvedAt.Time.Equal(tc.proved) || !typed.Drift.CheckedAt.Time.Equal(hour(1)) {
				t.Errorf("proved at %s, checked at %s", typed.ProvedAt, typed.Drift.CheckedAt)
			}
		})
	}
}

func laterRun(r *gate.Record) { r.RunID, r.Finished = "r3", hour(3) }

func TestProof(t *testing.T) {
	adopted := newRecord(gate.OutcomeSucceeded, func(r *gate.Record) { r.RunID = "" })
	same := EndCheck(succeeded(), resource(afterACheck), check(clean, gate.OutcomeSucceeded))
	old := succeeded()
	delete(old, "provedAt")
	for name, tc := range map[string]struct {
		status map[string]any
		want   any
	}{
		"never":                 {started(), nil},
		"failed":                {failedOnce(), nil},
		"adopted":               {Skip(nil, resource(), adopted, skip), nil},
		"an older gate ran it":  {Skip(old, resource(later), newRecord(gate.OutcomeSucceeded), skip), "2026-11-22T09:00:00Z"},
		"checked, then skipped": {Skip(same, resource(later), newRecord(gate.OutcomeSucceeded), skip), "2026-11-22T10:00:00Z"},
		"clock was ahead": {
			End(same, resource(), newRun(), success, newRecord(gate.OutcomeSucceeded)), "2026-11-22T09:00:00Z",
		},
	} {
		if got := tc.status["provedAt"]; got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
		if typed := typedStatus(t, tc.status); strings.HasPrefix(name, "adopted") && indexOf(typed.Conditions, ConditionDrifted) >= 0 {
			t.Errorf("%s: a resource that was never checked has a condition Drifted", name)
		}
	}
}

func TestFoundDrift(t *testing.T) {
	before := succeeded()
	found := EndCheck(before, resource(), check(drifted, gate.OutcomeSucceeded))
	same := EndCheck(found, resource(), check(clean, gate.OutcomeSucceeded))
	const message = "2 tasks would change the endpoint; to correct it, run the playbook: kubectl collection rerun Queue/q1"
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
