package runstatus

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/run/gate"
)

const noOperatorMessage = "no operator runs for this resource: install the collection again, or remove it without a run: kubectl collection abandon Queue/q1"

func TestNoOperator(t *testing.T) {
	status := succeeded()
	got := NoOperator(status, resource(later))
	checkSummary(t, got, PhaseNoOperator, false, true, noOperatorMessage)
	checkConditions(t, got, map[string]string{
		"Running":    "True|Successful|Awaiting next reconciliation|2026-11-22T09:00:00Z",
		"Successful": "True|Successful|Last reconciliation succeeded|2026-11-22T09:00:00Z",
		"Failure":    "False|||2026-11-22T09:00:00Z",
		"Ready":      "False|NoOperator|" + noOperatorMessage + "|2026-11-23T09:00:00Z",
		"Stalled":    "True|NoOperator|" + noOperatorMessage + "|2026-11-23T09:00:00Z",
	})
	if status["phase"] != "Succeeded" {
		t.Error("the input is changed")
	}
	if again := NoOperator(got, resource()); !Equal(got, again) {
		t.Errorf("the second time changes the status (-before +after):\n%s", cmp.Diff(got, again))
	}
	checkConditions(t, NoOperator(nil, resource()), map[string]string{
		"Ready":   "False|NoOperator|" + noOperatorMessage + "|2026-11-22T09:00:00Z",
		"Stalled": "True|NoOperator|" + noOperatorMessage + "|2026-11-22T09:00:00Z",
	})
}

// Clients that compare observedGeneration are to read the conditions: nobody will observe this one.
func TestNoOperatorOfAResourceThatNobodyHasSeen(t *testing.T) {
	got := NoOperator(parse(t, `{phase: Pending, message: not yet, observedGeneration: -1}`), resource())
	if got["phase"] != string(PhaseNoOperator) || got["message"] != noOperatorMessage {
		t.Errorf("got %v", got)
	}
	if observed, exists := got["observedGeneration"]; exists {
		t.Errorf("observedGeneration is %v", observed)
	}
	if again := NoOperator(got, resource()); !Equal(got, again) || IsBaseline(got, 3) {
		t.Errorf("a baseline, or the second time changes the status:\n%s", cmp.Diff(got, again))
	}
}

func TestNoOperatorKeepsWhatAuthorsWrite(t *testing.T) {
	got := NoOperator(parse(t, "{phase: Open, message: All is well, connections: 7}"), resource(func(r *Resource) {
		r.Authors = Authors{Phase: true, Message: true}
	}))
	if got["phase"] != "Open" || got["message"] != "All is well" || got["connections"] != int64(7) {
		t.Errorf("got %v", got)
	}
}

// The next operator may have no record: its predecessor's key went with it.
func TestNoOperatorKeepsTheBaseline(t *testing.T) {
	for generation, want := range map[int64]bool{3: true, 4: false} {
		got := NoOperator(succeeded(), resource(func(r *Resource) { r.Generation = generation }))
		if IsBaseline(got, generation) != want {
			t.Errorf("generation %d: a baseline is %v, want %v", generation, !want, want)
		}
	}
}

func TestWhatWaitedIsNoBaselineWithoutAnOperator(t *testing.T) {
	adopted := succeeded()
	delete(adopted, "lastRun")
	for name, before := range map[string]map[string]any{"it had a run": succeeded(), "it had none": adopted} {
		if !IsBaseline(before, 3) {
			t.Fatalf("%s: no baseline at first", name)
		}
		changed := resource(func(r *Resource) { r.Generation = 4 })
		got := NoOperator(NoOperator(Wait(before, changed, Waiting{Reason: "EndpointHeld"}), changed), changed)
		if got["waiting"] != nil {
			t.Errorf("%s: a run waits without an operator", name)
		}
		if IsBaseline(got, 4) {
			t.Errorf("%s: the generation that waited is a baseline: %v", name, got)
		}
	}
}

func TestTheNextOperatorEndsNoOperator(t *testing.T) {
	for name, tc := range map[string]struct {
		before map[string]any
		record gate.Record
	}{
		"succeeded": {succeeded(), newRecord(gate.OutcomeSucceeded)},
		"failed":    {failedOnce(), newRecord(gate.OutcomeFailed, nextRetry)},
	} {
		got := Skip(NoOperator(tc.before, resource(later)), resource(), tc.record, skip)
		typed := typedStatus(t, got)
		if want := typedStatus(t, tc.before); typed.Phase != want.Phase || typed.Message != want.Message {
			t.Errorf("%s: phase %s, message %q, want %s, %q", name, typed.Phase, typed.Message, want.Phase, want.Message)
		}
		if i := indexOf(typed.Conditions, ConditionReady); typed.Conditions[i].Reason != string(typed.Phase) {
			t.Errorf("%s: Ready has reason %s", name, typed.Conditions[i].Reason)
		}
		if indexOf(typed.Conditions, ConditionStalled) >= 0 {
			t.Errorf("%s: Stalled stays", name)
		}
	}
	checkSummary(t, Start(NoOperator(nil, resource()), resource(), newRun()), PhaseRunning, false, false, "the playbook is running")
}
