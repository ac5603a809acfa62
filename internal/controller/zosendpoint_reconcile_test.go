package controller_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/budget"
	"github.com/collection-operator/collection-operator/internal/platform/dialguard"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

const annotationPinned = "zoscb.ibm.com/pinned-host-keys"

func TestZosEndpointIsProbed(t *testing.T) {
	r, server := newEndpoints(t), startSSHServer(t)
	r.add(t, "lpar1", server.spec(t))
	e, result, err := r.reconcile(t, "lpar1")
	apiserver.Must(t, err)
	expectCondition(t, e.Status.Conditions, v2beta2.ConditionReady, v2beta2.ReasonSucceeded, "the endpoint is accepted")
	expectCondition(t, e.Status.Conditions, v2beta2.ConditionReachable, v2beta2.ReasonSucceeded, server.address()+" answers with host key SHA256:")
	if !slices.Equal(e.Status.HostKeys, []string{server.hostKey()}) || e.Status.PinnedFor != server.address() || e.Status.Phase != v2beta2.PhaseSuccessful {
		t.Errorf("got %+v", e.Status)
	}
	if e.Annotations[annotationPinned] != server.address()+" "+server.hostKey() || e.Status.ObservedGeneration != e.Generation {
		t.Errorf("annotations %v", e.Annotations)
	}
	if result.RequeueAfter < 50*time.Minute || result.RequeueAfter > 67*time.Minute {
		t.Errorf("it is probed again after %s", result.RequeueAfter)
	}
	secret, _ := r.state(t, e)
	role, binding := r.access(t, "lpar1")
	if secret == nil || secret.Labels[endpoint.LabelState] != "true" || secret.OwnerReferences[0].UID != e.UID || role == nil || binding != nil {
		t.Errorf("state %v, role %v, binding %v", secret, role, binding)
	}
	r.writes.Take()
	if _, _, err := r.reconcile(t, "lpar1"); err != nil || len(r.writes.Take()) > 0 || server.connections.Load() != 1 {
		t.Errorf("nothing has changed: %v, %d probes", err, server.connections.Load())
	}
}

// A key that was pinned stays, whatever the server shows, until the user says which it is or the endpoint moves.
func TestPinnedHostKey(t *testing.T) {
	r, server, other := newEndpoints(t), startSSHServer(t), startSSHServer(t)
	r.ProbeInterval = time.Nanosecond
	r.add(t, "lpar1", server.spec(t))
	r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
	first := server.hostKey()
	server.replaceKey(t)
	e := r.becomes(t, "lpar1", v2beta2.ReasonHostKeyMismatch, "put the new one into spec.hostKeys")
	if !slices.Equal(e.Status.HostKeys, []string{first}) || e.Status.Latency != "" {
		t.Errorf("got %+v", e.Status)
	}
	expectCondition(t, e.Status.Conditions, v2beta2.ConditionReady, v2beta2.ReasonSucceeded, "")

	r.patch(t, "lpar1", fmt.Sprintf(`{"spec":{"port":%d}}`, other.spec(t).Port))
	e = r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, other.address())
	if !slices.Equal(e.Status.HostKeys, []string{other.hostKey()}) || e.Status.PinnedFor != other.address() || !strings.HasPrefix(e.Annotations[annotationPinned], other.address()) {
		t.Errorf("it has moved: %+v", e.Status)
	}

	r.patch(t, "lpar1", fmt.Sprintf(`{"spec":{"hostKeys":[%q]}}`, first))
	r.becomes(t, "lpar1", v2beta2.ReasonHostKeyMismatch, "")
	r.patch(t, "lpar1", fmt.Sprintf(`{"spec":{"hostKeys":[%q]}}`, other.hostKey()+" a comment"))
	e = r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
	if len(e.Status.HostKeys) > 0 || e.Status.PinnedFor != "" || e.Annotations[annotationPinned] != "" {
		t.Errorf("the spec names a key, and one is pinned: %+v, %v", e.Status, e.Annotations)
	}
}

// A backup may have no status. What was pinned must count before anything connects.
func TestPinnedHostKeyIsRestored(t *testing.T) {
	r, server, before := newEndpoints(t), startSSHServer(t), startSSHServer(t)
	e := &v2beta2.ZosEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: "lpar1"}, Spec: server.spec(t)}
	e.Annotations = map[string]string{annotationPinned: fmt.Sprintf("other:22 %s\nnonsense\n%s %s", server.hostKey(), server.address(), before.hostKey())}
	apiserver.Must(t, r.server.Client.Create(t.Context(), e))
	r.faults.Set("status ZosEndpoint", errAway)
	if _, _, err := r.reconcile(t, "lpar1"); !errors.Is(err, errAway) || server.connections.Load() > 0 {
		t.Errorf("it was probed before the key was restored: %v", err)
	}
	r.faults.Clear()
	e = r.becomes(t, "lpar1", v2beta2.ReasonHostKeyMismatch, "")
	if !slices.Equal(e.Status.HostKeys, []string{before.hostKey()}) || e.Status.PinnedFor != server.address() {
		t.Errorf("got %+v", e.Status)
	}
	// A user who removes it from status accepts the next one.
	e.Status.HostKeys, e.Status.PinnedFor = nil, ""
	apiserver.Must(t, r.server.Client.Status().Update(t.Context(), e))
	r.patch(t, "lpar1", fmt.Sprintf(`{"metadata":{"annotations":{%q:"again"}}}`, endpoint.AnnotationRetry))
	if e := r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, ""); !slices.Equal(e.Status.HostKeys, []string{server.hostKey()}) {
		t.Errorf("got %+v", e.Status)
	}
}

func TestZosEndpointThatCannotBeReached(t *testing.T) {
	r, server := newEndpoints(t), startSSHServer(t)
	r.ProbeInterval = time.Nanosecond
	r.add(t, "lpar1", server.spec(t))
	if e := r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, ""); e.Status.Latency == "" {
		t.Error("there is no latency")
	}
	server.stop()
	if e := r.becomes(t, "lpar1", v2beta2.ReasonHostUnreachable, "no SSH server answers at "+server.address()); e.Status.Latency != "" || len(e.Status.HostKeys) != 1 {
		t.Errorf("got %+v", e.Status)
	}
	server.start(t)
	r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")

	guard := &dialguard.Guard{}
	r.Prober.Control = guard.Control
	r.patch(t, "lpar1", `{"spec":{"host":"localhost"}}`)
	r.becomes(t, "lpar1", v2beta2.ReasonHostForbidden, "")
}

func TestZosEndpointThatIsNotValid(t *testing.T) {
	text := func(content string) []apiextensionsv1.JSON { return []apiextensionsv1.JSON{{Raw: []byte(content)}} }
	window := v2beta2.RunWindow{Schedule: "at midnight", Duration: metav1.Duration{Duration: time.Hour}}
	for name, test := range map[string]struct {
		change       func(*v2beta2.ZosEndpointSpec)
		reason, text string
	}{
		"variable":                 {func(s *v2beta2.ZosEndpointSpec) { s.Variables = text(`17`) }, v2beta2.ReasonInvalidVariables, "variables[0]"},
		"variable without a value": {func(s *v2beta2.ZosEndpointSpec) { s.Variables = text(`"just text"`) }, v2beta2.ReasonInvalidVariables, "variables[0]"},
		"host key with the host":   {func(s *v2beta2.ZosEndpointSpec) { s.HostKeys = []string{"lpar1.example ssh-ed25519 AAAA"} }, v2beta2.ReasonInvalidHostKeys, "spec.hostKeys[0]"},
		"host key":                 {func(s *v2beta2.ZosEndpointSpec) { s.HostKeys = []string{"ssh-rsa nonsense"} }, v2beta2.ReasonInvalidHostKeys, "spec.hostKeys[0]"},
		"run window":               {func(s *v2beta2.ZosEndpointSpec) { s.RunWindows = []v2beta2.RunWindow{window} }, v2beta2.ReasonInvalidRunWindows, "spec.runWindows[0]"},
		"two of them": {func(s *v2beta2.ZosEndpointSpec) {
			s.HostKeys, s.RunWindows = []string{"ssh-rsa nonsense"}, []v2beta2.RunWindow{window}
		}, v2beta2.ReasonInvalidHostKeys, "spec.runWindows[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			r, server := newEndpoints(t), startSSHServer(t)
			spec := server.spec(t)
			r.add(t, "lpar1", spec)
			r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
			test.change(&spec)
			e, _, _ := r.reconcile(t, "lpar1")
			e.Spec = spec
			apiserver.Must(t, r.server.Client.Update(t.Context(), e))
			r.writes.Take()
			e, _, err := r.reconcile(t, "lpar1")
			expectCondition(t, e.Status.Conditions, v2beta2.ConditionReady, test.reason, test.text)
			if writes := r.writes.Take(); err == nil || !meta.IsStatusConditionTrue(e.Status.Conditions, v2beta2.ConditionStalled) || len(writes) > 2 || server.connections.Load() != 1 || e.Status.Phase != v2beta2.PhaseFailed {
				t.Errorf("%v, writes %v", err, writes)
			}
			for _, condition := range e.Status.Conditions {
				if condition.Type == v2beta2.ConditionReachable {
					t.Errorf("it is not known: %+v", condition)
				}
			}
			r.patch(t, "lpar1", `{"spec":{"variables":null,"hostKeys":null,"runWindows":null}}`)
			r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
		})
	}
}

func TestLocalZosEndpoint(t *testing.T) {
	r := newEndpoints(t)
	r.add(t, "pod", v2beta2.ZosEndpointSpec{EndpointType: v2beta2.EndpointLocal})
	r.becomes(t, "pod", v2beta2.ReasonSucceeded, "playbooks run in the operator's own pod")
	if _, result, err := r.reconcile(t, "pod"); err != nil || result.RequeueAfter > 0 {
		t.Errorf("it is looked at again after %s, %v", result.RequeueAfter, err)
	}
}

func TestZosEndpointInAnotherNamespace(t *testing.T) {
	r, server := newEndpoints(t), startSSHServer(t)
	r.Namespaces = mapping.Selection{"elsewhere"}
	r.add(t, "lpar1", server.spec(t))
	e, _, _ := r.reconcile(t, "lpar1")
	expectCondition(t, e.Status.Conditions, v2beta2.ConditionReady, v2beta2.ReasonNamespaceNotSelected, "")
	if secret, _ := r.state(t, e); secret != nil || server.connections.Load() > 0 {
		t.Error("a namespace is used that is not selected")
	}
}

func TestZosEndpointThatIsGone(t *testing.T) {
	r, server := newEndpoints(t), startSSHServer(t)
	e := &v2beta2.ZosEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: "lpar1", Finalizers: []string{"example.com/test"}}, Spec: server.spec(t)}
	apiserver.Must(t, r.server.Client.Create(t.Context(), e))
	apiserver.Must(t, r.server.Client.Delete(t.Context(), e))
	for _, name := range []string{"lpar1", "none"} {
		if _, result, err := r.reconcile(t, name); err != nil || result != (ctrl.Result{}) || len(r.writes.Take()) > 0 || server.connections.Load() > 0 {
			t.Errorf("%s: %v, %v", name, result, err)
		}
	}
}

// A read without an answer does not say that a ZosEndpoint is gone: what is known of it stays known.
func TestZosEndpointThatCannotBeRead(t *testing.T) {
	r, server := newEndpoints(t), startSSHServer(t)
	r.add(t, "lpar1", server.spec(t))
	r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
	r.faults.Set("live get ZosEndpoint", errAway)
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: r.home, Name: "lpar1"}}); !errors.Is(err, errAway) {
		t.Errorf("got %v", err)
	}
	r.faults.Clear()
	if _, _, err := r.reconcile(t, "lpar1"); err != nil || server.connections.Load() != 1 {
		t.Errorf("%v, %d probes", err, server.connections.Load())
	}
}

// One that was probed before is probed again, whatever the limit is.
func TestNumberOfProbedZosEndpoints(t *testing.T) {
	r, server := newEndpoints(t), startSSHServer(t)
	r.ProbeInterval = time.Nanosecond
	r.Probed = budget.Limits{PerNamespace: 1, Total: 1000}
	r.add(t, "pod", v2beta2.ZosEndpointSpec{EndpointType: v2beta2.EndpointLocal})
	r.becomes(t, "pod", v2beta2.ReasonSucceeded, "")
	r.add(t, "lpar1", server.spec(t))
	r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
	r.add(t, "lpar2", server.spec(t))
	before := server.connections.Load()
	e := r.becomes(t, "lpar2", v2beta2.ReasonBudgetExceeded, "--max-probed-endpoints")
	expectCondition(t, e.Status.Conditions, v2beta2.ConditionReady, v2beta2.ReasonSucceeded, "")
	if _, result, err := r.reconcile(t, "lpar2"); err != nil || result.RequeueAfter > 67*time.Second || server.connections.Load() != before {
		t.Errorf("again after %s, %v", result.RequeueAfter, err)
	}
	r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
	apiserver.Must(t, r.server.Client.Delete(t.Context(), &v2beta2.ZosEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: "lpar1"}}))
	r.patch(t, "lpar2", fmt.Sprintf(`{"metadata":{"annotations":{%q:"again"}}}`, endpoint.AnnotationRetry)) // Else it is probed after a minute.
	r.becomes(t, "lpar2", v2beta2.ReasonSucceeded, "")
}

// A result that is not written must not be forgotten until the next probe is due.
func TestProbeIsRepeatedIfItsResultIsNotWritten(t *testing.T) {
	r, server := newEndpoints(t), startSSHServer(t)
	r.add(t, "lpar1", server.spec(t))
	r.faults.Set("status ZosEndpoint", errAway)
	if e, _, err := r.reconcile(t, "lpar1"); !errors.Is(err, errAway) || len(e.Status.HostKeys) > 0 || e.Annotations[annotationPinned] != "" {
		t.Errorf("got %+v, %v", e.Status, err)
	}
	r.faults.Clear()
	r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
	if server.connections.Load() != 2 {
		t.Errorf("it was probed %d times", server.connections.Load())
	}
}

// What cannot be read or written is told, tried again, and does not affect the rest.
func TestZosEndpointAfterAFailure(t *testing.T) {
	for what, probed := range map[string]bool{
		"list SubOperatorConfig": false, "live get Secret": true, "live get Role": true, "create Secret": true, "status ZosEndpoint": true,
		"patch ZosEndpoint": true,
	} {
		t.Run(what, func(t *testing.T) {
			r, server := newEndpoints(t), startSSHServer(t)
			r.add(t, "lpar1", server.spec(t))
			r.use(t, "soc")
			r.faults.Set(what, errAway)
			e, _, err := r.reconcile(t, "lpar1")
			if !errors.Is(err, errAway) || (server.connections.Load() > 0) != probed {
				t.Errorf("got %v, %d probes", err, server.connections.Load())
			}
			if !strings.HasSuffix(what, " ZosEndpoint") {
				expectCondition(t, e.Status.Conditions, v2beta2.ConditionReady, v2beta2.ReasonUnexpectedError, errAway.Error())
			}
			r.faults.Clear()
			e = r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
			expectCondition(t, e.Status.Conditions, v2beta2.ConditionReady, v2beta2.ReasonSucceeded, "")
			secret, _ := r.state(t, e)
			if role, binding := r.access(t, "lpar1"); secret == nil || role == nil || binding == nil || e.Annotations[annotationPinned] == "" {
				t.Errorf("it is not done: %v, %v, %v", secret, role, binding)
			}
		})
	}
}

func TestMeasureZosEndpoints(t *testing.T) {
	r, server := newEndpoints(t), startSSHServer(t)
	r.add(t, "pod", v2beta2.ZosEndpointSpec{EndpointType: v2beta2.EndpointLocal})
	spec := server.spec(t)
	limit := int32(3)
	spec.MaxConcurrentRuns, spec.Hold = &limit, "maintenance"
	e := r.add(t, "lpar1", spec)
	r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
	r.edit(t, e, func(state *endpoint.State) {
		system := state.Systems[server.address()]
		system.Queue = []endpoint.Waiter{{Operator: "a/b", Since: time.Now()}}
	})
	apiserver.Await(t, "the cache of states has it", func() bool {
		measured, err := r.Measure(t.Context())
		apiserver.Must(t, err)
		for _, one := range measured {
			if one.Namespace == r.home && (one.Name != "lpar1" || !one.Held || !one.Reachable || one.Refused || one.Answered.IsZero()) {
				t.Fatalf("got %+v", one)
			}
			if one.Namespace == r.home && one.Limit == 3 && one.Waiting == 1 {
				return true
			}
		}
		return false
	})
}

func TestMeasureAfterAFailure(t *testing.T) {
	r := newEndpoints(t)
	r.faults.Set("list ZosEndpoint", errAway)
	if _, err := r.Measure(t.Context()); !errors.Is(err, errAway) {
		t.Errorf("got %v", err)
	}
}
