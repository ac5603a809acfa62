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
)

var _ = Describe("Deleting", func() {
	It("an OperatorCollection is blocked by its custom resources, which it names, and then leaves nothing", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		bystander := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "bystander",
			Labels: map[string]string{"operator-domain": domain, "operator-name": s.name, "managed-by": "ibm-zos-cloud-broker"},
		}}
		create(ctx, bystander)
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		one, two := s.instance(namespace, "one"), s.instance(namespace, "two")
		create(ctx, one, two)
		before := versions(installed(ctx, soc))

		remove(ctx, oc)
		expectFailure(ctx, oc, v2beta2.ReasonInstancesExist, s.kind+" "+namespace+"/one", false)
		Expect(conditionOf(ctx, oc, v2beta2.ConditionReady)(NewWithT(GinkgoT()))).To(And(
			saying(s.kind+" "+namespace+"/two"), saying("spec.deletionPolicy")))
		Consistently(func(g Gomega) {
			get(ctx, g, soc)
			g.Expect(soc.DeletionTimestamp).To(BeNil())
			g.Expect(versions(installed(ctx, soc))).To(Equal(before))
		}).WithContext(ctx).Should(Succeed())

		By("keeping the operator, which those custom resources need, even if the SubOperatorConfig is deleted")
		remove(ctx, soc)
		Eventually(conditionOf(ctx, soc, v2beta2.ConditionReady)).WithContext(ctx).
			Should(And(beFalse(), because(v2beta2.ReasonCollectionTerminating), saying(s.kind)))
		Expect(versions(installed(ctx, soc))).To(Equal(before))

		By("vanishing after the last custom resource")
		remove(ctx, one)
		Eventually(conditionOf(ctx, oc, v2beta2.ConditionReady)).WithContext(ctx).ShouldNot(saying("/one"))
		remove(ctx, two)
		Eventually(isGone(ctx, oc)).WithContext(ctx).Should(BeTrue())
		expectNothingLeft(ctx, namespace, s, "ConfigMap/bystander")
	}, NodeTimeout(3*time.Minute))

	It("an OperatorCollection with Finalize deletes custom resources first, and the operator only after their finalizers", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		thing := s.instance(namespace, "one")
		thing.SetFinalizers([]string{"suboperator.zoscb.ibm.com/finalizer"})
		create(ctx, thing)
		before := versions(installed(ctx, soc))

		patch(ctx, oc, `{"spec":{"deletionPolicy":"Finalize"}}`)
		remove(ctx, oc)
		expectFailure(ctx, oc, v2beta2.ReasonFinalizingInstances, s.kind+" "+namespace+"/one", false)
		get(ctx, NewWithT(GinkgoT()), thing)
		Expect(thing.GetDeletionTimestamp()).NotTo(BeNil())
		Expect(versions(installed(ctx, soc))).To(Equal(before), "the operator has to run the finalizer playbook")

		patch(ctx, thing, `{"metadata":{"finalizers":null}}`)
		Eventually(isGone(ctx, oc)).WithContext(ctx).Should(BeTrue())
		expectNothingLeft(ctx, namespace, s)
	}, NodeTimeout(2*time.Minute))

	It("an OperatorCollection neither waits for nor deletes custom resources in a namespace without consent", func(ctx context.Context) {
		namespace, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		allowMapping(ctx, other, namespace)
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		setMapping(ctx, soc, namespace, other)
		makeAvailable(ctx, other, s.operator())
		expectReady(ctx, oc)
		mine, theirs := s.instance(namespace, "mine"), s.instance(other, "theirs")
		mine.SetFinalizers([]string{"suboperator.zoscb.ibm.com/finalizer"})
		create(ctx, mine, theirs)
		remove(ctx, oc)
		expectFailure(ctx, oc, v2beta2.ReasonInstancesExist, other+"/theirs", false)

		allowMapping(ctx, other)
		Eventually(conditionOf(ctx, oc, v2beta2.ConditionReady)).WithContext(ctx).
			Should(And(because(v2beta2.ReasonInstancesExist), saying(namespace+"/mine"), Not(saying(other+"/theirs"))))
		patch(ctx, oc, `{"spec":{"deletionPolicy":"Finalize"}}`)
		expectFailure(ctx, oc, v2beta2.ReasonFinalizingInstances, namespace+"/mine", false)
		patch(ctx, mine, `{"metadata":{"finalizers":null}}`)
		Eventually(isGone(ctx, oc)).WithContext(ctx).Should(BeTrue())
		get(ctx, NewWithT(GinkgoT()), theirs)
		Expect(theirs.GetDeletionTimestamp()).To(BeNil())
		Expect(isGone(ctx, deployment(other, s.operator()))(NewWithT(GinkgoT()))).To(BeTrue())
		remove(ctx, theirs)
	}, NodeTimeout(3*time.Minute))

	It("an OperatorCollection with Orphan removes the operator, and keeps custom resources and CRDs", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		thing := s.instance(namespace, "one")
		create(ctx, thing)
		patch(ctx, oc, `{"spec":{"deletionPolicy":"Orphan"}}`)
		remove(ctx, oc)
		Eventually(isGone(ctx, oc)).WithContext(ctx).Should(BeTrue())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
		get(ctx, NewWithT(GinkgoT()), thing)
		Expect(thing.GetDeletionTimestamp()).To(BeNil())
		remove(ctx, thing)
		remove(ctx, customResourceDefinition(s.crdName()))
	}, NodeTimeout(2*time.Minute))

	It("an OperatorCollection that never worked is not held up", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		oc := newCollection(namespace, "oc", unverified(web.serve([]byte("text"))))
		create(ctx, oc)
		expectFailure(ctx, oc, v2beta2.ReasonArchiveNotGzip, "", true)
		remove(ctx, oc)
		Eventually(isGone(ctx, oc)).WithContext(ctx).Should(BeTrue())
	}, NodeTimeout(time.Minute))

	It("a SubOperatorConfig alone removes the operator and keeps custom resources and CRDs", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		thing := s.instance(namespace, "one")
		create(ctx, thing)
		remove(ctx, defaultSOC(oc))
		Eventually(isGone(ctx, defaultSOC(oc))).WithContext(ctx).Should(BeTrue())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
		expectFailure(ctx, oc, v2beta2.ReasonNotInstalled, "", false)
		get(ctx, NewWithT(GinkgoT()), thing)
		Expect(isGone(ctx, customResourceDefinition(s.crdName()))(NewWithT(GinkgoT()))).To(BeFalse())
	}, NodeTimeout(2*time.Minute))

	It("by force what the SubOperatorConfig stands on lets it go, after a grace for running playbooks", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc, thing := defaultSOC(oc), s.instance(namespace, "one")
		create(ctx, thing)
		running := []any{map[string]any{"type": "Running", "status": "True", "reason": "Running"}}
		Expect(unstructured.SetNestedSlice(thing.Object, running, "status", "conditions")).To(Succeed())
		Expect(k8s.Status().Update(ctx, thing)).To(Succeed())

		began := time.Now()
		remove(ctx, oc)
		expectFailure(ctx, oc, v2beta2.ReasonInstancesExist, "", false)
		patch(ctx, oc, `{"metadata":{"finalizers":null}}`)
		Eventually(isGone(ctx, oc)).WithContext(ctx).Should(BeTrue())
		Eventually(conditionOf(ctx, soc, v2beta2.ConditionReady)).WithContext(ctx).
			Should(And(beFalse(), because(v2beta2.ReasonTerminating), saying(s.kind+" "+namespace+"/one")))
		Eventually(isGone(ctx, soc)).WithContext(ctx).WithTimeout(140 * time.Second).Should(BeTrue())
		AddReportEntry("a SubOperatorConfig without its OperatorCollection went after", time.Since(began).Round(time.Second).String())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
		get(ctx, NewWithT(GinkgoT()), thing)
		Expect(thing.GetDeletionTimestamp()).To(BeNil())
		crd := customResourceDefinition(s.crdName())
		Consistently(isGone(ctx, crd)).WithContext(ctx).Should(BeFalse())

		remove(ctx, thing)
		remove(ctx, crd)
	}, NodeTimeout(4*time.Minute))
})

// expectNothingLeft checks that an installation left neither objects nor CRDs, but for what is given.
func expectNothingLeft(ctx context.Context, namespace string, s *sample, but ...string) {
	GinkgoHelper()
	Expect(madeIn(ctx, namespace)).To(ConsistOf(but))
	Eventually(isGone(ctx, customResourceDefinition(s.crdName()))).WithContext(ctx).Should(BeTrue())
}
