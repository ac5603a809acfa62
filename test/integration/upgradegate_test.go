package integration

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// installCSV plays the part of OLM: it makes a ClusterServiceVersion of the sample and the OperatorCondition for it.
func installCSV(ctx context.Context, namespace string, s *sample, replaces string) *operatorsv2.OperatorCondition {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: s.operator() + ".v" + s.version}
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: meta}
	csv.Labels = map[string]string{
		"managed-by": "ibm-zos-cloud-broker", "operator-domain": domain, "operator-name": s.name, "operator-version": s.version,
	}
	csv.Spec.DisplayName, csv.Spec.Replaces = s.name, replaces
	csv.Spec.InstallStrategy.StrategyName = operatorsv1alpha1.InstallStrategyNameDeployment
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{}
	Expect(yaml.Unmarshal([]byte(s.version), &csv.Spec.Version)).To(Succeed())
	condition := &operatorsv2.OperatorCondition{ObjectMeta: meta}
	Create(ctx, condition, csv)
	return condition
}

// upgradeable is what an OperatorCondition says about upgrades.
func upgradeable(ctx context.Context, condition *operatorsv2.OperatorCondition) func(Gomega) metav1.Condition {
	return func(g Gomega) metav1.Condition {
		Get(ctx, g, condition)
		is := meta.FindStatusCondition(condition.Spec.Conditions, operatorsv2.Upgradeable)
		g.Expect(is).NotTo(BeNil())
		return *is
	}
}

var _ = Describe("An operator that OLM could upgrade", Ordered, func() {
	BeforeAll(restartWithOLM)

	It("says so when its OperatorCollection has the newer version, and not before", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := withoutDefault(ctx, namespace, s)
		subscription := newSubscription(namespace, s)
		Create(ctx, subscription)
		soc := expectMade(ctx, subscription)
		first := installCSV(ctx, namespace, s, "")
		Eventually(ctx, upgradeable(ctx, first)).Should(And(ConditionFalse(), WithReason("VersionPinned"),
			WithMessage("runs version 1.0.0 because OperatorCollection \"oc\" has it")))

		By("publishing a newer version that somebody else has")
		next := *s
		next.version = "1.1.0"
		second := installCSV(ctx, namespace, &next, first.Name)
		Eventually(ctx, upgradeable(ctx, first)).Should(And(ConditionFalse(), WithMessage("has it, and not 1.1.0")))
		Eventually(ctx, upgradeable(ctx, second)).Should(ConditionFalse())
		Consistently(ctx, upgradeable(ctx, first)).Should(ConditionFalse())

		By("writing nothing while nothing changes")
		mark := markAudit()
		Patch(ctx, soc, `{"metadata":{"labels":{"operator-version":"touched"}}}`)
		Patch(ctx, oc, `{"metadata":{"annotations":{"touched":"true"}}}`)
		Consistently(ctx, func() []string { return mark.writesOf("operatorconditions") }).Should(BeEmpty())

		By("giving the newer version to the OperatorCollection")
		changeSpec(ctx, oc, next.pinned())
		Eventually(ctx, upgradeable(ctx, first)).Should(And(ConditionTrue(), WithMessage("allows upgrades to version 1.1.0")))
		Eventually(ctx, upgradeable(ctx, second)).Should(And(ConditionFalse(), WithMessage("runs version 1.1.0")))
	})

	It("is upgraded by its SubOperatorConfig at once, unless that is refused", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc, subscription := importForOLM(ctx, namespace, s), subscriptionOf(namespace, s)
		Eventually(ctx, Gone(ctx, subscription)).Should(BeFalse())
		first := installCSV(ctx, namespace, s, "")
		csv := runInOLM(ctx, subscription, s)
		ExpectReady(ctx, defaultSOC(oc))
		Eventually(ctx, upgradeable(ctx, first)).Should(And(ConditionTrue(), WithMessage("allows upgrades to version 1.0.0")))

		By("asking for permissions that nobody granted")
		next := *s
		next.version = "1.1.0"
		next.permissions = "clusterRoles: [{apiGroups: [\"\"], resources: [nodes], verbs: [get]}]"
		changeSpec(ctx, oc, next.pinned())
		Eventually(ctx, upgradeable(ctx, first)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonPermissionsNotGranted)))
		Get(ctx, Default, subscription)
		Expect(subscription.Spec.Channel).To(HaveSuffix("1.0.0"))

		By("granting them")
		grant(ctx, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}})
		Eventually(ctx, upgradeable(ctx, first)).WithTimeout(InstallTimeout).Should(And(ConditionTrue(), WithMessage("allows upgrades to version 1.1.0")))
		Eventually(ctx, Field(ctx, subscription, "spec", "channel")).Should(HaveSuffix("1.1.0"))

		By("removing it")
		Patch(ctx, oc, `{"spec":{"deletionPolicy":"Finalize"}}`)
		Remove(ctx, oc)
		collectGarbage(ctx, csv, s)
	})

	It("says why an upgrade would be refused", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := withoutDefault(ctx, namespace, s)
		Create(ctx, newSubscription(namespace, s))
		first := installCSV(ctx, namespace, s, "")
		Eventually(ctx, upgradeable(ctx, first)).Should(ConditionFalse())
		greedy := *s
		greedy.version = "1.1.0"
		greedy.permissions = "clusterRoles: [{apiGroups: [\"\"], resources: [nodes], verbs: [get]}]"
		installCSV(ctx, namespace, &greedy, first.Name)
		changeSpec(ctx, oc, greedy.pinned())
		Eventually(ctx, upgradeable(ctx, first)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonPermissionsNotGranted), WithMessage("nodes")))

		By("offering an archive that is not what was asked for")
		other := *s
		other.version = "1.2.0"
		spec := other.pinned()
		spec.Digest = DigestOf([]byte("something else"))
		changeSpec(ctx, oc, spec)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionFalse())
		Consistently(ctx, upgradeable(ctx, first)).Should(ConditionFalse())
	})

	It("is not offered a version that custom resources do not fit, and OLM is told to wait, until they fit", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		s, next := narrowed()
		oc, subscription := importForOLM(ctx, namespace, s), subscriptionOf(namespace, s)
		Eventually(ctx, Gone(ctx, subscription)).Should(BeFalse())
		first := installCSV(ctx, namespace, s, "")
		csv := runInOLM(ctx, subscription, s)
		ExpectReady(ctx, oc)
		bad := s.inMode(namespace, "bad", "b")
		Create(ctx, bad)
		changeSpec(ctx, oc, next.pinned())
		expectBlocked(ctx, oc, namespace+"/bad")
		Eventually(ctx, upgradeable(ctx, first)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonUpgradeBlocked), WithMessage(namespace+"/bad")))
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionPublished)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonCollectionNotImported)))
		expectSubscription(ctx, namespace, s)
		ExpectReady(ctx, defaultSOC(oc))

		By("changing the resource while the pods cannot change yet, and changing it back")
		Patch(ctx, bad, `{"spec":{"mode":"a"}}`)
		Patch(ctx, oc, `{"spec":{"dependencies":{"credentialsSecret":"index"}}}`)
		Eventually(ctx, importedDigest(ctx, oc)).Should(Equal(oc.Spec.Digest))
		Patch(ctx, bad, `{"spec":{"mode":"b"}}`)
		Patch(ctx, oc, `{"spec":{"dependencies":null}}`)
		ExpectFailure(ctx, defaultSOC(oc), v2beta2.ReasonUpgradeBlocked, namespace+"/bad", false)
		Eventually(ctx, upgradeable(ctx, first)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonUpgradeBlocked)))
		Consistently(ctx, Field(ctx, subscription, "spec", "channel")).Should(Equal("v1.0.0"))

		By("letting it go")
		Patch(ctx, bad, `{"spec":{"mode":"a"}}`)
		poke(ctx, defaultSOC(oc))
		expectSubscription(ctx, namespace, next)
		Eventually(ctx, upgradeable(ctx, first)).Should(ConditionTrue())
		Patch(ctx, oc, `{"spec":{"deletionPolicy":"Finalize"}}`)
		Remove(ctx, bad)
		Remove(ctx, oc)
		collectGarbage(ctx, csv, s)
	})

	It("is not upgraded to such a version for a Subscription that somebody made to the channel of all versions", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		s, next := narrowed()
		oc := withoutDefault(ctx, namespace, s)
		subscription := newSubscription(namespace, s)
		Create(ctx, subscription)
		soc := expectMade(ctx, subscription)
		first := installCSV(ctx, namespace, s, "")
		runInOLM(ctx, subscription, s)
		ExpectReady(ctx, soc)
		bad := s.inMode(namespace, "bad", "b")
		Create(ctx, bad)
		changeSpec(ctx, oc, next.pinned())
		Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionUpgradeBlocked)).Should(And(ConditionTrue(), WithMessage(namespace+"/bad")))
		installCSV(ctx, namespace, next, first.Name)
		Eventually(ctx, upgradeable(ctx, first)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonUpgradeBlocked)))
		Consistently(ctx, upgradeable(ctx, first)).Should(ConditionFalse())

		By("changing the resource")
		Patch(ctx, bad, `{"spec":{"mode":"a"}}`)
		poke(ctx, oc)
		Eventually(ctx, upgradeable(ctx, first)).Should(And(ConditionTrue(), WithMessage("allows upgrades to version 2.0.0")))
	})

	It("is upgraded in one namespace after another, a channel at a time", func(ctx context.Context) {
		own, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		allowMapping(ctx, other, own)
		soc := newSOC(own, "soc", "oc", mapTo(own, other)...)
		Create(ctx, soc)
		oc := importForOLM(ctx, own, s)
		namespaces := []string{own, other}
		slices.Sort(namespaces)
		former := *s
		for _, namespace := range namespaces {
			runInOLM(ctx, expectSubscription(ctx, namespace, s), s)
		}
		ExpectReady(ctx, oc)

		s.version = "2.0.0"
		changeSpec(ctx, oc, s.pinned())
		first, second := expectSubscription(ctx, namespaces[0], s), subscriptionOf(namespaces[1], s)
		channel := func(g Gomega) string {
			Get(ctx, g, second)
			return second.Spec.Channel
		}
		Consistently(ctx, channel).Should(Equal("v1.0.0"))
		ExpectFailure(ctx, oc, v2beta2.ReasonUpgradePending, "version 2.0.0 runs in 0 of 2 namespaces; waiting for namespace "+namespaces[0], false)
		// upgrade plays the part of OLM, which replaces the pods when the manager tells them what the new version needs.
		upgrade := func(subscription *operatorsv1alpha1.Subscription) {
			GinkgoHelper()
			before := subscription.Spec.Config.Annotations[runtimeHash]
			runInOLM(ctx, subscription, s)
			Remove(ctx, operatorCSV(subscription.Namespace, &former))
			Eventually(ctx, func(g Gomega) string {
				Get(ctx, g, subscription)
				return subscription.Spec.Config.Annotations[runtimeHash]
			}).ShouldNot(Equal(before))
			rollInOLM(ctx, subscription, s)
		}
		upgrade(first)
		Eventually(ctx, channel).Should(Equal("v2.0.0"))
		upgrade(second)
		ExpectReady(ctx, oc)
		Remove(ctx, soc)
		for _, namespace := range namespaces {
			collectGarbage(ctx, operatorCSV(namespace, s), s)
		}
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
	})
})
