package olm

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/collection/render"
)

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
