package runstatus

import (
	"slices"

	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// Regressed reports whether a resource fails since it runs with a version: its last run failed, no run with that version was
// successful, and the last one with another version was, if there is one in the history. Runs that somebody cancelled, or that ended
// with their pod, do not count, nor does a successful migration: the playbook may fail after it. It stays true while the playbook runs again.
func Regressed(status map[string]any, version string) bool {
	runs := slices.DeleteFunc(historyOf(status), func(run RunSummary) bool {
		isMigrated := run.Reason == gate.ReasonMigrate && run.Outcome.Succeeded()
		return isMigrated || run.Outcome == gate.OutcomeInterrupted || run.Outcome == gate.OutcomeCancelled
	})
	if len(runs) == 0 || runs[0].Version != version || runs[0].Outcome.Succeeded() {
		return false
	}
	if success, _ := status["lastSuccess"].(map[string]any); success["version"] == version && success["reason"] != string(gate.ReasonMigrate) {
		return false
	}
	before := slices.IndexFunc(runs, func(run RunSummary) bool { return run.Version != version })
	return before < 0 || runs[before].Outcome.Succeeded()
}

// RunsFirst reports whether the playbook of a resource runs, and no run with a version has ended yet: nobody knows whether it fails with it.
func RunsFirst(status map[string]any, version string) bool {
	return status["phase"] == string(PhaseRunning) && !slices.ContainsFunc(historyOf(status), func(run RunSummary) bool {
		return run.Version == version && run.Outcome != ""
	})
}
