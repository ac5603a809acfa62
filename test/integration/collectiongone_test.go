package integration

import (
	"context"
	"net/http"

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
		withFlags(ctx, "--intervals=run-grace=3s")
		namespace, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		oc, soc := installIn(ctx, namespace, other, s)
		Expect(collectionUID(ctx, soc)(Default)).To(BeEquivalentTo(oc.UID))
		Expect(soc.OwnerReferences).To(BeEmpty(), "the garbage collector has no part in it")
		resource := s.instance(namespace, "one")
		Create(ctx, resource)
		setRunning(ctx, resource, "True")
		removeByForce(ctx, oc)
		Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).
			Should(And(ConditionFalse(), WithReason(v2beta2.ReasonTerminating), WithMessage(s.kind+" "+namespace+"/one")))
		Eventually(ctx, notes(ctx, soc, v2beta2.ReasonCollectionNotFound)).Should(ContainElement(ContainSubstring(`OperatorCollection "oc" does not exist any more`)))
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
		Expect(madeIn(ctx, other)).To(BeEmpty())
		Remove(ctx, resource)
		Remove(ctx, customResourceDefinition(s.crdName()))
	})

	It("is deleted if that went while no manager ran", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		theManager.stop()
		DeferCleanup(theManager.start)
		removeByForce(ctx, oc)
		theManager.start(ctx)
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
		Remove(ctx, customResourceDefinition(s.crdName()))
	})

	It("stays if it has no record that it was there, as after a restore", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		theManager.stop()
		DeferCleanup(theManager.start)
		removeByForce(ctx, oc)
		Expect(K8s.Status().Patch(ctx, soc, merge(`{"status":{"operatorCollectionUID":null}}`))).To(Succeed())
		before := versions(installed(ctx, soc))
		theManager.start(ctx)
		ExpectFailure(ctx, soc, v2beta2.ReasonCollectionNotFound, `OperatorCollection "oc" does not exist`, false)
		Consistently(ctx, func(g Gomega) {
			g.Expect(versions(installed(ctx, soc))).To(Equal(before))
			g.Expect(soc.DeletionTimestamp).To(BeNil())
		}).Should(Succeed())

		By("installing what is imported again")
		installSample(ctx, namespace, s)
		Expect(versions(installed(ctx, soc))).To(HaveLen(len(before)))
	})

	It("stays if another one has its name, which the watch does not show yet", func(ctx context.Context) {
		namespace, s, api := newNamespace(ctx), newSample(), startLaggingAPI()
		theManager.restartWith(ctx, api)
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		ExpectReady(ctx, soc)
		operator := Live(ctx, Default, deployment(namespace, s.operator())).GetUID()
		late := "operatorcollections"
		api.late.Store(&late)
		Patch(ctx, oc, `{"metadata":{"finalizers":null}}`)
		Remove(ctx, oc)
		again := newCollection(namespace, "oc", s.pinned())
		Create(ctx, again)
		Eventually(ctx, collectionUID(ctx, soc)).Should(BeEquivalentTo(again.UID))
		ExpectReady(ctx, again)
		Get(ctx, Default, soc)
		Expect(soc.DeletionTimestamp).To(BeNil())
		Expect(Live(ctx, Default, deployment(namespace, s.operator())).GetUID()).To(Equal(operator))
	})

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
		Get(ctx, Default, d)
		d.Status.Conditions, d.Status.ReadyReplicas, d.Status.AvailableReplicas = nil, 0, 0
		Expect(K8s.Status().Update(ctx, d)).To(Succeed())
		Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).Should(ConditionFalse())
		api.refuse("operatorcollections", code)
		Patch(ctx, soc, `{"metadata":{"labels":{"example.com/look":"again"}}}`)
		Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).Should(And(ConditionFalse(), WithMessage(`reading OperatorCollection "oc"`)))
		Consistently(ctx, func(g Gomega) {
			now := versions(installed(ctx, soc))
			delete(now, "Deployment/"+s.operator())
			g.Expect(now).To(Equal(before))
			g.Expect(soc.DeletionTimestamp).To(BeNil())
		}).Should(Succeed())
		api.refused.Store(nil)
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, soc)
	},
		Entry("since the API server does not serve the kind", http.StatusNotFound),
		Entry("since it fails", http.StatusInternalServerError),
		Entry("since it forbids to read", http.StatusForbidden),
	)
})
