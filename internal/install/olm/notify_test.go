package olm

import (
	"errors"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

func csvOf(t *testing.T, version, replaces string) operatorsv1alpha1.ClusterServiceVersion {
	t.Helper()
	csv := operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "a-b-operator.v" + version}}
	if err := yaml.Unmarshal([]byte(version), &csv.Spec.Version); err != nil {
		t.Fatal(err)
	}
	if replaces != "" {
		csv.Spec.Replaces = "a-b-operator.v" + replaces
	}
	return csv
}

func TestUpgradeGate(t *testing.T) {
	const one, two, three = "1.0.0", "2.0.0", "3.0.0"
	refused := &status.Error{Reason: v2beta2.ReasonPermissionsNotGranted, Err: errors.New("it asks for much")}
	for name, test := range map[string]struct {
		// wanted is the collection's version. The condition of the ClusterServiceVersion of version 1 is checked.
		wanted string
		// next replaces it, if it is set.
		next    string
		follows bool
		refused *status.Error
		applied bool
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		"an open channel with what is wanted":                          {wanted: one, status: metav1.ConditionFalse, reason: reasonVersionPinned, message: "runs version 1.0.0 because"},
		"an open channel with something newer":                         {wanted: one, next: two, status: metav1.ConditionFalse, reason: reasonVersionPinned, message: "has it, and not 2.0.0"},
		"an open channel with what is wanted now":                      {wanted: two, next: two, status: metav1.ConditionTrue, reason: v2beta2.ReasonSucceeded, message: "allows upgrades to version 2.0.0"},
		"an open channel with a step on the way":                       {wanted: three, next: two, status: metav1.ConditionTrue, reason: v2beta2.ReasonSucceeded},
		"an open channel with more than is wanted":                     {wanted: two, next: three, status: metav1.ConditionFalse, reason: reasonVersionPinned, message: "and not 3.0.0"},
		"an open channel before OLM has decided":                       {wanted: two, status: metav1.ConditionFalse, reason: reasonVersionPinned},
		"a channel that ends with what is wanted":                      {wanted: one, follows: true, status: metav1.ConditionTrue, reason: v2beta2.ReasonSucceeded},
		"a channel that ends with a refused version":                   {wanted: two, next: two, follows: true, refused: refused, status: metav1.ConditionFalse, reason: v2beta2.ReasonPermissionsNotGranted, message: "it asks for much"},
		"on the way to what is wanted, and a third version is refused": {wanted: two, next: two, follows: true, refused: refused, applied: true, status: metav1.ConditionTrue, reason: v2beta2.ReasonSucceeded},
		"what is wanted runs, and another version is refused":          {wanted: one, follows: true, refused: refused, applied: true, status: metav1.ConditionFalse, reason: v2beta2.ReasonPermissionsNotGranted},
	} {
		t.Run(name, func(t *testing.T) {
			gate := upgradeGate{
				soc: "SOC", oc: "OC", collection: &model.Collection{Version: semver.MustParse(test.wanted)},
				follows: test.follows, refused: test.refused, applied: test.applied,
				csvs: []operatorsv1alpha1.ClusterServiceVersion{csvOf(t, one, "")},
			}
			if test.next != "" {
				gate.csvs = append(gate.csvs, csvOf(t, test.next, one))
			}
			condition := gate.condition(&gate.csvs[0])
			if condition.Status != test.status || condition.Reason != test.reason || !strings.Contains(condition.Message, test.message) {
				t.Errorf("got %s, %s: %s", condition.Status, condition.Reason, condition.Message)
			}
		})
	}
}

func TestUpgradeRefusal(t *testing.T) {
	problem := status.Waiting(v2beta2.ReasonOperatorGroupConflict, intervals.Missing, "two")
	for name, test := range map[string]struct {
		applied bool
		held    error
		err     error
		reason  string
		known   bool
	}{
		"applied":                             {applied: true, known: true},
		"applied, and the pods wait":          {applied: true, err: problem, known: true},
		"stopped before anything was applied": {err: problem, reason: v2beta2.ReasonOperatorGroupConflict, known: true},
		"held":                                {applied: true, held: problem, reason: v2beta2.ReasonOperatorGroupConflict, known: true},
		"held for something that is unknown":  {applied: true, held: errors.New("connection refused")},
		"under way":                           {err: status.Waiting(v2beta2.ReasonProgressing, intervals.Poll, "soon")},
		"failed for now":                      {err: errors.New("connection refused")},
		"failed to write":                     {err: status.Retry(v2beta2.ReasonApplyFailed, errors.New("conflict"))},
	} {
		t.Run(name, func(t *testing.T) {
			refused, known := upgradeRefusal(&install.Installation{OperatorCollection: &v2beta2.OperatorCollection{}, Held: test.held}, test.applied, test.err)
			if known != test.known || known && (refused == nil) != (test.reason == "") || known && refused != nil && refused.Reason != test.reason {
				t.Errorf("got %v, known %v", refused, known)
			}
		})
	}
}

// OLM is asked to install again only if the Subscription has what the pods lack.
func TestNeedsReinstall(t *testing.T) {
	const name = "it-things-operator.v2.0.0"
	phase := func(p operatorsv1alpha1.ClusterServiceVersionPhase) func(*Backend) {
		return func(b *Backend) { b.csvs[0].Status.Phase = p }
	}
	for text, test := range map[string]struct {
		change func(*Backend)
		want   bool
	}{
		"its pods do not become ready": {func(*Backend) {}, true},
		"OLM installs":                 {phase(operatorsv1alpha1.CSVPhaseInstallReady), false},
		"it runs":                      {phase(operatorsv1alpha1.CSVPhaseSucceeded), false},
		"OLM could not install":        {phase(operatorsv1alpha1.CSVPhaseFailed), false},
		"the Deployment is not there":  {func(b *Backend) { b.deployment = nil }, false},
		"another version runs":         {func(b *Backend) { b.subscription.Status.InstalledCSV = "other" }, false},
		"the Subscription is not set":  {func(b *Backend) { b.subscription.Spec.Config = nil }, false},
		"the pods are the right ones": {func(b *Backend) {
			b.deployment.Spec.Template.Annotations[render.RuntimeHashAnnotation] = "new"
		}, false},
	} {
		t.Run(text, func(t *testing.T) {
			b := &Backend{state: olmState(func(s *state) {
				s.csvs = []operatorsv1alpha1.ClusterServiceVersion{testCSV(name, "2.0.0", operatorsv1alpha1.CSVPhaseInstalling, "")}
				s.subscription.Status.InstalledCSV = name
				s.subscription.Spec.Config = annotated(nil, "new")
			}), deployment: &appsv1.Deployment{}}
			b.deployment.Spec.Template.Annotations = map[string]string{render.RuntimeHashAnnotation: "old"}
			test.change(b)
			if got := b.needsReinstall(b.csv(name), "new"); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestOLMIsAskedOnceForAConfiguration(t *testing.T) {
	c := &Cluster{}
	for i, step := range []struct {
		hash  string
		asked bool
	}{{"a", false}, {"a", true}, {"b", false}, {"a", false}, {"a", true}} {
		if got := c.hasAsked("uid", step.hash); got != step.asked {
			t.Errorf("%d: got %v", i, got)
		}
		c.reinstalls().Add(types.UID("uid"), step.hash)
	}
	if c.hasAsked("other", "a") {
		t.Error("another ClusterServiceVersion")
	}
}
