package runstatus

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/collection-operator/collection-operator/internal/endpoint"
	"github.com/collection-operator/collection-operator/internal/gate"
)

// Maximum lengths in bytes of texts in status, and maximum numbers of list items.
const (
	maxMessage = 1024
	maxOutput  = 2048
	maxName    = 256

	maxIgnored = 20
	maxJobs    = 20
)

const cutMark = " ..."

// terminalSequence is an ANSI sequence, such as a color.
var terminalSequence = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]")

// lineBreaks turns other line breaks into \n: U+0085 comes from EBCDIC.
var lineBreaks = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n")

// printable returns text without terminal sequences and control characters other than line breaks and tabs.
func printable(text string) string {
	text = terminalSequence.ReplaceAllString(strings.ToValidUTF8(text, "?"), "")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, lineBreaks.Replace(text))
}

// line returns text as one line of at most limit bytes.
func line(text string, limit int) string {
	return cut(strings.Join(strings.Fields(printable(text)), " "), limit)
}

// cut returns the start of a text, at most limit bytes.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit - len(cutMark)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.TrimSpace(text[:end]) + cutMark
}

// cutStart returns the end of a text, at most limit bytes.
func cutStart(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	start := len(text) - limit
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	return text[start:]
}

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
		f.Message = cut(failureMessages(report.Failures), maxMessage)
	}
	f.Task = line(f.Task, maxName)
	f.File = line(f.File, maxName)
	f.Output = cutStart(strings.TrimSpace(printable(f.Output)), maxOutput)
	return f
}

// Cause returns why the endpoint could not be used, or the first failure of a run, as one line of at most 256 bytes.
func (r Report) Cause() string {
	switch {
	case r.ConnectionMessage != "":
		return line(r.ConnectionMessage, maxName)
	case len(r.Failures) > 0:
		return line(failureMessages(r.Failures[:1]), maxName)
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
		message := line(f.Message, maxMessage)
		switch {
		case message != "":
		case f.Task != "":
			message = fmt.Sprintf("task %q failed without a message", line(f.Task, maxName))
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
		return "the pod ended before the run did"
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
