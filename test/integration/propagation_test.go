package integration

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// removeWith deletes an object with a propagation policy, and waits until the garbage collector has acted upon that: an object with an
// owner reference to it is deleted, or has lost the reference.
func removeWith(ctx context.Context, object client.Object, propagation metav1.DeletionPropagation) {
	GinkgoHelper()
	Get(ctx, NewWithT(GinkgoT()), object)
	dependent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), GenerateName: "dependent-"}}
	Expect(controllerutil.SetOwnerReference(object, dependent, K8s.Scheme())).To(Succeed())
	Create(ctx, dependent)
	DeferCleanup(func(ctx context.Context) { Remove(ctx, dependent) }, NodeTimeout(time.Minute))
	Expect(K8s.Delete(ctx, object, client.PropagationPolicy(propagation))).To(Succeed())
	switch propagation {
	case metav1.DeletePropagationForeground:
		Eventually(Gone(ctx, dependent)).WithContext(ctx).Should(BeTrue())
	case metav1.DeletePropagationOrphan:
		Eventually(func(g Gomega) []metav1.OwnerReference {
			Get(ctx, g, dependent)
			return dependent.OwnerReferences
		}).WithContext(ctx).Should(BeEmpty())
	case metav1.DeletePropagationBackground: // It acts when the object is gone.
	}
	Remove(ctx, dependent)
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
		before := versions(installed(ctx, soc))
		expectOperator := func() {
			GinkgoHelper()
			Consistently(func(g Gomega) {
				Get(ctx, g, soc)
				g.Expect(versions(installed(ctx, soc))).To(Equal(before))
			}).WithContext(ctx).Should(Succeed())
		}

		removeWith(ctx, oc, propagation)
		ExpectFailure(ctx, oc, v2beta2.ReasonInstancesExist, s.kind+" "+namespace+"/one", false)
		expectOperator()
		Expect(soc.DeletionTimestamp).To(BeNil())

		By("also if the SubOperatorConfig is deleted in the same way")
		removeWith(ctx, soc, propagation)
		Eventually(Condition(ctx, soc, v2beta2.ConditionReady)).WithContext(ctx).
			Should(And(ConditionFalse(), WithReason(v2beta2.ReasonCollectionTerminating), WithMessage("the operator is kept"), WithMessage(s.kind+" "+namespace+"/one")))
		expectOperator()

		By("leaving nothing when the last one is gone")
		Remove(ctx, resource)
		Patch(ctx, resource, `{"metadata":{"finalizers":null}}`)
		Eventually(Gone(ctx, oc)).WithContext(ctx).WithTimeout(2 * time.Minute).Should(BeTrue())
		expectNothingLeft(ctx, namespace, s)
		Expect(madeIn(ctx, other)).To(BeEmpty())
	},
		Entry("foreground, as Argo CD has it", metav1.DeletePropagationForeground, NodeTimeout(4*time.Minute)),
		Entry("background", metav1.DeletePropagationBackground, NodeTimeout(4*time.Minute)),
		Entry("orphan", metav1.DeletePropagationOrphan, NodeTimeout(4*time.Minute)),
	)

	It("a SubOperatorConfig alone waits for the playbooks that run", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc, resource := defaultSOC(oc), s.instance(namespace, "one")
		Create(ctx, resource)
		setRunning(ctx, resource, "True")
		before := versions(installed(ctx, soc))
		removeWith(ctx, soc, metav1.DeletePropagationForeground)
		Eventually(Condition(ctx, soc, v2beta2.ConditionReady)).WithContext(ctx).
			Should(And(ConditionFalse(), WithReason(v2beta2.ReasonTerminating), WithMessage(s.kind+" "+namespace+"/one")))
		Consistently(func() map[string]string { return versions(installed(ctx, soc)) }).WithContext(ctx).Should(Equal(before))
		setRunning(ctx, resource, "False")
		Eventually(Gone(ctx, soc)).WithContext(ctx).Should(BeTrue())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
		Remove(ctx, resource)
	}, NodeTimeout(3*time.Minute))
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
		Get(ctx, NewWithT(GinkgoT()), soc)
		Expect(soc.Status.Installations).To(ConsistOf(And(HaveField("Ready", false), HaveField("ReadySince", BeNil()),
			HaveField("Reason", v2beta2.ReasonWorkloadUnavailable), HaveField("Message", ContainSubstring(gone)))))
		Eventually(Condition(ctx, resource, "Ready")).WithContext(ctx).Should(And(ConditionFalse(), WithReason("NoOperator")))
		Eventually(Condition(ctx, oc, v2beta2.ConditionReady)).WithContext(ctx).
			Should(And(WithReason(v2beta2.ReasonInstancesExist), WithMessage(gone), WithMessage(s.kind+" "+namespace+"/one"), WithMessage("Orphan")))

		By("also if the SubOperatorConfig is deleted, and whatever the policy is")
		Remove(ctx, soc)
		Eventually(Condition(ctx, soc, v2beta2.ConditionReady)).WithContext(ctx).Should(And(WithMessage(gone), Not(WithMessage("is kept"))))
		Patch(ctx, oc, `{"spec":{"deletionPolicy":"Finalize"}}`)
		ExpectFailure(ctx, oc, v2beta2.ReasonInstancesExist, gone, false)

		By("which is what the message says")
		Patch(ctx, oc, `{"spec":{"deletionPolicy":"Orphan"}}`)
		Eventually(Gone(ctx, oc)).WithContext(ctx).Should(BeTrue())
		installSample(ctx, namespace, s)
		Patch(ctx, resource, `{"metadata":{"finalizers":null}}`)
	}, NodeTimeout(4*time.Minute))
})
