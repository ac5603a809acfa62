package integration

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// published is the condition Published of an OperatorCollection.
var published = v2beta2.ConditionPublished

var _ = Describe("The catalog for the Operator Lifecycle Manager", func() {
	It("does not exist unless it is asked for", func(ctx context.Context) {
		withoutOLM()
		installOLM(ctx)
		allowOLM(ctx)
		s := newSample()
		oc := installSample(ctx, newNamespace(ctx), s)
		Expect(Condition(ctx, oc, published)(Default)).To(ConditionAbsent())
		Expect(listUnstructured(ctx, "operators.coreos.com/v1alpha1", "CatalogSourceList")).To(BeEmpty())
		Expect(listUnstructured(ctx, "operators.coreos.com/v1alpha1", "SubscriptionList")).To(BeEmpty())
	})

	It("has what was imported within seconds, and nothing is written while nothing changes", func(ctx context.Context) {
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

		By("looking at it again without a write")
		settled(ctx, oc)
		expectRest(ctx)
		mark := markAudit()
		grantVersion(ctx)
		Consistently(ctx, func(g Gomega) {
			g.Expect(Live(ctx, g, source).GetResourceVersion()).To(Equal(source.GetResourceVersion()))
			g.Expect(mark.writesAbout(namespace, oc.Namespace, source.GetName())()).To(BeEmpty())
		}).WithTimeout(6 * time.Second).Should(Succeed())

		By("making the CatalogSource again when somebody deletes it, with the same content")
		Remove(ctx, source)
		Eventually(ctx, func(g Gomega) {
			again := Live(ctx, g, source)
			g.Expect(again.GetUID()).NotTo(Equal(source.GetUID()))
			g.Expect(again.GetAnnotations()).To(Equal(source.GetAnnotations()))
		}).Should(Succeed())

		By("never showing less after a restart, even if the archives have to be fetched again")
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

		By("losing the package with the collection")
		removeCollections(ctx, namespace)
		Eventually(ctx, catalog.packages(ctx)).Should(BeEmpty())
		Eventually(ctx, func(g Gomega) {
			g.Expect(Live(ctx, g, source).GetAnnotations()).NotTo(Equal(source.GetAnnotations()))
		}).Should(Succeed())
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

	It("leaves out what it cannot hold, and nothing else", func(ctx context.Context) {
		catalog := withCatalog(ctx)
		large, other := newSample(), newSample()
		large.makeTooLarge()
		oc := importSample(ctx, newNamespace(ctx), large)
		importSample(ctx, newNamespace(ctx), other)
		Eventually(ctx, Condition(ctx, oc, published)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonBundleTooLarge)))
		Eventually(ctx, catalog.packages(ctx)).Should(ConsistOf(other.operator()))
		Expect(Condition(ctx, oc, v2beta2.ConditionImported)(Default)).To(ConditionTrue(), "it can be installed all the same")
	})

	It("begins when the Operator Lifecycle Manager is installed, and the manager goes on", Slow, func(ctx context.Context) {
		withoutOLM()
		allowOLM(ctx)
		catalog := startWithCatalog(ctx)
		s := newSample()
		oc := importSample(ctx, newNamespace(ctx), s)
		Eventually(ctx, Condition(ctx, oc, published)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonOLMUnavailable),
			WithMessage("the Operator Lifecycle Manager is not installed")))
		installOLM(ctx)
		Eventually(ctx, Condition(ctx, oc, published)).WithTimeout(InstallTimeout).Should(ConditionTrue())
		Expect(catalog.packages(ctx)()).To(ConsistOf(s.operator()))
	})

	It("says what is missing when the manager may not use the Operator Lifecycle Manager", Slow, func(ctx context.Context) {
		withoutOLM()
		installOLM(ctx)
		startWithCatalog(ctx)
		oc := importSample(ctx, newNamespace(ctx), newSample())
		Eventually(ctx, Condition(ctx, oc, published)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonOLMUnavailable),
			WithMessage("may not create Subscriptions: install it with the component config/components/olm")))
	})

	It("takes over no CatalogSource of somebody else", Slow, func(ctx context.Context) {
		withoutOLM()
		installOLM(ctx)
		allowOLM(ctx)
		olm := olmNamespace(ctx)
		foreign := (&testCatalog{namespace: olm.GetName()}).source()
		foreign.Object["spec"] = map[string]any{"sourceType": "grpc", "address": "foreign.example:50051"}
		Create(ctx, foreign)
		startWithCatalog(ctx, "--catalog-namespace=")
		oc := importSample(ctx, newNamespace(ctx), newSample())
		Eventually(ctx, Condition(ctx, oc, published)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonForeignObject),
			WithMessage(`CatalogSource "olm/collection-operator-catalog"`)))
		Expect(Live(ctx, Default, foreign).GetResourceVersion()).To(Equal(foreign.GetResourceVersion()))
		Remove(ctx, foreign)
		Eventually(ctx, Condition(ctx, oc, published)).WithTimeout(InstallTimeout).Should(ConditionTrue())
	})
})

// settled waits until the manager has nothing more to write about an object.
func settled(ctx context.Context, oc *v2beta2.OperatorCollection) {
	GinkgoHelper()
	var version string
	Eventually(ctx, func(g Gomega) {
		Get(ctx, g, oc)
		before := version
		version = oc.ResourceVersion
		g.Expect(version).To(Equal(before))
	}).WithPolling(time.Second).Should(Succeed())
}

func listUnstructured(ctx context.Context, apiVersion, kind string) []unstructured.Unstructured {
	GinkgoHelper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(apiVersion)
	list.SetKind(kind)
	Expect(K8s.List(ctx, list)).To(Succeed())
	return list.Items
}

// makeTooLarge makes the sample one that can be installed, and that no catalog can hold.
func (s *sample) makeTooLarge() {
	s.variables = manyVariables(1300)
	s.permissions = "  - kind: " + s.kind + "Too\n    playbook: play.yml\n    vars:\n      - " + manyVariables(1300)
}

// manyVariables are as many as given, with long descriptions.
func manyVariables(count int) string {
	lines := make([]string, 0, count)
	for i := range count {
		lines = append(lines, fmt.Sprintf("{name: v%d, displayName: V %d, type: string, description: %s}", i, i, strings.Repeat("long ", 60)))
	}
	return strings.Join(lines, "\n      - ")
}
