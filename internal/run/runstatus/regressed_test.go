package runstatus

import (
	"fmt"
	"strings"
	"testing"
)

func TestBeganToFail(t *testing.T) {
	for name, test := range map[string]struct {
		// history has version and outcome of each run, newest first.
		history, lastSuccess string
		want                 bool
	}{
		"no run":                                  {"", "", false},
		"successful":                              {"2 Succeeded, 1 Succeeded", "2", false},
		"failed, successful before":               {"2 Failed, 1 Succeeded", "1", true},
		"failed twice":                            {"2 Failed, 2 Failed, 1 Succeeded", "1", true},
		"exceeded its time":                       {"2 TimedOut, 1 Succeeded", "1", true},
		"its endpoint cannot be reached":          {"2 Unreachable, 1 Succeeded", "1", true},
		"failed before too":                       {"2 Failed, 1 Failed, 1 Succeeded", "1", false},
		"never successful":                        {"2 Failed, 1 Failed", "", false},
		"new with the version":                    {"2 Failed", "", true},
		"only runs with the version are known":    {"2 Failed, 2 Failed, 2 Failed, 2 Failed, 2 Failed", "1", true},
		"successful with the version":             {"2 Failed, 2 Succeeded, 1 Succeeded", "2", false},
		"that was long ago":                       {"2 Failed, 2 Failed, 2 Failed, 2 Failed, 2 Failed", "2", false},
		"it has not run with the version":         {"1 Failed, 1 Succeeded", "1", false},
		"the only run was cancelled":              {"2 Cancelled, 1 Succeeded", "1", false},
		"cancelled after a failure":               {"2 Cancelled, 2 Failed, 1 Succeeded", "1", true},
		"the pod ended":                           {"2 Interrupted, 1 Succeeded", "1", false},
		"the pod of the former version ended":     {"2 Failed, 1 Interrupted, 1 Succeeded", "1", true},
		"it asked to run again":                   {"2 Requeued, 1 Succeeded", "2", false},
		"failed with another version in between":  {"2 Failed, 3 Failed, 1 Succeeded", "1", false},
		"successful with the version in between":  {"2 Failed, 3 Succeeded, 2 Failed", "3", true},
		"the playbook of the new version runs on": {"2 Failed, 1 Succeeded", "1", true},
	} {
		t.Run(name, func(t *testing.T) {
			text := "{phase: Running, history: ["
			for i, run := range strings.Split(test.history, ", ") {
				if version, outcome, ok := strings.Cut(run, " "); ok {
					text += fmt.Sprintf("{id: r%d, event: create, started: '2026-11-22T09:00:00Z', version: '%s', outcome: %s},", i, version, outcome)
				}
			}
			text += "]"
			if test.lastSuccess != "" {
				text += fmt.Sprintf(", lastSuccess: {id: s, event: create, started: '2026-11-22T09:00:00Z', version: '%s', outcome: Succeeded}", test.lastSuccess)
			}
			if got := Regressed(parse(t, text+"}"), "2"); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
	for name, test := range map[string]struct {
		status map[string]any
		want   bool
	}{"as the gate writes it: failed": {failedOnce(), true}, "as the gate writes it: succeeded": {succeeded(), false}} {
		if got := Regressed(test.status, newRun().Version); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	migrated := "{id: m, event: create, reason: Migrate, started: '2026-11-22T09:00:00Z', version: '2', outcome: Succeeded}"
	failed := "{id: r, event: create, started: '2026-11-22T09:30:00Z', version: '2', outcome: Failed}, "
	for runs, want := range map[string]bool{failed: true, "": false} {
		if got := Regressed(parse(t, "{history: ["+runs+migrated+"], lastSuccess: "+migrated+"}"), "2"); got != want {
			t.Errorf("migrated, then %q: got %t", runs, got)
		}
	}
	for _, odd := range []string{"{}", "{history: x}", "{history: [1, {id: 2}]}", "{history: [{id: r, version: '2', outcome: Failed}], lastSuccess: x}"} {
		Regressed(parse(t, odd), "2")
	}
}

func TestRunsFirst(t *testing.T) {
	for text, want := range map[string]bool{
		"{phase: Running}": true,
		"{phase: Running, history: [{id: a, version: '1', outcome: Succeeded}]}":                                         true,
		"{phase: Running, history: [{id: b, version: '2', outcome: Failed}, {id: a, version: '1', outcome: Succeeded}]}": false,
		"{phase: Succeeded, history: [{id: a, version: '1', outcome: Succeeded}]}":                                       false,
	} {
		if RunsFirst(parse(t, text), "2") != want {
			t.Errorf("%s: want %t", text, want)
		}
	}
}
