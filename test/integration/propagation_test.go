package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// removeWith deletes an object with the propagation policy Foreground or Orphan, and waits until the garbage collector has acted upon
// that: it takes away the finalizer that the API server has added, and the object is gone if that was the last one. What it does to
// dependents says less: one that it sees after that keeps its reference for ever.
func removeWith(ctx context.Context, object client.Object, propagation metav1.DeletionPropagation) {
	GinkgoHelper()
	Expect(K8s.Delete(ctx, object, client.PropagationPolicy(propagation))).To(Succeed())
	Eventually(ctx, func(g Gomega) {
		if err := K8s.Get(ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(object.GetFinalizers()).NotTo(ContainElement(BeElementOf(metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents)))
		}
	}).Should(Succeed())
}

// newUnfinished makes a custom resource of a sample that ran, and stays when it is deleted until somebody has run its deletion playbook.
func newUnfinished(ctx context.Context, namespace string, s *sample) *unstructured.Unstructured {
	GinkgoHelper()
	resource := s.instance(namespace, "one")
	resource.SetFinalizers([]string{InstanceFinalizer})
	Create(ctx, resource)
	reportRun(ctx, resource, "Succeeded", runOf("1", "Succeeded", ""))
	return resource
}

var _ = Describe("Whatever the propagation policy of its deletion", func() {
	DescribeTable("a collection keeps its operator as long as custom resources need it", func(ctx context.Context, propagation metav1.DeletionPropagation) {
		namespace, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		oc, soc := installIn(ctx, namespace, other, s)
		resource := newUnfinished(ctx, namespace, s)
		bystander := configMap(namespace, "bystander")
		bystander.Labels = s.labels()
		Create(ctx, bystander)
		before := versions(installed(ctx, soc))
		expectOperator := func() {
			GinkgoHelper()
			Consistently(ctx, func(g Gomega) {
				Get(ctx, g, soc)
				g.Expect(versions(installed(ctx, soc))).To(Equal(before))
			}).Should(Succeed())
		}

		removeWith(ctx, oc, propagation)
		ExpectFailure(ctx, oc, v2beta2.ReasonInstancesExist, s.kind+" "+namespace+"/one", false)
		expectOperator()
		Expect(soc.DeletionTimestamp).To(BeNil())

		By("also if the SubOperatorConfig is deleted in the same way")
		removeWith(ctx, soc, propagation)
		Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).
			Should(And(ConditionFalse(), WithReason(v2beta2.ReasonCollectionTerminating), WithMessage("the operator is kept"), WithMessage(s.kind+" "+namespace+"/one")))
		expectOperator()

		By("leaving nothing when the last one is gone, but what somebody else has labelled in the same way")
		Remove(ctx, resource)
		Patch(ctx, resource, `{"metadata":{"finalizers":null}}`)
		Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
		expectNothingLeft(ctx, namespace, s, "ConfigMap/"+bystander.Name)
		Expect(madeIn(ctx, other)).To(BeEmpty())
	},
		Entry("foreground, as Argo CD has it", metav1.DeletePropagationForeground),
		Entry("orphan", metav1.DeletePropagationOrphan),
	)

	It("a SubOperatorConfig alone waits for the playbooks that run", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc, resource := defaultSOC(oc), s.instance(namespace, "one")
		Create(ctx, resource)
		setRunning(ctx, resource, "True")
		before := versions(installed(ctx, soc))
		removeWith(ctx, soc, metav1.DeletePropagationForeground)
		Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).
			Should(And(ConditionFalse(), WithReason(v2beta2.ReasonTerminating), WithMessage(s.kind+" "+namespace+"/one")))
		Consistently(ctx, func() map[string]string { return versions(installed(ctx, soc)) }).Should(Equal(before))
		setRunning(ctx, resource, "False")
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
		Remove(ctx, resource)
	})
})

var _ = Describe("An operator that is gone although it is still needed", func() {
	It("is reported by all that wait for it, and comes back with the collection", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc, resource := defaultSOC(oc), newUnfinished(ctx, namespace, s)
		Remove(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonInstancesExist, "deletion waits until", false)
		Remove(ctx, resource)
		Remove(ctx, deployment(namespace, s.operator()))
		gone := `Deployment "` + namespace + "/" + s.operator() + `" does not exist`
		ExpectFailure(ctx, soc, v2beta2.ReasonWorkloadUnavailable, gone, false)
		Get(ctx, Default, soc)
		Expect(soc.Status.Installations).To(ConsistOf(And(HaveField("Ready", false), HaveField("ReadySince", BeNil()),
			HaveField("Reason", v2beta2.ReasonWorkloadUnavailable), HaveField("Message", ContainSubstring(gone)))))
		Eventually(ctx, Condition(ctx, resource, "Ready")).Should(And(ConditionFalse(), WithReason("NoOperator")))
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).
			Should(And(WithReason(v2beta2.ReasonInstancesExist), WithMessage(gone), WithMessage(s.kind+" "+namespace+"/one"), WithMessage("Orphan")))

		By("also if the SubOperatorConfig is deleted, and whatever the policy is")
		Remove(ctx, soc)
		Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).Should(And(WithMessage(gone), Not(WithMessage("is kept"))))
		Patch(ctx, oc, `{"spec":{"deletionPolicy":"Finalize"}}`)
		ExpectFailure(ctx, oc, v2beta2.ReasonInstancesExist, gone, false)

		By("which is what the message says")
		Patch(ctx, oc, `{"spec":{"deletionPolicy":"Orphan"}}`)
		Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
		installSample(ctx, namespace, s)
		Patch(ctx, resource, `{"metadata":{"finalizers":null}}`)
	})
})
