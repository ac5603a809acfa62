package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("An installed collection", func() {
	It("is upgraded in place: its CRD serves both versions, and its pods roll once", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		old := s.instance(namespace, "old")
		Create(ctx, old)
		operator := deployment(namespace, s.operator())
		Get(ctx, Default, operator)
		uid, generation := operator.UID, operator.Generation

		s.version = "1.2.0"
		s.variables = "{name: colour, displayName: Colour, type: string, default: red}"
		changeSpec(ctx, oc, s.pinned())
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(And(ConditionTrue(), WithMessage("1.2.0")))
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, operator)
			g.Expect(operator.Generation).To(BeNumerically(">", generation))
			g.Expect(operator.UID).To(Equal(uid))
		}).Should(Succeed())
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).Should(ConditionFalse(), "the new pods are not there yet")
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		Get(ctx, Default, operator)
		Expect(operator.Generation).To(Equal(generation + 1))
		soc := defaultSOC(oc)
		Get(ctx, Default, soc)
		Expect(soc.Status.Version).To(Equal("1.2.0"))
		Expect(soc.Status.Installations[0].Digest).To(Equal(oc.Spec.Digest))

		crd := customResourceDefinition(s.crdName())
		Get(ctx, Default, crd)
		var served, storage []string
		for _, version := range crd.Spec.Versions {
			if version.Served {
				served = append(served, version.Name)
			}
			if version.Storage {
				storage = append(storage, version.Name)
			}
		}
		Expect(served).To(Equal([]string{"v1minor2patch0", "v1minor0patch0"}))
		Expect(storage).To(Equal([]string{"v1minor2patch0"}))

		By("losing no field of an instance when a client writes it in the other version")
		newer := s.instance(namespace, "old")
		field := func(object *unstructured.Unstructured, name string) func(Gomega) any {
			return func(g Gomega) any {
				Get(ctx, g, object)
				value, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", name)
				return value
			}
		}
		// An object that is stored in the old version shows no default of the new one before it is written.
		Expect(field(newer, "size")(Default)).To(BeEquivalentTo(3))
		Patch(ctx, newer, `{"spec":{"size":5}}`)
		Expect(field(newer, "colour")(Default)).To(Equal("red"))
		Patch(ctx, newer, `{"spec":{"colour":"blue"}}`)
		Expect(field(old, "size")(Default)).To(BeEquivalentTo(5))
		Patch(ctx, old, `{"spec":{"size":4}}`)
		Expect(field(newer, "colour")(Default)).To(Equal("blue"))
	})
})
