package runstatus

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// fieldWaiting is the field of status with Waiting. It is removed when the run starts, or is no longer needed.
const fieldWaiting = "waiting"

// unobserved is the observedGeneration of a status that the API server has made, before any operator wrote one (render.CRDs).
const unobserved = -1

func copyOf(status map[string]any) map[string]any {
	if status == nil {
		return map[string]any{}
	}
	return runtime.DeepCopyJSON(status)
}

// unstructured returns a value as the fields of an unstructured object.
func unstructured(value any) map[string]any {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(value)
	if err != nil {
		return nil // The types of status can always be converted.
	}
	return fields
}

// decode returns the value of a field of a status, or nil if there is none that can be read.
func decode[T any](field any) *T {
	fields, ok := field.(map[string]any)
	if !ok {
		return nil
	}
	value := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, value); err != nil {
		return nil
	}
	return value
}

// runOf returns status.lastRun, or nil if there is none that can be read.
func runOf(status map[string]any) *Run {
	if run := decode[Run](status["lastRun"]); run != nil && run.ID != "" {
		return run
	}
	return nil
}

// LastRun returns the last run that a status names, or nil.
func LastRun(status map[string]any) *gate.LastRun {
	run := runOf(status)
	if run == nil {
		return nil
	}
	return &gate.LastRun{ID: run.ID, Started: run.Started.Time, Version: run.Version, Digest: run.Digest}
}

// historyOf returns the entries of status.history that can be read.
func historyOf(status map[string]any) []RunSummary {
	items, _ := status["history"].([]any)
	var history []RunSummary
	for _, item := range items {
		if run := decode[RunSummary](item); run != nil && run.ID != "" {
			history = append(history, *run)
		}
	}
	return history
}

func setRun(status map[string]any, run Run) { status["lastRun"] = unstructured(&run) }

// setEnded sets the last run, which has ended, and all that depends on it. A migration that asked to run again is no success.
func setEnded(status map[string]any, run Run) {
	setRun(status, run)
	s := summarize(run)
	if run.Outcome.Succeeded() && (run.Reason != gate.ReasonMigrate || run.Outcome == gate.OutcomeSucceeded) {
		status["lastSuccess"] = unstructured(&s)
	}
	addHistory(status, s)
}

// interrupt puts a run that has not ended into the history as Interrupted.
func interrupt(status map[string]any, run Run) {
	if run.Outcome == "" {
		addHistory(status, summarize(cutShort(run)))
	}
}

// cutShort returns a run that has not ended as Interrupted, with the task that was running.
func cutShort(run Run) Run {
	if run.Outcome != "" {
		return run
	}
	run.Failure = &Failure{Message: defaultMessage(gate.OutcomeInterrupted)}
	if task := run.CurrentTask; task != nil {
		run.Failure.Task = printable.Line(task.Name, maxName)
		run.Failure.Message += fmt.Sprintf(", in task %q", run.Failure.Task)
	}
	run.Outcome, run.CurrentTask = gate.OutcomeInterrupted, nil
	return run
}

// addHistory adds a run to the history, newest first, or replaces it if it is there.
func addHistory(status map[string]any, s RunSummary) {
	history := historyOf(status)
	if i := slices.IndexFunc(history, func(past RunSummary) bool { return past.ID == s.ID }); i >= 0 {
		history[i] = s
	} else {
		history = slices.Insert(history, 0, s)
	}
	slices.SortStableFunc(history, func(a, b RunSummary) int { return b.Started.Compare(a.Started.Time) })
	items := make([]any, 0, HistoryLimit)
	for _, past := range history[:min(len(history), HistoryLimit)] {
		items = append(items, unstructured(&past))
	}
	status["history"] = items
}

func summarize(run Run) RunSummary {
	s := RunSummary{
		ID: run.ID, Event: run.Event, Reason: run.Reason, Started: run.Started, Finished: run.Finished, Outcome: run.Outcome,
		Version: run.Version,
	}
	if !run.Outcome.Succeeded() {
		s.Message = failureMessage(run)
	}
	return s
}

// IsBaseline reports whether a status says that the given generation was successful: written by ansible-operator itself, or
// by a gate whose record is lost. ansible-operator does not say which generation it means. A resource with a run that waits is
// no baseline, nor is one that is migrated and whose playbook is still to run.
func IsBaseline(status map[string]any, generation int64) bool {
	observed, isObserved := status["observedGeneration"].(int64)
	isObserved = isObserved && observed != unobserved
	if isObserved && observed != generation || waits(status) {
		return false
	}
	conditions := conditionsOf(status, time.Time{})
	if status["lastRun"] != nil {
		run := runOf(status)
		isMigrated := run != nil && (run.Reason != gate.ReasonMigrate || conditions.get(ConditionReady)["status"] == "True")
		return isObserved && isMigrated && run.Outcome == gate.OutcomeSucceeded && run.Event == gate.EventCreate
	}
	return conditions.get(ConditionSuccessful)["status"] == "True" && conditions.get(ConditionFailure)["status"] != "True"
}

// waits reports whether a run waits, so that one is due. That one cannot start does not say so.
func waits(status map[string]any) bool {
	fields, _ := status[fieldWaiting].(map[string]any)
	return status[fieldWaiting] != nil && fields["reason"] != ReasonCannotStart
}

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
