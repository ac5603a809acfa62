package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("A version with a migration playbook", func() {
	It("is reported as migrated once it has succeeded for each custom resource", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		Expect(Condition(ctx, soc, v2beta2.ConditionMigrated)(Default)).To(ConditionAbsent())
		says := func(instance *unstructured.Unstructured, status string) {
			GinkgoHelper()
			Expect(K8s.Status().Patch(ctx, instance.DeepCopy(), merge(`{"status":`+status+`}`))).To(Succeed())
		}
		one, two := s.instance(namespace, "one"), s.instance(namespace, "two")
		Create(ctx, one, two, s.instance(namespace, "new"))
		for _, instance := range []*unstructured.Unstructured{one, two} {
			says(instance, `{"lastSuccess":{"id":"1","event":"create","outcome":"Succeeded","version":"1.0.0"}}`)
		}

		By("upgrading")
		next := *s
		next.version, next.permissions = "1.1.0", "migrationPlaybook: play.yml"
		changeSpec(ctx, oc, next.pinned())
		migrated := Condition(ctx, soc, v2beta2.ConditionMigrated)
		Eventually(ctx, migrated).Should(And(ConditionFalse(), WithReason("Migrating"), WithMessage("0 of 2 custom resources are migrated")))
		makeReadyAgain(ctx, oc, s, next.version)
		ExpectReady(ctx, soc)
		Expect(migrated(Default)).To(ConditionFalse(), "it does not influence Ready")

		By("migrating one, and failing for the other")
		done := `"migration":{"from":"1.0.0","to":"1.1.0","finished":"2026-11-22T10:00:00Z"}`
		says(one, `{`+done+`}`)
		says(two, `{"lastRun":{"id":"2","event":"create","reason":"Migrate","version":"1.1.0","outcome":"Failed","started":"2026-11-22T10:00:00Z"}}`)
		Eventually(ctx, migrated).Should(And(ConditionFalse(), WithReason("MigrationFailed"),
			WithMessage("1 of 2 custom resources are migrated; the migration playbook failed for "+s.kind+" "+namespace+"/two")))

		By("succeeding")
		says(two, `{`+done+`}`)
		Eventually(ctx, migrated).Should(And(ConditionTrue(), WithMessage("2 of 2 custom resources are migrated to version 1.1.0")))
		ExpectReady(ctx, soc)
		expectRest(ctx)

		By("upgrading to a version without one")
		last := *s
		last.version = "1.2.0"
		changeSpec(ctx, oc, last.pinned())
		Eventually(ctx, migrated).Should(ConditionAbsent())
	})
})
