package operands_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

const (
	jenkins    = "{name: jenkins}"
	ownJenkins = "{name: jenkins, kind: Jenkins, apiVersion: jenkins.example/v1, instanceName: own}"
)

// ci has the OperandRegistry tools with the operator jenkins, which is that of a package, in the namespace home.
type ci struct {
	*rig
	registry     *v1alpha1.OperandRegistry
	config       *v1alpha1.OperandConfig
	subscription *operatorsv1alpha1.Subscription
	csv          *operatorsv1alpha1.ClusterServiceVersion
	group        *operatorsv1.OperatorGroup
}

func newCI(t *testing.T) *ci {
	t.Helper()
	r := newRig(t)
	s := &ci{
		rig: r, registry: &v1alpha1.OperandRegistry{}, config: &v1alpha1.OperandConfig{},
		subscription: &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: "jenkins-operator"}},
		csv:          &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: "jenkins-operator.v1.0.0"}},
		group:        &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: "collection-operator-operands"}},
	}
	s.offer(t, "jenkins-operator", "community-operators", "olm")
	r.create(t, s.registry, r.home, "tools", "{spec: {operators: [{name: jenkins, packageName: jenkins-operator, channel: alpha, scope: public}]}}")
	r.create(t, s.config, r.home, "tools", "{spec: {services: [{name: jenkins, spec: {jenkins: {service: {port: 8081}}}}]}}")
	return s
}

// offer lets a catalog have a package.
func (s *ci) offer(t *testing.T, name, catalog, in string) {
	t.Helper()
	manifest := instance("packages.operators.coreos.com/v1", "PackageManifest", s.home, name)
	manifest.SetLabels(map[string]string{"catalog": catalog, "catalog-namespace": in})
	apiserver.Must(t, s.server.Client.Create(t.Context(), manifest))
}

// installs plays the part of OLM, which has installed a version for the Subscription.
func (s *ci) installs(t *testing.T, version string, phase operatorsv1alpha1.ClusterServiceVersionPhase) {
	t.Helper()
	s.csv = &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: s.home, Name: "jenkins-operator.v" + version, Annotations: map[string]string{
		"alm-examples": `[{"apiVersion": "jenkins.example/v1", "kind": "Jenkins", "metadata": {"name": "example"}, "spec": {"service": {"port": 8080, "type": "ClusterIP"}}}]`,
	}}}
	s.csv.Spec.DisplayName = "jenkins"
	s.csv.Spec.InstallStrategy.StrategyName = operatorsv1alpha1.InstallStrategyNameDeployment
	s.csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{}
	s.csv.Spec.CustomResourceDefinitions.Owned = []operatorsv1alpha1.CRDDescription{{Name: "jenkinses.jenkins.example", Version: "v1", Kind: "Jenkins"}, {Name: "worlds.jenkins.example", Version: "v1", Kind: "World"}}
	apiserver.Must(t, yaml.Unmarshal([]byte(version), &s.csv.Spec.Version))
	apiserver.Must(t, s.server.Client.Create(t.Context(), s.csv))
	s.reportsPhase(t, phase)
	s.subscribed(t, func(status *operatorsv1alpha1.SubscriptionStatus) {
		status.InstalledCSV, status.CurrentCSV = s.csv.Name, s.csv.Name
	})
}

func (s *ci) reportsPhase(t *testing.T, phase operatorsv1alpha1.ClusterServiceVersionPhase) {
	t.Helper()
	apiserver.Must(t, s.server.Client.Get(t.Context(), client.ObjectKeyFromObject(s.csv), s.csv))
	s.csv.Status.Phase, s.csv.Status.Message = phase, "said by OLM"
	apiserver.Must(t, s.server.Client.Status().Update(t.Context(), s.csv))
}

// subscribed changes the status of the Subscription.
func (s *ci) subscribed(t *testing.T, change func(*operatorsv1alpha1.SubscriptionStatus)) {
	t.Helper()
	apiserver.Must(t, s.server.Client.Get(t.Context(), client.ObjectKeyFromObject(s.subscription), s.subscription))
	s.subscription.Status.LastUpdated = metav1.Now()
	change(&s.subscription.Status)
	apiserver.Must(t, s.server.Client.Status().Update(t.Context(), s.subscription))
}

// running returns a request whose operator and resources run.
func (s *ci) running(t *testing.T, namespace, name string, wanted ...string) *v1alpha1.OperandRequest {
	t.Helper()
	request := s.request(t, namespace, name, wanted...)
	if s.csv.UID == "" {
		s.fails(t, request, v1alpha1.ReasonOperatorNotReady, "OLM installs")
		s.installs(t, "1.0.0", operatorsv1alpha1.CSVPhaseSucceeded)
	}
	s.runs(t, request)
	s.writes.Take()
	return request
}

func (s *ci) example() *unstructured.Unstructured { return s.instance(s.home, "example") }

func (s *ci) instance(namespace, name string) *unstructured.Unstructured {
	return instance("jenkins.example/v1", "Jenkins", namespace, name)
}

func (s *ci) expectOperator(t *testing.T, want bool) {
	t.Helper()
	for _, object := range []client.Object{s.subscription, s.csv, s.group} {
		if s.exists(t, object) != want {
			t.Errorf("%T exists: %t", object, !want)
		}
	}
}

func TestPackageIsInstalled(t *testing.T) {
	s := newCI(t)
	request := s.request(t, s.home, "request", jenkins)
	s.fails(t, request, v1alpha1.ReasonOperatorNotReady, fmt.Sprintf(`OLM installs the operator of Subscription "%s/jenkins-operator"`, s.home))
	expectPhase(t, request, v1alpha1.RequestInstalling)
	if !s.exists(t, s.subscription) || !s.exists(t, s.group) || !slices.Equal(s.group.Spec.TargetNamespaces, []string{s.home}) {
		t.Fatalf("the OperatorGroup is %+v", s.group.Spec)
	}
	if got, want := *s.subscription.Spec, (operatorsv1alpha1.SubscriptionSpec{
		Package: "jenkins-operator", Channel: "alpha", CatalogSource: "community-operators", CatalogSourceNamespace: "olm", InstallPlanApproval: operatorsv1alpha1.ApprovalAutomatic,
	}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	s.installs(t, "1.0.0", operatorsv1alpha1.CSVPhaseInstalling)
	s.fails(t, request, v1alpha1.ReasonOperatorNotReady, "is in phase Installing")
	if s.exists(t, s.example()) {
		t.Error("the resource does not wait for the operator")
	}
	s.reportsPhase(t, operatorsv1alpha1.CSVPhaseSucceeded)
	s.runs(t, request)
	if got := fmt.Sprint(s.specOf(t, s.example())); got != "map[service:map[port:8081 type:ClusterIP]]" {
		t.Errorf("got %s", got)
	}
	want := []string{"Operator OperatorGroup", "Operator Subscription", "Operator ClusterServiceVersion", "Config Jenkins"}
	for i, e := range inventoryOf(request) {
		if !strings.HasPrefix(e, want[i]) || request.Status.Inventory[i].UID == "" {
			t.Errorf("entry %d is %+v", i, request.Status.Inventory[i])
		}
	}
	s.writes.Take()
	if s.runs(t, request); len(s.writes.Take()) > 0 {
		t.Error("nothing has changed, and something was written")
	}
}

// The channel follows the OperandRegistry. The ClusterServiceVersion that was replaced is not ours any more.
func TestPackageIsUpgraded(t *testing.T) {
	s := newCI(t)
	request := s.running(t, s.home, "request", jenkins)
	s.patch(t, s.registry, "{spec: {operators: [{name: jenkins, packageName: jenkins-operator, channel: beta}]}}")
	s.runs(t, request)
	if s.exists(t, s.subscription); s.subscription.Spec.Channel != "beta" || s.subscription.Spec.CatalogSource != "community-operators" {
		t.Errorf("got %+v", s.subscription.Spec)
	}
	former := s.csv
	s.installs(t, "2.0.0", operatorsv1alpha1.CSVPhaseInstalling)
	s.fails(t, request, v1alpha1.ReasonOperatorNotReady, "jenkins-operator.v2.0.0")
	expectPhase(t, request, v1alpha1.RequestUpdating)
	s.reportsPhase(t, operatorsv1alpha1.CSVPhaseSucceeded)
	s.runs(t, request)
	if got := strings.Join(inventoryOf(request), "\n"); strings.Contains(got, former.Name) || !strings.Contains(got, s.csv.Name) {
		t.Errorf("the inventory is %s", got)
	}
}

func TestPhasesOfPackages(t *testing.T) {
	condition := func(kind operatorsv1alpha1.SubscriptionConditionType, reason string) func(*testing.T, *ci) {
		return func(t *testing.T, s *ci) {
			s.subscribed(t, func(status *operatorsv1alpha1.SubscriptionStatus) {
				status.InstallPlanRef = &corev1.ObjectReference{Name: "install-1"}
				status.Conditions = []operatorsv1alpha1.SubscriptionCondition{{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: "said by OLM"}}
			})
		}
	}
	for name, test := range map[string]struct {
		change       func(*testing.T, *ci)
		reason, text string
	}{
		"resolution fails":     {condition(operatorsv1alpha1.SubscriptionResolutionFailed, "Any"), v1alpha1.ReasonOperatorFailed, "ResolutionFailed: said by OLM"},
		"an InstallPlan fails": {condition(operatorsv1alpha1.SubscriptionInstallPlanFailed, "Any"), v1alpha1.ReasonOperatorFailed, "InstallPlanFailed: said by OLM"},
		"an InstallPlan needs approval": {
			condition(operatorsv1alpha1.SubscriptionInstallPlanPending, "RequiresApproval"), v1alpha1.ReasonOperatorNotReady, "kubectl patch installplan install-1 -n ",
		},
		"the operator fails": {func(t *testing.T, s *ci) { s.reportsPhase(t, operatorsv1alpha1.CSVPhaseFailed) }, v1alpha1.ReasonOperatorFailed, "has failed: said by OLM"},
		"another version is installed": {func(t *testing.T, s *ci) {
			s.subscribed(t, func(status *operatorsv1alpha1.SubscriptionStatus) { status.CurrentCSV = "jenkins-operator.v2.0.0" })
		}, v1alpha1.ReasonOperatorNotReady, "OLM installs"},
		"the version is gone":    {func(t *testing.T, s *ci) { s.delete(t, s.csv) }, v1alpha1.ReasonOperatorNotReady, "OLM installs"},
		"its examples are wrong": {func(t *testing.T, s *ci) { s.patch(t, s.csv, `{metadata: {annotations: {alm-examples: "["}}}`) }, v1alpha1.ReasonInvalidOperand, "alm-examples"},
		"the Subscription is being deleted": {func(t *testing.T, s *ci) {
			s.hold(t, s.subscription)
			s.delete(t, s.subscription)
		}, v1alpha1.ReasonOperatorNotReady, "is being deleted, and is created again then"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCI(t)
			request := s.running(t, s.home, "request", jenkins)
			test.change(t, s)
			s.fails(t, request, test.reason, test.text)
			if !s.exists(t, s.example()) {
				t.Error("the resource is removed")
			}
			if phase := request.Status.Phase; (phase == v1alpha1.RequestFailed) != (test.reason != v1alpha1.ReasonOperatorNotReady) {
				t.Errorf("the phase is %s", phase)
			}
		})
	}
}

// What keeps a package from being installed is said, and nothing is created then.
func TestPackageThatCannotBeInstalled(t *testing.T) {
	spec := "{spec: {name: jenkins-operator, channel: alpha, source: theirs, sourceNamespace: olm}}"
	group := func(namespaces string) func(*testing.T, *ci) {
		return func(t *testing.T, s *ci) {
			s.create(t, &operatorsv1.OperatorGroup{}, s.home, "theirs", "{spec: {targetNamespaces: ["+namespaces+"]}}")
		}
	}
	for name, test := range map[string]struct {
		change       func(*testing.T, *ci)
		reason, text string
	}{
		"no OLM": {func(_ *testing.T, s *ci) {
			s.faults.Set("list Subscription", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Subscription"}})
		}, v1alpha1.ReasonInvalidOperand, "the cluster has no Operator Lifecycle Manager"},
		"two Subscriptions": {func(t *testing.T, s *ci) {
			s.create(t, &operatorsv1alpha1.Subscription{}, s.home, "a", spec)
			s.create(t, &operatorsv1alpha1.Subscription{}, s.home, "b", spec)
		}, v2beta2.ReasonForeignObject, "two Subscriptions to package \"jenkins-operator\", a and b"},
		"a Subscription to another package": {func(t *testing.T, s *ci) {
			s.create(t, &operatorsv1alpha1.Subscription{}, s.home, "jenkins-operator", "{spec: {name: other, channel: alpha, source: theirs, sourceNamespace: olm}}")
		}, v2beta2.ReasonForeignObject, "exists, for another package: delete or rename it"},
		"a Subscription to another channel": {func(t *testing.T, s *ci) {
			s.create(t, &operatorsv1alpha1.Subscription{}, s.home, "theirs", "{spec: {name: jenkins-operator, channel: old, source: theirs, sourceNamespace: olm}}")
		}, v1alpha1.ReasonInvalidOperand, `follows channel "old"`},
		"no catalog": {func(t *testing.T, s *ci) {
			s.delete(t, instance("packages.operators.coreos.com/v1", "PackageManifest", s.home, "jenkins-operator"))
			s.offer(t, "other-operator", "community-operators", "olm")
		}, v1alpha1.ReasonInvalidOperand, "no catalog has package"},
		"two OperatorGroups": {func(t *testing.T, s *ci) {
			group(s.home)(t, s)
			s.create(t, &operatorsv1.OperatorGroup{}, s.home, "more", "{}")
		}, v2beta2.ReasonOperatorGroupConflict, "has 2 OperatorGroups"},
		"an OperatorGroup of other namespaces": {group("elsewhere"), v2beta2.ReasonOperatorGroupConflict, "does not have namespace"},
		"no consent": {func(t *testing.T, s *ci) {
			s.patch(t, s.registry, "{spec: {operators: [{name: jenkins, packageName: jenkins-operator, channel: alpha, targetNamespaces: ["+s.server.Namespace(t)+"]}]}}")
		}, v2beta2.ReasonMappingNotAllowed, "does not allow it"},
		"no channel": {func(t *testing.T, s *ci) {
			s.patch(t, s.registry, "{spec: {operators: [{name: jenkins, packageName: jenkins-operator}]}}")
		}, v1alpha1.ReasonInvalidOperand, "packageName needs channel"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCI(t)
			test.change(t, s)
			request := s.request(t, s.home, "request", jenkins)
			s.fails(t, request, test.reason, test.text)
			expectPhase(t, request, v1alpha1.RequestFailed)
			if writes := ofObjects(s.writes.Take(), "/operators.coreos.com/"); len(writes) > 0 || len(request.Status.Inventory) > 0 {
				t.Errorf("it writes %q, the inventory is %q", writes, inventoryOf(request))
			}
		})
	}
}

// A catalog in the namespace of the operator comes first.
func TestCatalogOfAPackage(t *testing.T) {
	for name, test := range map[string]struct{ namespace, want, message string }{
		"two elsewhere":                     {namespace: "olm", message: "several catalogs have (olm/community-operators, olm/other)"},
		"one of them in the same namespace": {want: "other"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCI(t)
			in := test.namespace
			if in == "" {
				in = s.home
			}
			s.alsoOffered(t, "other", in)
			request := s.request(t, s.home, "request", jenkins)
			if test.message != "" {
				s.fails(t, request, v1alpha1.ReasonInvalidOperand, test.message)
				s.patch(t, s.registry, "{spec: {operators: [{name: jenkins, packageName: jenkins-operator, channel: alpha, sourceName: chosen, sourceNamespace: olm}]}}")
				test.want = "chosen"
			}
			s.fails(t, request, v1alpha1.ReasonOperatorNotReady, "OLM installs")
			if s.exists(t, s.subscription); s.subscription.Spec.CatalogSource != test.want {
				t.Errorf("the catalog is %s", s.subscription.Spec.CatalogSource)
			}
		})
	}
}

// alsoOffered lets another catalog have the package. The package server serves several objects with one name, which an API server does not.
func (s *ci) alsoOffered(t *testing.T, catalog, in string) {
	t.Helper()
	s.listed = func(list client.ObjectList) {
		if of, ok := list.(*metav1.PartialObjectMetadataList); ok && len(of.Items) == 1 && of.Items[0].Labels["catalog"] != "" {
			other := of.Items[0].DeepCopy()
			other.Labels = map[string]string{"catalog": catalog, "catalog-namespace": in}
			of.Items = append(of.Items, *other)
		}
	}
}

// A Subscription and an OperatorGroup of somebody else are used as they are, and remain.
func TestSubscriptionOfSomebodyElse(t *testing.T) {
	s := newCI(t)
	s.group.Name, s.subscription.Name = "theirs", "theirs"
	s.create(t, s.group, s.home, "theirs", "{spec: {targetNamespaces: ["+s.home+"]}}")
	s.create(t, s.subscription, s.home, "theirs", "{spec: {name: jenkins-operator, channel: alpha, source: theirs, sourceNamespace: olm}}")
	request := s.running(t, s.home, "request", jenkins)
	if got := inventoryOf(request); !slices.Equal(got, []string{"Config Jenkins " + s.home + "/example"}) {
		t.Errorf("the inventory is %q", got)
	}
	s.delete(t, request)
	s.ends(t, request)
	s.expectOperator(t, true)
	if writes := ofObjects(s.writes.Take(), "/operators.coreos.com/"); len(writes) > 0 {
		t.Errorf("it writes %q", writes)
	}
}

// An operator for all namespaces needs no OperatorGroup.
func TestOperatorForAllNamespaces(t *testing.T) {
	s := newCI(t)
	s.GlobalNamespace = s.server.Namespace(t)
	s.patch(t, s.registry, "{spec: {operators: [{name: jenkins, packageName: jenkins-operator, channel: alpha, installMode: cluster, sourceName: a, sourceNamespace: b}]}}")
	request := s.request(t, s.home, "request", jenkins)
	s.fails(t, request, v2beta2.ReasonMappingNotAllowed, "does not allow it")
	s.annotate(t, s.GlobalNamespace, consents, s.home)
	s.fails(t, request, v1alpha1.ReasonOperatorNotReady, "OLM installs")
	want := []string{fmt.Sprintf("Operator Subscription %s/jenkins-operator", s.GlobalNamespace)}
	if got := inventoryOf(request); !slices.Equal(got, want) {
		t.Errorf("the inventory is %q", got)
	}
}

func TestErrorsOfPackages(t *testing.T) {
	for what, text := range map[string]string{
		"list Subscription": "reading kind Subscription", "list OperatorGroup": "reading kind OperatorGroup", "list PackageManifest": "reading kind PackageManifest",
		"get Subscription": "reading Subscription", "create OperatorGroup": "OperatorGroup", "create Subscription": "Subscription",
	} {
		t.Run(what, func(t *testing.T) {
			s := newCI(t)
			request := s.request(t, s.home, "request", jenkins)
			s.faults.Set(what, errAway)
			if _, err := s.reconcile(t, request); !errors.Is(err, errAway) || !strings.Contains(err.Error(), text) {
				t.Errorf("got %v", err)
			}
			if what == "get Subscription" { // Who may list them may read one.
				return
			}
			s.faults.Set(what, apierrors.NewForbidden(schema.GroupResource{}, "a", fmt.Errorf("User %q cannot do it", "system:serviceaccount:"+account.Namespace+":"+account.Name)))
			s.fails(t, request, v1alpha1.ReasonNotGranted, "--clusterrole=collection-operator-operands-olm --serviceaccount="+account.Namespace+":"+account.Name)
			if s.exists(t, s.subscription) {
				t.Error("the Subscription exists")
			}
			s.faults.Set(what, nil)
			s.fails(t, request, v1alpha1.ReasonOperatorNotReady, "OLM installs")
		})
	}
	s := newCI(t)
	request := s.running(t, s.home, "request", jenkins)
	s.faults.Set("get ClusterServiceVersion", errAway)
	if _, err := s.reconcile(t, request); !errors.Is(err, errAway) || !s.exists(t, s.example()) {
		t.Errorf("got %v", err)
	}
}
