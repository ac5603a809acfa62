package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("Deleting", func() {
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

	It("an OperatorCollection that never worked is not held up", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		oc := newCollection(namespace, "oc", unverified(web.Serve([]byte("text"))))
		Create(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonArchiveNotGzip, "", true)
		Remove(ctx, oc)
		Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
	})
})

// expectNothingLeft checks that an installation left neither objects nor CRDs, but for what is given.
func expectNothingLeft(ctx context.Context, namespace string, s *sample, but ...string) {
	GinkgoHelper()
	Expect(madeIn(ctx, namespace)).To(ConsistOf(but))
	Eventually(ctx, Gone(ctx, customResourceDefinition(s.crdName()))).Should(BeTrue())
}
