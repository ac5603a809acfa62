package controller

import (
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// Bounds of messages: the API allows 32768 bytes in a condition and refuses an event of more than 1024.
const (
	maxMessageBytes = 8192
	maxEventBytes   = 1024
)

// setCondition sets one condition. A nil error makes it true.
func setCondition(conditions *[]metav1.Condition, conditionType string, generation int64, err error, message string) {
	condition := metav1.Condition{
		Type: conditionType, Status: metav1.ConditionTrue, Reason: v2beta2.ReasonSucceeded,
		Message: message, ObservedGeneration: generation,
	}
	if f := asFailure(err); f != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, f.reason, truncate(f.Error(), maxMessageBytes)
	}
	meta.SetStatusCondition(conditions, condition)
}

// setReady sets Ready, and Reconciling or Stalled beside it, as kstatus reads them.
func setReady(conditions *[]metav1.Condition, generation int64, err error, message string) {
	setCondition(conditions, v2beta2.ConditionReady, generation, err, message)
	f := asFailure(err)
	if f == nil || f.stalled {
		meta.RemoveStatusCondition(conditions, v2beta2.ConditionReconciling)
	}
	if f == nil || !f.stalled {
		meta.RemoveStatusCondition(conditions, v2beta2.ConditionStalled)
	}
	if f == nil {
		return
	}
	conditionType := v2beta2.ConditionReconciling
	if f.stalled {
		conditionType = v2beta2.ConditionStalled
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: conditionType, Status: metav1.ConditionTrue, Reason: f.reason,
		Message: truncate(f.Error(), maxMessageBytes), ObservedGeneration: generation,
	})
}

// phaseOf sums up one condition for clients that know only phases.
func phaseOf(conditions []metav1.Condition, conditionType string) v2beta2.Phase {
	condition := meta.FindStatusCondition(conditions, conditionType)
	switch {
	case condition == nil:
		return v2beta2.PhasePending
	case condition.Status == metav1.ConditionTrue:
		return v2beta2.PhaseSuccessful
	case isProgress(condition.Reason), condition.Reason == v2beta2.ReasonWaitingForApproval:
		return v2beta2.PhasePending
	}
	return v2beta2.PhaseFailed
}

// isProgress says whether a reason speaks of work that needs no help.
func isProgress(reason string) bool {
	switch reason {
	case v2beta2.ReasonProgressing, v2beta2.ReasonTerminating, v2beta2.ReasonCollectionTerminating,
		v2beta2.ReasonCollectionNotImported, v2beta2.ReasonFinalizingInstances, v2beta2.ReasonArchiveNotUploaded:
		return true
	}
	return false
}

func readyMessage(conditions []metav1.Condition) string {
	if ready := meta.FindStatusCondition(conditions, v2beta2.ConditionReady); ready != nil {
		return ready.Message
	}
	return ""
}

func truncate(message string, limit int) string {
	if len(message) <= limit {
		return message
	}
	cut := limit - len(" ...")
	for !utf8.RuneStart(message[cut]) {
		cut--
	}
	return strings.TrimSpace(message[:cut]) + " ..."
}
