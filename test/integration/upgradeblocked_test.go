package integration

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// narrowed returns a sample with a field of two values, and its next version, in which one of them is not allowed any more.
func narrowed() (was, is *sample) {
	mode := func(options string) string {
		return "{name: size, displayName: Size, type: integer, default: 3}\n" +
			"      - {name: mode, displayName: Mode, type: string, options: [" + options + "]}"
	}
	was = newSample()
	was.variables = mode("a, b")
	next := *was
	next.version, next.variables = "2.0.0", mode("a")
	return was, &next
}

// inMode is a custom resource of a sample of narrowed.
func (s *sample) inMode(namespace, name, mode string) *unstructured.Unstructured {
	thing := s.instance(namespace, name)
	thing.Object["spec"].(map[string]any)["mode"] = mode
	return thing
}

// poke triggers a reconcile now, and not after the minute in which the manager would look again.
func poke(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Patch(ctx, object, fmt.Sprintf(`{"metadata":{"annotations":{"poked":%q},"labels":{"poked":"at%d"}}}`, time.Now(), time.Now().UnixNano()))
}

// expectBlocked waits until both objects say which custom resource blocks the upgrade.
func expectBlocked(ctx context.Context, oc *v2beta2.OperatorCollection, texts ...string) {
	GinkgoHelper()
	for _, object := range []client.Object{oc, defaultSOC(oc)} {
		for _, text := range texts {
			Eventually(ctx, Condition(ctx, object, v2beta2.ConditionUpgradeBlocked)).
				Should(And(ConditionTrue(), WithReason(v2beta2.ReasonUpgradeBlocked), WithMessage(text)))
		}
	}
}

// expectUnblocked waits until neither object says that it is blocked.
func expectUnblocked(ctx context.Context, oc *v2beta2.OperatorCollection) {
	GinkgoHelper()
	for _, object := range []client.Object{oc, defaultSOC(oc)} {
		Eventually(ctx, Condition(ctx, object, v2beta2.ConditionUpgradeBlocked)).Should(ConditionAbsent())
	}
}

var _ = Describe("An upgrade that custom resources do not fit", func() {
	It("is blocked before anything changes, also across a restart, until they fit", func(ctx context.Context) {
		namespace, elsewhere := newNamespace(ctx), newNamespace(ctx)
		s, next := narrowed()
		oc := installSample(ctx, namespace, s)
		soc, crd, old := defaultSOC(oc), customResourceDefinition(s.crdName()), *oc.Spec.DeepCopy()
		good, bad := s.inMode(namespace, "good", "a"), s.inMode(namespace, "bad", "b")
		Create(ctx, good, bad, s.inMode(elsewhere, "other", "b"))
		before := versions(installed(ctx, soc))
		Get(ctx, Default, crd)
		definition := crd.ResourceVersion
		expectUntouched := func() {
			GinkgoHelper()
			Get(ctx, Default, crd)
			Expect(crd.ResourceVersion).To(Equal(definition))
			Expect(versions(installed(ctx, soc))).To(Equal(before))
			Expect(importedDigest(ctx, oc)(Default)).To(Equal(old.Digest))
			ExpectReady(ctx, soc)
		}

		asked := next.pinned()
		changeSpec(ctx, oc, asked)
		ExpectFailure(ctx, oc, v2beta2.ReasonUpgradeBlocked, "does not fit 1 of 2 custom resources", false)
		expectBlocked(ctx, oc, s.kind+" "+namespace+"/bad", "spec.mode")
		Expect(Condition(ctx, oc, v2beta2.ConditionImported)(Default)).To(And(ConditionFalse(), WithReason(v2beta2.ReasonUpgradeBlocked)))
		expectUntouched()

		By("going back")
		changeSpec(ctx, oc, old)
		ExpectReady(ctx, oc)
		expectUnblocked(ctx, oc)
		expectUntouched()
		_, hex, _ := strings.Cut(asked.Digest, ":")
		Eventually(ctx, theManager.storedArchives).ShouldNot(ContainElement(ContainSubstring(hex)))

		By("asking for it again, and restarting the manager")
		changeSpec(ctx, oc, asked)
		expectBlocked(ctx, oc, namespace+"/bad")
		theManager.stop()
		theManager.start(ctx)
		poke(ctx, oc)
		Consistently(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonUpgradeBlocked)))
		expectBlocked(ctx, oc, namespace+"/bad")
		expectUntouched()

		By("changing the resource, without any other event")
		Patch(ctx, bad, `{"spec":{"mode":"a"}}`)
		makeReadyAgain(ctx, oc, next, "2.0.0")
		expectUnblocked(ctx, oc)
	})

	It("is blocked for the pods alone if they were created after the CRD was written", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		s, next := narrowed()
		oc := installSample(ctx, namespace, s)
		soc, operator := defaultSOC(oc), deployment(namespace, s.operator())
		spec := next.pinned()
		// The pods stay as long as the Secret does not exist.
		spec.Dependencies = &v2beta2.DependenciesSpec{CredentialsSecret: "index"}
		changeSpec(ctx, oc, spec)
		Eventually(ctx, importedDigest(ctx, oc)).Should(Equal(spec.Digest))
		ExpectFailure(ctx, soc, v2beta2.ReasonCredentialsInvalid, "index", false)
		bad := s.inMode(namespace, "bad", "b")
		Create(ctx, bad)
		Get(ctx, Default, operator)
		generation := operator.Generation
		Patch(ctx, oc, `{"spec":{"dependencies":null}}`)
		ExpectFailure(ctx, soc, v2beta2.ReasonUpgradeBlocked, "namespace \""+namespace+"\" keeps its version: version 2.0.0 does not fit 1 of 1 custom resources", false)
		ExpectFailure(ctx, oc, v2beta2.ReasonUpgradeBlocked, namespace+"/bad", false)
		expectBlocked(ctx, oc, namespace+"/bad")
		Get(ctx, Default, operator)
		Expect(operator.Generation).To(Equal(generation))

		By("letting the installed version follow its settings")
		Patch(ctx, soc, `{"spec":{"runtime":{"maxConcurrentReconciles":7}}}`)
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, operator)
			g.Expect(operator.Generation).To(BeNumerically(">", generation))
			g.Expect(operator.Spec.Template.Labels).To(HaveKeyWithValue("operator-version", "1.0.0"))
		}).Should(Succeed())
		makeAvailable(ctx, namespace, s.operator())
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, soc)
			g.Expect(soc.Status.ObservedGeneration).To(Equal(soc.Generation))
			g.Expect(soc.Status.Installations).To(ConsistOf(And(HaveField("Ready", true), HaveField("Message", ContainSubstring("keeps its version")))))
			g.Expect(soc.Status.Version).To(Equal("1.0.0"))
		}).Should(Succeed())
		Consistently(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonUpgradeBlocked)))

		By("changing the resource")
		Patch(ctx, bad, `{"spec":{"mode":"a"}}`)
		poke(ctx, soc)
		makeReadyAgain(ctx, oc, next, "2.0.0")
		expectUnblocked(ctx, oc)
	})
})
