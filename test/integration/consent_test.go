package integration

import (
	"context"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// Whoever maps a namespace must not be able to stay in it by making something else fail.
var _ = Describe("A namespace that withdraws its consent", func() {
	type hindrance = func(ctx context.Context, oc *v2beta2.OperatorCollection, s *sample)
	type expectation = func(ctx context.Context, soc *v2beta2.SubOperatorConfig, s *sample)
	stays := func(ctx context.Context, soc *v2beta2.SubOperatorConfig, s *sample) {
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, soc)
			g.Expect(soc.Status.Installations).To(ConsistOf(HaveField("Namespace", soc.Namespace)))
			Get(ctx, g, deployment(soc.Namespace, s.operator()))
		}).Should(Succeed())
	}
	goes := func(ctx context.Context, soc *v2beta2.SubOperatorConfig, _ *sample) {
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
	}

	DescribeTable("gets rid of the operator", attack.Label, func(ctx context.Context, hinder hindrance, own expectation) {
		namespace, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		allowMapping(ctx, other, namespace)
		soc := newSOC(namespace, "soc", "oc", mapTo(namespace, other)...)
		Create(ctx, soc)
		oc := importSample(ctx, namespace, s)
		makeAvailable(ctx, namespace, s.operator())
		makeAvailable(ctx, other, s.operator())
		ExpectReady(ctx, soc)

		hinder(ctx, oc, s)
		allowMapping(ctx, other)
		Eventually(ctx, func() []string { return madeIn(ctx, other) }).Should(BeEmpty())
		own(ctx, soc, s)
		attack.Repelled("Tenancy", "stay in a namespace, "+CurrentSpecReport().LeafNodeText, "the operator is removed", "nothing of it is left there")
	},
		Entry("though the OperatorCollection is suspended", func(ctx context.Context, oc *v2beta2.OperatorCollection, _ *sample) {
			Patch(ctx, oc, `{"spec":{"suspend":true}}`)
			Consistently(ctx, func() []string { return madeIn(ctx, oc.Namespace) }).ShouldNot(BeEmpty(), "the manager gets time to notice")
		}, stays),
		Entry("though the settings name a Secret that does not exist", func(ctx context.Context, oc *v2beta2.OperatorCollection, _ *sample) {
			Patch(ctx, oc, `{"spec":{"dependencies":{"credentialsSecret":"missing"}}}`)
			ExpectFailure(ctx, oc, v2beta2.ReasonCredentialsInvalid, `"missing"`, false)
		}, stays),
		Entry("though the OperatorCollection is being deleted", beginDeletion, stays),
		Entry("though the OperatorCollection is gone", func(ctx context.Context, oc *v2beta2.OperatorCollection, s *sample) {
			beginDeletion(ctx, oc, s)
			Patch(ctx, oc, `{"metadata":{"finalizers":null}}`)
			Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
		}, goes),
		Entry("though the archive is lost", func(ctx context.Context, oc *v2beta2.OperatorCollection, _ *sample) {
			web.Replace(oc.Spec.CollectionURL, http.NotFound)
			theManager.kill()
			theManager.loseArchives()
			theManager.start(ctx)
			ExpectFailure(ctx, oc, v2beta2.ReasonArchiveNotFound, "", false)
		}, stays),
	)
})

// beginDeletion deletes the OperatorCollection, which a custom resource keeps.
func beginDeletion(ctx context.Context, oc *v2beta2.OperatorCollection, s *sample) {
	GinkgoHelper()
	one := s.instance(oc.Namespace, "one")
	Create(ctx, one)
	DeferCleanup(func(ctx context.Context) { Remove(ctx, one) })
	Remove(ctx, oc)
	ExpectFailure(ctx, oc, v2beta2.ReasonInstancesExist, "one", false)
}
