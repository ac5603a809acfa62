package runstatus

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// runOf returns status.lastRun, or nil if there is none that can be read.
func runOf(status map[string]any) *Run {
	fields, ok := status["lastRun"].(map[string]any)
	if !ok {
		return nil
	}
	var run Run
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &run); err != nil || run.ID == "" {
		return nil
	}
	return &run
}

// historyOf returns the entries of status.history that can be read.
func historyOf(status map[string]any) []RunSummary {
	items, _ := status["history"].([]any)
	var history []RunSummary
	for _, item := range items {
		fields, ok := item.(map[string]any)
		if !ok {
			continue
		}
		var run RunSummary
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &run); err == nil && run.ID != "" {
			history = append(history, run)
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

// setSummary sets the phase and the message unless they are the author's, and the conditions.
func setSummary(status map[string]any, r Resource, conditions *conditionList, s summary) {
	if !r.Authors.Phase {
		status["phase"] = string(s.phase)
	}
	if !r.Authors.Message {
		status["message"] = s.message
	}
	status["observedGeneration"] = r.Generation
	conditions.setOwn(s, r)
	status["conditions"] = conditions.items
}

// unobserved is the observedGeneration of a status that the API server has made, before any operator wrote one (render.CRDs).
const unobserved = -1

// LastRun returns the last run that a status names, or nil.
func LastRun(status map[string]any) *gate.LastRun {
	run := runOf(status)
	if run == nil {
		return nil
	}
	return &gate.LastRun{ID: run.ID, Started: run.Started.Time, Version: run.Version, Digest: run.Digest}
}

// IsBaseline reports whether a status says that the given generation was successful: written by ansible-operator itself, or
// by a gate whose record is lost. ansible-operator does not say which generation it means. A resource with a run that waits is
// no baseline, nor is one that is migrated and whose playbook is still to run.
func IsBaseline(status map[string]any, generation int64) bool {
	observed, isObserved := status["observedGeneration"].(int64)
	isObserved = isObserved && observed != unobserved
	if isObserved && observed != generation || status[fieldWaiting] != nil {
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

// unstructured returns a value as the fields of an unstructured object.
func unstructured(value any) map[string]any {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(value)
	if err != nil {
		return nil // The types of status can always be converted.
	}
	return fields
}
