package status

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// Maximum lengths of messages. The API allows 32768 bytes in a condition, and 1024 in an event.
const (
	MaxMessageBytes = 8192
	MaxEventBytes   = 1024
)

// Message returns a text for a condition: at most MaxMessageBytes of printable characters and line breaks. It is the last line of
// defence. Text of others is made one line where it is received: only there it can be told from ours.
func Message(text string) string { return printable.Cut(printable.Lines(text), MaxMessageBytes) }

// SetCondition sets a condition to True if err is nil, else to False with the reason and message of err. Messages are cut to
// MaxMessageBytes.
func SetCondition(conditions *[]metav1.Condition, conditionType string, generation int64, err error, message string) {
	condition := metav1.Condition{
		Type: conditionType, Status: metav1.ConditionTrue, Reason: v2beta2.ReasonSucceeded,
		Message: Message(message), ObservedGeneration: generation,
	}
	if f := AsError(err); f != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, f.Reason, Message(f.Error())
	}
	meta.SetStatusCondition(conditions, condition)
}

// SetReady sets Ready, and Reconciling or Stalled if it is False, following kstatus.
func SetReady(conditions *[]metav1.Condition, generation int64, err error, message string) {
	SetCondition(conditions, v2beta2.ConditionReady, generation, err, message)
	f := AsError(err)
	if f == nil || f.Stalled {
		meta.RemoveStatusCondition(conditions, v2beta2.ConditionReconciling)
	}
	if f == nil || !f.Stalled {
		meta.RemoveStatusCondition(conditions, v2beta2.ConditionStalled)
	}
	if f == nil {
		return
	}
	conditionType := v2beta2.ConditionReconciling
	if f.Stalled {
		conditionType = v2beta2.ConditionStalled
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: conditionType, Status: metav1.ConditionTrue, Reason: f.Reason,
		Message: Message(f.Error()), ObservedGeneration: generation,
	})
}

// Phase returns the phase that corresponds to a condition, for clients that do not read conditions.
func Phase(conditions []metav1.Condition, conditionType string) v2beta2.Phase {
	condition := meta.FindStatusCondition(conditions, conditionType)
	switch {
	case condition == nil:
		return v2beta2.PhasePending
	case condition.Status == metav1.ConditionTrue:
		return v2beta2.PhaseSuccessful
	case IsProgress(condition.Reason), condition.Reason == v2beta2.ReasonWaitingForApproval:
		return v2beta2.PhasePending
	}
	return v2beta2.PhaseFailed
}

// IsProgress reports whether a reason signals work in progress that needs no intervention.
func IsProgress(reason string) bool {
	switch reason {
	case v2beta2.ReasonProgressing, v2beta2.ReasonTerminating, v2beta2.ReasonCollectionTerminating,
		v2beta2.ReasonCollectionNotImported, v2beta2.ReasonFinalizingInstances, v2beta2.ReasonArchiveNotUploaded,
		v2beta2.ReasonReplicating, v2beta2.ReasonUpgradePending:
		return true
	}
	return false
}

// ReadyMessage returns the message of the Ready condition, or "".
func ReadyMessage(conditions []metav1.Condition) string {
	if ready := meta.FindStatusCondition(conditions, v2beta2.ConditionReady); ready != nil {
		return ready.Message
	}
	return ""
}

// maxNames is the maximum number of names in a message.
const maxNames = 5

// JoinNames lists the first names, followed by the number of the others.
func JoinNames(names []string) string {
	if len(names) > maxNames {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
	}
	return strings.Join(names, ", ")
}
