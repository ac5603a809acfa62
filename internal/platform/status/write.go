package status

import (
	"context"
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
