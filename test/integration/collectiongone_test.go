package integration

import (
	"context"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// collectionUID is the UID of the OperatorCollection that a SubOperatorConfig has seen, as its status records it.
func collectionUID(ctx context.Context, soc *v2beta2.SubOperatorConfig) func(Gomega) string {
	return Field(ctx, soc, "status", "operatorCollectionUID")
}

var _ = Describe("A SubOperatorConfig whose OperatorCollection is not there", func() {
	It("is deleted if that was there, and was deleted by force, as authors' tools do", func(ctx context.Context) {
		namespace, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		oc, soc := installIn(ctx, namespace, other, s)
		Expect(collectionUID(ctx, soc)(NewWithT(GinkgoT()))).To(BeEquivalentTo(oc.UID))
		Expect(soc.OwnerReferences).To(BeEmpty(), "the garbage collector has no part in it")
		resource := s.instance(namespace, "one")
		Create(ctx, resource)
		setRunning(ctx, resource, "True")
		began := time.Now()
		removeByForce(ctx, oc)
		Eventually(Condition(ctx, soc, v2beta2.ConditionReady)).WithContext(ctx).
			Should(And(ConditionFalse(), WithReason(v2beta2.ReasonTerminating), WithMessage(s.kind+" "+namespace+"/one")))
		Eventually(notes(ctx, soc, v2beta2.ReasonCollectionNotFound)).WithContext(ctx).Should(ConsistOf(ContainSubstring(`OperatorCollection "oc"`)))
		Eventually(Gone(ctx, soc)).WithContext(ctx).WithTimeout(140 * time.Second).Should(BeTrue())
		AddReportEntry("with a playbook that does not end, it was gone after", time.Since(began).Round(time.Second).String())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
		Expect(madeIn(ctx, other)).To(BeEmpty())
		Remove(ctx, resource)
		Remove(ctx, customResourceDefinition(s.crdName()))
	}, NodeTimeout(4*time.Minute))

	It("is deleted if that went while no manager ran", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		theManager.stop()
		DeferCleanup(theManager.start, NodeTimeout(time.Minute))
		removeByForce(ctx, oc)
		theManager.start(ctx)
		Eventually(Gone(ctx, soc)).WithContext(ctx).Should(BeTrue())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
		Remove(ctx, customResourceDefinition(s.crdName()))
	}, NodeTimeout(2*time.Minute))

	It("stays if it has no record that it was there, as after a restore", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		theManager.stop()
		DeferCleanup(theManager.start, NodeTimeout(time.Minute))
		removeByForce(ctx, oc)
		Expect(K8s.Status().Patch(ctx, soc, merge(`{"status":{"operatorCollectionUID":null}}`))).To(Succeed())
		before := versions(installed(ctx, soc))
		theManager.start(ctx)
		ExpectFailure(ctx, soc, v2beta2.ReasonCollectionNotFound, `OperatorCollection "oc" does not exist`, false)
		Consistently(func(g Gomega) {
			g.Expect(versions(installed(ctx, soc))).To(Equal(before))
			g.Expect(soc.DeletionTimestamp).To(BeNil())
		}).WithContext(ctx).Should(Succeed())

		By("installing what is imported again")
		installSample(ctx, namespace, s)
		Expect(versions(installed(ctx, soc))).To(HaveLen(len(before)))
	}, NodeTimeout(2*time.Minute))

	It("stays if another one has its name, which the watch does not show yet", func(ctx context.Context) {
		namespace, s, api := newNamespace(ctx), newSample(), startLaggingAPI()
		theManager.restartWith(ctx, api)
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		ExpectReady(ctx, soc)
		operator := Live(ctx, NewWithT(GinkgoT()), deployment(namespace, s.operator())).GetUID()
		late := "operatorcollections"
		api.late.Store(&late)
		Patch(ctx, oc, `{"metadata":{"finalizers":null}}`)
		Remove(ctx, oc)
		again := newCollection(namespace, "oc", s.pinned())
		Create(ctx, again)
		Eventually(collectionUID(ctx, soc)).WithContext(ctx).Should(BeEquivalentTo(again.UID))
		ExpectReady(ctx, again)
		Get(ctx, NewWithT(GinkgoT()), soc)
		Expect(soc.DeletionTimestamp).To(BeNil())
		Expect(Live(ctx, NewWithT(GinkgoT()), deployment(namespace, s.operator())).GetUID()).To(Equal(operator))
	}, NodeTimeout(3*time.Minute))

	DescribeTable("stays if nobody knows whether that is there", func(ctx context.Context, code int) {
		namespace, s, api := newNamespace(ctx), newSample(), startLaggingAPI()
		theManager.restartWith(ctx, api)
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		ExpectReady(ctx, soc)
		before := versions(installed(ctx, soc))
		delete(before, "Deployment/"+s.operator())
		By("making it read the OperatorCollection live, as it does until it is Ready")
		d := deployment(namespace, s.operator())
		Get(ctx, NewWithT(GinkgoT()), d)
		d.Status.Conditions, d.Status.ReadyReplicas, d.Status.AvailableReplicas = nil, 0, 0
		Expect(K8s.Status().Update(ctx, d)).To(Succeed())
		Eventually(Condition(ctx, soc, v2beta2.ConditionReady)).WithContext(ctx).Should(ConditionFalse())
		api.refuse("operatorcollections", code)
		Patch(ctx, soc, `{"metadata":{"labels":{"example.com/look":"again"}}}`)
		Eventually(Condition(ctx, soc, v2beta2.ConditionReady)).WithContext(ctx).Should(And(ConditionFalse(), WithMessage(`reading OperatorCollection "oc"`)))
		Consistently(func(g Gomega) {
			now := versions(installed(ctx, soc))
			delete(now, "Deployment/"+s.operator())
			g.Expect(now).To(Equal(before))
			g.Expect(soc.DeletionTimestamp).To(BeNil())
		}).WithContext(ctx).Should(Succeed())
		api.refused.Store(nil)
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, soc)
	},
		Entry("since the API server does not serve the kind", http.StatusNotFound, NodeTimeout(3*time.Minute)),
		Entry("since it fails", http.StatusInternalServerError, NodeTimeout(3*time.Minute)),
		Entry("since it forbids to read", http.StatusForbidden, NodeTimeout(3*time.Minute)),
	)
})
