package controller

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/findings"
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
		{"retried", retry("Retried", cause), map[string]metav1.ConditionStatus{"Ready": "False", "Reconciling": "True"}, "cause", "Retried"},
		{"stalled", stalled("Stuck", cause), map[string]metav1.ConditionStatus{"Ready": "False", "Stalled": "True"}, "cause", "Stuck"},
		{"waiting", waiting("Waiting", 1, "for it"), map[string]metav1.ConditionStatus{"Ready": "False", "Reconciling": "True"}, "for it", "Waiting"},
		{"done", nil, map[string]metav1.ConditionStatus{"Ready": "True"}, "done", v2beta2.ReasonSucceeded},
	}
	var conditions []metav1.Condition
	for i, step := range steps {
		generation := int64(i + 1)
		setReady(&conditions, generation, step.err, "done")
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
	if got := readyMessage(conditions); got != "done" {
		t.Errorf("got %q", got)
	}
	if got := readyMessage(nil); got != "" {
		t.Errorf("got %q", got)
	}
}

// A status that says the same must be the same, or each look would be a write.
func TestSetReadyTwiceChangesNothing(t *testing.T) {
	var conditions []metav1.Condition
	setReady(&conditions, 1, retry("R", errors.New("x")), "")
	before := append([]metav1.Condition(nil), conditions...)
	setReady(&conditions, 1, retry("R", errors.New("x")), "")
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
		if got := phaseOf(test.conditions, "Imported"); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

func TestTruncate(t *testing.T) {
	for name, message := range map[string]string{
		"short": "short", "exact": strings.Repeat("x", 100), "long": strings.Repeat("x", 101), "letters of several bytes": strings.Repeat("é€", 50),
	} {
		got := truncate(message, 100)
		if len(got) > 100 || !utf8.ValidString(got) {
			t.Errorf("%s: %d bytes: %q", name, len(got), got)
		}
		if whole := len(message) <= 100; whole != (got == message) || !whole && !strings.HasSuffix(got, " ...") {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestConformance(t *testing.T) {
	problem := func(severity findings.Severity) findings.Problem {
		return findings.Problem{File: "operator-config.yml", Message: "odd", Severity: severity}
	}
	for name, test := range map[string]struct {
		problems findings.Problems
		want     string
	}{
		"nothing":      {},
		"a hint":       {problems: findings.Problems{problem(findings.SeverityInfo)}},
		"a warning":    {findings.Problems{problem(findings.SeverityWarning)}, "operator-config.yml: warning: odd"},
		"errors first": {findings.Problems{problem(findings.SeverityWarning), problem(findings.SeverityError)}, "operator-config.yml: odd\noperator-config.yml: warning: odd"},
		"many": {slices.Repeat(findings.Problems{problem(findings.SeverityError)}, 30),
			strings.Repeat("operator-config.yml: odd\n", 9) + "and 21 more"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &collection.Collection{Problems: test.problems}
			err := conformance(c)
			if test.want == "" {
				if err != nil || len(warnings(&v2beta2.OperatorCollection{}, &collectionFacts{collection: c})) > 0 {
					t.Errorf("got %v", err)
				}
				return
			}
			if f := asFailure(err); f == nil || f.reason != v2beta2.ReasonRulesBroken || f.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestWarningsOfInstallationsAreBounded(t *testing.T) {
	if got := boundWarnings(nil); got != nil {
		t.Errorf("warnings without a cause: %v", got)
	}
	if diff := cmp.Diff([]string{"a", "b"}, boundWarnings([]string{"b", "a", "b"})); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	var many []string
	for i := range maxWarnings + 5 {
		many = append(many, string(rune('a'+i)))
	}
	got := boundWarnings(many)
	if len(got) != maxWarnings+1 || got[maxWarnings] != "5 more warnings" {
		t.Errorf("%d warnings, the last is %q", len(got), got[len(got)-1])
	}
}
