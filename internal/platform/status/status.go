// Package status maps the errors of reconcile steps to conditions, events and requeues. It is the only package that writes
// status.
package status

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// Object is implemented by the kinds of this API.
type Object interface {
	client.Object
	// StatusConditions returns a pointer to the conditions in the status.
	StatusConditions() *[]metav1.Condition
}

// Writer writes status and records events.
type Writer struct {
	Client   client.Client
	Recorder events.EventRecorder
	// Action of the controller's events.
	Action string
	// Before are the conditions of the object before it was changed, if its status was written since then. Nil means that it was not.
	Before *[]metav1.Condition
	// BecameReady is called when Ready has become true, with the time since the object was created, or was Ready last. It may be nil.
	BecameReady func(after time.Duration)
}

// Write patches the status of object if it differs from before, records an event if Ready changed, and returns the result of
// the reconciler for the error of its steps. How far work in progress is, is no event.
func (w *Writer) Write(ctx context.Context, object, before Object, err error) (ctrl.Result, error) {
	if patchErr := Patch(ctx, w.Client, object, before); patchErr != nil {
		return Result(client.IgnoreNotFound(patchErr))
	}
	conditions := before.StatusConditions()
	if w.Before != nil {
		conditions = w.Before
	}
	was := meta.FindStatusCondition(*conditions, v2beta2.ConditionReady)
	is := meta.FindStatusCondition(*object.StatusConditions(), v2beta2.ConditionReady)
	if was == nil || was.Reason != is.Reason || was.Message != is.Message && !IsProgress(is.Reason) {
		eventType := corev1.EventTypeNormal
		if is.Status != metav1.ConditionTrue && !IsProgress(is.Reason) {
			eventType = corev1.EventTypeWarning
		}
		w.Recorder.Eventf(object, nil, eventType, is.Reason, w.Action, "%s", printable.Line(is.Message, MaxEventBytes))
	}
	if since := notReadySince(object, was); w.BecameReady != nil && is.Status == metav1.ConditionTrue && !since.IsZero() {
		w.BecameReady(time.Since(since))
	}
	return Result(err)
}

// notReadySince returns since when an object was not Ready, according to what Ready was, or the zero time if it was Ready. A condition
// that is a default of the API is older than the object.
func notReadySince(object Object, was *metav1.Condition) time.Time {
	created := object.GetCreationTimestamp().Time
	switch {
	case was == nil:
		return created
	case was.Status == metav1.ConditionTrue:
		return time.Time{}
	case was.LastTransitionTime.Time.Before(created):
		return created
	}
	return was.LastTransitionTime.Time
}

// Patch patches the status of object if it differs from before. It fails with a conflict if the object was changed in the
// meantime.
func Patch(ctx context.Context, c client.Client, object, before client.Object) error {
	if equality.Semantic.DeepEqual(before, object) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return c.Status().Patch(ctx, object, patch, client.FieldOwner(apply.FieldOwner))
}

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
