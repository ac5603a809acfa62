package integration

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	. "github.com/collection-operator/collection-operator/test/fixture"
)

// createFinalized creates a custom resource of a sample with the finalizer of ansible-operator, and more.
func createFinalized(ctx context.Context, namespace string, s *sample, name string, more ...string) *unstructured.Unstructured {
	GinkgoHelper()
	instance := s.instance(namespace, name)
	instance.SetFinalizers(append([]string{operatorsFinalizer}, more...))
	Create(ctx, instance)
	DeferCleanup(func(ctx context.Context) {
		_ = TryPatch(ctx, instance.DeepCopy(), `{`+unfinished+`}`)
		Remove(ctx, instance)
	}, NodeTimeout(time.Minute))
	return instance
}

// createOperatorPod creates a pod of an operator, which no node runs.
func createOperatorPod(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	pod := NewPod(ctx, namespace, "operator")
	Patch(ctx, pod, `{"metadata":{"labels":{"operator-domain":"`+domain+`","operator-name":"`+name+`","managed-by":"ibm-zos-cloud-broker"}}}`)
}

var _ = Describe("kubectl collection abandon", func() {
	var (
		binary, namespace string
		s                 *sample
	)
	BeforeEach(func(ctx context.Context) {
		binary, namespace, s = toolBinary(), newNamespace(ctx), newSample()
	}, NodeTimeout(time.Minute))

	abandon := func(name string, args ...string) *gexec.Session {
		return startTool(binary, append([]string{"abandon", s.kind + "/" + name, "-n", namespace}, args...)...)
	}

	It("changes nothing without a confirmation, and without the permission", func(ctx context.Context) {
		installSample(ctx, namespace, s)
		letUpdate(ctx, namespace)
		instance := createFinalized(ctx, namespace, s, "one")

		session := abandon("one")
		Eventually(session).WithContext(ctx).Should(gexec.Exit(1))
		Expect(session.Out).To(gbytes.Say(`one in namespace %s is removed without its deletion playbook. What it represents may be left on ZosEndpoint lpar1.`, namespace))
		Expect(session.Err).To(gbytes.Say("not confirmed: nothing was changed"))
		for _, user := range []string{mayNone, mayLPAR2} {
			session := abandon("one", "--yes", "--as="+user)
			Eventually(session).WithContext(ctx).Should(gexec.Exit(2))
			Expect(session.Err).To(gbytes.Say("^error: annotation zoscb.ibm.com/abandon removes the resource without a run, .* " +
				"you need the permission to update zosendpoints.zoscb.ibm.com lpar1 in namespace " + namespace))
		}
		live := Live(ctx, NewWithT(GinkgoT()), instance)
		Expect(live.GetDeletionTimestamp()).To(BeNil())
		Expect(live.GetAnnotations()).NotTo(HaveKey(abandonAnnotation))
		Eventually(abandon("absent", "--yes")).WithContext(ctx).Should(gexec.Exit(2))
	}, NodeTimeout(2*time.Minute))

	It("leaves the finalizer to the operator", func(ctx context.Context) {
		installSample(ctx, namespace, s)
		letUpdate(ctx, namespace)
		createOperatorPod(ctx, namespace, s.name)
		instance := createFinalized(ctx, namespace, s, "one")

		session := abandon("one", "--yes", "--as="+mayLPAR1)
		Eventually(session).WithContext(ctx).Should(gbytes.Say("one: waiting for its operator\n"))
		Eventually(func(g Gomega) {
			live := Live(ctx, g, instance)
			g.Expect(live.GetDeletionTimestamp()).NotTo(BeNil())
			g.Expect(live.GetAnnotations()).To(HaveKeyWithValue(abandonAnnotation, "true"))
			g.Expect(live.GetFinalizers()).To(ConsistOf(operatorsFinalizer))
		}).WithContext(ctx).Should(Succeed())
		Consistently(session).WithContext(ctx).WithTimeout(time.Second).ShouldNot(gexec.Exit())
		operator := as("system:serviceaccount:" + namespace + ":" + s.operator())
		Expect(operator.Patch(ctx, instance.DeepCopy(), merge(`{`+unfinished+`}`))).To(Succeed())
		Eventually(session).WithContext(ctx).Should(gexec.Exit(0))
		Expect(session.Out).To(gbytes.Say("one: removed\n"))

		By("for a limited time")
		createFinalized(ctx, namespace, s, "two")
		session = abandon("two", "--yes", "--timeout=1s")
		Eventually(session).WithContext(ctx).Should(gexec.Exit(2))
		Expect(session.Err).To(gbytes.Say("timed out"))
	}, NodeTimeout(3*time.Minute))

	It("removes the finalizer itself if there is no operator, but not those of others", func(ctx context.Context) {
		oc := installSample(ctx, namespace, s)
		letUpdate(ctx, namespace)
		instance := createFinalized(ctx, namespace, s, "one", "example.com/mine")
		Remove(ctx, defaultSOC(oc))
		Eventually(Condition(ctx, instance, "Ready")).WithContext(ctx).Should(sayingNoOperator(s, "one"))

		session := abandon("one", "--yes", "--as="+mayLPAR1)
		Eventually(session).WithContext(ctx).Should(gbytes.Say("one: no operator runs for it, removing its finalizer\n"))
		Eventually(func(g Gomega) []string { return Live(ctx, g, instance).GetFinalizers() }).WithContext(ctx).Should(ConsistOf("example.com/mine"))
		Consistently(session).WithContext(ctx).WithTimeout(time.Second).ShouldNot(gexec.Exit())
		Patch(ctx, instance, `{`+unfinished+`}`)
		Eventually(session).WithContext(ctx).Should(gexec.Exit(0))

		By("also beside the operator of another collection, though the user may not read which one it is")
		createOperatorPod(ctx, namespace, "other")
		two := createFinalized(ctx, namespace, s, "two")
		runTool(ctx, 0, binary, "abandon", s.kind+"/two", "-n", namespace, "--yes")
		Eventually(Gone(ctx, two)).WithContext(ctx).Should(BeTrue())
		three := createFinalized(ctx, namespace, s, "three")
		reportRun(ctx, three, "NoOperator", runOf("1", "Succeeded", ""))
		runTool(ctx, 0, binary, "abandon", s.kind+"/three", "-n", namespace, "--yes", "--as="+mayLPAR1)
		Eventually(Gone(ctx, three)).WithContext(ctx).Should(BeTrue())

		By("also without the finalizer")
		createInstances(ctx, namespace, s, "four")
		runTool(ctx, 0, binary, "abandon", s.kind+"/four", "-n", namespace, "--yes", "--as="+mayLPAR1)
	}, NodeTimeout(3*time.Minute))
})
