package controller_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/controller/subscription"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// subscriptions is a reconciler of Subscriptions. The namespace home has an OperatorCollection with the collection tests/NAME.
type subscriptions struct {
	*subscription.Reconciler
	server     *apiserver.Server
	client     client.WithWatch
	home, name string
	writes     apiserver.Writes
	faults     *apiserver.Faults
	events     chan string
}

func newSubscriptions(t *testing.T) *subscriptions {
	t.Helper()
	shared := apiserver.Shared(t)
	scheme, home, recorder := withOLM(t, shared), shared.Namespace(t), events.NewFakeRecorder(1000)
	s := &subscriptions{
		server: shared, client: newOLMClient(t, scheme, shared.Config), home: home, name: "subscribed-" + home, faults: &apiserver.Faults{}, events: recorder.Events,
	}
	s.Reconciler = &subscription.Reconciler{
		Client: s.faults.Around(newOLMClient(t, scheme, s.writes.Of(shared.Config)), ""), Reader: s.faults.Around(s.client, "live "),
		Recorder: recorder, OLM: newCluster(t, s.client, shared.Config, home),
	}
	s.add(t, "oc", "1.0.0")
	return s
}

// add makes an OperatorCollection that has imported a version of the collection.
func (s *subscriptions) add(t *testing.T, name, version string) {
	t.Helper()
	oc := &v2beta2.OperatorCollection{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.home, Name: name}, Spec: v2beta2.OperatorCollectionSpec{CollectionURL: "https://example.com/a"},
	}
	apiserver.Must(t, s.client.Create(t.Context(), oc))
	oc.Status.Artifact = &v2beta2.Artifact{Digest: digest.FromString(version).String(), Size: 1, Verification: "Skipped", SourceHash: "hash"}
	oc.Status.Collection = &v2beta2.ImportedCollection{Domain: "tests", Name: s.name, Version: version, APIVersion: model.Group + "/v1", Kinds: []string{"A"}}
	status.SetCondition(&oc.Status.Conditions, v2beta2.ConditionImported, 1, nil, "imported")
	apiserver.Must(t, s.client.Status().Update(t.Context(), oc))
}

// subscribe makes a Subscription as the console does.
func (s *subscriptions) subscribe(t *testing.T, namespace, pkg, csv string) *operatorsv1alpha1.Subscription {
	t.Helper()
	subscription := &operatorsv1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "subscription"},
		Spec: &operatorsv1alpha1.SubscriptionSpec{
			CatalogSource: olm.CatalogSourceName, CatalogSourceNamespace: s.home, Package: pkg, Channel: "stable", StartingCSV: csv,
		},
	}
	apiserver.Must(t, s.client.Create(t.Context(), subscription))
	return subscription
}

func (s *subscriptions) pkg() string { return "tests-" + s.name + "-operator" }

func (s *subscriptions) reconcile(t *testing.T, subscription client.Object) error {
	t.Helper()
	_, err := s.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(subscription)})
	return err
}

func (s *subscriptions) made(t *testing.T) []v2beta2.SubOperatorConfig {
	t.Helper()
	socs := &v2beta2.SubOperatorConfigList{}
	apiserver.Must(t, s.client.List(t.Context(), socs, client.InNamespace(s.home)))
	return socs.Items
}

// expectEvent expects one event since the last call, with a text, or none if the text is empty.
func (s *subscriptions) expectEvent(t *testing.T, text string) {
	t.Helper()
	var all []string
	for len(s.events) > 0 {
		all = append(all, <-s.events)
	}
	if text == "" && len(all) > 0 || text != "" && (len(all) != 1 || !strings.Contains(all[0], text)) {
		t.Errorf("the events are %q, want %q", all, text)
	}
}

func TestSubscriptionGetsASubOperatorConfig(t *testing.T) {
	s := newSubscriptions(t)
	subscription := s.subscribe(t, s.home, s.pkg(), "")
	apiserver.Must(t, s.reconcile(t, subscription))
	made := s.made(t)
	if len(made) != 1 || made[0].Name != "oc-"+s.home || made[0].Spec.OperatorCollection != "oc" || made[0].Spec.Install != v2beta2.InstallOLM ||
		len(made[0].Spec.Mapping) != 1 || made[0].Spec.Mapping[0].Namespace != s.home || made[0].Spec.Mapping[0].ZosEndpoints != nil {
		t.Fatalf("got %+v", made)
	}
	if of := made[0].Annotations[olm.AnnotationMadeFor]; of != fmt.Sprintf("%s/subscription/%s", s.home, subscription.UID) {
		t.Errorf("it is made for %s", of)
	}
	s.expectEvent(t, fmt.Sprintf("created SubOperatorConfig %q", made[0].Name))
	s.writes.Take()
	apiserver.Must(t, s.reconcile(t, subscription))
	if s.expectEvent(t, ""); len(s.writes.Take()) > 0 {
		t.Error("nothing has changed, and something was written")
	}

	// It goes with the Subscription. What a cache lacks is not gone.
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "subscriptions"}, "subscription")
	s.faults.Set("get Subscription", notFound)
	apiserver.Must(t, s.reconcile(t, subscription))
	if len(s.made(t)) != 1 {
		t.Error("it is deleted by what a cache lacks")
	}
	s.faults.Clear()
	apiserver.Must(t, s.client.Delete(t.Context(), subscription))
	s.faults.Set("live get Subscription", errAway)
	if err := s.reconcile(t, subscription); !errors.Is(err, errAway) || len(s.made(t)) != 1 {
		t.Errorf("got %v", err)
	}
	s.faults.Clear()
	apiserver.Must(t, s.reconcile(t, subscription))
	if len(s.made(t)) > 0 {
		t.Error("it stays")
	}
	s.expectEvent(t, "for which this SubOperatorConfig was created, is deleted")
}

// What a user has given a purpose of its own stays.
func TestSubOperatorConfigThatIsNotOnlyForASubscription(t *testing.T) {
	s := newSubscriptions(t)
	subscription := s.subscribe(t, s.home, s.pkg(), "")
	apiserver.Must(t, s.reconcile(t, subscription))
	soc := s.made(t)[0]
	soc.Spec.Install = v2beta2.InstallDirect
	apiserver.Must(t, s.client.Update(t.Context(), &soc))
	apiserver.Must(t, s.client.Delete(t.Context(), subscription))
	apiserver.Must(t, s.reconcile(t, subscription))
	if len(s.made(t)) != 1 {
		t.Error("it is deleted")
	}
}

func TestSubscriptionInAnotherNamespace(t *testing.T) {
	s := newSubscriptions(t)
	other := s.server.Namespace(t)
	subscription := s.subscribe(t, other, s.pkg(), "")
	for _, text := range []string{fmt.Sprintf("annotate namespace %q with %s: %s", other, mapping.AnnotationAllow, s.home), ""} { // It is told once.
		apiserver.Must(t, s.reconcile(t, subscription))
		s.expectEvent(t, text)
	}
	if len(s.made(t)) > 0 {
		t.Error("it is made without consent")
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, mapping.AnnotationAllow, s.home)
	apiserver.Must(t, s.client.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}}, client.RawPatch("application/merge-patch+json", patch)))
	oc := &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: s.home, Name: "oc"}}
	apiserver.Must(t, s.client.Patch(t.Context(), oc, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"dependencies":{"credentialsSecret":"galaxy"}}}`))))
	apiserver.Must(t, s.reconcile(t, subscription))
	if s.expectEvent(t, "which only a user of namespace"); len(s.made(t)) > 0 {
		t.Error("a Secret would be copied")
	}
	apiserver.Must(t, s.client.Patch(t.Context(), oc, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"dependencies":null}}`))))
	apiserver.Must(t, s.reconcile(t, subscription))
	made := s.made(t)
	if len(made) != 1 || made[0].Spec.Mapping[0].Namespace != other || made[0].Spec.Mapping[0].ZosEndpoints == nil || len(*made[0].Spec.Mapping[0].ZosEndpoints) > 0 {
		t.Errorf("it gets the endpoints of others: %+v", made)
	}
}

func TestSubscriptionThatGetsNothing(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(t *testing.T, s *subscriptions) *operatorsv1alpha1.Subscription
		event   string
	}{
		"unknown package": {func(t *testing.T, s *subscriptions) *operatorsv1alpha1.Subscription {
			return s.subscribe(t, s.home, "tests-none-operator", "")
		}, `no imported OperatorCollection provides package "tests-none-operator"`},
		"another catalog": {func(t *testing.T, s *subscriptions) *operatorsv1alpha1.Subscription {
			subscription := s.subscribe(t, s.home, s.pkg(), "")
			subscription.Spec.CatalogSource = "community"
			apiserver.Must(t, s.client.Update(t.Context(), subscription))
			return subscription
		}, ""},
		"without OLM beside it": {func(t *testing.T, s *subscriptions) *operatorsv1alpha1.Subscription {
			s.mapHome(t, "direct", v2beta2.InstallDirect)
			return s.subscribe(t, s.home, s.pkg(), "")
		}, `SubOperatorConfig "direct" in namespace`},
		"one is there": {func(t *testing.T, s *subscriptions) *operatorsv1alpha1.Subscription {
			s.mapHome(t, "mine", v2beta2.InstallOLM)
			return s.subscribe(t, s.home, s.pkg(), "")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubscriptions(t)
			subscription := test.prepare(t, s)
			before := len(s.made(t))
			apiserver.Must(t, s.reconcile(t, subscription))
			if s.expectEvent(t, test.event); len(s.made(t)) != before || len(s.writes.Take()) > 0 {
				t.Errorf("got %+v", s.made(t))
			}
		})
	}
}

// mapHome makes a SubOperatorConfig that maps the namespace home.
func (s *subscriptions) mapHome(t *testing.T, name string, method v2beta2.InstallMethod) {
	t.Helper()
	apiserver.Must(t, s.client.Create(t.Context(), &v2beta2.SubOperatorConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.home, Name: name},
		Spec: v2beta2.SubOperatorConfigSpec{
			OperatorCollection: "oc", Install: method, Mapping: []v2beta2.NamespaceMapping{{Namespace: s.home}},
		},
	}))
}

func TestSubscriptionGetsTheVersionThatItStartsWith(t *testing.T) {
	for csv, want := range map[string]string{"v1.0.0": "oc", "": "newer", "v7.0.0": "newer"} {
		s := newSubscriptions(t)
		s.add(t, "newer", "1.1.0")
		// Its name is in use.
		apiserver.Must(t, s.client.Create(t.Context(), &v2beta2.SubOperatorConfig{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.home, Name: want + "-" + s.home}, Spec: v2beta2.SubOperatorConfigSpec{OperatorCollection: "none"},
		}))
		if csv != "" {
			csv = s.pkg() + "." + csv
		}
		apiserver.Must(t, s.reconcile(t, s.subscribe(t, s.home, s.pkg(), csv)))
		made := s.made(t)
		for i := range made {
			if made[i].Spec.OperatorCollection != "none" && made[i].Spec.OperatorCollection != want {
				t.Errorf("%q: got %+v", csv, made[i])
			}
		}
		if len(made) != 2 {
			t.Errorf("%q: got %+v", csv, made)
		}
	}
}

func TestSubscriptionAfterAFailure(t *testing.T) {
	s := newSubscriptions(t)
	subscription := s.subscribe(t, s.home, s.pkg(), "")
	for _, what := range []string{
		"get Subscription", "list SubOperatorConfig", "list OperatorCollection", "live list SubOperatorConfig", "create SubOperatorConfig",
	} {
		s.faults.Set(what, errAway)
		if err := s.reconcile(t, subscription); !errors.Is(err, errAway) || len(s.made(t)) > 0 {
			t.Errorf("%s: %v", what, err)
		}
		s.faults.Clear()
	}
	if apiserver.Must(t, s.reconcile(t, subscription)); len(s.made(t)) != 1 {
		t.Error("it is not tried again")
	}
}
