package integration

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// gradual is a sample that two SubOperatorConfigs of one OperatorCollection install in four namespaces.
type gradual struct {
	*sample
	oc *v2beta2.OperatorCollection
	// outer and inner map the first and the last, and the two between them.
	outer, inner *v2beta2.SubOperatorConfig
	// namespaces are in the order in which they are upgraded.
	namespaces []string
}

func installGradually(ctx context.Context) *gradual {
	GinkgoHelper()
	g := &gradual{sample: newSample()}
	own := newNamespace(ctx)
	g.namespaces = []string{own, newNamespace(ctx), newNamespace(ctx), newNamespace(ctx)}
	for _, namespace := range g.namespaces[1:] {
		allowMapping(ctx, namespace, own)
	}
	slices.Sort(g.namespaces)
	g.outer = newSOC(own, "outer", "oc", mapTo(g.namespaces[0], g.namespaces[3])...)
	g.inner = newSOC(own, "inner", "oc", mapTo(g.namespaces[1], g.namespaces[2])...)
	Create(ctx, g.outer, g.inner)
	g.oc = newCollection(own, "oc", g.pinned())
	Create(ctx, g.oc)
	for _, namespace := range g.namespaces {
		g.makeAvailable(ctx, namespace)
	}
	ExpectReady(ctx, g.oc)
	Expect(g.upgrade(ctx)(Default)).To(BeNil(), "a first installation waits for nobody")
	return g
}

// begin asks for version 2.0.0.
func (g *gradual) begin(ctx context.Context) {
	GinkgoHelper()
	g.version = "2.0.0"
	changeSpec(ctx, g.oc, g.pinned())
}

// makeAvailable waits until the operator of a namespace has the present version.
func (g *gradual) makeAvailable(ctx context.Context, namespace string) {
	GinkgoHelper()
	Eventually(ctx, func(eventually Gomega) {
		eventually.Expect(podTemplateOf(ctx, namespace, g.sample)(eventually).Labels).To(HaveKeyWithValue("operator-version", g.version))
	}).Should(Succeed())
	makeAvailable(ctx, namespace, g.operator())
}

// having are the namespaces whose operator has the present version.
func (g *gradual) having(ctx context.Context) func(Gomega) []string {
	return func(eventually Gomega) []string {
		var having []string
		for _, namespace := range g.namespaces {
			if podTemplateOf(ctx, namespace, g.sample)(eventually).Labels["operator-version"] == g.version {
				having = append(having, namespace)
			}
		}
		return having
	}
}

func (g *gradual) upgrade(ctx context.Context) func(Gomega) *v2beta2.UpgradeStatus {
	return func(eventually Gomega) *v2beta2.UpgradeStatus {
		Get(ctx, eventually, g.oc)
		return g.oc.Status.Upgrade
	}
}

// expectState waits until the OperatorCollection says how far the upgrade is, and nobody else has begun.
func (g *gradual) expectState(ctx context.Context, reason string, upgraded int, message string, began ...string) {
	GinkgoHelper()
	total := len(g.namespaces)
	Eventually(ctx, g.upgrade(ctx)).Should(PointTo(And(
		HaveField("Digest", g.oc.Spec.Digest), HaveField("Total", int32(total)), HaveField("Upgraded", int32(upgraded)), HaveField("Reason", reason),
		HaveField("Message", ContainSubstring(message)), HaveField("Namespaces", Equal(began)),
	)))
	text := fmt.Sprintf("version %s runs in %d of %d namespaces; %s", g.version, upgraded, total, message)
	Eventually(ctx, Condition(ctx, g.oc, v2beta2.ConditionReady)).Should(And(ConditionFalse(), WithReason(reason), WithMessage(text)))
	for _, namespace := range g.having(ctx)(Default) {
		Expect(began).To(ContainElement(namespace))
	}
}

// PointTo matches a pointer that is not nil by what it points to.
func PointTo(matcher types.GomegaMatcher) types.GomegaMatcher {
	return And(Not(BeNil()), HaveValue(matcher))
}

// failingPod is a pod of the operator in a namespace that does not start.
func (g *gradual) failingPod(ctx context.Context, namespace string) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod", Labels: podTemplateOf(ctx, namespace, g.sample)(Default).Labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Image: "registry.invalid/x"}}},
	}
	Eventually(ctx, func() error { return K8s.Create(ctx, pod) }).Should(Succeed(), "once the namespace has a ServiceAccount")
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "operator", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
	}}
	Expect(K8s.Status().Update(ctx, pod)).To(Succeed())
	return pod
}

var _ = Describe("An upgrade of a collection that is installed in several namespaces", func() {
	It("comes to one namespace after another, and stops at the first that fails", func(ctx context.Context) {
		g := installGradually(ctx)
		a, b, c, d := g.namespaces[0], g.namespaces[1], g.namespaces[2], g.namespaces[3]
		g.begin(ctx)
		g.expectState(ctx, v2beta2.ReasonUpgradePending, 0, "waiting for namespace "+a, a)
		Eventually(ctx, g.having(ctx)).Should(Equal([]string{a}))
		Consistently(ctx, g.having(ctx)).Should(Equal([]string{a}))
		ExpectFailure(ctx, g.inner, v2beta2.ReasonUpgradePending, fmt.Sprintf("namespace %q keeps its version: version 2.0.0 runs in 0 of 4 namespaces; waiting for namespace %s", b, a), false)

		By("stopping at one whose pod does not start")
		g.makeAvailable(ctx, a)
		Eventually(ctx, g.having(ctx)).Should(Equal([]string{a, b}))
		pod := g.failingPod(ctx, b)
		DeferCleanup(func(ctx context.Context) { Remove(ctx, pod) })
		Patch(ctx, deployment(b, g.operator()), `{"metadata":{"labels":{"touched":"again"}}}`)
		g.expectState(ctx, v2beta2.ReasonUpgradeStopped, 1, "stopped at namespace "+b+": Deployment", a, b)
		ExpectFailure(ctx, g.inner, v2beta2.ReasonWorkloadUnavailable, "ImagePullBackOff", false)
		ExpectFailure(ctx, g.outer, v2beta2.ReasonUpgradeStopped, fmt.Sprintf("namespace %q keeps its version: version 2.0.0 runs in 1 of 4 namespaces; stopped at namespace %s: Deployment", d, b), false)

		By("knowing where it stands after a crash of the manager")
		theManager.kill()
		theManager.start(ctx)
		Consistently(ctx, g.having(ctx)).Should(Equal([]string{a, b}))
		g.expectState(ctx, v2beta2.ReasonUpgradeStopped, 1, "stopped at namespace "+b+": Deployment", a, b)

		By("installing it at once where nothing is installed yet")
		added := newNamespace(ctx)
		allowMapping(ctx, added, g.oc.Namespace)
		setMapping(ctx, g.outer, a, d, added)
		Eventually(ctx, Gone(ctx, deployment(added, g.operator()))).Should(BeFalse())
		g.makeAvailable(ctx, added)

		By("going on when that namespace is ready")
		g.makeAvailable(ctx, b)
		Eventually(ctx, g.having(ctx)).Should(Equal([]string{a, b, c}))
		Expect(g.upgrade(ctx)(Default)).To(PointTo(HaveField("Total", int32(5))))
		g.makeAvailable(ctx, c)
		Eventually(ctx, g.having(ctx)).Should(Equal(g.namespaces))
		Eventually(ctx, Condition(ctx, g.oc, v2beta2.ConditionReady)).Should(And(ConditionFalse(), WithMessage("version 2.0.0 runs in 4 of 5 namespaces; waiting for namespace "+d)))
		g.makeAvailable(ctx, d)
		ExpectReady(ctx, g.oc)
		Expect(g.upgrade(ctx)(Default)).To(BeNil())
	})

	It("stops when custom resources begin to fail, and goes on when they do not fail any more", func(ctx context.Context) {
		g := installGradually(ctx)
		a, b := g.namespaces[0], g.namespaces[1]
		g.begin(ctx)
		Eventually(ctx, g.having(ctx)).Should(Equal([]string{a}))
		Eventually(ctx, Condition(ctx, g.oc, v2beta2.ConditionImported)).Should(ConditionTrue(), "its version of the kind is served")
		thing := g.instance(a, "one")
		Create(ctx, thing)
		reportRun := func(runs ...any) {
			GinkgoHelper()
			Eventually(ctx, func(eventually Gomega) {
				Get(ctx, eventually, thing)
				thing.Object["status"] = map[string]any{"history": runs}
				eventually.Expect(K8s.Status().Update(ctx, thing)).To(Succeed())
			}).Should(Succeed())
		}
		run := func(id, version, outcome string) map[string]any {
			return map[string]any{"id": id, "event": "create", "started": metav1.Now().UTC().Format(time.RFC3339), "version": version, "outcome": outcome}
		}
		reportRun(run("r2", "2.0.0", "Failed"), run("r1", "1.0.0", "Succeeded"))
		g.makeAvailable(ctx, a)
		g.expectState(ctx, v2beta2.ReasonUpgradeStopped, 1, fmt.Sprintf("stopped at namespace %s: %s %s/one began to fail with version 2.0.0", a, g.kind, a), a)
		Consistently(ctx, g.having(ctx)).Should(Equal([]string{a}))

		reportRun(run("r3", "2.0.0", "Succeeded"), run("r2", "2.0.0", "Failed"))
		Eventually(ctx, g.having(ctx)).Should(Equal([]string{a, b}))
	})

	It("comes to one namespace after another also if the manager learns late how far each is", func(ctx context.Context) {
		g := installGradually(ctx)
		api := startLaggingAPI()
		theManager.restartWith(ctx, api)
		late := "suboperatorconfigs"
		api.late.Store(&late)
		g.begin(ctx)
		for i, namespace := range g.namespaces[:2] {
			Eventually(ctx, g.having(ctx)).Should(Equal(g.namespaces[:i+1]))
			Consistently(ctx, g.having(ctx)).WithTimeout(watchLag + time.Second).Should(Equal(g.namespaces[:i+1]))
			g.makeAvailable(ctx, namespace)
		}
	})
})
