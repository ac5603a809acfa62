package runstatus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// Start returns the status of a resource whose run starts. A previous run that has not ended is Interrupted, in history.
// Statuses have the types of values of unstructured objects. They are not changed: the result is a copy.
func Start(status map[string]any, r Resource, run Run) map[string]any {
	status = copyOf(status)
	if last := runOf(status); last != nil && last.ID != run.ID {
		interrupt(status, *last)
	}
	setRun(status, bounded(run))
	delete(status, fieldWaiting)
	conditions := conditionsOf(status, r.Now)
	dropProof(status, conditions)
	conditions.setStarted()
	setSummary(status, r, conditions, summaryOfStart(r, run))
	return status
}

// Progress returns the status with the current task of a running playbook, and says if it has been running for long. It returns an equal
// status if no run is under way.
func Progress(status map[string]any, r Resource, report Report) map[string]any {
	status = copyOf(status)
	run := runOf(status)
	if run == nil || run.Outcome != "" {
		return status
	}
	setRun(status, reported(*run, report))
	if IsLong(run.Started.Time, r.Now) {
		r.Deleting = run.Event == gate.EventDelete // It may be deleted or changed meanwhile.
		r.Generation, _ = status["observedGeneration"].(int64)
		s, conditions := summaryOfStart(r, *run), conditionsOf(status, r.Now)
		setPhase(status, r, s)
		conditions.setReady(s, r)
		status["conditions"] = conditions.items
	}
	return status
}

// End returns the status after a run: run is complete but for what the report and record say. record says how it ended and
// when it is tried again.
func End(status map[string]any, r Resource, run Run, report Report, record gate.Record) map[string]any {
	status = copyOf(status)
	if last := runOf(status); last != nil && last.ID != run.ID {
		interrupt(status, *last)
	}
	run = recorded(reported(run, report), record)
	run.Failure = nil
	if !run.Outcome.Succeeded() {
		failure := failureOf(run.Outcome, report)
		run.Failure = &failure
	}
	setEnded(status, run)
	setMigration(status, record)
	delete(status, fieldWaiting)
	conditions := conditionsOf(status, r.Now)
	conditions.setEnded(run)
	if run.corrects() {
		setCorrected(status, conditions, r)
	}
	s := summaryOfEnd(r, run, nil)
	if record.Owed {
		s = summary{phase: PhaseWaiting, message: "the resource is migrated, and its playbook is to run"}
	}
	setSummary(status, r, conditions, s)
	return status
}

// Wait returns the status of a resource whose run waits for its endpoint: an equal one if it says so already. The caller knows
// that no run is in progress: one that has not ended according to status was interrupted.
func Wait(status map[string]any, r Resource, w Waiting) map[string]any {
	status = copyOf(status)
	hideDiff(status, r)
	conditions := conditionsOf(status, r.Now)
	dropProof(status, conditions)
	setSummary(status, r, conditions, setWaiting(status, r, conditions, w))
	return status
}

// setWaiting sets why a run waits, and ends one that has not ended according to status.
func setWaiting(status map[string]any, r Resource, conditions *conditionList, w Waiting) summary {
	if last := runOf(status); last != nil && last.Outcome == "" {
		cut := cutShort(*last)
		setEnded(status, cut)
		conditions.setEnded(cut)
	}
	w.Message = printable.Line(w.Message, maxMessage)
	status[fieldWaiting] = unstructured(&w)
	s := summary{phase: PhaseWaiting, message: w.Message, stalled: w.Reason == string(endpoint.ReasonCredentialRefused)}
	if r.Deleting {
		s.phase = PhaseDeleting
	}
	return s
}

// CannotStart returns the status of a resource while an error keeps runs from starting, as Wait does. Nobody knows whether a run is due:
// observedGeneration still says which generation was successful (see IsBaseline), or is 0 if a run waited. What depends on the gate's
// files stays as it is.
func CannotStart(status map[string]any, r Resource, message string, since metav1.Time) map[string]any {
	status = copyOf(status)
	if waits(status) {
		status["observedGeneration"] = int64(0)
	}
	conditions := conditionsOf(status, r.Now)
	s := setWaiting(status, r, conditions, Waiting{Reason: ReasonCannotStart, Message: message, Since: since})
	setPhase(status, r, s)
	conditions.setReady(s, r)
	status["conditions"] = conditions.items
	return status
}

// WaitingSince returns since when a run waits according to a status, or zero. If reasons are given, it waits for one of them.
func WaitingSince(status map[string]any, reasons ...string) time.Time {
	fields, _ := status[fieldWaiting].(map[string]any)
	text, _ := fields["since"].(string)
	if reason, _ := fields["reason"].(string); len(reasons) > 0 && !slices.Contains(reasons, reason) {
		return time.Time{}
	}
	since, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return since
}

// Skip returns the status of a resource whose playbook does not run, after ActionSkip and ActionAdopt: an equal one if it says
// so already. It restores a status that was lost from the record.
func Skip(status map[string]any, r Resource, record gate.Record, d gate.Decision) map[string]any {
	status = copyOf(status)
	delete(status, fieldWaiting)
	hideDiff(status, r)
	conditions := conditionsOf(status, r.Now)
	dropProof(status, conditions)
	run := recorded(Run{}, record)
	if record.RunID != "" {
		last := runOf(status)
		run = restore(status, record)
		setEnded(status, run)
		setMigration(status, record)
		if run.corrects() && (last == nil || last.ID != run.ID || last.Outcome != run.Outcome) {
			setCorrected(status, conditions, r)
		}
	}
	// A resource that never passed a gate has the conditions that ansible-operator wrote.
	if record.RunID != "" || conditions.get(ConditionSuccessful) == nil {
		conditions.setEnded(run)
	}
	setSummary(status, r, conditions, summaryOfEnd(r, run, d.Changed))
	return status
}

// NoOperator returns the status of a resource whose operator was removed: an equal one if it says so already. Like the gate,
// it keeps a phase and a message of the author. It keeps observedGeneration, from which the next operator knows whether the
// present generation had a run, unless its run waits: then it is 0, as no generation is.
func NoOperator(status map[string]any, r Resource) map[string]any {
	status = copyOf(status)
	s := summary{phase: PhaseNoOperator, message: NoOperatorMessage(r.Kind, r.Name), stalled: true}
	setPhase(status, r, s)
	if status["observedGeneration"] == int64(unobserved) {
		delete(status, "observedGeneration") // No operator will write it: clients are to read the conditions.
	}
	if waits(status) {
		status["observedGeneration"] = int64(0) // Without it, conditions alone could be those of a baseline.
	}
	delete(status, fieldWaiting)
	conditions := conditionsOf(status, r.Now)
	conditions.setReady(s, r)
	status["conditions"] = conditions.items
	return status
}

// NoOperatorMessage says that no operator runs for a resource, and what to do.
func NoOperatorMessage(kind, name string) string {
	return fmt.Sprintf("no operator runs for this resource: install the collection again, or remove it without a run: "+
		"kubectl collection abandon %s/%s", kind, name)
}

// restore returns the last run with what status still has of it.
func restore(status map[string]any, record gate.Record) Run {
	last := runOf(status)
	if last != nil && last.ID == record.RunID {
		if record.Outcome == gate.OutcomeInterrupted {
			*last = cutShort(*last)
		}
		return recorded(*last, record)
	}
	if last != nil {
		interrupt(status, *last)
	}
	run := Run{ID: record.RunID, Event: record.Event, Started: metav1.NewTime(record.Finished)}
	for _, past := range historyOf(status) {
		if past.ID != record.RunID {
			continue
		}
		run.Reason, run.Started = past.Reason, past.Started
		if past.Message != "" {
			run.Failure = &Failure{Message: past.Message}
		}
	}
	return recorded(run, record)
}

// recorded returns a run with what its record says.
func recorded(run Run, record gate.Record) Run {
	run.Event, run.Outcome = record.Event, record.Outcome
	run.Finished, run.NextRetry, run.RunAgainAt = optional(record.Finished), optional(record.NextRetry), optional(record.Due)
	run.Version, run.Digest = record.Version, record.Digest
	if record.Attempt > 0 { // Success resets it.
		run.Attempt = record.Attempt
	}
	if record.OfMigration() {
		run.Reason = gate.ReasonMigrate
	}
	run.CurrentTask = nil
	return run
}

// reported returns a run with what its report says, but for failures.
func reported(run Run, report Report) Run {
	if report.Host != "" {
		run.Host = report.Host
	}
	if report.User != "" {
		run.User = report.User
	}
	if report.Tasks != nil {
		run.Tasks = report.Tasks
	}
	if len(report.Jobs) > 0 {
		run.Jobs = report.Jobs
	}
	run.CurrentTask = report.CurrentTask
	return bounded(run)
}

// bounded returns a run whose texts are bounded. Of the jobs it keeps the last ones.
func bounded(run Run) Run {
	run.Endpoint, run.Host, run.User = printable.Line(run.Endpoint, maxName), printable.Line(run.Host, maxName), printable.Line(run.User, maxName)
	if task := run.CurrentTask; task != nil {
		run.CurrentTask = &Task{Name: printable.Line(task.Name, maxName), Since: task.Since}
	}
	run.Jobs = slices.Clone(run.Jobs[max(0, len(run.Jobs)-maxJobs):])
	for i, job := range run.Jobs {
		run.Jobs[i] = Job{Name: printable.Line(job.Name, maxName), ID: printable.Line(job.ID, maxName), ReturnCode: printable.Line(job.ReturnCode, maxName)}
	}
	return run
}

// OutcomeOf returns the outcome of a run that ended by itself. gate.Next turns a success with requeue_after into
// OutcomeRequeued.
func OutcomeOf(report Report) gate.Outcome {
	switch {
	case report.Ended == "successful" && len(report.Failures) == 0:
		return gate.OutcomeSucceeded
	case report.Ended == "timeout":
		return gate.OutcomeTimedOut
	case report.Ended == "canceled":
		return gate.OutcomeInterrupted // Cancelled runs do not end by themselves.
	case report.ConnectionIgnored:
		return gate.OutcomeFailed
	case report.Connection == endpoint.ConnectionUnreachable:
		return gate.OutcomeUnreachable
	case report.Connection == endpoint.ConnectionRefused:
		return gate.OutcomeRefused
	}
	return gate.OutcomeFailed
}

// Evaluate returns the outcome of a run that ended by itself. problem says why there is no complete report, or is empty.
func Evaluate(report Report, problem string) (Report, gate.Outcome) {
	if report.RequeueAfter != "" {
		if again, err := time.ParseDuration(report.RequeueAfter); err != nil || again < 0 {
			problem = fmt.Sprintf("requeue_after: period %q is not a duration such as 30s or 1h30m", printable.Line(report.RequeueAfter, 100))
		}
	}
	if problem != "" {
		report.Failures = append(report.Failures, Failure{Message: problem})
		return report, gate.OutcomeFailed
	}
	return report, OutcomeOf(report)
}

// Equal compares two statuses without regard to the order of fields and to the types of numbers. Nil and empty are equal.
func Equal(a, b map[string]any) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	first, err := json.Marshal(a)
	if err != nil {
		return false
	}
	second, err := json.Marshal(b)
	return err == nil && bytes.Equal(first, second)
}

func optional(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return new(metav1.NewTime(t))
}
