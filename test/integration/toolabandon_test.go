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
	})
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
	})

	abandon := func(name string, args ...string) *gexec.Session {
		return startTool(binary, append([]string{"abandon", s.kind + "/" + name, "-n", namespace}, args...)...)
	}

	It("changes nothing without a confirmation, and without the permission", func(ctx context.Context) {
		installSample(ctx, namespace, s)
		letUpdate(ctx, namespace)
		instance := createFinalized(ctx, namespace, s, "one")

		session := abandon("one")
		Eventually(ctx, session).Should(gexec.Exit(1))
		Expect(session.Out).To(gbytes.Say(`one in namespace %s is removed without its deletion playbook. What it represents may be left on ZosEndpoint lpar1.`, namespace))
		Expect(session.Err).To(gbytes.Say("not confirmed: nothing was changed"))
		for _, user := range []string{mayNone, mayLPAR2} {
			session := abandon("one", "--yes", "--as="+user)
			Eventually(ctx, session).Should(gexec.Exit(2))
			Expect(session.Err).To(gbytes.Say("^error: annotation zoscb.ibm.com/abandon removes the resource without a run, .* " +
				"you need the permission to update zosendpoints.zoscb.ibm.com lpar1 in namespace " + namespace))
		}
		live := Live(ctx, Default, instance)
		Expect(live.GetDeletionTimestamp()).To(BeNil())
		Expect(live.GetAnnotations()).NotTo(HaveKey(abandonAnnotation))
		Eventually(ctx, abandon("absent", "--yes")).Should(gexec.Exit(2))
	})

	It("leaves the finalizer to the operator", func(ctx context.Context) {
		installSample(ctx, namespace, s)
		letUpdate(ctx, namespace)
		createOperatorPod(ctx, namespace, s.name)
		instance := createFinalized(ctx, namespace, s, "one")

		session := abandon("one", "--yes", "--as="+mayLPAR1)
		Eventually(ctx, session).Should(gbytes.Say("one: waiting for its operator\n"))
		Eventually(ctx, func(g Gomega) {
			live := Live(ctx, g, instance)
			g.Expect(live.GetDeletionTimestamp()).NotTo(BeNil())
			g.Expect(live.GetAnnotations()).To(HaveKeyWithValue(abandonAnnotation, "true"))
			g.Expect(live.GetFinalizers()).To(ConsistOf(operatorsFinalizer))
		}).Should(Succeed())
		Consistently(ctx, session).WithTimeout(time.Second).ShouldNot(gexec.Exit())
		operator := as("system:serviceaccount:" + namespace + ":" + s.operator())
		Expect(operator.Patch(ctx, instance.DeepCopy(), merge(`{`+unfinished+`}`))).To(Succeed())
		Eventually(ctx, session).Should(gexec.Exit(0))
		Expect(session.Out).To(gbytes.Say("one: removed\n"))

		By("for a limited time")
		createFinalized(ctx, namespace, s, "two")
		session = abandon("two", "--yes", "--timeout=1s")
		Eventually(ctx, session).Should(gexec.Exit(2))
		Expect(session.Err).To(gbytes.Say("timed out"))
	})

	It("removes the finalizer itself if there is no operator, but not those of others", func(ctx context.Context) {
		oc := installSample(ctx, namespace, s)
		letUpdate(ctx, namespace)
		instance := createFinalized(ctx, namespace, s, "one", "example.com/mine")
		Remove(ctx, defaultSOC(oc))
		Eventually(ctx, Condition(ctx, instance, "Ready")).Should(sayingNoOperator(s, "one"))

		session := abandon("one", "--yes", "--as="+mayLPAR1)
		Eventually(ctx, session).Should(gbytes.Say("one: no operator runs for it, removing its finalizer\n"))
		Eventually(ctx, func(g Gomega) []string { return Live(ctx, g, instance).GetFinalizers() }).Should(ConsistOf("example.com/mine"))
		Consistently(ctx, session).WithTimeout(time.Second).ShouldNot(gexec.Exit())
		Patch(ctx, instance, `{`+unfinished+`}`)
		Eventually(ctx, session).Should(gexec.Exit(0))

		By("also beside the operator of another collection, though the user may not read which one it is")
		createOperatorPod(ctx, namespace, "other")
		two := createFinalized(ctx, namespace, s, "two")
		runTool(ctx, 0, binary, "abandon", s.kind+"/two", "-n", namespace, "--yes")
		Eventually(ctx, Gone(ctx, two)).Should(BeTrue())
		three := createFinalized(ctx, namespace, s, "three")
		reportRun(ctx, three, "NoOperator", runOf("1", "Succeeded", ""))
		runTool(ctx, 0, binary, "abandon", s.kind+"/three", "-n", namespace, "--yes", "--as="+mayLPAR1)
		Eventually(ctx, Gone(ctx, three)).Should(BeTrue())

		By("also without the finalizer")
		createInstances(ctx, namespace, s, "four")
		runTool(ctx, 0, binary, "abandon", s.kind+"/four", "-n", namespace, "--yes", "--as="+mayLPAR1)
	})
})
