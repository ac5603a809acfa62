package runstatus

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// FieldManager of the gate's writes to status.
const FieldManager = gate.FieldManager

// Resource is what the changes of status depend on besides the run.
type Resource struct {
	// Kind and Name are for messages.
	Kind, Name string
	// Generation that the run, or the decision not to run, is about.
	Generation int64
	Deleting   bool
	Authors    Authors
	// Ignored are the fields of the spec that the collection's version does not declare.
	Ignored []string
	// DefaultsKept are the fields that playbooks get with the default of a former version, and DefaultsNew those that the next run
	// gets with a default that the last one did not get.
	DefaultsKept, DefaultsNew []gate.ChangedDefault
	// ShowDiff is true if status may have the differences that a drift check finds.
	ShowDiff bool
	// Version of the collection that is installed, and MaxRetries of its gate.Settings.
	Version    string
	MaxRetries int
	Now        time.Time
}

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

// Progress returns the status with the current task of a running playbook. It returns an equal status if no run is under way.
func Progress(status map[string]any, report Report) map[string]any {
	status = copyOf(status)
	if run := runOf(status); run != nil && run.Outcome == "" {
		setRun(status, reported(*run, report))
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

func copyOf(status map[string]any) map[string]any {
	if status == nil {
		return map[string]any{}
	}
	return runtime.DeepCopyJSON(status)
}

func optional(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return new(metav1.NewTime(t))
}
