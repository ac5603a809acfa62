package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// specField reads one field of an instance's spec anew, nil if it is not set.
func specField(ctx context.Context, object *unstructured.Unstructured, name string) func(Gomega) any {
	return func(g Gomega) any {
		Get(ctx, g, object)
		value, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", name)
		return value
	}
}

// makeReadyAgain waits for a new version's Deployment and makes it available.
func makeReadyAgain(ctx context.Context, oc *v2beta2.OperatorCollection, s *sample, version string) {
	GinkgoHelper()
	Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(And(ConditionTrue(), WithMessage("version "+version)))
	Eventually(ctx, func(g Gomega) {
		d := deployment(oc.Namespace, s.operator())
		Get(ctx, g, d)
		g.Expect(d.Spec.Template.Labels).To(HaveKeyWithValue("operator-version", version))
	}).Should(Succeed())
	makeAvailable(ctx, oc.Namespace, s.operator())
	ExpectReady(ctx, oc)
}

// specSchema is the schema of spec in one version of a CRD.
func specSchema(crd *apiextensionsv1.CustomResourceDefinition, version string) apiextensionsv1.JSONSchemaProps {
	GinkgoHelper()
	for _, v := range crd.Spec.Versions {
		if v.Name == version {
			return v.Schema.OpenAPIV3Schema.Properties["spec"]
		}
	}
	Fail("version " + version + " is not there")
	return apiextensionsv1.JSONSchemaProps{}
}

var _ = Describe("Two versions of a collection", func() {
	It("run side by side in two namespaces, with one CRD in which no write loses a field", func(ctx context.Context) {
		older, newer, s := newNamespace(ctx), newNamespace(ctx), newSample()
		s.variables = "{name: size, displayName: Size, type: integer, default: 3}\n" +
			"      - {name: format, displayName: Format, type: string, required: true}\n" +
			"      - {name: mode, displayName: Mode, type: string, options: [a, b], default: a}"
		next := *s
		next.version = "1.1.0"
		next.variables = "{name: size, displayName: Size, type: integer, default: 5}\n" +
			"      - {name: colour, displayName: Colour, type: string, options: [red, blue], default: red}\n" +
			"      - {name: owner, displayName: Owner, type: string, required: true}"
		ocOld := installSample(ctx, older, s)
		ocNew := newCollection(older, "next", next.pinned())
		allowMapping(ctx, newer, older)
		Create(ctx, newSOC(older, "next", "next", mapTo(newer)...), ocNew)
		Eventually(ctx, Condition(ctx, ocNew, v2beta2.ConditionImported)).Should(ConditionTrue())
		Eventually(ctx, Gone(ctx, deployment(newer, next.operator()))).Should(BeFalse())
		makeAvailable(ctx, newer, next.operator())
		ExpectReady(ctx, ocNew)
		ExpectReady(ctx, ocOld)

		By("each running its own")
		for namespace, digest := range map[string]string{older: ocOld.Spec.Digest, newer: ocNew.Spec.Digest} {
			config := Live(ctx, Default, configMap(namespace, s.operator()+"-runtime"))
			Expect(config.Object["data"]).To(HaveKeyWithValue("digest", digest))
		}

		By("serving the fields of both in both, each version with its own rules alone")
		crd := customResourceDefinition(s.crdName())
		Get(ctx, Default, crd)
		Expect(crd.Spec.Versions).To(ConsistOf(
			And(HaveField("Name", next.apiVersion()), HaveField("Storage", true), HaveField("Served", true)),
			And(HaveField("Name", s.apiVersion()), HaveField("Storage", false), HaveField("Served", true))))
		for version, foreign := range map[string][]string{s.apiVersion(): {"colour", "owner"}, next.apiVersion(): {"format", "mode"}} {
			schema := specSchema(crd, version)
			Expect(schema.Properties).To(And(HaveKey("size"), HaveKey("format"), HaveKey("mode"), HaveKey("colour"), HaveKey("owner")))
			for _, name := range foreign {
				field := schema.Properties[name]
				Expect(field.Default).To(BeNil(), name)
				Expect(field.Enum).To(BeEmpty(), name)
				Expect(schema.Required).NotTo(ContainElement(name))
			}
		}
		plain := s.instance(older, "plain")
		Expect(K8s.Create(ctx, plain)).To(MatchError(ContainSubstring("spec.format")), "its own requirement stands")
		plain.Object["spec"].(map[string]any)["format"] = "x"
		Create(ctx, plain)
		Expect(plain.Object["spec"]).To(Equal(map[string]any{
			"zosendpoint": "lpar1", "format": "x", "size": int64(3), "mode": "a",
			// The API server fills in what the version that is stored has a default for, in whatever version an object was written.
			"colour": "red",
		}))

		By("losing nothing: created in the new one, changed in the old one, read in the new one")
		thing := next.instance(newer, "one")
		spec := thing.Object["spec"].(map[string]any)
		spec["colour"], spec["owner"], spec["format"] = "blue", "me", "y"
		Create(ctx, thing)
		Expect(thing.Object["spec"]).To(And(HaveKeyWithValue("size", int64(5)), Not(HaveKey("mode"))), "no default of the older version")
		asOld := s.instance(newer, "one")
		Patch(ctx, asOld, `{"spec":{"size":7}}`)
		asOld = s.instance(newer, "one")
		Get(ctx, Default, asOld)
		Expect(unstructured.SetNestedField(asOld.Object, "b", "spec", "mode")).To(Succeed())
		Expect(K8s.Update(ctx, asOld)).To(Succeed())
		for name, value := range map[string]any{"size": int64(7), "colour": "blue", "owner": "me", "format": "y", "mode": "b"} {
			Expect(specField(ctx, thing, name)(Default)).To(Equal(value), name)
		}
		Patch(ctx, asOld, `{"spec":{"colour":"green"}}`)
		Expect(specField(ctx, thing, "colour")(Default)).To(Equal("green"), "the other version's choice of values is not enforced")

		By("keeping the CRD's versions when one of them goes")
		Remove(ctx, thing)
		Remove(ctx, plain)
		Remove(ctx, ocNew)
		Eventually(ctx, Gone(ctx, ocNew)).Should(BeTrue())
		ExpectReady(ctx, ocOld)
		Get(ctx, Default, crd)
		Expect(crd.Spec.Versions).To(HaveLen(2))
	})

	It("cannot be served when a field changes its type: nothing is applied, and the old one keeps running", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc, crd := defaultSOC(oc), customResourceDefinition(s.crdName())
		before := versions(installed(ctx, soc))
		Get(ctx, Default, crd)
		version := crd.ResourceVersion
		next := *s
		next.version, next.variables = "1.1.0", "{name: size, displayName: Size, type: string}"
		second := newCollection(namespace, "second", next.pinned())
		Create(ctx, second)
		ExpectFailure(ctx, second, v2beta2.ReasonSchemaConflict, "spec.size", false)
		Expect(Condition(ctx, second, v2beta2.ConditionReady)(Default)).To(And(
			WithMessage(s.apiVersion()), WithMessage(next.apiVersion()), WithMessage("integer"), WithMessage("string")))
		changeSpec(ctx, oc, next.pinned())
		ExpectFailure(ctx, oc, v2beta2.ReasonSchemaConflict, "spec.size", false)
		Get(ctx, Default, crd)
		Expect(crd.ResourceVersion).To(Equal(version))
		Expect(versions(installed(ctx, soc))).To(Equal(before))
		ExpectReady(ctx, soc)
	})

	It("keep a kind that only one of them has, though the owner of the collection dropped it", func(ctx context.Context) {
		owner, guest, s := newNamespace(ctx), newNamespace(ctx), newSample()
		both := s.withKinds(s.kind, s.kind+"Extra")
		ocOwner := newCollection(owner, "oc", both.pinned())
		Create(ctx, ocOwner)
		Eventually(ctx, Condition(ctx, ocOwner, v2beta2.ConditionImported)).Should(ConditionTrue())
		oc := newCollection(guest, "oc", both.pinned())
		Create(ctx, oc)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		makeAvailable(ctx, guest, s.operator())
		ExpectReady(ctx, oc)

		s.version = "2.0.0"
		changeSpec(ctx, ocOwner, s.pinned())
		makeReadyAgain(ctx, ocOwner, s, "2.0.0")
		extra := customResourceDefinition(s.plural()[:len(s.plural())-1] + "extras." + SharedGroup)
		Consistently(ctx, Gone(ctx, extra)).Should(BeFalse())
		ExpectReady(ctx, oc)
		removeCollections(ctx, guest)
		Eventually(ctx, Gone(ctx, extra)).Should(BeTrue())
		ExpectReady(ctx, ocOwner)
	})

	It("are one when an author publishes other content under the same number: never at the cost of a custom resource", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		s.variables = "{name: size, displayName: Size, type: integer, default: 3}\n" +
			"      - {name: mode, displayName: Mode, type: string}"
		oc := installSample(ctx, namespace, s)
		good, soc := oc.Spec, defaultSOC(oc)
		before := versions(installed(ctx, soc))
		thing := s.instance(namespace, "one")
		Create(ctx, thing)
		for problem, variables := range map[string]string{
			"spec.mode is missing":                   "{name: size, displayName: Size, type: integer, default: 3}",
			"spec.size is string instead of integer": "{name: size, displayName: Size, type: string}\n      - {name: mode, displayName: Mode, type: string}",
			"spec.mode is required":                  "{name: size, displayName: Size, type: integer}\n      - {name: mode, displayName: Mode, type: string, required: true}",
			"spec.mode takes fewer values":           "{name: size, displayName: Size, type: integer}\n      - {name: mode, displayName: Mode, type: string, options: [a]}",
		} {
			By(problem)
			changed := *s
			changed.variables = variables
			changeSpec(ctx, oc, changed.pinned())
			ExpectFailure(ctx, oc, v2beta2.ReasonSchemaConflict, problem, false)
			Expect(versions(installed(ctx, soc))).To(Equal(before))
		}
		changeSpec(ctx, oc, good)
		ExpectReady(ctx, oc)

		By("taking what only adds")
		s.variables += "\n      - {name: colour, displayName: Colour, type: string, default: red}"
		changeSpec(ctx, oc, s.pinned())
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		Eventually(ctx, func(g Gomega) {
			crd := customResourceDefinition(s.crdName())
			Get(ctx, g, crd)
			g.Expect(specSchema(crd, s.apiVersion()).Properties).To(HaveKey("colour"))
		}).Should(Succeed())

		By("taking anything when no custom resource is left")
		Remove(ctx, thing)
		s.variables = "{name: size, displayName: Size, type: string}"
		changeSpec(ctx, oc, s.pinned())
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, soc)
			g.Expect(soc.Status.Installations).To(ConsistOf(HaveField("Digest", oc.Spec.Digest)))
		}).Should(Succeed())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
	})
})
