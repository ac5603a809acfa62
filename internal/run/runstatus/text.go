package runstatus

import (
	"fmt"
	"strings"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// Maximum lengths in bytes of texts in status, and maximum numbers of list items.
const (
	maxMessage = 1024
	maxOutput  = 2048
	maxName    = 256

	maxIgnored = 20
	maxJobs    = 20
)

// failureOf returns why a run was not successful.
func failureOf(outcome gate.Outcome, report Report) Failure {
	var f Failure
	if len(report.Failures) > 0 {
		f = report.Failures[0]
	}
	if f.Task == "" && report.CurrentTask != nil { // A run that has not ended by itself has one.
		f.Task = report.CurrentTask.Name
	}
	f.Message = defaultMessage(outcome)
	if (outcome == gate.OutcomeFailed || outcome.AwaitsEndpoint()) && len(report.Failures) > 0 {
		f.Message = printable.Cut(failureMessages(report.Failures), maxMessage)
	}
	if outcome == gate.OutcomeInterrupted && len(report.Failures) > 0 {
		f.Message = printable.Line(report.Failures[len(report.Failures)-1].Message, maxMessage)
	}
	f.Task = printable.Line(f.Task, maxName)
	f.File = printable.Line(f.File, maxName)
	f.Output = printable.CutStart(strings.TrimSpace(printable.Lines(f.Output)), maxOutput)
	return f
}

// Messages joins the messages of the failures.
func (r Report) Messages() string {
	lines := make([]string, len(r.Failures))
	for i, failure := range r.Failures {
		lines[i] = failure.Message
	}
	return strings.Join(lines, "; ")
}

// Cause returns why the endpoint could not be used, or the first failure of a run, as one line of at most 256 bytes.
func (r Report) Cause() string {
	switch {
	case r.ConnectionMessage != "":
		return printable.Line(r.ConnectionMessage, maxName)
	case len(r.Failures) > 0:
		return printable.Line(failureMessages(r.Failures[:1]), maxName)
	case r.Connection == endpoint.ConnectionUnreachable:
		return defaultMessage(gate.OutcomeUnreachable)
	case r.Connection == endpoint.ConnectionRefused:
		return defaultMessage(gate.OutcomeRefused)
	}
	return ""
}

// failureMessages returns one line for each failure.
func failureMessages(failures []Failure) string {
	lines := make([]string, 0, len(failures))
	for _, f := range failures {
		message := printable.Line(f.Message, maxMessage)
		switch {
		case message != "":
		case f.Task != "":
			message = fmt.Sprintf("task %q failed without a message", printable.Line(f.Task, maxName))
		default:
			message = "a task failed, and no_log hides its result"
		}
		lines = append(lines, message)
	}
	return strings.Join(lines, "\n")
}

// defaultMessage says how a run ended that is not known to have a failed task.
func defaultMessage(outcome gate.Outcome) string {
	switch outcome {
	case gate.OutcomeTimedOut:
		return "the run exceeded the time limit runtime.runTimeout"
	case gate.OutcomeCancelled:
		return "the run was cancelled"
	case gate.OutcomeInterrupted:
		return "the run ended without a report"
	case gate.OutcomeUnreachable:
		return "the endpoint could not be reached"
	case gate.OutcomeRefused:
		return "the endpoint refused the credential"
	}
	return "the playbook ended without a result"
}

// failureMessage returns the message of an unsuccessful run. The details of a restored run are not known.
func failureMessage(run Run) string {
	switch {
	case run.Failure != nil && run.Failure.Message != "":
		return run.Failure.Message
	case run.Outcome == gate.OutcomeFailed:
		return "the last run failed"
	}
	return defaultMessage(run.Outcome)
}
