package runstatus

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// Reasons and messages of ansible-operator's own conditions.
const (
	reasonRunning    = "Running"
	reasonSuccessful = "Successful"
	reasonFailed     = "Failed"

	messageRunning    = "Running reconciliation"
	messageAwaiting   = "Awaiting next reconciliation"
	messageSuccessful = "Last reconciliation succeeded"
)

// Reasons of our own conditions that have only one.
const (
	reasonNotDeclared   = "NotDeclared"
	reasonFormerVersion = "FormerVersion"
	reasonNextRun       = "NextRun"
)

// completionLayout is the form of times in ansibleResult. They have no time zone, and are in UTC.
const completionLayout = "2006-01-02T15:04:05.99999999"

// conditionList is the list of conditions in a status. Items that are not conditions stay as they are.
type conditionList struct {
	items []any
	now   time.Time
}

func conditionsOf(status map[string]any, now time.Time) *conditionList {
	items, _ := status["conditions"].([]any)
	return &conditionList{items: slices.Clone(items), now: now}
}

func (l *conditionList) get(conditionType string) map[string]any {
	for _, item := range l.items {
		if c, ok := item.(map[string]any); ok && c["type"] == conditionType {
			return c
		}
	}
	return nil
}

// set sets fields of a condition, and keeps its other fields. A field that is nil is removed. lastTransitionTime changes with
// the field status only.
func (l *conditionList) set(conditionType string, fields map[string]any) {
	c := l.get(conditionType)
	if c == nil {
		c = map[string]any{"type": conditionType}
		l.items = append(l.items, c)
	}
	if _, ok := c["lastTransitionTime"].(string); !ok || c["status"] != fields["status"] {
		c["lastTransitionTime"] = l.now.UTC().Format(time.RFC3339)
	}
	maps.Copy(c, fields)
	maps.DeleteFunc(c, func(_ string, value any) bool { return value == nil })
}

func (l *conditionList) remove(conditionType string) {
	l.items = slices.DeleteFunc(l.items, func(item any) bool {
		c, ok := item.(map[string]any)
		return ok && c["type"] == conditionType
	})
}

// setStatus changes the status of a condition if there is one.
func (l *conditionList) setStatus(conditionType string, status metav1.ConditionStatus) {
	if l.get(conditionType) != nil {
		l.set(conditionType, map[string]any{"status": string(status)})
	}
}

func form(status metav1.ConditionStatus, reason, message string) map[string]any {
	return map[string]any{"status": string(status), "reason": reason, "message": message}
}

// setStarted sets ansible-operator's conditions as it does before a run.
func (l *conditionList) setStarted() {
	l.setStatus(ConditionSuccessful, metav1.ConditionFalse)
	l.set(ConditionRunning, form(metav1.ConditionTrue, reasonRunning, messageRunning))
}

// setEnded sets ansible-operator's conditions as it does after a run. After requeue_after they are the same as during a run.
func (l *conditionList) setEnded(run Run) {
	switch {
	case run.Outcome == gate.OutcomeRequeued:
		l.setStarted()
	case run.Outcome.Succeeded():
		running := form(metav1.ConditionTrue, reasonSuccessful, messageAwaiting)
		running["ansibleResult"] = ansibleResult(run)
		l.set(ConditionRunning, running)
		l.set(ConditionSuccessful, form(metav1.ConditionTrue, reasonSuccessful, messageSuccessful))
		l.set(ConditionFailure, form(metav1.ConditionFalse, "", ""))
	default:
		l.setStatus(ConditionRunning, metav1.ConditionFalse)
		failure := form(metav1.ConditionTrue, reasonFailed, failureMessage(run))
		failure["ansibleResult"] = ansibleResult(run)
		l.set(ConditionFailure, failure)
		l.set(ConditionSuccessful, form(metav1.ConditionFalse, "", ""))
	}
}

// ansibleResult returns the counts of the endpoint in ansible-operator's form, or nil if there are none.
func ansibleResult(run Run) any {
	if run.Tasks == nil || run.Finished == nil {
		return nil
	}
	return map[string]any{
		"ok": int64(run.Tasks.OK), "changed": int64(run.Tasks.Changed), "skipped": int64(run.Tasks.Skipped),
		"failures":   int64(run.Tasks.Failed + run.Tasks.Unreachable),
		"completion": run.Finished.UTC().Format(completionLayout),
	}
}
