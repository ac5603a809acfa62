package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// published is the condition Published of an OperatorCollection.
var published = v2beta2.ConditionPublished

var _ = Describe("The catalog for the Operator Lifecycle Manager", func() {
	It("has what was imported within seconds, and never less after a restart", func(ctx context.Context) {
		catalog := withCatalog(ctx)
		Eventually(ctx, catalog.packages(ctx)).Should(BeEmpty())
		source := catalog.source()
		Eventually(ctx, Gone(ctx, source)).Should(BeFalse())

		namespace, s := newNamespace(ctx), newSample()
		oc := importSample(ctx, namespace, s)
		Eventually(ctx, catalog.packages(ctx)).WithTimeout(soon).Should(ConsistOf(s.operator()))
		Expect(catalog.channels(ctx, s.operator())).To(Equal(map[string]string{
			"stable": s.operator() + ".v1.0.0", "v1.0.0": s.operator() + ".v1.0.0",
		}))
		Eventually(ctx, Condition(ctx, oc, published)).Should(And(
			ConditionTrue(), WithMessage("package "+s.operator()+", channels stable and v1.0.0")))

		By("making the CatalogSource that leads to it")
		source = Live(ctx, Default, source)
		Expect(source.Object["spec"]).To(And(
			HaveKeyWithValue("sourceType", "grpc"), HaveKeyWithValue("address", "catalog.example:50051"),
			HaveKeyWithValue("displayName", "Collection Operator"), Not(HaveKey("updateStrategy"))))
		Expect(source.GetAnnotations()).To(HaveKeyWithValue("zoscb.ibm.com/catalog-digest", HavePrefix("sha256:")))

		By("restarting the manager, which has to fetch the archives again")
		theManager.kill()
		theManager.loseArchives()
		theManager.start(ctx)
		var first []string
		Eventually(ctx, func() (err error) {
			first, err = catalog.packages(ctx)()
			return err
		}).Should(Succeed())
		Expect(first).To(ConsistOf(s.operator()))
		Expect(Live(ctx, Default, source).GetAnnotations()).To(Equal(source.GetAnnotations()))
	})

	It("has only what was granted its permissions, and withdraws it with the grant", func(ctx context.Context) {
		catalog := withCatalog(ctx)
		s, other := newSample(), newSample()
		s.permissions = "clusterRoles:\n  - {apiGroups: [''], resources: [nodes], verbs: [list]}\n" +
			"roles:\n  - {apiGroups: [batch], resources: [jobs], verbs: [create]}"
		other.variables = "{name: partner, displayName: Partner, type: string, kindReference: " + s.kind + "}"
		referring, withoutList := importSample(ctx, newNamespace(ctx), other), "without a list of the resources of "+s.kind+" in forms"
		Eventually(ctx, Condition(ctx, referring, published)).Should(And(ConditionTrue(), WithMessage(withoutList)))
		oc := importSample(ctx, newNamespace(ctx), s)
		Eventually(ctx, Condition(ctx, referring, published)).WithTimeout(soon).Should(And(ConditionTrue(), Not(WithMessage(withoutList))))
		Eventually(ctx, Condition(ctx, oc, published)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonPermissionsNotGranted),
			WithMessage("\n  nodes: list in the whole cluster\n"), WithMessage("\n  batch/jobs: create in the whole cluster\n")))
		Eventually(ctx, catalog.packages(ctx)).Should(ConsistOf(other.operator()))

		By("granting what the message shows")
		given := applyManifestOf(ctx, Condition(ctx, oc, published)(Default).Message)
		Eventually(ctx, catalog.packages(ctx)).WithTimeout(soon).Should(ConsistOf(s.operator(), other.operator()))
		Eventually(ctx, Condition(ctx, oc, published)).Should(ConditionTrue())

		By("withdrawing the grant")
		removeGrants(ctx, given)
		Eventually(ctx, catalog.packages(ctx)).WithTimeout(soon).Should(ConsistOf(other.operator()))
		Eventually(ctx, Condition(ctx, oc, published)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonPermissionsNotGranted)))
	})

	It("is made only where it is asked for, and says what it lacks until it is there, while the manager goes on", Slow, func(ctx context.Context) {
		withoutOLM()
		withdrawOLM()
		s, olm := newSample(), olmNamespace(ctx)
		oc := importSample(ctx, newNamespace(ctx), s)
		Expect(Condition(ctx, oc, published)(Default)).To(ConditionAbsent())
		catalog := startWithCatalog(ctx, "--catalog-namespace=")
		says := func(reason, message string) {
			GinkgoHelper()
			Eventually(ctx, Condition(ctx, oc, published)).Should(And(ConditionFalse(), WithReason(reason), WithMessage(message)))
		}
		says(v2beta2.ReasonOLMUnavailable, "the Operator Lifecycle Manager is not installed")

		By("lacking the permission to use it")
		installOLM(ctx)
		says(v2beta2.ReasonOLMUnavailable, "may not create Subscriptions: install it with the component config/components/olm")

		By("taking over no CatalogSource of somebody else")
		foreign := (&testCatalog{namespace: olm.GetName()}).source()
		foreign.Object["spec"] = map[string]any{"sourceType": "grpc", "address": "foreign.example:50051"}
		Create(ctx, foreign)
		grantOLM(ctx)
		says(v2beta2.ReasonForeignObject, `CatalogSource "olm/collection-operator-catalog"`)
		Expect(Live(ctx, Default, foreign).GetResourceVersion()).To(Equal(foreign.GetResourceVersion()))

		By("having all it needs")
		Remove(ctx, foreign)
		Eventually(ctx, Condition(ctx, oc, published)).WithTimeout(InstallTimeout).Should(ConditionTrue())
		Expect(catalog.packages(ctx)()).To(ConsistOf(s.operator()))
	})
})
