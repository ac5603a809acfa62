package runstatus

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

func busy() Waiting {
	return Waiting{Reason: string(endpoint.ReasonBusy), Message: "2 other runs use host:22", Since: at(-time.Minute)}
}

func TestWaitOfANewResource(t *testing.T) {
	w := busy()
	w.Until = new(at(time.Hour))
	got := Wait(nil, resource(), w)
	checkStatus(t, `
phase: Waiting
message: 2 other runs use host:22
observedGeneration: 3
waiting: {reason: EndpointBusy, message: 2 other runs use host:22, since: "2026-11-22T08:59:00Z", until: "2026-11-22T10:00:00Z"}
conditions:
- {type: Ready, status: "False", reason: Waiting, message: 2 other runs use host:22, observedGeneration: 3, lastTransitionTime: "2026-11-22T09:00:00Z"}
`, got)
	if again := Wait(got, resource(later), w); !Equal(got, again) {
		t.Errorf("the second look changes status (-before +after):\n%s", cmp.Diff(got, again))
	}
	if since := WaitingSince(got); !since.Equal(t0.Add(-time.Minute)) {
		t.Errorf("it waits since %s", since)
	}
	if IsBaseline(got, 3) {
		t.Error("a resource that waits for its first run was taken as successful")
	}
}

func TestWaitOfAResourceThatHasRun(t *testing.T) {
	refused := busy()
	refused.Reason = string(endpoint.ReasonCredentialRefused)
	isDeleted := func(r *Resource) { r.Deleting = true }
	for name, tc := range map[string]struct {
		resource Resource
		waiting  Waiting
		phase    Phase
		stalled  bool
	}{
		"busy":              {resource(), busy(), PhaseWaiting, false},
		"refused":           {resource(), refused, PhaseWaiting, true},
		"deleting":          {resource(isDeleted), busy(), PhaseDeleting, false},
		"deleting, refused": {resource(isDeleted), refused, PhaseDeleting, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := Wait(succeeded(), tc.resource, tc.waiting)
			checkSummary(t, got, tc.phase, false, tc.stalled, "2 other runs use host:22")
			typed := typedStatus(t, got)
			if typed.LastRun.Outcome != gate.OutcomeSucceeded || typed.LastSuccess == nil || len(typed.History) != 1 {
				t.Errorf("the last run is %+v", typed.LastRun)
			}
			if IsBaseline(got, 3) {
				t.Error("a resource with a run that waits was taken as successful")
			}
			if freed := Wait(got, tc.resource, busy()); tc.stalled && typedStatus(t, freed).Waiting.Reason != "EndpointBusy" {
				t.Errorf("the reason stays %s", tc.waiting.Reason)
			}
		})
	}
}

// The pod has ended in a run, and the next one may not start.
func TestWaitAfterAnInterruptedRun(t *testing.T) {
	status := Progress(started(), resource(), Report{Host: "h", CurrentTask: &Task{Name: "Create", Since: at(0)}})
	got := Wait(status, resource(), busy())
	checkSummary(t, got, PhaseWaiting, false, false, "2 other runs use host:22")
	run := typedStatus(t, got).LastRun
	if run.Outcome != gate.OutcomeInterrupted || run.CurrentTask != nil || len(typedStatus(t, got).History) != 1 {
		t.Errorf("the last run is %+v", run)
	}
}

// While an error keeps runs from starting, nobody knows whether one is due: a resource that was successful still is when its record is lost.
func TestCannotStartKeepsTheBaseline(t *testing.T) {
	ansible, before := parse(t, ansibleOperatorStatus), succeeded()
	before["observedGeneration"] = int64(2)
	for name, tc := range map[string]struct {
		status map[string]any
		want   bool
	}{
		"succeeded":                         {succeeded(), true},
		"changed since":                     {before, false},
		"a run waited":                      {Wait(succeeded(), resource(), busy()), false},
		"of ansible-operator":               {ansible, true},
		"of ansible-operator, with -1":      {parse(t, ansibleOperatorStatus+"\nobservedGeneration: -1\n"), true},
		"of ansible-operator, a run waited": {Wait(ansible, resource(), busy()), false},
		"its pod ended in mid-run":          {started(), false},
		"new":                               {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := CannotStart(tc.status, resource(), "no key", at(-time.Minute))
			if typed := typedStatus(t, got); typed.Phase != PhaseWaiting || typed.Message != "no key" || meta.IsStatusConditionTrue(typed.Conditions, ConditionReady) {
				t.Errorf("got %v", got)
			}
			if again := CannotStart(got, resource(), "no key", at(-time.Minute)); !Equal(got, again) {
				t.Errorf("the second look changes status (-before +after):\n%s", cmp.Diff(got, again))
			}
			if IsBaseline(got, 3) != tc.want || IsBaseline(NoOperator(got, resource()), 3) != tc.want {
				t.Errorf("a baseline: %t, and without an operator %t", IsBaseline(got, 3), IsBaseline(NoOperator(got, resource()), 3))
			}
		})
	}
}

func TestCannotStartKeepsWhatDependsOnTheGate(t *testing.T) {
	shown := Skip(succeeded(), resource(func(r *Resource) { r.Ignored = []string{"pyz"} }), newRecord(gate.OutcomeSucceeded), skip)
	shown["drift"] = map[string]any{"checkedAt": "2026-11-22T08:00:00Z", "diff": "+a"}
	got := CannotStart(shown, resource(), "no key", at(0))
	if !cmp.Equal(got["drift"], shown["drift"]) || conditionsOf(got, t0).get(ConditionFieldsIgnored) == nil {
		t.Errorf("got %v", got)
	}
}

func TestWaitingEnds(t *testing.T) {
	waiting := func() map[string]any { return Wait(succeeded(), resource(), busy()) }
	run := newRun(func(run *Run) { run.ID = "r3" })
	for name, got := range map[string]map[string]any{
		"start": Start(waiting(), resource(), run),
		"skip":  Skip(waiting(), resource(), newRecord(gate.OutcomeSucceeded), skip),
		"end":   End(waiting(), resource(), run, Report{Ended: "successful"}, newRecord(gate.OutcomeSucceeded)),
	} {
		if got["waiting"] != nil || got["phase"] == "Waiting" {
			t.Errorf("after %s it still waits: %v", name, got)
		}
	}
}

func TestWaitingSinceIsUntrusted(t *testing.T) {
	for name, status := range map[string]string{
		"no status": "", "no field": "{}", "a text": "waiting: long", "no time": "waiting: {since: 7}", "another form": "waiting: {since: yesterday}",
	} {
		if since := WaitingSince(parse(t, status)); !since.IsZero() {
			t.Errorf("%s: %s", name, since)
		}
	}
}

func TestOutcomeOfARunWithoutACleanReport(t *testing.T) {
	failures := []Failure{{Message: "first"}}
	tests := map[string]struct {
		report  Report
		problem string
		want    []string
	}{
		"no report":      {problem: "the run ended without a report", want: []string{"the run ended without a report"}},
		"invalid period": {report: Report{Ended: "successful", RequeueAfter: "5 minutes"}, want: []string{`requeue_after: period "5 minutes" is not a duration such as 30s or 1h30m`}},
		"negative":       {report: Report{Ended: "successful", RequeueAfter: "-1s"}, want: []string{`requeue_after: period "-1s" is not a duration such as 30s or 1h30m`}},
		"failed before":  {report: Report{Failures: failures}, problem: "killed", want: []string{"first", "killed"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			report, outcome := Evaluate(test.report, test.problem)
			var got []string
			for _, failure := range report.Failures {
				got = append(got, failure.Message)
			}
			if outcome != gate.OutcomeFailed || !slices.Equal(got, test.want) {
				t.Errorf("%s: %q, want %q", outcome, got, test.want)
			}
		})
	}
}

func TestOutcomeOfAConnection(t *testing.T) {
	failures := []Failure{{Message: "Failed to connect\nto host"}}
	for name, tc := range map[string]struct {
		report Report
		want   gate.Outcome
		cause  string
	}{
		"unreachable":                {Report{Ended: "failed", Failures: failures, Connection: endpoint.ConnectionUnreachable}, gate.OutcomeUnreachable, "Failed to connect to host"},
		"unreachable, no failure":    {Report{Ended: "failed", Connection: endpoint.ConnectionUnreachable}, gate.OutcomeUnreachable, "the endpoint could not be reached"},
		"refused":                    {Report{Ended: "failed", Failures: failures, Connection: endpoint.ConnectionRefused}, gate.OutcomeRefused, "Failed to connect to host"},
		"refused, no failure":        {Report{Ended: "failed", Connection: endpoint.ConnectionRefused}, gate.OutcomeRefused, "the endpoint refused the credential"},
		"accepted, failed":           {Report{Ended: "failed", Failures: failures, Connection: endpoint.ConnectionAccepted}, gate.OutcomeFailed, "Failed to connect to host"},
		"unreachable, ended well":    {Report{Ended: "successful", Connection: endpoint.ConnectionUnreachable}, gate.OutcomeSucceeded, "the endpoint could not be reached"},
		"unreachable, pod has ended": {Report{Ended: "canceled", Connection: endpoint.ConnectionUnreachable}, gate.OutcomeInterrupted, "the endpoint could not be reached"},
		"unreachable, another cause": {Report{Ended: "failed", Failures: failures, Connection: endpoint.ConnectionUnreachable, ConnectionIgnored: true}, gate.OutcomeFailed, "Failed to connect to host"},
		"with a message":             {Report{Ended: "failed", Failures: failures, Connection: endpoint.ConnectionUnreachable, ConnectionMessage: "no\nanswer"}, gate.OutcomeUnreachable, "no answer"},
		"message, still running":     {Report{Connection: endpoint.ConnectionRefused, ConnectionMessage: "refused"}, gate.OutcomeRefused, "refused"},
		"accepted":                   {Report{Ended: "successful", Connection: endpoint.ConnectionAccepted}, gate.OutcomeSucceeded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := OutcomeOf(tc.report); got != tc.want {
				t.Errorf("outcome %s, want %s", got, tc.want)
			}
			if got := tc.report.Cause(); got != tc.cause {
				t.Errorf("cause %q, want %q", got, tc.cause)
			}
		})
	}
	if long := (Report{Failures: []Failure{{Message: strings.Repeat("x", 5000)}}}).Cause(); len(long) > 256 {
		t.Errorf("a cause of %d bytes", len(long))
	}
}

func TestStatusAfterAnOutage(t *testing.T) {
	for name, tc := range map[string]struct {
		outcome gate.Outcome
		change  func(*gate.Record)
		stalled bool
		message string
	}{
		"unreachable":       {gate.OutcomeUnreachable, func(*gate.Record) {}, false, "no route; it is tried again when the endpoint can be reached"},
		"unreachable again": {gate.OutcomeUnreachable, nextRetry, false, "no route; it is tried again when the endpoint can be reached, not before 2026-11-22T09:00:10Z"},
		"refused": {gate.OutcomeRefused, func(*gate.Record) {}, true, "no route; it is tried again when the credential is changed, " +
			"or when another logon is allowed by annotation zoscb.ibm.com/retry on the ZosEndpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			record := newRecord(tc.outcome, tc.change)
			report := Report{Ended: "failed", Failures: []Failure{{Message: "no route"}}}
			got := End(started(), resource(), newRun(func(run *Run) { run.Finished = &metav1.Time{Time: t0} }), report, record)
			checkSummary(t, got, PhaseFailed, false, tc.stalled, tc.message)
			if run := typedStatus(t, got).LastRun; run.Outcome != tc.outcome || run.Failure.Message != "no route" {
				t.Errorf("the last run is %+v", run)
			}
			if again := Skip(got, resource(later), record, skip); !Equal(got, again) {
				t.Errorf("a skip changes status (-before +after):\n%s", cmp.Diff(got, again))
			}
			restored := Skip(nil, resource(), record, skip)
			if conditions := typedStatus(t, restored).Conditions; !slices.ContainsFunc(conditions, func(c metav1.Condition) bool {
				return c.Type == ConditionFailure && c.Message == defaultMessage(tc.outcome)
			}) {
				t.Errorf("the restored conditions are %+v", conditions)
			}
		})
	}
}
