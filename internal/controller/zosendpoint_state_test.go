package controller_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestAccessToZosEndpoint(t *testing.T) {
	r, server := newEndpoints(t), startSSHServer(t)
	r.add(t, "lpar1", server.spec(t))
	soc := r.use(t, "soc")
	e := r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
	if !slices.Equal(e.Status.SubOperatorConfigs, []v2beta2.SubOperatorConfigReference{{Name: "soc"}}) {
		t.Errorf("its users are %v", e.Status.SubOperatorConfigs)
	}
	role, binding := r.access(t, "lpar1")
	if len(role.Rules) != 2 || !slices.Equal(role.Rules[0].Verbs, []string{"get"}) || !slices.Equal(role.Rules[1].Verbs, []string{"get", "update"}) ||
		!slices.Equal(role.Rules[1].ResourceNames, []string{endpoint.StateName(e)}) || !slices.Equal(role.Rules[0].ResourceNames, []string{"lpar1"}) {
		t.Errorf("got %+v", role.Rules)
	}
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: r.home, Name: operator}
	if !slices.Equal(binding.Subjects, []rbacv1.Subject{subject}) || binding.RoleRef.Name != role.Name || binding.OwnerReferences[0].UID != e.UID {
		t.Errorf("got %+v", binding)
	}

	// Others' changes are put right, and nothing else is written.
	role.Rules[1].Verbs = []string{"get"}
	apiserver.Must(t, r.server.Client.Update(t.Context(), role))
	r.writes.Take()
	_, _, err := r.reconcile(t, "lpar1")
	apiserver.Must(t, err)
	if role, _ := r.access(t, "lpar1"); len(role.Rules[1].Verbs) != 2 || len(r.writes.Take()) != 1 {
		t.Errorf("got %+v", role.Rules)
	}
	binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: r.home, Name: "default"})
	apiserver.Must(t, r.server.Client.Update(t.Context(), binding))
	_, _, err = r.reconcile(t, "lpar1")
	apiserver.Must(t, err)
	if _, binding := r.access(t, "lpar1"); !slices.Equal(binding.Subjects, []rbacv1.Subject{subject}) || len(r.writes.Take()) != 1 {
		t.Errorf("got %+v", binding.Subjects)
	}

	// A mapping that does not name it takes the access away.
	soc.Spec.Mapping[0].ZosEndpoints = &[]v2beta2.EndpointMapping{{Name: "lpar2"}}
	apiserver.Must(t, r.server.Client.Update(t.Context(), soc))
	e, _, err = r.reconcile(t, "lpar1")
	apiserver.Must(t, err)
	if role, binding := r.access(t, "lpar1"); role == nil || binding != nil || len(e.Status.SubOperatorConfigs) > 0 {
		t.Errorf("role %v, binding %v, users %v", role, binding, e.Status.SubOperatorConfigs)
	}
}

func TestAccessThatIsThereAlready(t *testing.T) {
	for name, test := range map[string]struct {
		labels  map[string]string
		restore bool
		foreign bool
	}{
		"of somebody else":                    {nil, true, true},
		"restored":                            {managed, true, false},
		"restored, and allows something else": {managed, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, server := newEndpoints(t), startSSHServer(t)
			r.add(t, "lpar1", server.spec(t))
			r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
			role, _ := r.access(t, "lpar1")
			before := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: role.Name, Labels: test.labels}}
			if test.restore {
				before.Rules = role.Rules
			}
			apiserver.Must(t, errors.Join(r.server.Client.Delete(t.Context(), role), r.server.Client.Create(t.Context(), before)))
			e, _, err := r.reconcile(t, "lpar1")
			apiserver.Must(t, err)
			after, _ := r.access(t, "lpar1")
			if test.foreign {
				expectCondition(t, e.Status.Conditions, v2beta2.ConditionReady, v2beta2.ReasonForeignObject, fmt.Sprintf("Role %q", r.home+"/zosendpoint-lpar1"))
				if after.ResourceVersion != before.ResourceVersion {
					t.Errorf("it was changed: %+v", after)
				}
				return
			}
			expectCondition(t, e.Status.Conditions, v2beta2.ConditionReady, v2beta2.ReasonSucceeded, "")
			if after.UID != before.UID || len(after.OwnerReferences) != 1 || after.OwnerReferences[0].UID != e.UID {
				t.Errorf("got %+v", after)
			}
		})
	}
}

func TestStateOfZosEndpoint(t *testing.T) {
	t.Run("of somebody else", func(t *testing.T) {
		r, server := newEndpoints(t), startSSHServer(t)
		e := r.add(t, "lpar1", server.spec(t))
		foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: endpoint.StateName(e)}}
		apiserver.Must(t, r.server.Client.Create(t.Context(), foreign))
		e = r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
		expectCondition(t, e.Status.Conditions, v2beta2.ConditionReady, v2beta2.ReasonForeignObject, fmt.Sprintf("Secret %q", r.home+"/"+foreign.Name))
		after := &corev1.Secret{}
		apiserver.Must(t, r.server.Client.Get(t.Context(), client.ObjectKeyFromObject(foreign), after))
		if after.ResourceVersion != foreign.ResourceVersion {
			t.Errorf("it was changed: %+v", after)
		}
	})
	t.Run("not valid", func(t *testing.T) { // What it says about refused credentials and running playbooks must not be lost.
		r, server := newEndpoints(t), startSSHServer(t)
		e := r.add(t, "lpar1", server.spec(t))
		damaged := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: endpoint.StateName(e), Labels: map[string]string{endpoint.LabelState: "true"}},
			Data:       map[string][]byte{endpoint.StateFile: []byte("{")},
		}
		apiserver.Must(t, r.server.Client.Create(t.Context(), damaged))
		e = r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
		expectCondition(t, e.Status.Conditions, v2beta2.ConditionReady, v2beta2.ReasonInvalidState, "No run starts until you delete it")
		after := &corev1.Secret{}
		apiserver.Must(t, r.server.Client.Get(t.Context(), client.ObjectKeyFromObject(damaged), after))
		if string(after.Data[endpoint.StateFile]) != "{" {
			t.Errorf("it was replaced: %s", after.Data[endpoint.StateFile])
		}
		apiserver.Must(t, r.server.Client.Delete(t.Context(), after))
		e, _, err := r.reconcile(t, "lpar1")
		apiserver.Must(t, err)
		expectCondition(t, e.Status.Conditions, v2beta2.ConditionReady, v2beta2.ReasonSucceeded, "")
	})
}

// A write of an operator in between is not lost, and one that never ends is tried again a moment later.
func TestStateIsChangedByOthers(t *testing.T) {
	r, server := newEndpoints(t), startSSHServer(t)
	spec := server.spec(t)
	r.add(t, "lpar1", spec)
	e := r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
	outage := &endpoint.Outage{Since: time.Now().UTC().Truncate(time.Second), Message: "refused"}
	r.faults.Before("update Secret", func() {
		r.edit(t, e, func(state *endpoint.State) { state.Systems = endpoint.Systems{"other:22": {Outage: outage}} })
	})
	r.patch(t, "lpar1", `{"spec":{"maxConcurrentRuns":2}}`)
	_, _, err := r.reconcile(t, "lpar1")
	apiserver.Must(t, err)
	if _, state := r.state(t, e); state.Systems[server.address()].Limit != 2 || state.Systems["other:22"] == nil || state.Systems["other:22"].Outage.Message != "refused" {
		t.Errorf("got %+v", state.Systems)
	}
	r.faults.Set("update Secret", apierrors.NewConflict(corev1.Resource("secrets"), "state", errAway))
	r.patch(t, "lpar1", `{"spec":{"maxConcurrentRuns":3}}`)
	e, result, err := r.reconcile(t, "lpar1")
	if err != nil || result.RequeueAfter == 0 || result.RequeueAfter > time.Second {
		t.Errorf("it is tried again after %s, %v", result.RequeueAfter, err)
	}
	expectCondition(t, e.Status.Conditions, v2beta2.ConditionReady, v2beta2.ReasonSucceeded, "")
}

// Endpoints of a security domain share its state. The limit of a system is the lowest of theirs.
func TestStateIsShared(t *testing.T) {
	r, server := newEndpoints(t), startSSHServer(t)
	spec := server.spec(t)
	limit := func(runs int32) v2beta2.ZosEndpointSpec {
		spec := spec
		spec.MaxConcurrentRuns = &runs
		return spec
	}
	first, second := r.add(t, "lpar1", limit(5)), r.add(t, "lpar2", limit(2))
	r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
	r.becomes(t, "lpar2", v2beta2.ReasonSucceeded, "")
	if secret, state := r.state(t, first); len(secret.OwnerReferences) != 2 || state.Systems[server.address()].Limit != 2 {
		t.Errorf("owners %v, systems %v", secret.OwnerReferences, state.Systems)
	}

	r.patch(t, "lpar2", `{"spec":{"securityDomain":"another"}}`)
	apiserver.Await(t, "lpar2 has left the state", func() bool { // The cache of states follows.
		_, _, err := r.reconcile(t, "lpar2")
		apiserver.Must(t, err)
		secret, _ := r.state(t, first)
		return len(secret.OwnerReferences) == 1
	})
	second.Spec.SecurityDomain = "another"
	secret, state := r.state(t, first)
	if other, _ := r.state(t, second); state.Systems[server.address()].Limit != 5 || other == nil || secret.OwnerReferences[0].UID != first.UID {
		t.Errorf("lpar2 has left: %+v", state.Systems)
	}
	// The last one that leaves deletes it.
	r.patch(t, "lpar1", `{"spec":{"securityDomain":"another"}}`)
	apiserver.Await(t, "the state is gone", func() bool {
		_, _, err := r.reconcile(t, "lpar1")
		apiserver.Must(t, err)
		secret, _ := r.state(t, first)
		return secret == nil
	})
	if secret, _ := r.state(t, second); len(secret.OwnerReferences) != 2 {
		t.Errorf("owners %v", secret.OwnerReferences)
	}
}

// Places of pods that are gone are given to others. Those of pods that run stay, also if a pod cannot be read.
func TestPlacesOfPodsThatAreGone(t *testing.T) {
	r, server := newEndpoints(t), startSSHServer(t)
	r.use(t, "soc")
	spec := server.spec(t)
	limit := int32(9)
	spec.MaxConcurrentRuns = &limit
	e := r.add(t, "lpar1", spec)
	r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
	uids := map[string]types.UID{"gone": "1"}
	for name, phase := range map[string]corev1.PodPhase{"runs": corev1.PodRunning, "ended": corev1.PodSucceeded, "failed": corev1.PodFailed} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: name},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
		}
		apiserver.Must(t, r.server.Client.Create(t.Context(), pod))
		pod.Status.Phase = phase
		apiserver.Must(t, r.server.Client.Status().Update(t.Context(), pod))
		uids[name] = pod.UID
	}
	now, own := time.Now().UTC().Truncate(time.Second), r.home+"/"+operator
	holder := func(name string, pod types.UID) endpoint.Holder {
		return endpoint.Holder{Operator: own, PodName: name, Pod: pod, Resource: "Thing/a/" + name, Run: name, Since: now}
	}
	r.edit(t, e, func(state *endpoint.State) {
		system := state.Systems[server.address()]
		for name, uid := range uids {
			system.Running = append(system.Running, holder(name, uid))
		}
		system.Running = append(system.Running, holder("runs", "another"))
		system.Queue = []endpoint.Waiter{{Operator: own, Since: now}, {Operator: r.home + "/not-installed", Since: now.Add(-2 * time.Minute)}}
		trying := holder("gone", "1")
		state.Logons = endpoint.Logons{"u": {Trying: &trying}}
	})
	r.faults.Set("live get Pod", errAway)
	r.writes.Take()
	if e, _, err := r.reconcile(t, "lpar1"); !errors.Is(err, errAway) || len(r.writes.Take()) > 1 {
		t.Errorf("got %+v, %v", e.Status.Conditions, err)
	}
	if _, state := r.state(t, e); len(state.Systems[server.address()].Running) != 5 {
		t.Errorf("it is not known whether they are gone: %+v", state.Systems[server.address()])
	}
	r.faults.Clear()
	_, result, err := r.reconcile(t, "lpar1")
	apiserver.Must(t, err)
	_, state := r.state(t, e)
	system := state.Systems[server.address()]
	if len(system.Running) != 1 || system.Running[0].Pod != uids["runs"] || len(system.Queue) != 1 || system.Queue[0].Operator != own {
		t.Errorf("got %+v", system)
	}
	if logon := state.Logons["u"]; logon != nil && logon.Trying != nil {
		t.Errorf("got %+v", logon)
	}
	if result.RequeueAfter > 10*time.Second {
		t.Errorf("somebody waits, and it is looked at again after %s", result.RequeueAfter)
	}
}

func TestRetryAllowsRefusedCredentials(t *testing.T) {
	r, server := newEndpoints(t), startSSHServer(t)
	e := r.add(t, "lpar1", server.spec(t))
	r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
	refusal := endpoint.Refusal{At: time.Now().UTC().Truncate(time.Second), Endpoint: "lpar1", Message: "wrong password"}
	r.edit(t, e, func(state *endpoint.State) {
		state.Logons = endpoint.Logons{"u": {User: "U", Refused: map[string]endpoint.Refusal{"c": refusal}}}
		state.Abandoned = []endpoint.Abandoned{
			{Operator: r.home + "/o", Group: "g", Kind: "Thing", Name: "a", Endpoint: "lpar1", At: refusal.At},
			{Operator: r.home + "/o", Group: "g", Kind: "Thing", Name: "b", Endpoint: "lpar2", At: refusal.At},
		}
	})
	e = r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
	expectCondition(t, e.Status.Conditions, v2beta2.ConditionCredentialAccepted, v2beta2.ReasonCredentialRefused, "of user U at")
	if len(e.Status.Abandoned) != 1 || e.Status.Abandoned[0].Name != "a" || e.Status.Abandoned[0].Namespace != r.home {
		t.Errorf("abandoned: %+v", e.Status.Abandoned)
	}
	r.patch(t, "lpar1", fmt.Sprintf(`{"metadata":{"annotations":{%q:"now"}}}`, endpoint.AnnotationRetry))
	e = r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
	if _, state := r.state(t, e); len(state.Logons) > 0 {
		t.Errorf("got %+v", state.Logons)
	}
	for _, condition := range e.Status.Conditions {
		if condition.Type == v2beta2.ConditionCredentialAccepted {
			t.Errorf("got %+v", condition)
		}
	}
}

// An outage that runs have noticed is shown first. A probe ends it in status, and after that in the state: in the other order, a run
// could begin another one in between.
func TestOutage(t *testing.T) {
	r, server := newEndpoints(t), startSSHServer(t)
	e := r.add(t, "lpar1", server.spec(t))
	r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
	since := time.Now().UTC().Truncate(time.Second)
	r.edit(t, e, func(state *endpoint.State) {
		state.Systems = endpoint.Systems{server.address(): {Outage: &endpoint.Outage{Since: since, Message: "no route to host"}}}
	})
	r.becomes(t, "lpar1", v2beta2.ReasonHostUnreachable, "a run could not reach "+server.address()+": no route to host")
	if server.connections.Load() != 1 {
		t.Error("it is probed before the outage is shown")
	}
	server.stop()
	e, result, err := r.reconcile(t, "lpar1")
	apiserver.Must(t, err)
	expectCondition(t, e.Status.Conditions, v2beta2.ConditionReachable, v2beta2.ReasonHostUnreachable, "no SSH server answers")
	if result.RequeueAfter > 11*time.Second {
		t.Errorf("runs wait, and it is probed after %s", result.RequeueAfter)
	}
	server.start(t)
	r.ProbeInterval = time.Nanosecond
	r.patch(t, "lpar1", fmt.Sprintf(`{"metadata":{"annotations":{%q:"now"}}}`, endpoint.AnnotationRetry))
	r.faults.Set("status ZosEndpoint", errAway)
	for range 2 {
		if _, _, err := r.reconcile(t, "lpar1"); !errors.Is(err, errAway) {
			t.Errorf("got %v", err)
		}
	}
	if _, state := r.state(t, e); state.Systems[server.address()] == nil || state.Systems[server.address()].Outage == nil {
		t.Error("the outage has ended before status says so")
	}
	r.faults.Clear()
	r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
	r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
	if _, state := r.state(t, e); state.Systems[server.address()].Outage != nil || state.Systems[server.address()].RecoveredAt.IsZero() {
		t.Errorf("got %+v", state.Systems[server.address()])
	}
}

// A namespace that is being deleted refuses what is new. That is no problem of the endpoint.
func TestZosEndpointInANamespaceThatIsDeleted(t *testing.T) {
	r, server := newEndpoints(t), startSSHServer(t)
	e := &v2beta2.ZosEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: "lpar1"}, Spec: server.spec(t)}
	apiserver.Must(t, r.server.Client.Create(t.Context(), e))
	apiserver.Must(t, r.server.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.home}}))
	e = r.becomes(t, "lpar1", v2beta2.ReasonSucceeded, "")
	expectCondition(t, e.Status.Conditions, v2beta2.ConditionReady, v2beta2.ReasonSucceeded, "")
	if secret, _ := r.state(t, e); secret != nil {
		t.Error("there is a state")
	}
}
