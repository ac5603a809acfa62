package integration

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// installIn maps a sample to a namespace of its own and another one, and waits until both are served.
func installIn(ctx context.Context, own, other string, s *sample) (*v2beta2.OperatorCollection, *v2beta2.SubOperatorConfig) {
	GinkgoHelper()
	allowMapping(ctx, other, own)
	soc := newSOC(own, "soc", "oc", mapTo(own, other)...)
	Create(ctx, soc)
	oc := importSample(ctx, own, s)
	for _, namespace := range []string{own, other} {
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
	}
	ExpectReady(ctx, soc)
	return oc, soc
}

// sayingNoOperator matches the condition Ready of a resource without an operator.
func sayingNoOperator(s *sample, name string) OmegaMatcher {
	return And(ConditionFalse(), WithReason("NoOperator"), HaveField("ObservedGeneration", int64(1)), HaveField("Message",
		"no operator runs for this resource: install the collection again, or remove it without a run: kubectl collection abandon "+s.kind+"/"+name))
}

var _ = Describe("A custom resource whose operator is removed", func() {
	DescribeTable("says so, once", func(ctx context.Context, remove func(context.Context, *v2beta2.OperatorCollection, *v2beta2.SubOperatorConfig)) {
		own, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		oc, soc := installIn(ctx, own, other, s)
		run, authors, fresh := s.instance(other, "run"), s.instance(other, "authors"), s.instance(other, "fresh")
		fresh.SetFinalizers([]string{"suboperator.zoscb.ibm.com/finalizer"})
		Create(ctx, run, authors, fresh)
		reportRun(ctx, run, "Succeeded", runOf("1", "Succeeded", ""))
		Expect(K8s.Status().Patch(ctx, authors, merge(`{"status":{"phase":"Open","message":"All is well"}}`))).To(Succeed())

		remove(ctx, oc, soc)
		Eventually(ctx, Condition(ctx, run, "Ready")).Should(sayingNoOperator(s, "run"))
		Eventually(ctx, Condition(ctx, authors, "Ready")).Should(sayingNoOperator(s, "authors"))
		Eventually(ctx, Condition(ctx, fresh, "Ready")).Should(sayingNoOperator(s, "fresh"))
		Expect(Field(ctx, fresh, "status", "phase")(Default)).To(Equal("NoOperator"))
		ExpectHealth(ctx, "resource-no-operator", fresh)
		Expect(Field(ctx, fresh, "status", "message")(Default)).To(HavePrefix("no operator runs for this resource"))
		Expect(Condition(ctx, run, "Stalled")(Default)).To(And(ConditionTrue(), WithReason("NoOperator")))
		status, _, err := unstructured.NestedMap(Live(ctx, Default, run).Object, "status")
		Expect(err).NotTo(HaveOccurred())
		Expect(status).To(And(HaveKeyWithValue("phase", "Succeeded"), HaveKeyWithValue("lastRun", HaveKeyWithValue("id", "1")), Not(HaveKey("observedGeneration"))))
		status, _, err = unstructured.NestedMap(Live(ctx, Default, authors).Object, "status")
		Expect(err).NotTo(HaveOccurred())
		Expect(status).To(And(HaveKeyWithValue("phase", "Open"), HaveKeyWithValue("message", "All is well")))
		Expect(Live(ctx, Default, run).GetManagedFields()).To(ContainElement(And(
			HaveField("Manager", "collection-operator-gate"), HaveField("Subresource", "status"))))

		By("and in an event, also when it is deleted then")
		events := func() string { return strings.Join(eventsIn(ctx, other), "\n") }
		for _, instance := range []*unstructured.Unstructured{run, authors, fresh} {
			Eventually(ctx, events).Should(ContainSubstring("NoOperator no operator runs for this resource: install the collection again, or remove it without a run: kubectl collection abandon " +
				s.kind + "/" + instance.GetName()))
		}
		Remove(ctx, fresh.DeepCopy())
		Expect(Condition(ctx, fresh, "Ready")(Default)).To(sayingNoOperator(s, "fresh"))

		By("and its operator is gone for good")
		Eventually(ctx, func() []string { return madeIn(ctx, other) }).Should(BeEmpty())
		version := Live(ctx, Default, run).GetResourceVersion()
		Consistently(ctx, func() string { return Live(ctx, Default, run).GetResourceVersion() }).Should(Equal(version))
		Patch(ctx, fresh, `{"metadata":{"finalizers":null}}`)
		Eventually(ctx, Gone(ctx, fresh)).Should(BeTrue())
		for _, instance := range []*unstructured.Unstructured{run, authors} {
			Remove(ctx, instance)
		}
	},
		Entry("after the SubOperatorConfig was deleted", func(ctx context.Context, _ *v2beta2.OperatorCollection, soc *v2beta2.SubOperatorConfig) {
			Remove(ctx, soc)
		}),
		Entry("after the collection was removed with the policy Orphan", func(ctx context.Context, oc *v2beta2.OperatorCollection, _ *v2beta2.SubOperatorConfig) {
			Patch(ctx, oc, `{"spec":{"deletionPolicy":"Orphan"}}`)
			Remove(ctx, oc)
		}),
	)

	It("is not touched in a namespace that withdrew its consent", func(ctx context.Context) {
		own, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		_, soc := installIn(ctx, own, other, s)
		instance := createInstances(ctx, other, s, "one")[0]
		version := Live(ctx, Default, instance).GetResourceVersion()
		allowMapping(ctx, other)
		Eventually(ctx, notes(ctx, soc, v2beta2.ReasonInstancesExist)).Should(ConsistOf(HavePrefix("1 custom resources stay")))
		Expect(Live(ctx, Default, instance).GetResourceVersion()).To(Equal(version))
		Remove(ctx, instance)
	})
})

// eventsIn are the reasons and messages of the Kubernetes Events in a namespace.
func eventsIn(ctx context.Context, namespace string) []string {
	GinkgoHelper()
	var texts []string
	for _, object := range listObjects(ctx, &corev1.EventList{}, client.InNamespace(namespace)) {
		event := object.(*corev1.Event)
		texts = append(texts, event.Reason+" "+event.Message)
	}
	return texts
}
