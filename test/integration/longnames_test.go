package integration

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("A collection with long names", Ordered, func() {
	BeforeAll(restartWithOLM)

	It("is installed with a shorter name, but not by the Operator Lifecycle Manager", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		Create(ctx, &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "group"},
			Spec: operatorsv1.OperatorGroupSpec{TargetNamespaces: []string{namespace}}})
		id := collection.ID{Domain: "a-domain-with-many-letters." + domain, Name: s.name + "-" + strings.Repeat("x", 40)}
		Expect(id.OperatorName()).To(HaveLen(63))
		oc := newCollection(namespace, "oc", s.renamed(id.Domain, id.Name).pinned())
		Create(ctx, oc)
		soc := defaultSOC(oc)
		Eventually(ctx, Gone(ctx, deployment(namespace, id.OperatorName()))).Should(BeFalse())
		makeAvailable(ctx, namespace, id.OperatorName())
		ExpectReady(ctx, oc)
		Get(ctx, Default, oc)
		Expect(oc.Status.Warnings).To(ContainElement(And(ContainSubstring("is longer than 63 characters"), ContainSubstring("named "+id.OperatorName()))))
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionPublished)).Should(And(ConditionFalse(), WithMessage("OLM allows 63")))

		By("asking for OLM")
		Patch(ctx, soc, `{"spec":{"install":"OLM"}}`)
		ExpectFailure(ctx, soc, v2beta2.ReasonObjectRefused, "or set install: Direct", true)
		Expect(Gone(ctx, deployment(namespace, id.OperatorName()))(Default)).To(BeFalse())
		Patch(ctx, soc, `{"spec":{"install":"Direct"}}`)
		ExpectReady(ctx, soc)
	})
})
