package olm

import (
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

func TestMethodIsDecidedOnce(t *testing.T) {
	const auto, olm, direct = v2beta2.InstallAuto, v2beta2.InstallOLM, v2beta2.InstallDirect
	recorded := func(method v2beta2.InstallMethod) v2beta2.SubOperatorConfigStatus {
		return v2beta2.SubOperatorConfigStatus{Installations: []v2beta2.InstallationStatus{{Namespace: "other", Install: olm}, {Namespace: "ns", Install: method}}}
	}
	halfMade := v2beta2.SubOperatorConfigStatus{Inventory: []v2beta2.ObjectReference{{Kind: "Deployment", Namespace: "ns"}}}
	for name, test := range map[string]struct {
		spec                v2beta2.InstallMethod
		status              v2beta2.SubOperatorConfigStatus
		userManaged, usable bool
		want                v2beta2.InstallMethod
	}{
		"new, without OLM":                            {spec: "", want: direct},
		"new, with OLM":                               {spec: auto, usable: true, want: olm},
		"installed before OLM came":                   {spec: auto, status: recorded(direct), usable: true, want: direct},
		"installed before methods were recorded":      {spec: "", status: recorded(""), usable: true, want: direct},
		"half installed before methods were recorded": {spec: "", status: halfMade, usable: true, want: direct},
		"OLM went away":                               {spec: auto, status: recorded(olm), want: olm},
		"explicitly OLM":                              {spec: olm, status: recorded(direct), want: olm},
		"explicitly without":                          {spec: direct, status: recorded(olm), userManaged: true, usable: true, want: direct},
		"a user-managed Subscription":                 {spec: auto, status: recorded(direct), userManaged: true, usable: true, want: olm},
		"a user-managed one without OperatorGroup":    {spec: auto, userManaged: true, want: olm},
	} {
		t.Run(name, func(t *testing.T) {
			soc := &v2beta2.SubOperatorConfig{Spec: v2beta2.SubOperatorConfigSpec{Install: test.spec}, Status: test.status}
			if got := methodFor(soc, "ns", test.userManaged, test.usable); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestOperatorGroupIsChosen(t *testing.T) {
	group := func(name string, change func(*operatorsv1.OperatorGroup)) operatorsv1.OperatorGroup {
		g := operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		g.Spec.TargetNamespaces = []string{"ns"}
		change(&g)
		return g
	}
	same := func(*operatorsv1.OperatorGroup) {}
	selecting := func(found ...string) func(*operatorsv1.OperatorGroup) {
		return func(g *operatorsv1.OperatorGroup) {
			g.Spec.TargetNamespaces, g.Spec.Selector, g.Status.Namespaces = nil, &metav1.LabelSelector{}, found
		}
	}
	ours := func(g *operatorsv1.OperatorGroup) {
		g.Labels = map[string]string{render.LabelManagedBy: render.ManagedBy}
	}
	account := func(g *operatorsv1.OperatorGroup) { g.Spec.ServiceAccountName = "installer" }
	for name, test := range map[string]struct {
		groups         []operatorsv1.OperatorGroup
		create, own    bool
		warns, problem string
	}{
		"none, and it may be created": {create: true, own: true},
		"ours":                        {groups: []operatorsv1.OperatorGroup{group(render.OperatorGroupName, ours)}, own: true},
		"ours, and it may be changed": {groups: []operatorsv1.OperatorGroup{group(render.OperatorGroupName, func(g *operatorsv1.OperatorGroup) {
			ours(g)
			g.Spec.TargetNamespaces = nil
		})}, create: true, own: true},
		"ours that somebody has changed": {groups: []operatorsv1.OperatorGroup{group(render.OperatorGroupName, func(g *operatorsv1.OperatorGroup) {
			ours(g)
			g.Spec.TargetNamespaces = nil
		})}, problem: "for all namespaces"},
		"one that looks like ours": {groups: []operatorsv1.OperatorGroup{group(render.OperatorGroupName, same)}},
		"one for this namespace":   {groups: []operatorsv1.OperatorGroup{group("og", same)}},
		"one that selects it":      {groups: []operatorsv1.OperatorGroup{group("og", selecting("ns"))}},
		"one that selects more":    {groups: []operatorsv1.OperatorGroup{group("og", selecting("ns", "b"))}, problem: "for the namespaces b, ns"},
		"one that selects nothing": {groups: []operatorsv1.OperatorGroup{group("og", selecting())}, problem: "for no namespace"},
		"one for all": {groups: []operatorsv1.OperatorGroup{group("og", func(g *operatorsv1.OperatorGroup) {
			g.Spec.TargetNamespaces = nil
		})}, problem: "for all namespaces"},
		"several":             {groups: []operatorsv1.OperatorGroup{group("b", same), group("a", same)}, problem: "OperatorGroups a, b"},
		"one with an account": {groups: []operatorsv1.OperatorGroup{group("og", account)}, warns: "ServiceAccount installer"},
		"one with an account that is missing": {groups: []operatorsv1.OperatorGroup{group("og", func(g *operatorsv1.OperatorGroup) {
			account(g)
			g.Status.Conditions = []metav1.Condition{{Type: operatorsv1.OperatorGroupServiceAccountCondition, Reason: operatorsv1.OperatorGroupServiceAccountReason}}
		})}, problem: "installer, which does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			own, warning, err := chooseOperatorGroup("ns", test.groups, test.create)
			if own != test.own || (warning == "") != (test.warns == "") || !strings.Contains(warning, test.warns) {
				t.Errorf("own %v, warning %q", own, warning)
			}
			expectReason(t, err, v2beta2.ReasonOperatorGroupConflict, test.problem)
		})
	}
}

// The manifest in the message must be one that OLM uses.
func TestMissingOperatorGroupIsPrinted(t *testing.T) {
	_, _, err := chooseOperatorGroup("ns", nil, false)
	expectReason(t, err, v2beta2.ReasonOperatorGroupMissing, "set install: Direct")
	_, manifest, found := strings.Cut(err.Error(), "\napiVersion")
	group := operatorsv1.OperatorGroup{}
	if err := yaml.UnmarshalStrict([]byte("apiVersion"+manifest), &group); err != nil || !found {
		t.Fatalf("%v:\n%s", err, manifest)
	}
	if group.Namespace != "ns" || group.Spec.ServiceAccountName == "" {
		t.Errorf("got %+v", group)
	}
	if own, _, err := chooseOperatorGroup("ns", []operatorsv1.OperatorGroup{group}, false); own || err != nil {
		t.Errorf("the printed OperatorGroup is not usable: own %v, %v", own, err)
	}
}

// expectReason expects no error if text is empty.
func expectReason(t *testing.T, err error, reason, text string) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Errorf("fails: %v", err)
	case text == "":
	case err == nil:
		t.Error("does not fail")
	case status.AsError(err).Reason != reason || !strings.Contains(err.Error(), text):
		t.Errorf("got %s: %v", status.AsError(err).Reason, err)
	}
}

// olmState returns the state of a new Subscription to version 1.0.0.
func olmState(change func(*state)) *state {
	s := &state{subscription: &operatorsv1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sub"},
		Spec:       &operatorsv1alpha1.SubscriptionSpec{CatalogSource: "ours", CatalogSourceNamespace: "olm"},
	}}
	change(s)
	return s
}

func testCSV(name, version string, phase operatorsv1alpha1.ClusterServiceVersionPhase, reason operatorsv1alpha1.ConditionReason) operatorsv1alpha1.ClusterServiceVersion {
	csv := operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	if err := csv.Spec.Version.UnmarshalJSON([]byte(`"` + version + `"`)); err != nil {
		panic(err)
	}
	csv.Status.Phase, csv.Status.Reason = phase, reason
	return csv
}

func TestProgressInOLM(t *testing.T) {
	c := &model.Collection{Domain: "acme", Name: "things", Version: semver.MustParse("1.0.0")}
	wanted := c.CSVName()
	condition := func(kind operatorsv1alpha1.SubscriptionConditionType, message string) func(*state) {
		return func(s *state) {
			s.subscription.Status.SetCondition(operatorsv1alpha1.SubscriptionCondition{Type: kind, Status: corev1.ConditionTrue, Message: message})
		}
	}
	installed := func(phase operatorsv1alpha1.ClusterServiceVersionPhase, reason operatorsv1alpha1.ConditionReason) func(*state) {
		return func(s *state) {
			s.subscription.Status.InstalledCSV = wanted
			s.csvs = []operatorsv1alpha1.ClusterServiceVersion{testCSV(wanted, "1.0.0", phase, reason)}
		}
	}
	planned := func(phase operatorsv1alpha1.InstallPlanPhase) func(*state) {
		return func(s *state) {
			s.plan = &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "install-1"}}
			s.plan.Spec.ClusterServiceVersionNames = []string{wanted, "other.v2"}
			s.plan.Status.Phase = phase
		}
	}
	other := func(version string, userManaged bool) func(*state) {
		return func(s *state) {
			s.userManaged, s.subscription.Status.InstalledCSV = userManaged, "other"
			s.csvs = []operatorsv1alpha1.ClusterServiceVersion{testCSV("other", version, operatorsv1alpha1.CSVPhaseSucceeded, "")}
		}
	}
	all := func(changes ...func(*state)) func(*state) {
		return func(s *state) {
			for _, change := range changes {
				change(s)
			}
		}
	}
	for name, test := range map[string]struct {
		state        func(*state)
		reason, text string
	}{
		"no Subscription yet":           {func(s *state) { s.subscription = nil }, v2beta2.ReasonProgressing, "to process the Subscription"},
		"nothing yet":                   {func(*state) {}, v2beta2.ReasonProgressing, "to install acme-things-operator.v1.0.0"},
		"done":                          {installed(operatorsv1alpha1.CSVPhaseSucceeded, ""), "", ""},
		"done, with a catalog in doubt": {all(installed(operatorsv1alpha1.CSVPhaseSucceeded, ""), condition(operatorsv1alpha1.SubscriptionResolutionFailed, "x")), "", ""},
		"unresolved":                    {condition(operatorsv1alpha1.SubscriptionResolutionFailed, "no such channel"), v2beta2.ReasonCatalogUnhealthy, "ResolutionFailed: no such channel"},
		"conflicting constraints": {func(s *state) {
			s.subscription.Status.SetCondition(operatorsv1alpha1.SubscriptionCondition{
				Type: operatorsv1alpha1.SubscriptionResolutionFailed, Status: corev1.ConditionTrue, Reason: reasonConstraintsNotSatisfiable, Message: "b, a",
			})
		}, v2beta2.ReasonCatalogUnhealthy, "ConstraintsNotSatisfiable: to see the conflict, run kubectl describe subscriptions.operators.coreos.com"},
		"an unknown catalog": {condition(operatorsv1alpha1.SubscriptionCatalogSourcesUnhealthy, ""), v2beta2.ReasonCatalogUnhealthy, "does not know CatalogSource olm/ours"},
		"unapproved":         {planned(operatorsv1alpha1.InstallPlanPhaseRequiresApproval), v2beta2.ReasonWaitingForApproval, "install acme-things-operator.v1.0.0, other.v2: kubectl patch"},
		"just approved": {all(planned(operatorsv1alpha1.InstallPlanPhaseRequiresApproval), func(s *state) { s.plan.Spec.Approved = true }),
			v2beta2.ReasonProgressing, "to install"},
		"a failed plan":              {planned(operatorsv1alpha1.InstallPlanPhaseFailed), v2beta2.ReasonInstallPlanFailed, `"ns/install-1" failed; resolve the problem`},
		"an older version is there":  {other("0.9.0", false), v2beta2.ReasonProgressing, "to install"},
		"a newer version is there":   {other("1.0.1", false), v2beta2.ReasonClusterServiceVersionFailed, "does not go back to 1.0.0"},
		"a user has a newer version": {other("1.0.1", true), v2beta2.ReasonClusterServiceVersionFailed, "create it again with channel v1.0.0"},
		"a user has another":         {other("0.9.0", true), v2beta2.ReasonClusterServiceVersionFailed, "change its channel"},
		// The state in OLM while an upgrade is refused: the failed resolution is only a consequence.
		"a newer version is held back": {all(other("1.1.0", true), condition(operatorsv1alpha1.SubscriptionResolutionFailed, "constraints not satisfiable: a"), func(s *state) {
			s.csvs[0].Status.Phase, s.csvs[0].Status.Reason = operatorsv1alpha1.CSVPhasePending, operatorsv1alpha1.CSVReasonOperatorConditionNotUpgradeable
		}), v2beta2.ReasonClusterServiceVersionFailed, "leads to version 1.1.0, which OLM holds back because the OperatorCollection has 1.0.0"},
		"installing": {installed(operatorsv1alpha1.CSVPhaseInstalling, operatorsv1alpha1.CSVReasonInstallSuccessful), v2beta2.ReasonProgressing, "is Installing InstallSucceeded"},
		"requirements that the plan is about to make": {all(installed(operatorsv1alpha1.CSVPhasePending, operatorsv1alpha1.CSVReasonRequirementsNotMet),
			planned(operatorsv1alpha1.InstallPlanPhaseInstalling)), v2beta2.ReasonProgressing, "is Pending"},
		"requirements that stay away": {all(installed(operatorsv1alpha1.CSVPhasePending, operatorsv1alpha1.CSVReasonRequirementsNotMet),
			planned(operatorsv1alpha1.InstallPlanPhaseComplete)), v2beta2.ReasonClusterServiceVersionFailed, "missing: "},
		"failed": {installed(operatorsv1alpha1.CSVPhaseFailed, operatorsv1alpha1.CSVReasonUnsupportedOperatorGroup), v2beta2.ReasonClusterServiceVersionFailed,
			"UnsupportedOperatorGroup: the OperatorGroup of the namespace is for other namespaces"},
	} {
		t.Run(name, func(t *testing.T) { expectReason(t, olmState(test.state).progress(c), test.reason, test.text) })
	}
}

func TestOrphans(t *testing.T) {
	at := func(second int64) metav1.Time { return metav1.Unix(second, 0) }
	for name, test := range map[string]struct {
		change func(*state)
		want   bool
	}{
		"nothing runs":            {func(s *state) { s.csvs = nil }, false},
		"no Subscription is left": {func(s *state) { s.subscription = nil }, true},
		"there is a new one":      {func(s *state) { s.subscription.CreationTimestamp = at(11) }, true},
		"there is a user's":       {func(s *state) { s.subscription.CreationTimestamp, s.userManaged = at(11), true }, false},
		"OLM has made it for it":  {func(s *state) { s.subscription.CreationTimestamp = at(10) }, false},
		"OLM has come to it": {func(s *state) {
			s.subscription.CreationTimestamp, s.subscription.Status.CurrentCSV = at(11), "csv"
		}, false},
		"OLM has installed another": {func(s *state) {
			s.subscription.CreationTimestamp, s.subscription.Status.InstalledCSV = at(11), "x"
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := olmState(func(s *state) {
				csv := testCSV("csv", "1.0.0", operatorsv1alpha1.CSVPhaseSucceeded, "")
				csv.CreationTimestamp = at(10)
				s.csvs = []operatorsv1alpha1.ClusterServiceVersion{csv}
			})
			test.change(s)
			if got := s.orphaned(); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// OLM does not go back: the operator is removed before, unless a user decides about that.
// The settings of a version wait until OLM begins to replace the pods of the one before.
func TestReady(t *testing.T) {
	for name, test := range map[string]struct {
		phase  operatorsv1alpha1.ClusterServiceVersionPhase
		reason operatorsv1alpha1.ConditionReason
		want   bool
	}{
		"not looked at":        {want: false},
		"pending":              {phase: operatorsv1alpha1.CSVPhasePending, want: false},
		"installing":           {phase: operatorsv1alpha1.CSVPhaseInstalling, want: true},
		"succeeded":            {phase: operatorsv1alpha1.CSVPhaseSucceeded, want: true},
		"conflict of owners":   {phase: operatorsv1alpha1.CSVPhaseFailed, reason: operatorsv1alpha1.CSVReasonInterOperatorGroupOwnerConflict, want: false},
		"pods that do not run": {phase: operatorsv1alpha1.CSVPhaseFailed, reason: operatorsv1alpha1.CSVReasonInstallCheckFailed, want: true},
	} {
		is := operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "new"}}
		is.Status.Phase, is.Status.Reason = test.phase, test.reason
		s := &state{csvs: []operatorsv1alpha1.ClusterServiceVersion{{ObjectMeta: metav1.ObjectMeta{Name: "old"}}, is}}
		if got := s.ready("new"); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
		if s.csvs = s.csvs[1:]; !s.ready("new") {
			t.Errorf("%s: the only version has no settings", name)
		}
	}
}

func TestGoesBack(t *testing.T) {
	c := &model.Collection{Domain: "acme", Name: "things", Version: semver.MustParse("1.0.0")}
	has := func(version string) func(*state, *v2beta2.SubOperatorConfig) {
		return func(s *state, _ *v2beta2.SubOperatorConfig) {
			s.subscription.Status.InstalledCSV = "csv"
			s.csvs = []operatorsv1alpha1.ClusterServiceVersion{testCSV("csv", version, operatorsv1alpha1.CSVPhaseSucceeded, "")}
		}
	}
	also := func(first, second func(*state, *v2beta2.SubOperatorConfig)) func(*state, *v2beta2.SubOperatorConfig) {
		return func(s *state, soc *v2beta2.SubOperatorConfig) { first(s, soc); second(s, soc) }
	}
	for name, test := range map[string]struct {
		change func(*state, *v2beta2.SubOperatorConfig)
		want   bool
	}{
		"nothing is installed":        {func(*state, *v2beta2.SubOperatorConfig) {}, false},
		"there is no Subscription":    {func(s *state, _ *v2beta2.SubOperatorConfig) { s.subscription = nil }, false},
		"the same version":            {has("1.0.0"), false},
		"an older version":            {has("0.9.0"), false},
		"a newer version":             {has("1.0.1"), true},
		"a newer version of a user":   {also(has("1.0.1"), func(s *state, _ *v2beta2.SubOperatorConfig) { s.userManaged = true }), false},
		"a newer one, with approvals": {also(has("1.0.1"), func(_ *state, soc *v2beta2.SubOperatorConfig) { soc.Spec.InstallPlanApproval = v2beta2.ApprovalManual }), false},
		"a newer one that OLM has not finished": {also(has("1.0.1"), func(s *state, _ *v2beta2.SubOperatorConfig) {
			s.subscription.Status.InstalledCSV, s.subscription.Status.CurrentCSV = "", "csv"
		}), true},
		"a newer one beside the installed one": {also(has("1.0.1"), func(s *state, _ *v2beta2.SubOperatorConfig) {
			s.csvs = append(s.csvs, testCSV("old", "1.0.0", operatorsv1alpha1.CSVPhaseReplacing, ""))
			s.subscription.Status.InstalledCSV, s.subscription.Status.CurrentCSV = "old", "csv"
		}), false},
	} {
		t.Run(name, func(t *testing.T) {
			s, soc := olmState(func(*state) {}), &v2beta2.SubOperatorConfig{}
			test.change(s, soc)
			if got := s.goesBack(&install.Installation{Owner: soc, Namespace: "ns", Collection: c}); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestMissingRequirements(t *testing.T) {
	got := missingRequirements([]operatorsv1alpha1.RequirementStatus{
		{Kind: "CustomResourceDefinition", Name: "there", Status: operatorsv1alpha1.RequirementStatusReasonPresent},
		{Kind: "ServiceAccount", Name: "operator", Status: operatorsv1alpha1.RequirementStatusReasonPresentNotSatisfied, Dependents: []operatorsv1alpha1.DependentStatus{
			{Kind: "PolicyRule", Status: operatorsv1alpha1.DependentStatusReasonSatisfied, Message: "fine"},
			{Kind: "PolicyRule", Status: operatorsv1alpha1.DependentStatusReasonNotSatisfied, Message: `namespaced rule:{"verbs":["get"]}`},
		}},
		{Kind: "CustomResourceDefinition", Name: "away", Status: operatorsv1alpha1.RequirementStatusReasonNotPresent},
	})
	want := `missing: CustomResourceDefinition away (NotPresent), ServiceAccount operator lacks PolicyRule namespaced rule:{"verbs":["get"]}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestContentWarnings(t *testing.T) {
	c := &model.Collection{Domain: "acme", Name: "things", Version: semver.MustParse("1.0.0")}
	csv := testCSV(c.CSVName(), "1.0.0", operatorsv1alpha1.CSVPhaseSucceeded, "")
	csv.Annotations = map[string]string{render.AnnotationArchiveDigest: "sha256:a"}
	withOperator(&csv, corev1.EnvVar{Name: "ZOSCB_SETTINGS"})
	s := &state{csvs: []operatorsv1alpha1.ClusterServiceVersion{csv}}
	for digest, images := range map[string]map[string]int{"sha256:a": {"image:1": 0, "image:2": 1}, "sha256:b": {"image:1": 1, "image:2": 2}} {
		for image, want := range images {
			if got := s.contentWarnings(c, digest, image); len(got) != want {
				t.Errorf("%s and %s: %v", digest, image, got)
			}
		}
	}
	withOperator(&s.csvs[0])
	if got := s.contentWarnings(c, "sha256:a", "image:1"); len(got) != 1 || !strings.Contains(got[0], "earlier manager") {
		t.Errorf("before the gate: %v", got)
	}
}

// withOperator sets the pod of a ClusterServiceVersion.
func withOperator(csv *operatorsv1alpha1.ClusterServiceVersion, env ...corev1.EnvVar) {
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = make([]operatorsv1alpha1.StrategyDeploymentSpec, 1)
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers = []corev1.Container{
		{Name: render.OperatorContainer, Image: "image:1", Env: env},
	}
}
