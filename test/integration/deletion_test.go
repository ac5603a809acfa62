package integration

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("Deleting", func() {
	It("an OperatorCollection is blocked by its custom resources, which it names, and then leaves nothing", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		bystander := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "bystander",
			Labels: map[string]string{"operator-domain": domain, "operator-name": s.name, "managed-by": "ibm-zos-cloud-broker"},
		}}
		Create(ctx, bystander)
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		one, two := s.instance(namespace, "one"), s.instance(namespace, "two")
		Create(ctx, one, two)
		before := versions(installed(ctx, soc))

		Remove(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonInstancesExist, s.kind+" "+namespace+"/one", false)
		Expect(Condition(ctx, oc, v2beta2.ConditionReady)(Default)).To(And(
			WithMessage(s.kind+" "+namespace+"/two"), WithMessage("spec.deletionPolicy")))
		Consistently(ctx, func(g Gomega) {
			Get(ctx, g, soc)
			g.Expect(soc.DeletionTimestamp).To(BeNil())
			g.Expect(versions(installed(ctx, soc))).To(Equal(before))
		}).Should(Succeed())

		By("keeping the operator, which those custom resources need, even if the SubOperatorConfig is deleted")
		Remove(ctx, soc)
		Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).
			Should(And(ConditionFalse(), WithReason(v2beta2.ReasonCollectionTerminating), WithMessage(s.kind)))
		Expect(versions(installed(ctx, soc))).To(Equal(before))

		By("vanishing after the last custom resource")
		Remove(ctx, one)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).ShouldNot(WithMessage("/one"))
		Remove(ctx, two)
		Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
		expectNothingLeft(ctx, namespace, s, "ConfigMap/bystander")
	})

	It("an OperatorCollection with Finalize deletes custom resources first, and the operator only after their finalizers", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		thing := s.instance(namespace, "one")
		thing.SetFinalizers([]string{"suboperator.zoscb.ibm.com/finalizer"})
		Create(ctx, thing)
		before := versions(installed(ctx, soc))

		Patch(ctx, oc, `{"spec":{"deletionPolicy":"Finalize"}}`)
		Remove(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonFinalizingInstances, s.kind+" "+namespace+"/one", false)
		Get(ctx, Default, thing)
		Expect(thing.GetDeletionTimestamp()).NotTo(BeNil())
		Expect(versions(installed(ctx, soc))).To(Equal(before), "the operator has to run the finalizer playbook")

		Patch(ctx, thing, `{"metadata":{"finalizers":null}}`)
		Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
		expectNothingLeft(ctx, namespace, s)
	})

	It("an OperatorCollection neither waits for nor deletes custom resources in a namespace without consent", func(ctx context.Context) {
		namespace, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		allowMapping(ctx, other, namespace)
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		setMapping(ctx, soc, namespace, other)
		makeAvailable(ctx, other, s.operator())
		ExpectReady(ctx, oc)
		mine, theirs := s.instance(namespace, "mine"), s.instance(other, "theirs")
		mine.SetFinalizers([]string{"suboperator.zoscb.ibm.com/finalizer"})
		Create(ctx, mine, theirs)
		Remove(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonInstancesExist, other+"/theirs", false)

		allowMapping(ctx, other)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).
			Should(And(WithReason(v2beta2.ReasonInstancesExist), WithMessage(namespace+"/mine"), Not(WithMessage(other+"/theirs"))))
		Patch(ctx, oc, `{"spec":{"deletionPolicy":"Finalize"}}`)
		ExpectFailure(ctx, oc, v2beta2.ReasonFinalizingInstances, namespace+"/mine", false)
		Patch(ctx, mine, `{"metadata":{"finalizers":null}}`)
		Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
		Get(ctx, Default, theirs)
		Expect(theirs.GetDeletionTimestamp()).To(BeNil())
		Expect(Gone(ctx, deployment(other, s.operator()))(Default)).To(BeTrue())
		Remove(ctx, theirs)
	})

	It("an OperatorCollection with Orphan removes the operator, and keeps custom resources and CRDs", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		thing := s.instance(namespace, "one")
		Create(ctx, thing)
		Patch(ctx, oc, `{"spec":{"deletionPolicy":"Orphan"}}`)
		Remove(ctx, oc)
		Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
		Get(ctx, Default, thing)
		Expect(thing.GetDeletionTimestamp()).To(BeNil())
		Remove(ctx, thing)
		Remove(ctx, customResourceDefinition(s.crdName()))
	})

	It("an OperatorCollection that never worked is not held up", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		oc := newCollection(namespace, "oc", unverified(web.Serve([]byte("text"))))
		Create(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonArchiveNotGzip, "", true)
		Remove(ctx, oc)
		Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
	})

	It("a SubOperatorConfig alone removes the operator and keeps custom resources and CRDs", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		thing := s.instance(namespace, "one")
		Create(ctx, thing)
		Remove(ctx, defaultSOC(oc))
		Eventually(ctx, Gone(ctx, defaultSOC(oc))).Should(BeTrue())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
		ExpectFailure(ctx, oc, v2beta2.ReasonNotInstalled, "", false)
		Get(ctx, Default, thing)
		Expect(Gone(ctx, customResourceDefinition(s.crdName()))(Default)).To(BeFalse())
	})

	It("by force what the SubOperatorConfig stands on lets it go, after a grace for running playbooks", Slow, func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc, thing := defaultSOC(oc), s.instance(namespace, "one")
		Create(ctx, thing)
		running := []any{map[string]any{"type": "Running", "status": "True", "reason": "Running"}}
		Expect(unstructured.SetNestedSlice(thing.Object, running, "status", "conditions")).To(Succeed())
		Expect(K8s.Status().Update(ctx, thing)).To(Succeed())

		began := time.Now()
		Remove(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonInstancesExist, "", false)
		Patch(ctx, oc, `{"metadata":{"finalizers":null}}`)
		Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
		Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).
			Should(And(ConditionFalse(), WithReason(v2beta2.ReasonTerminating), WithMessage(s.kind+" "+namespace+"/one")))
		Eventually(ctx, Gone(ctx, soc)).WithTimeout(ClientTimeout).Should(BeTrue())
		AddReportEntry("a SubOperatorConfig without its OperatorCollection went after", time.Since(began).Round(time.Second).String())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
		Get(ctx, Default, thing)
		Expect(thing.GetDeletionTimestamp()).To(BeNil())
		crd := customResourceDefinition(s.crdName())
		Consistently(ctx, Gone(ctx, crd)).Should(BeFalse())

		Remove(ctx, thing)
		Remove(ctx, crd)
	})
})

// expectNothingLeft checks that an installation left neither objects nor CRDs, but for what is given.
func expectNothingLeft(ctx context.Context, namespace string, s *sample, but ...string) {
	GinkgoHelper()
	Expect(madeIn(ctx, namespace)).To(ConsistOf(but))
	Eventually(ctx, Gone(ctx, customResourceDefinition(s.crdName()))).Should(BeTrue())
}
