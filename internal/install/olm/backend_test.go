package olm

import (
	"errors"
	"slices"
	"testing"

	"github.com/Masterminds/semver/v3"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

const runtimeImage = "runtime:1"

// plan lets a backend in a certain state plan version 2.0.0.
func plan(change func(*state), options render.InstallationOptions) (*install.Plan, error) {
	return planIn(&Cluster{}, change, options)
}

func planIn(cluster *Cluster, change func(*state), options render.InstallationOptions) (*install.Plan, error) {
	s := olmState(change)
	backend := &Backend{state: s, cluster: cluster, image: runtimeImage}
	c := &model.Collection{Domain: "it", Name: "things", Version: semver.MustParse("2.0.0")}
	soc := &v2beta2.SubOperatorConfig{Status: v2beta2.SubOperatorConfigStatus{
		Installations: []v2beta2.InstallationStatus{{Namespace: "ns", Digest: "sha256:old", Install: v2beta2.InstallOLM}},
	}}
	options.Namespace, options.Digest = "ns", "sha256:new"
	return backend.Plan(&install.Installation{Owner: soc, Namespace: "ns", Collection: c, Digest: "sha256:new"}, options)
}

func kindsOf(p *install.Plan) []string {
	var kinds []string
	for _, object := range p.Objects {
		kinds = append(kinds, object.GetObjectKind().GroupVersionKind().Kind)
	}
	return kinds
}

func TestPlan(t *testing.T) {
	options := render.InstallationOptions{Runtime: v2beta2.RuntimeSpec{Image: runtimeImage}}
	csv := func(name, version string) func(*state) {
		return func(s *state) {
			s.csvs = []operatorsv1alpha1.ClusterServiceVersion{testCSV(name, version, operatorsv1alpha1.CSVPhaseSucceeded, "")}
			s.subscription.Spec.Config = &operatorsv1alpha1.SubscriptionConfig{Annotations: map[string]string{render.RuntimeHashAnnotation: "before"}}
		}
	}
	for name, test := range map[string]struct {
		state     func(*state)
		kinds     []string
		postponed int
		digest    string
		same      bool
	}{
		"nothing is there but our OperatorGroup, which is not written": {func(s *state) { s.subscription, s.ownGroup = nil, true },
			[]string{"NetworkPolicy", "ConfigMap", "OperatorGroup", "Subscription"}, 1, "sha256:new", false},
		"the namespace has an OperatorGroup": {func(s *state) { s.subscription = nil },
			[]string{"NetworkPolicy", "ConfigMap", "Subscription"}, 0, "sha256:new", false},
		"a user made the Subscription": {func(s *state) { s.userManaged = true },
			[]string{"NetworkPolicy", "ConfigMap"}, 0, "sha256:new", false},
		"the version runs": {csv("it-things-operator.v2.0.0", "2.0.0"),
			[]string{"NetworkPolicy", "ConfigMap", "Subscription"}, 0, "sha256:new", false},
		"pods of an earlier manager keep what they know": {
			func(s *state) {
				csv("it-things-operator.v2.0.0", "2.0.0")(s)
				withOperator(&s.csvs[0])
			},
			[]string{"NetworkPolicy", "ConfigMap", "Subscription"}, 1, "sha256:old", true},
		"another version runs until OLM replaces it": {csv("it-things-operator.v1.0.0", "1.0.0"),
			[]string{"NetworkPolicy", "ConfigMap", "Subscription"}, 1, "sha256:old", true},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := plan(test.state, options)
			if err != nil {
				t.Fatal(err)
			}
			if got := kindsOf(p); !slices.Equal(got, test.kinds) {
				t.Errorf("objects: %v", got)
			}
			if len(p.Postponed) != test.postponed || p.Digest.String() != test.digest || (p.RuntimeHash == "before") != test.same {
				t.Errorf("%d postponed, digest %s, hash %q", len(p.Postponed), p.Digest, p.RuntimeHash)
			}
		})
	}
}

// annotatedBy returns the hash that a Subscription gives to the pods, or "".
func annotatedBy(config *operatorsv1alpha1.SubscriptionConfig) string {
	if config == nil {
		return ""
	}
	return config.Annotations[render.RuntimeHashAnnotation]
}

// OLM applies the config of a Subscription after it has created the pods, which then start again.
func TestSubscriptionSaysOnlyWhatThePodsLack(t *testing.T) {
	const wanted, older = "it-things-operator.v2.0.0", "it-things-operator.v1.0.0"
	defaults := render.InstallationOptions{Runtime: v2beta2.RuntimeSpec{Image: runtimeImage}}
	first, err := plan(func(s *state) { s.subscription = nil }, defaults)
	if err != nil {
		t.Fatal(err)
	}
	standard := first.RuntimeHash
	csv := func(name string, phase operatorsv1alpha1.ClusterServiceVersionPhase, hash string) operatorsv1alpha1.ClusterServiceVersion {
		made := testCSV(name, "1.0.0", phase, "")
		withOperator(&made, corev1.EnvVar{Name: "ZOSCB_SETTINGS"})
		made.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Annotations = map[string]string{render.CatalogHashAnnotation: hash}
		return made
	}
	has := func(annotation string, csvs ...operatorsv1alpha1.ClusterServiceVersion) func(*state) {
		return func(s *state) {
			s.csvs, s.subscription.Status.InstalledCSV = csvs, csvs[0].Name
			s.subscription.Spec.Config = annotated(nil, annotation)
		}
	}
	const pending, installing, succeeded = operatorsv1alpha1.CSVPhasePending, operatorsv1alpha1.CSVPhaseInstalling, operatorsv1alpha1.CSVPhaseSucceeded
	for name, test := range map[string]struct {
		state func(*state)
		// runs is the hash of the pods that the plan leads to.
		annotation, runs string
		postponed        int
	}{
		"nothing is there":                           {func(s *state) { s.subscription = nil }, "", standard, 0},
		"the pods have it":                           {has("", csv(wanted, succeeded, standard)), "", standard, 0},
		"the pods have it, and wait for nothing":     {has("", csv(wanted, pending, standard)), "", standard, 0},
		"a setting was removed":                      {has("set", csv(wanted, succeeded, standard)), "", standard, 0},
		"the catalog has another one":                {has("", csv(wanted, succeeded, "other")), standard, standard, 0},
		"the catalog has none":                       {has("", csv(wanted, succeeded, "")), standard, standard, 0},
		"the other version runs":                     {has("", csv(older, succeeded, "old")), "", "old", 1},
		"the other version runs with settings":       {has("set", csv(older, succeeded, "old")), "set", "set", 1},
		"the other version runs, this one waits":     {has("set", csv(older, succeeded, "old"), csv(wanted, pending, standard)), "set", "set", 1},
		"the other version is replaced":              {has("set", csv(older, succeeded, "old"), csv(wanted, installing, standard)), "", standard, 0},
		"the other version is replaced by other one": {has("", csv(older, succeeded, "old"), csv(wanted, installing, "other")), standard, standard, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := plan(test.state, defaults)
			if err != nil {
				t.Fatal(err)
			}
			subscription, ok := p.Objects[len(p.Objects)-1].(*operatorsv1alpha1.Subscription)
			if !ok {
				t.Fatalf("objects: %v", kindsOf(p))
			}
			if got := annotatedBy(subscription.Spec.Config); got != test.annotation || p.RuntimeHash != test.runs || len(p.Postponed) != test.postponed {
				t.Errorf("annotation %q, hash %q, %d postponed", got, p.RuntimeHash, len(p.Postponed))
			}
			if test.annotation == "" && subscription.Spec.Config != nil {
				t.Errorf("config %v", subscription.Spec.Config)
			}
		})
	}
}

func TestOperatorGroupIsWrittenOnlyIfAllowed(t *testing.T) {
	p, err := planIn(&Cluster{CreateOperatorGroups: true}, func(s *state) { s.subscription, s.ownGroup = nil, true },
		render.InstallationOptions{Runtime: v2beta2.RuntimeSpec{Image: runtimeImage}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(kindsOf(p), "OperatorGroup") || len(p.Postponed) > 0 {
		t.Errorf("objects %v, %d of them postponed", kindsOf(p), len(p.Postponed))
	}
}

func TestPlanNamesWhatOLMCannotPassOn(t *testing.T) {
	_, err := plan(func(*state) {}, render.InstallationOptions{Runtime: v2beta2.RuntimeSpec{Image: "mine:1"}})
	var unsupported *render.UnsupportedRuntimeError
	if !errors.As(err, &unsupported) || status.AsError(err).Reason != v2beta2.ReasonRuntimeNotSupported {
		t.Errorf("got %v", err)
	}
}

// A SubOperatorConfig whose Subscription was deleted must not create another one.
func TestCheckMadeFor(t *testing.T) {
	soc := &v2beta2.SubOperatorConfig{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationMadeFor: "ns/sub/uid"}},
		Spec:       v2beta2.SubOperatorConfigSpec{Install: v2beta2.InstallOLM, Mapping: []v2beta2.NamespaceMapping{{Namespace: "ns"}}},
	}
	is := &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}
	other := &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{UID: "other"}}
	if err := checkMadeFor(soc, "ns", is); err != nil {
		t.Errorf("its Subscription is there: %v", err)
	}
	for name, subscription := range map[string]*operatorsv1alpha1.Subscription{"gone": nil, "made anew": other} {
		if err := checkMadeFor(soc, "ns", subscription); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	soc.Spec.Mapping = append(soc.Spec.Mapping, v2beta2.NamespaceMapping{Namespace: "more"})
	if err := checkMadeFor(soc, "ns", nil); err != nil {
		t.Errorf("a user has changed it: %v", err)
	}
}
