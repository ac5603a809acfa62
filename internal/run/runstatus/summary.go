package runstatus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// longRun is the time after which the status says how long a playbook has been running: it may hang.
const longRun = 2 * time.Hour

// IsLong reports whether a run that began at a time has been running for long.
func IsLong(started, now time.Time) bool { return now.Sub(started) >= longRun }

// summary is what the phase, the message and our own conditions say.
type summary struct {
	phase   Phase
	message string
	ready   bool
	// stalled is true if the playbook does not run again by itself although it failed.
	stalled bool
}

func summaryOfStart(r Resource, run Run) summary {
	s := summary{phase: PhaseRunning, message: "the playbook is running"}
	if run.Reason == gate.ReasonMigrate {
		s.message = "the migration playbook is running"
	}
	if r.Deleting || run.Event == gate.EventDelete {
		s = summary{phase: PhaseDeleting, message: "the delete playbook is running"}
	}
	if IsLong(run.Started.Time, r.Now) {
		s.message += fmt.Sprintf(", for more than %g hours now", longRun.Hours())
	}
	if run.Attempt > 1 {
		s.message += fmt.Sprintf(" (%s)", attempt(r, run))
	}
	return s
}

// summaryOfEnd says what a run did, and what has changed since.
func summaryOfEnd(r Resource, run Run, changed []gate.Trigger) summary {
	switch {
	case r.Deleting && run.Event != gate.EventDelete:
		return summary{phase: PhaseDeleting, message: "the resource is being deleted"}
	case !run.Outcome.Succeeded():
		return summaryOfFailure(r, run)
	case run.Outcome == gate.OutcomeRequeued:
		s := summary{phase: PhaseWaiting, message: "the playbook asked to run again"}
		if run.Event == gate.EventDelete {
			s = summary{phase: PhaseDeleting, message: "the delete playbook asked to run again"}
		}
		if run.RunAgainAt != nil {
			s.message += " at " + text(run.RunAgainAt.Time)
		}
		return s
	case run.Event == gate.EventDelete:
		return summary{phase: PhaseDeleting, message: "the delete playbook ended successfully"}
	case len(changed) > 0:
		return summary{
			phase: PhaseOutdated, message: outdatedMessage(r, run, changed), ready: !slices.Contains(changed, gate.TriggerSpec),
		}
	}
	s := summary{phase: PhaseSucceeded, message: "the playbook ended successfully", ready: true}
	if run.Reason == gate.ReasonMigrate {
		s.message = "the migration playbook ended successfully"
	}
	return s
}

func summaryOfFailure(r Resource, run Run) summary {
	s := summary{phase: PhaseFailed, stalled: run.NextRetry == nil && run.Outcome != gate.OutcomeUnreachable}
	next := "it is not tried again until the resource is changed or a run is requested: " + rerunCommand(r)
	if run.Event == gate.EventDelete {
		next = fmt.Sprintf("it is not tried again until a run is requested: %s; to remove the resource without a run: %s", rerunCommand(r), abandonCommand(r))
	}
	switch {
	case run.Outcome.AwaitsEndpoint():
		next = run.NextAfterEndpoint()
	case run.NextRetry != nil:
		next = fmt.Sprintf("%s, the next one at %s", attempt(r, run), text(run.NextRetry.Time))
	case run.Outcome == gate.OutcomeInterrupted:
		next = fmt.Sprintf("%d runs in a row ended like this, %s", gate.MaxLost, next)
	case run.Attempt > 1:
		next = attempt(r, run) + ", " + next
	}
	next = "; " + next
	failure := strings.ReplaceAll(failureMessage(run), "\n", "; ")
	if run.Reason == gate.ReasonMigrate {
		failure = "migration: " + failure
	}
	s.message = printable.Cut(failure, maxMessage-len(next)) + next
	return s
}

// NextAfterEndpoint says when a run is repeated whose outcome is Unreachable or Refused.
func (r Run) NextAfterEndpoint() string {
	switch {
	case r.Outcome == gate.OutcomeRefused:
		return "it is tried again when the credential is changed, or when another logon is allowed by annotation " +
			endpoint.AnnotationRetry + " on the ZosEndpoint"
	case r.NextRetry != nil:
		return "it is tried again when the endpoint can be reached, not before " + text(r.NextRetry.Time)
	}
	return "it is tried again when the endpoint can be reached"
}

func attempt(r Resource, run Run) string {
	if r.MaxRetries < run.Attempt-1 || r.MaxRetries == 0 {
		return fmt.Sprintf("attempt %d", run.Attempt)
	}
	return fmt.Sprintf("attempt %d of %d", run.Attempt, r.MaxRetries+1)
}

func outdatedMessage(r Resource, run Run, changed []gate.Trigger) string {
	texts := make([]string, 0, len(changed))
	for _, trigger := range changed {
		switch trigger {
		case gate.TriggerSpec:
			texts = append(texts, "the resource has changed since the last run")
		case gate.TriggerSecret:
			texts = append(texts, "a Secret that it names has changed since the last run")
		case gate.TriggerEndpoint:
			texts = append(texts, "the variables of its endpoint have changed since the last run")
		case gate.TriggerCollection:
			texts = append(texts, collectionMessage(r, run))
		}
	}
	return strings.Join(texts, "; ") + "; run it again: kubectl collection rerun --outdated"
}

func collectionMessage(r Resource, run Run) string {
	if r.Version == "" || run.Version == "" || r.Version == run.Version {
		return "the collection has changed since the last run"
	}
	return fmt.Sprintf("version %s of the collection is installed, the last run used %s",
		printable.Line(r.Version, maxName), printable.Line(run.Version, maxName))
}

func text(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// setSummary sets the phase and the message unless they are the author's, and the conditions.
func setSummary(status map[string]any, r Resource, conditions *conditionList, s summary) {
	setPhase(status, r, s)
	status["observedGeneration"] = r.Generation
	conditions.setReady(s, r)
	conditions.setFields(r)
	status["conditions"] = conditions.items
}

func setPhase(status map[string]any, r Resource, s summary) {
	if !r.Authors.Phase {
		status["phase"] = string(s.phase)
	}
	if !r.Authors.Message {
		status["message"] = s.message
	}
}

// setOwn sets a condition of ours.
func (l *conditionList) setOwn(r Resource, conditionType string, status metav1.ConditionStatus, reason, message string) {
	fields := form(status, reason, message)
	fields["observedGeneration"] = r.Generation
	l.set(conditionType, fields)
}

func (l *conditionList) setReady(s summary, r Resource) {
	ready := metav1.ConditionFalse
	if s.ready {
		ready = metav1.ConditionTrue
	}
	l.setOwn(r, ConditionReady, ready, string(s.phase), s.message)
	if s.stalled {
		l.setOwn(r, ConditionStalled, metav1.ConditionTrue, string(s.phase), s.message)
	} else {
		l.remove(ConditionStalled)
	}
}

// setFields sets the conditions about fields of the resource.
func (l *conditionList) setFields(r Resource) {
	about := func(conditionType, reason string, fields int, message func(Resource) string) {
		if fields == 0 {
			l.remove(conditionType)
			return
		}
		l.setOwn(r, conditionType, metav1.ConditionTrue, reason, message(r))
	}
	about(ConditionFieldsIgnored, reasonNotDeclared, len(r.Ignored), ignoredMessage)
	about(ConditionDefaultsKept, reasonFormerVersion, len(r.DefaultsKept), keptMessage)
	about(ConditionDefaultsNew, reasonNextRun, len(r.DefaultsNew), newMessage)
}

func ignoredMessage(r Resource) string {
	return fieldsMessage(fmt.Sprintf("playbooks do not get these fields, because %s does not declare them: ", versionOf(r)), r.Ignored, "")
}

// maxValue is the maximum length of a default in a message, in bytes.
const maxValue = 64

func keptMessage(r Resource) string {
	fields := make([]string, 0, len(r.DefaultsKept))
	for _, d := range r.DefaultsKept {
		fields = append(fields, fmt.Sprintf("%s (%s instead of %s)", d.Field, valueText(d.Supplied), valueText(d.Present)))
	}
	return fieldsMessage(fmt.Sprintf("playbooks get the defaults that the resource ran with, not those of %s: ", versionOf(r)), fields,
		fmt.Sprintf("; to take the new ones, set the fields, or annotation %s: %q", gate.AnnotationAcceptDefaults, printable.Line(r.Version, maxName)))
}

func newMessage(r Resource) string {
	fields := make([]string, 0, len(r.DefaultsNew))
	for _, d := range r.DefaultsNew {
		fields = append(fields, fmt.Sprintf("%s (%s)", d.Field, valueText(d.Supplied)))
	}
	return fieldsMessage(fmt.Sprintf("the next run gets defaults of %s that the last run did not get: ", versionOf(r)), fields, "")
}

func valueText(value string) string {
	if value == "" {
		return "none"
	}
	return printable.Line(value, maxValue)
}

// fieldsMessage returns a message of bounded length with the first fields and the number of the others.
func fieldsMessage(before string, fields []string, after string) string {
	names := make([]string, 0, maxIgnored)
	for _, name := range fields[:min(len(fields), maxIgnored)] {
		names = append(names, printable.Line(name, maxName))
	}
	if n := len(fields) - len(names); n > 0 {
		after = fmt.Sprintf(" and %d more", n) + after
	}
	return printable.Cut(before+strings.Join(names, ", "), maxMessage-len(after)) + after
}
