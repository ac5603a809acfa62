package integration

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// ownersOf are the names of a Secret's owners.
func ownersOf(ctx context.Context, secret *corev1.Secret) func(Gomega) []string {
	return func(g Gomega) []string {
		Get(ctx, g, secret)
		var names []string
		for _, owner := range secret.OwnerReferences {
			g.Expect(owner.Kind).To(Equal("ZosEndpoint"))
			names = append(names, owner.Name)
		}
		return names
	}
}

// subjectsOf are the ServiceAccounts, as namespace/name, that may use an endpoint.
func subjectsOf(ctx context.Context, e *v2beta2.ZosEndpoint) func(Gomega) []string {
	return func(g Gomega) []string {
		binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "zosendpoint-" + e.Name}}
		Get(ctx, g, binding)
		var names []string
		for _, subject := range binding.Subjects {
			names = append(names, subject.Namespace+"/"+subject.Name)
		}
		return names
	}
}

// backAt is the revision with which an endpoint first was reachable after it had not been, or 0.
func backAt(states *States, e *v2beta2.ZosEndpoint) func(Gomega) int {
	return func(g Gomega) int {
		lost := false
		for i, c := range states.Conditions(e, v2beta2.ConditionReachable)(g) {
			lost = lost || c.Status == metav1.ConditionFalse
			if lost && c.Status == metav1.ConditionTrue {
				return Revision(states.Of(e.Name)[i])
			}
		}
		return 0
	}
}

var _ = Describe("The state of a security domain", func() {
	It("is one Secret for all its endpoints, which comes and goes with them", func(ctx context.Context) {
		namespace, server := newNamespace(ctx), startSSHServer()
		one, two, other := newEndpoint(namespace, "one", server), newEndpoint(namespace, "two", server), newEndpoint(namespace, "other", nil)
		two.Spec.Port, two.Spec.MaxConcurrentRuns = one.Spec.Port, ptr.To[int32](3)
		other.Spec.EndpointType = v2beta2.EndpointLocal
		Create(ctx, one, two, other)
		secret := StateSecret(one)
		Eventually(ctx, func(g Gomega) { g.Expect(ownersOf(ctx, secret)(g)).To(ConsistOf("one", "two")) }).Should(Succeed())
		Expect(secret.Labels).To(And(HaveKeyWithValue(endpoint.LabelState, "true"), HaveKeyWithValue("managed-by", "ibm-zos-cloud-broker")))
		Expect(secret.Data).To(And(HaveLen(1), HaveKey(endpoint.StateFile)), "operators can read it, so it has no key")
		Eventually(ctx, func(g Gomega) { g.Expect(ownersOf(ctx, StateSecret(other))(g)).To(ConsistOf("other")) }).Should(Succeed())
		limit := func(g Gomega) int {
			system := StateOf(ctx, one)(g).Systems[server.address()]
			if system == nil {
				return 0
			}
			return system.Limit
		}
		Eventually(ctx, limit).Should(Equal(3))

		By("counting the lowest limit of a system, also one of an endpoint that is not valid")
		Patch(ctx, one, `{"spec":{"maxConcurrentRuns":2}}`)
		Eventually(ctx, limit).Should(Equal(2))
		Patch(ctx, one, `{"spec":{"runWindows":[{"schedule":"0 0 31 2 1 1","duration":"1h"}]}}`)
		ExpectFailure(ctx, one, v2beta2.ReasonInvalidRunWindows, "spec.runWindows[0]", true)
		Patch(ctx, two, `{"spec":{"maxConcurrentRuns":4}}`)
		ExpectReady(ctx, two)
		Expect(limit(Default)).To(Equal(2))
		Patch(ctx, one, `{"spec":{"runWindows":null}}`)
		ExpectReady(ctx, one)

		By("leaving it, and joining another one")
		Patch(ctx, one, `{"spec":{"securityDomain":"PLEX1"}}`)
		Get(ctx, Default, one)
		Eventually(ctx, func(g Gomega) { g.Expect(ownersOf(ctx, StateSecret(one))(g)).To(ConsistOf("one")) }).Should(Succeed())
		Eventually(ctx, func(g Gomega) { g.Expect(ownersOf(ctx, secret)(g)).To(ConsistOf("two")) }).Should(Succeed())
		Eventually(ctx, func(g Gomega) {
			g.Expect(StateOf(ctx, two)(g).Systems[server.address()].Limit).To(Equal(4))
		}).Should(Succeed())
		Patch(ctx, two, `{"spec":{"securityDomain":"PLEX1"}}`)
		Eventually(ctx, Gone(ctx, secret)).Should(BeTrue(), "no endpoint needs it")
		Eventually(ctx, func(g Gomega) { g.Expect(ownersOf(ctx, StateSecret(one))(g)).To(ConsistOf("one", "two")) }).Should(Succeed())

		By("losing a limit with the endpoint that had it, whatever the propagation policy of its deletion")
		Eventually(ctx, limit).Should(Equal(2))
		shared := Live(ctx, Default, StateSecret(one)).GetUID()
		removeWith(ctx, one, metav1.DeletePropagationForeground)
		Eventually(ctx, func(g Gomega) { g.Expect(ownersOf(ctx, StateSecret(two))(g)).To(ConsistOf("two")) }).Should(Succeed())
		Expect(Live(ctx, Default, StateSecret(two)).GetUID()).To(Equal(shared))
		Get(ctx, Default, two)
		Eventually(ctx, func(g Gomega) {
			g.Expect(StateOf(ctx, two)(g).Systems[server.address()].Limit).To(Equal(4))
		}).Should(Succeed())

		By("being created again when a user deletes it, and being deleted with the last endpoint")
		deleted := StateSecret(two)
		Get(ctx, Default, deleted)
		Remove(ctx, deleted)
		Eventually(ctx, func(g Gomega) {
			again := StateSecret(two)
			Get(ctx, g, again)
			g.Expect(again.UID).NotTo(Equal(deleted.UID))
		}).Should(Succeed())
		Remove(ctx, two)
		Eventually(ctx, Gone(ctx, StateSecret(two))).Should(BeTrue())
	})

	It("releases what pods that are gone have held", func(ctx context.Context) {
		namespace, server, s := newNamespace(ctx), startSSHServer(), newSample()
		e := newEndpoint(namespace, "lpar1", server)
		e.Spec.MaxConcurrentRuns = ptr.To[int32](5)
		Create(ctx, e)
		installSample(ctx, namespace, s)
		ExpectReady(ctx, e)
		installed := namespace + "/" + s.operator()
		Eventually(ctx, subjectsOf(ctx, e)).Should(Equal([]string{installed}))
		alive, ended := NewPod(ctx, namespace, "alive"), NewPod(ctx, namespace, "ended")
		ended.Status.Phase = corev1.PodFailed
		Expect(K8s.Status().Update(ctx, ended)).To(Succeed())
		holder := func(name string, pod *corev1.Pod) endpoint.Holder {
			return endpoint.Holder{Operator: installed, PodName: pod.Name, Pod: pod.UID, Resource: "Job/" + namespace + "/" + name, Run: "1", Since: time.Now()}
		}
		replaced := alive.DeepCopy()
		replaced.UID = "another"
		trying, uninstalled, invalid, outside := holder("c", ended), holder("e", alive), holder("f", alive), holder("g", alive)
		uninstalled.Operator, invalid.PodName, outside.Operator = namespace+"/uninstalled", "a/b", "/o"
		ChangeState(ctx, e, func(s *endpoint.State, settings endpoint.Settings) {
			system := s.Systems[settings.Address]
			system.Running = []endpoint.Holder{
				holder("a", alive), holder("b", replaced), holder("c", ended),
				holder("d", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "gone", UID: "gone"}}),
				uninstalled, invalid, outside,
			}
			system.Queue = []endpoint.Waiter{{Operator: namespace + "/uninstalled", Since: time.Now().Add(-2 * time.Minute)}}
			s.Logons = map[string]*endpoint.Logon{"ibmuser": {Trying: &trying}}
		})
		Eventually(ctx, func(g Gomega) {
			state := StateOf(ctx, e)(g)
			g.Expect(state.Systems[server.address()].Running).To(ConsistOf(
				HaveField("Resource", "Job/"+namespace+"/a"), HaveField("Resource", "Job/"+namespace+"/e")), "a pod keeps its places until it has ended")
			g.Expect(state.Systems[server.address()].Queue).To(BeEmpty())
			g.Expect(state.Logons["ibmuser"].Trying).To(BeNil())
		}).Should(Succeed())
	})
})

var _ = Describe("What runs learn about a ZosEndpoint", func() {
	It("shows at once, and an outage ends with the first successful probe", func(ctx context.Context) {
		server := startSSHServer()
		e := newEndpoint(newNamespace(ctx), "lpar1", server)
		Create(ctx, e)
		Eventually(ctx, Condition(ctx, e, v2beta2.ConditionReachable)).Should(ConditionTrue())
		Get(ctx, Default, e)
		Expect(e.Status.Latency).To(MatchRegexp(`^([25]0|[125]00)ms$|^([125]|10)s$`))
		states := WatchStates(ctx, e.Namespace, ListOf(e))
		outage := func(g Gomega) *endpoint.Outage {
			if system := StateOf(ctx, e)(g).Systems[server.address()]; system != nil {
				return system.Outage
			}
			return nil
		}

		By("though the manager reaches the system")
		run := endpoint.Request{Now: time.Now(), Operator: e.Namespace + "/o", PodName: "p", Pod: "1", Resource: "Job/n/a", Run: "1", User: "IBMUSER", Credential: "c1"}
		ChangeState(ctx, e, func(s *endpoint.State, settings endpoint.Settings) {
			Expect(s.Observe(settings, run, endpoint.ConnectionUnreachable, "Connection timed out")).To(BeTrue())
		})
		Eventually(ctx, states.Conditions(e, v2beta2.ConditionReachable)).Should(ContainElement(And(ConditionFalse(), WithReason(v2beta2.ReasonHostUnreachable),
			WithMessage("a run could not reach "+server.address()+": Connection timed out"))))
		Eventually(ctx, outage).Should(BeNil())
		Eventually(ctx, Condition(ctx, e, v2beta2.ConditionReachable)).Should(ConditionTrue())
		recovered := StateSecret(e)
		Get(ctx, Default, recovered)
		Eventually(ctx, backAt(states, e)).ShouldNot(BeZero())
		Expect(Revision(recovered)).To(BeNumerically(">", backAt(states, e)(Default)), "runs must not see an endpoint as unreachable after its outage has ended")
		Expect(StateOf(ctx, e)(Default).Systems[server.address()].RecoveredAt).NotTo(BeZero())

		By("unless runs cannot connect again, though the manager always can")
		run.Now = time.Now()
		ChangeState(ctx, e, func(s *endpoint.State, settings endpoint.Settings) {
			s.Observe(settings, run, endpoint.ConnectionUnreachable, "Connection refused")
		})
		Eventually(ctx, Condition(ctx, e, v2beta2.ConditionReachable)).Should(And(ConditionFalse(), WithMessage("Connection refused")))
		Consistently(ctx, func(g Gomega) {
			g.Expect(outage(g)).NotTo(BeNil())
			g.Expect(Condition(ctx, e, v2beta2.ConditionReachable)(g)).To(And(ConditionFalse(), WithMessage("Connection refused")))
		}).WithTimeout(2 * probeInterval).Should(Succeed())

		By("until the system answers, once it has not answered the manager either")
		server.down()
		Eventually(ctx, Condition(ctx, e, v2beta2.ConditionReachable)).Should(And(ConditionFalse(), WithMessage("no SSH server answers")))
		server.up()
		Eventually(ctx, Condition(ctx, e, v2beta2.ConditionReachable)).Should(ConditionTrue())
		Eventually(ctx, outage).Should(BeNil())

		By("leaving the state alone when a probe fails and no run waits")
		before := StateSecret(e)
		Get(ctx, Default, before)
		server.down()
		Eventually(ctx, Condition(ctx, e, v2beta2.ConditionReachable)).Should(And(ConditionFalse(), WithMessage("no SSH server answers")))
		after := StateSecret(e)
		Get(ctx, Default, after)
		Expect(after.ResourceVersion).To(Equal(before.ResourceVersion))
		Expect(server.logons.Load()).To(BeZero())
	})
})

var _ = Describe("Access to a ZosEndpoint", func() {
	It("is given to the operators that may use it, and to nobody else", attack.Label, func(ctx context.Context) {
		own, other, s, rival := newNamespace(ctx), newNamespace(ctx), newSample(), newSample()
		allowMapping(ctx, other, own)
		e, unused := newEndpoint(own, "lpar1", startSSHServer()), newEndpoint(own, "pod", nil)
		unused.Spec.EndpointType = v2beta2.EndpointLocal
		soc := newSOC(own, "soc", "oc", mapTo(own, other)...)
		Create(ctx, e, unused, soc)
		importSample(ctx, own, s)
		installSample(ctx, other, rival)
		inOwn, inOther := own+"/"+s.operator(), other+"/"+s.operator()
		Eventually(ctx, subjectsOf(ctx, e)).Should(Equal([]string{inOwn, inOther}))
		Eventually(ctx, subjectsOf(ctx, unused)).Should(Equal([]string{inOwn, inOther}))
		makeAvailable(ctx, own, s.operator())
		makeAvailable(ctx, other, s.operator())
		ExpectReady(ctx, soc)

		account := func(namespace, name string) client.Client {
			return as("system:serviceaccount:" + namespace + ":" + name)
		}
		operator := account(other, s.operator())
		Eventually(ctx, func() error { return operator.Get(ctx, client.ObjectKeyFromObject(e), e.DeepCopy()) }).Should(Succeed())
		secret := StateSecret(e)
		Eventually(ctx, func(g Gomega) {
			g.Expect(operator.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
			g.Expect(operator.Update(ctx, secret)).To(Succeed())
		}).Should(Succeed(), "unless the manager writes it just then")
		for name, stranger := range map[string]client.Client{"of another collection": account(other, rival.operator()), "of another namespace": account(own, rival.operator())} {
			refusal := stranger.Get(ctx, client.ObjectKeyFromObject(secret), secret.DeepCopy())
			Expect(refusal).To(MatchError(ContainSubstring("forbidden")), name)
			attack.Repelled("Tenancy", "read the state of a security domain as an operator "+name, "the API server refuses it", refusal.Error())
		}
		Expect(operator.Delete(ctx, secret.DeepCopy())).To(MatchError(ContainSubstring("forbidden")))
		Expect(operator.Update(ctx, e.DeepCopy())).To(MatchError(ContainSubstring("forbidden")))

		By("being taken back when the mapping does not allow the endpoint, consent is withdrawn, or nothing is mapped")
		Patch(ctx, soc, fmt.Sprintf(`{"spec":{"mapping":[{"namespace":%q,"zosendpoints":[{"name":"lpar1"}]},{"namespace":%q}]}}`, own, other))
		Eventually(ctx, subjectsOf(ctx, unused)).Should(Equal([]string{inOther}))
		Expect(subjectsOf(ctx, e)(Default)).To(Equal([]string{inOwn, inOther}))
		allowMapping(ctx, other)
		Eventually(ctx, subjectsOf(ctx, e)).Should(Equal([]string{inOwn}))
		binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "zosendpoint-pod"}}
		Eventually(ctx, Gone(ctx, binding)).Should(BeTrue())
		Eventually(ctx, func() error { return operator.Get(ctx, client.ObjectKeyFromObject(secret), secret.DeepCopy()) }).
			Should(MatchError(ContainSubstring("forbidden")))
		Patch(ctx, soc, `{"spec":{"mapping":[]}}`)
		binding.Name = "zosendpoint-lpar1"
		Eventually(ctx, Gone(ctx, binding)).Should(BeTrue())

		By("being repaired when somebody changes it, and following the endpoint into another security domain")
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "zosendpoint-lpar1"}}
		Patch(ctx, role, `{"rules":[]}`)
		names := func(g Gomega) []string {
			Get(ctx, g, role)
			g.Expect(role.Rules).To(HaveLen(2))
			return append(role.Rules[0].ResourceNames, role.Rules[1].ResourceNames...)
		}
		Eventually(ctx, names).Should(Equal([]string{"lpar1", secret.Name}))
		Patch(ctx, e, `{"spec":{"securityDomain":"PLEX1"}}`)
		Get(ctx, Default, e)
		Eventually(ctx, names).Should(Equal([]string{"lpar1", endpoint.StateName(e)}))
		expectRest(ctx)
		Remove(ctx, e)
		Eventually(ctx, Gone(ctx, role)).Should(BeTrue())
	})

	It("is not given through an object of somebody else", attack.Label, func(ctx context.Context) {
		e := newEndpoint(newNamespace(ctx), "lpar1", startSSHServer())
		foreign := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "zosendpoint-lpar1", Labels: map[string]string{"managed-by": "ibm-zos-cloud-broker"}}}
		Create(ctx, foreign, e)
		ExpectFailure(ctx, e, v2beta2.ReasonForeignObject, `Role "`+e.Namespace+`/zosendpoint-lpar1"`, false)
		attack.Repelled("Tenancy", "wait with a Role under the name that the one of a ZosEndpoint will have", "it is neither used nor changed", seen(ctx, e))
		Eventually(ctx, Condition(ctx, e, v2beta2.ConditionReachable)).Should(ConditionTrue())
		Get(ctx, Default, foreign)
		Expect(foreign.Rules).To(BeEmpty())
		Remove(ctx, foreign)
		Patch(ctx, e, `{"metadata":{"annotations":{"look":"again"}}}`)
		ExpectReady(ctx, e)
	})
})
