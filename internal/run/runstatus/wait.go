package runstatus

import (
	"time"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// fieldWaiting is the field of status with Waiting. It is removed when the run starts, or is no longer needed.
const fieldWaiting = "waiting"

// Wait returns the status of a resource whose run waits for its endpoint: an equal one if it says so already. The caller knows
// that no run is in progress: one that has not ended according to status was interrupted.
func Wait(status map[string]any, r Resource, w Waiting) map[string]any {
	status = copyOf(status)
	hideDiff(status, r)
	conditions := conditionsOf(status, r.Now)
	dropProof(status, conditions)
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
	setSummary(status, r, conditions, s)
	return status
}

// WaitingSince returns since when a run waits according to a status, or zero.
func WaitingSince(status map[string]any) time.Time {
	fields, _ := status[fieldWaiting].(map[string]any)
	text, _ := fields["since"].(string)
	since, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return since
}
