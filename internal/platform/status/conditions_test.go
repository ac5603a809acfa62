package status

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// kstatus reads Ready, Reconciling and Stalled together: only one of the last two may exist, and only while it is true.
func TestSetReady(t *testing.T) {
	cause := errors.New("cause")
	steps := []struct {
		name  string
		err   error
		want  map[string]metav1.ConditionStatus
		text  string
		cause string
	}{
		{"retried", Retry("Retried", cause), map[string]metav1.ConditionStatus{"Ready": "False", "Reconciling": "True"}, "cause", "Retried"},
		{"stalled", Stalled("Stuck", cause), map[string]metav1.ConditionStatus{"Ready": "False", "Stalled": "True"}, "cause", "Stuck"},
		{"waiting", Waiting("Waiting", 1, "for it"), map[string]metav1.ConditionStatus{"Ready": "False", "Reconciling": "True"}, "for it", "Waiting"},
		{"done", nil, map[string]metav1.ConditionStatus{"Ready": "True"}, "done", v2beta2.ReasonSucceeded},
	}
	var conditions []metav1.Condition
	for i, step := range steps {
		generation := int64(i + 1)
		SetReady(&conditions, generation, step.err, "done")
		got := map[string]metav1.ConditionStatus{}
		for _, c := range conditions {
			got[c.Type] = c.Status
			if c.ObservedGeneration != generation || c.Reason != step.cause || c.Message != step.text {
				t.Errorf("%s: got %+v", step.name, c)
			}
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s:\n%s", step.name, diff)
		}
	}
	if got := ReadyMessage(conditions); got != "done" {
		t.Errorf("got %q", got)
	}
	if got := ReadyMessage(nil); got != "" {
		t.Errorf("got %q", got)
	}
}

// An unchanged status must be equal, so that it is not written again.
func TestSetReadyTwiceChangesNothing(t *testing.T) {
	var conditions []metav1.Condition
	SetReady(&conditions, 1, Retry("R", errors.New("x")), "")
	before := append([]metav1.Condition(nil), conditions...)
	SetReady(&conditions, 1, Retry("R", errors.New("x")), "")
	byType := func(list []metav1.Condition, name string) metav1.Condition {
		return *meta.FindStatusCondition(list, name)
	}
	if diff := cmp.Diff(byType(before, "Ready"), byType(conditions, "Ready")); diff != "" {
		t.Error(diff)
	}
	again, first := byType(conditions, "Reconciling"), byType(before, "Reconciling")
	if !again.LastTransitionTime.Equal(&first.LastTransitionTime) {
		t.Errorf("Reconciling was true since %s, now it says %s", first.LastTransitionTime, again.LastTransitionTime)
	}
}

func TestPhaseOf(t *testing.T) {
	condition := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: "Imported", Status: status, Reason: reason}}
	}
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want       v2beta2.Phase
	}{
		"nothing known": {nil, v2beta2.PhasePending},
		"true":          {condition("True", v2beta2.ReasonSucceeded), v2beta2.PhaseSuccessful},
		"under way":     {condition("False", v2beta2.ReasonProgressing), v2beta2.PhasePending},
		"no upload yet": {condition("False", v2beta2.ReasonArchiveNotUploaded), v2beta2.PhasePending},
		"failed":        {condition("False", v2beta2.ReasonNotVerified), v2beta2.PhaseFailed},
	} {
		if got := Phase(test.conditions, "Imported"); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// What runs report is part of messages, also of good ones.
func TestSetConditionTruncates(t *testing.T) {
	for _, err := range []error{nil, Retry("R", errors.New(strings.Repeat("x", 2*MaxMessageBytes)))} {
		var conditions []metav1.Condition
		SetCondition(&conditions, "Known", 1, err, strings.Repeat("x", 2*MaxMessageBytes))
		if n := len(conditions[0].Message); n > MaxMessageBytes {
			t.Errorf("%d bytes", n)
		}
	}
}
