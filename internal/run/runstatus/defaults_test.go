package runstatus

import (
	"fmt"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/internal/run/gate"
)

func TestConditionsAboutDefaults(t *testing.T) {
	var many []gate.ChangedDefault
	for i := range 25 {
		many = append(many, gate.ChangedDefault{Field: fmt.Sprintf("f%02d", i), Supplied: "1", Present: "2"})
	}
	const (
		kept = "playbooks get the defaults that the resource ran with, not those of version 1.0.0 of the collection: "
		next = "the next run gets defaults of version 1.0.0 of the collection that the last run did not get: "
		way  = `; to take the new ones, set the fields, or annotation zoscb.ibm.com/accept-defaults: "1.0.0"`
	)
	for name, tc := range map[string]struct {
		changes    []gate.ChangedDefault
		kept, next string
	}{
		"none":    {nil, "", ""},
		"one":     {[]gate.ChangedDefault{{Field: "mode", Supplied: `"x"`, Present: `"y"`}}, kept + `mode ("x" instead of "y")` + way, next + `mode ("x")`},
		"no more": {[]gate.ChangedDefault{{Field: "mode", Supplied: `"x"`}}, kept + `mode ("x" instead of none)` + way, next + `mode ("x")`},
		"many":    {many, "f19 (1 instead of 2) and 5 more" + way, "f19 (1) and 5 more"},
		"long": {
			[]gate.ChangedDefault{{Field: strings.Repeat("f", 2000), Supplied: strings.Repeat("x", 2000), Present: "\x1b[1m"}}, way, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := resource(func(r *Resource) { r.DefaultsKept, r.DefaultsNew = tc.changes, tc.changes })
			status := End(started(), r, newRun(), success, newRecord(gate.OutcomeSucceeded))
			conditions := typedStatus(t, status).Conditions
			for conditionType, want := range map[string]string{ConditionDefaultsKept: tc.kept, ConditionDefaultsNew: tc.next} {
				i := indexOf(conditions, conditionType)
				if len(tc.changes) == 0 {
					if i >= 0 {
						t.Errorf("condition is %+v", conditions[i])
					}
					continue
				}
				if i < 0 || !strings.HasSuffix(conditions[i].Message, want) || len(conditions[i].Message) > maxMessage || strings.Contains(conditions[i].Message, "\x1b") {
					t.Errorf("conditions are %+v, want %q", conditions, want)
				}
			}
			gone := typedStatus(t, Start(status, resource(), newRun()))
			if indexOf(gone.Conditions, ConditionDefaultsKept) >= 0 || indexOf(gone.Conditions, ConditionDefaultsNew) >= 0 {
				t.Error("a condition stays although it is not true any more")
			}
		})
	}
}

// A pod that was deleted by force cannot say what it cut.
func TestTheNextPodNamesTheTaskThatWasCut(t *testing.T) {
	status := Progress(started(), resource(), Report{Host: "h", CurrentTask: &Task{Name: "Create", Since: at(0)}})
	const want = `the run ended without a report, in task "Create"`
	for name, got := range map[string]map[string]any{
		"skip":  Skip(status, resource(), newRecord(gate.OutcomeInterrupted, nextRetry), skip),
		"wait":  Wait(status, resource(), busy()),
		"start": Start(status, resource(), newRun(func(run *Run) { run.ID = "r3" })),
	} {
		typed := typedStatus(t, got)
		if cut := typed.History[0]; cut.Outcome != gate.OutcomeInterrupted || cut.Message != want {
			t.Errorf("%s: history has %+v", name, cut)
		}
		if run := typed.LastRun; name != "start" && (run.Failure == nil || run.Failure.Message != want || run.Failure.Task != "Create") {
			t.Errorf("%s: the last run is %+v", name, run)
		}
	}
}

func TestWhatWasCutHasItsReason(t *testing.T) {
	report := Report{CurrentTask: &Task{Name: "Create"}, Failures: []Failure{{Message: "an ignored one"}, {Message: "the pod was deleted"}}}
	if f := failureOf(gate.OutcomeInterrupted, report); f.Message != "the pod was deleted" || f.Task != "Create" {
		t.Errorf("failure is %+v", f)
	}
}
