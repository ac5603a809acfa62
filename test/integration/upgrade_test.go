package integration

import (
	"context"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("An installed collection", func() {
	It("keeps running as it is while its OperatorCollection asks for something broken", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc, good := defaultSOC(oc), oc.Spec
		Get(ctx, Default, oc)
		artifact := *oc.Status.Artifact
		before := versions(installed(ctx, soc))
		crd := customResourceDefinition(s.crdName())
		Get(ctx, Default, crd)
		crdBefore := crd.ResourceVersion

		broken := *s
		broken.version, broken.variables = "2.0.0", "{name: size, displayName: Size, type: string}"
		for _, bad := range []struct {
			reason  string
			stalled bool
			spec    v2beta2.OperatorCollectionSpec
		}{
			{v2beta2.ReasonArchiveNotFound, false, unverified(web.URL + "/absent")},
			{v2beta2.ReasonDigestMismatch, true, v2beta2.OperatorCollectionSpec{CollectionURL: good.CollectionURL, Digest: DigestOf(nil)}},
			{v2beta2.ReasonArchiveNotGzip, true, unverified(web.Serve([]byte("text")))},
			{v2beta2.ReasonSchemaConflict, false, broken.pinned()},
			{v2beta2.ReasonCollectionClaimed, false, otherCollection(ctx)},
		} {
			By(bad.reason)
			changeSpec(ctx, oc, bad.spec)
			ExpectFailure(ctx, oc, bad.reason, "", bad.stalled)
			Get(ctx, Default, oc)
			Expect(oc.Status.Artifact).To(HaveValue(Equal(artifact)))
			Expect(oc.Status.Collection.Version).To(Equal("1.0.0"))
			Expect(versions(installed(ctx, soc))).To(Equal(before))
			Get(ctx, Default, crd)
			Expect(crd.ResourceVersion).To(Equal(crdBefore))
			ExpectReady(ctx, soc)
		}

		By("healing when the spec is right again, without a change to what runs")
		changeSpec(ctx, oc, good)
		ExpectReady(ctx, oc)
		Expect(versions(installed(ctx, soc))).To(Equal(before))
	})

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

	It("is not upgraded by a restart of the manager, even if its archive is lost and the origin serves another", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := newCollection(namespace, "oc", unverified(web.Serve(s.archive())))
		Create(ctx, oc)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		Get(ctx, Default, oc)
		digest := oc.Status.Artifact.Digest
		old := s.archive()
		s.version = "9.0.0"
		newer := s.archive()
		web.Replace(oc.Spec.CollectionURL, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(newer) })

		theManager.stop()
		theManager.loseArchives()
		theManager.start(ctx)
		ExpectFailure(ctx, oc, v2beta2.ReasonArtifactChanged, DigestOf(newer), false)
		Get(ctx, Default, oc)
		Expect(oc.Status.Artifact.Digest).To(Equal(digest))

		By("accepting it when the spec asks for it")
		changeSpec(ctx, oc, v2beta2.OperatorCollectionSpec{CollectionURL: oc.Spec.CollectionURL, Digest: DigestOf(newer)})
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(And(ConditionTrue(), WithMessage("9.0.0")))
		Expect(DigestOf(old)).To(Equal(digest))
	})
})

// otherCollection is the spec for a collection that another OperatorCollection has imported.
func otherCollection(ctx context.Context) v2beta2.OperatorCollectionSpec {
	GinkgoHelper()
	other := newSample()
	importSample(ctx, newNamespace(ctx), other)
	other.version = "3.0.0"
	return other.pinned()
}
