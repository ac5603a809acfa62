package suite

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/author/localrun"
	"github.com/collection-operator/collection-operator/internal/author/scenario"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// ended is a run with an outcome that has changed a number of tasks, of which "Write" is one.
func ended(outcome gate.Outcome, changed int64) localrun.Result {
	status := map[string]any{
		"region": map[string]any{"size": int64(2)},
		"lastRun": map[string]any{"outcome": string(outcome), "tasks": map[string]any{
			"ok": int64(3), "changed": changed, "failed": int64(0), "unreachable": int64(0), "skipped": int64(0),
		}},
	}
	r := localrun.Result{Ran: true, Touched: changed > 0, Resource: &unstructured.Unstructured{Object: map[string]any{"status": status}}}
	if changed > 0 {
		r.Changed = []string{"Write"}
	}
	return r
}

// drifted is a drift check with a result.
func drifted(reason string) localrun.Result {
	r := ended(gate.OutcomeSucceeded, 0)
	r.Check = true
	r.Resource.Object["status"].(map[string]any)["conditions"] = []any{
		map[string]any{"type": runstatus.ConditionDrifted, "status": "True", "reason": reason, "message": "why"},
	}
	return r
}

// differs is a drift check that would change tasks.
func differs(tasks ...string) localrun.Result {
	r := drifted(runstatus.ReasonDrifted)
	r.Report.Checked, r.Report.Changes = 3, &runstatus.Changes{Tasks: len(tasks), Names: tasks}
	return r
}

func with(r localrun.Result, change func(*localrun.Result)) localrun.Result {
	change(&r)
	return r
}

func TestVerdicts(t *testing.T) {
	const counts = ": ok 3, changed "
	wanted := scenario.Scenario{
		Outcome: gate.OutcomeSucceeded, Deletion: true, Recreation: true, Status: map[string]any{"region": map[string]any{"size": int64(2)}},
	}
	other := wanted
	other.Status = map[string]any{"region": map[string]any{"size": int64(3)}, "zone": "a"}
	reader := wanted
	reader.Recreation = false
	notRun := with(ended(gate.OutcomeSucceeded, 1), func(r *localrun.Result) { r.Ran = false })
	again := with(ended(gate.OutcomeSucceeded, 1), func(r *localrun.Result) { r.Again = time.Hour })
	writes := with(ended(gate.OutcomeSucceeded, 0), func(r *localrun.Result) {
		o := &unstructured.Unstructured{Object: map[string]any{"kind": "ConfigMap", "metadata": map[string]any{"name": "one"}}}
		r.Writes = []localrun.Write{{Verb: "changed", Object: o}, {Verb: "changed", Object: o, Status: map[string]any{}}}
	})
	sound := deleted(ended(gate.OutcomeSucceeded, 1), nil)
	const unchanged, second = "the first run changes something; set recreation: false for a playbook that does not", "a second run succeeds and changes nothing"
	const thesame = "a drift check changes nothing: a second one finds the same"
	for name, tt := range map[string]struct {
		v             verdict
		expected, got string
	}{
		"no endpoint":                    {v: unreached(ended(gate.OutcomeUnreachable, 0))},
		"no endpoint, but a success":     {unreached(ended(gate.OutcomeSucceeded, 0)), "a run without the endpoint is Unreachable", "Succeeded" + counts + "0"},
		"created":                        {v: created(wanted, ended(gate.OutcomeSucceeded, 1))},
		"created, but failed":            {created(wanted, ended(gate.OutcomeFailed, 1)), "outcome Succeeded", "Failed" + counts + "1"},
		"created, but not run":           {created(wanted, notRun), "outcome Succeeded", "the playbook was not run"},
		"created with another status":    {created(other, ended(gate.OutcomeSucceeded, 1)), "status.region.size: 3\nstatus.zone: \"a\"", "status.region.size: 2\nstatus.zone: nothing"},
		"created without a change":       {created(wanted, ended(gate.OutcomeSucceeded, 0)), unchanged, "Succeeded" + counts + "0"},
		"created as nothing to recreate": {v: created(reader, ended(gate.OutcomeSucceeded, 0))},
		"repeated":                       {v: repeated(ended(gate.OutcomeSucceeded, 0))},
		"repeated with a change":         {repeated(ended(gate.OutcomeSucceeded, 1)), second, "Succeeded" + counts + "1"},
		"repeated with a third run":      {repeated(ended(gate.OutcomeRequeued, 0)), second, "Requeued" + counts + "0"},
		"repeated with a write":          {repeated(writes), second, "Succeeded" + counts + "0"},
		"checked":                        {v: checked(drifted(runstatus.ReasonNoDrift))},
		"checked, but drifted":           {checked(drifted(runstatus.ReasonDrifted)), "a drift check finds nothing", "Drifted: why"},
		"checked, but not checkable":     {v: checked(drifted(runstatus.ReasonUnchecked))},
		"checked in part":                {v: checked(with(drifted(runstatus.ReasonUnchecked), func(r *localrun.Result) { r.Report.Checked = 1 }))},
		"checked, but failed":            {checked(drifted(runstatus.ReasonCheckFailed)), "a drift check finds nothing", "CheckFailed: why"},
		"deleted":                        {v: sound},
		"deleted, but failed":            {deleted(ended(gate.OutcomeFailed, 0), nil), "the deletion succeeds", "Failed" + counts + "0"},
		"deleted, but to be repeated":    {deleted(again, nil), "the deletion succeeds", "Succeeded" + counts + "1"},
		"deleted, but not all":           {deleted(ended(gate.OutcomeSucceeded, 1), []string{"ConfigMap one", "Secret two"}), "no object of the playbook remains", "ConfigMap one, Secret two"},
		"found deleted":                  {v: foundDeleted(ended(gate.OutcomeSucceeded, 1), differs("Write"))},
		"deleted, but not found": {
			foundDeleted(ended(gate.OutcomeSucceeded, 1), drifted(runstatus.ReasonNoDrift)),
			"a drift check finds what was deleted; if it cannot, the kind must not have supportsCheckMode", "NoDrift: why; the creation changed: Write",
		},
		"checked again":                  {v: checkedAgain(differs("Write", "Own"), differs("Write", "Own"))},
		"checked again with other tasks": {checkedAgain(differs("Write", "Own"), differs("Own", "Move")), thesame, "Drifted: why; the first one changed: Write"},
		"checked again with fewer tasks": {checkedAgain(differs("Write", "Own"), differs("Own")), thesame, "Drifted: why; the first one changed: Write"},
		"checked again with none":        {checkedAgain(differs("Write"), drifted(runstatus.ReasonNoDrift)), thesame, "NoDrift: why; the first one changed: Write"},
		"recreated":                      {v: recreated(wanted, 1, ended(gate.OutcomeSucceeded, 1), sound)},
		"recreated, but failed":          {recreated(wanted, 1, ended(gate.OutcomeFailed, 1), sound), "a run after the deletion has the outcome Succeeded", "Failed" + counts + "1"},
		"recreated with fewer changes":   {recreated(wanted, 2, ended(gate.OutcomeSucceeded, 1), sound), "a run after the deletion changes as many tasks as the first one: 2", "Succeeded" + counts + "1"},
		"recreated, but not deleted":     {recreated(wanted, 1, ended(gate.OutcomeSucceeded, 1), deleted(again, nil)), "the deletion succeeds", "Succeeded" + counts + "1"},
	} {
		if tt.v.asExpected() != (tt.expected == "") || tt.v.expected != tt.expected {
			t.Errorf("%s: expected %q, want %q", name, tt.v.expected, tt.expected)
		}
		if len(tt.v.got) < len(tt.got) || tt.v.got[:len(tt.got)] != tt.got {
			t.Errorf("%s: got %q, want %q", name, tt.v.got, tt.got)
		}
	}
	if diff := cmp.Diff("none of the tasks can be checked", checked(drifted(runstatus.ReasonUnchecked)).skipped); diff != "" {
		t.Error(diff)
	}
}
