package integration

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

var _ = Describe("An OperatorCollection", func() {
	It("becomes an operator: imported, installed by default, and ready once its Deployment is available", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := newCollection(namespace, "oc", s.pinned())
		create(ctx, oc)

		By("being imported")
		Eventually(conditionOf(ctx, oc, v2beta2.ConditionImported)).WithContext(ctx).
			Should(And(beTrue(), because(v2beta2.ReasonSucceeded), saying("1.0.0")))
		get(ctx, NewWithT(GinkgoT()), oc)
		Expect(oc.Status.Phase).To(Equal(v2beta2.PhaseSuccessful))
		Expect(oc.Status.Artifact).To(HaveValue(And(
			HaveField("Digest", oc.Spec.Digest), HaveField("Verification", "Digest"), HaveField("Size", BeNumerically(">", 100)))))
		Expect(oc.Status.Collection).To(HaveValue(Equal(v2beta2.ImportedCollection{
			Domain: domain, Name: s.name, Version: "1.0.0",
			APIVersion: sharedGroup + "/v1minor0patch0", Kinds: []string{s.kind},
		})))
		expectIdentity(oc, s)
		crd := customResourceDefinition(s.crdName())
		get(ctx, NewWithT(GinkgoT()), crd)
		Expect(established(crd)).To(BeTrue())
		expectIdentity(crd, s)

		By("being installed, but not Ready before its Deployment is")
		soc := defaultSOC(oc)
		expectFailure(ctx, soc, v2beta2.ReasonProgressing, s.operator(), false)
		expectFailure(ctx, oc, v2beta2.ReasonProgressing, "oc-soc", false)
		expectInstallation(ctx, soc, s)

		By("becoming Ready with its Deployment")
		makeAvailable(ctx, namespace, s.operator())
		expectReady(ctx, soc)
		expectReady(ctx, oc)
		get(ctx, NewWithT(GinkgoT()), soc)
		Expect(soc.Status.Phase).To(Equal(v2beta2.PhaseSuccessful))
		Expect(soc.Status.Installations).To(ConsistOf(v2beta2.InstallationStatus{
			Namespace: namespace, Digest: oc.Spec.Digest, Install: v2beta2.InstallDirect, Ready: true,
		}))
		Expect(soc.Status.CustomResourceDefinition).To(ConsistOf(HaveField("Metadata.Name", s.crdName())))
		get(ctx, NewWithT(GinkgoT()), oc)
		Expect(oc.Status.SubOperatorConfigMappingStatus).To(ConsistOf(And(HaveField("Name", "oc-soc"), HaveField("Phase", v2beta2.PhaseSuccessful))))

		By("serving its kind with typed defaults and the endpoint's field")
		thing := s.instance(namespace, "one")
		create(ctx, thing)
		size, _, _ := unstructured.NestedInt64(thing.Object, "spec", "size")
		Expect(size).To(BeEquivalentTo(3))
		nowhere := s.instance(namespace, "two")
		unstructured.RemoveNestedField(nowhere.Object, "spec", "zosendpoint")
		Expect(k8s.Create(ctx, nowhere)).To(MatchError(ContainSubstring("zosendpoint")))
	}, NodeTimeout(2*time.Minute))

	It("gets its default SubOperatorConfig once, and keeps away from a name that is taken over", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)

		By("leaving alone what a user makes of it")
		patch(ctx, soc, `{"spec":{"mapping":[]}}`)
		Eventually(conditionOf(ctx, soc, v2beta2.ConditionReady)).WithContext(ctx).Should(And(beTrue(), saying("no namespace")))
		Eventually(isGone(ctx, deployment(namespace, s.operator()))).WithContext(ctx).Should(BeTrue())
		Eventually(func(g Gomega) {
			get(ctx, g, soc)
			g.Expect(soc.Status.Inventory).To(BeEmpty())
			g.Expect(soc.Spec.Mapping).To(BeEmpty())
		}).WithContext(ctx).Should(Succeed())

		By("not making it again")
		remove(ctx, soc)
		Eventually(isGone(ctx, soc)).WithContext(ctx).Should(BeTrue())
		expectFailure(ctx, oc, v2beta2.ReasonNotInstalled, "no SubOperatorConfig", false)
		Expect(conditionOf(ctx, oc, v2beta2.ConditionImported)(NewWithT(GinkgoT()))).To(beTrue())
		Consistently(isGone(ctx, soc)).WithContext(ctx).Should(BeTrue())
	}, NodeTimeout(2*time.Minute))

	It("says which rules its archive breaks, and is installed all the same", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		sound := s.variables
		s.variables = "{name: size, displayName: Size, type: integer, default: many}"
		oc := newCollection(namespace, "oc", s.pinned())
		create(ctx, oc)
		makeAvailable(ctx, namespace, s.operator())
		expectReady(ctx, oc)
		const flaw = "operator-config.yml:10:65: resources[0].vars[0].default: \"many\" does not fit type integer"
		Expect(conditionOf(ctx, oc, v2beta2.ConditionConformant)(NewWithT(GinkgoT()))).
			To(And(beFalse(), because(v2beta2.ReasonRulesBroken), saying(flaw)))
		get(ctx, NewWithT(GinkgoT()), oc)
		Expect(oc.Status.Warnings).To(ContainElement(ContainSubstring(flaw)))

		By("saying nothing of the kind about a new version without flaws")
		s.variables, s.version = sound, "1.0.1"
		spec := s.pinned()
		patch(ctx, oc, fmt.Sprintf(`{"spec":{"collectionURL":%q,"digest":%q}}`, spec.CollectionURL, spec.Digest))
		Eventually(conditionOf(ctx, oc, v2beta2.ConditionConformant)).WithContext(ctx).
			Should(And(beTrue(), because(v2beta2.ReasonSucceeded)))
		get(ctx, NewWithT(GinkgoT()), oc)
		Expect(oc.Status.Warnings).To(BeEmpty())
	}, NodeTimeout(2*time.Minute))

	It("waits for an archive that is uploaded later", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := newCollection(namespace, "oc", v2beta2.OperatorCollectionSpec{SkipSignatureVerification: true})
		oc.Labels = map[string]string{"operator-domain": domain, "operator-name": s.name, "operator-version": s.version}
		create(ctx, oc)
		expectFailure(ctx, oc, v2beta2.ReasonArchiveNotUploaded, s.name, false)
		get(ctx, NewWithT(GinkgoT()), oc)
		Expect(oc.Status.Phase).To(Equal(v2beta2.PhasePending))

		path := theManager.upload(s.name, s.version, s.archive())
		Eventually(conditionOf(ctx, oc, v2beta2.ConditionImported)).WithContext(ctx).Should(beTrue())
		get(ctx, NewWithT(GinkgoT()), oc)
		Expect(oc.Status.Artifact.Verification).To(Equal("Skipped"))
		Expect(oc.Status.Config.CollectionPath).To(Equal(path))
	}, NodeTimeout(2*time.Minute))

	It("is left alone while it is suspended", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		spec := s.pinned()
		spec.Suspend = true
		oc := newCollection(namespace, "oc", spec)
		create(ctx, oc)
		Consistently(func() []string { return madeIn(ctx, namespace) }).WithContext(ctx).Should(BeEmpty())
		patch(ctx, oc, `{"spec":{"suspend":false}}`)
		Eventually(conditionOf(ctx, oc, v2beta2.ConditionImported)).WithContext(ctx).Should(beTrue())
	}, NodeTimeout(time.Minute))

	It("can serve its kinds in an API group of its own", func(ctx context.Context) {
		s := newSample()
		group := s.name + "." + domain + "." + sharedGroup
		grant(ctx, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"*"}, Verbs: []string{"*"}})
		namespace := newNamespace(ctx)
		spec := s.pinned()
		spec.APIGroup = v2beta2.APIGroupPerCollection
		oc := newCollection(namespace, "oc", spec)
		create(ctx, oc)
		Eventually(conditionOf(ctx, oc, v2beta2.ConditionImported)).WithContext(ctx).Should(beTrue())
		crd := customResourceDefinition(s.plural() + "." + group)
		get(ctx, NewWithT(GinkgoT()), crd)
		Expect(established(crd)).To(BeTrue())
		Expect(isGone(ctx, customResourceDefinition(s.crdName()))(NewWithT(GinkgoT()))).To(BeTrue())
		get(ctx, NewWithT(GinkgoT()), oc)
		Expect(oc.Status.Collection.APIVersion).To(Equal(group + "/" + s.apiVersion()))
		makeAvailable(ctx, namespace, s.operator())
		expectReady(ctx, oc)
	}, NodeTimeout(time.Minute))
})

// expectIdentity checks the labels by which clients find what belongs to a collection.
func expectIdentity(object client.Object, s *sample) {
	GinkgoHelper()
	Expect(object.GetLabels()).To(And(
		HaveKeyWithValue("operator-domain", domain),
		HaveKeyWithValue("operator-name", s.name),
		HaveKeyWithValue("managed-by", "ibm-zos-cloud-broker"),
	), "%T %s", object, object.GetName())
}

// expectInstallation checks the objects of one installation: all there, labelled, owned and listed.
func expectInstallation(ctx context.Context, soc *v2beta2.SubOperatorConfig, s *sample) {
	GinkgoHelper()
	g := NewWithT(GinkgoT())
	get(ctx, g, soc)
	expectIdentity(soc, s)
	Expect(soc.OwnerReferences).To(ConsistOf(And(HaveField("Kind", "OperatorCollection"), HaveField("Controller", BeNil()))))
	objects := installed(ctx, soc)
	var kinds []string
	for _, object := range objects {
		kinds = append(kinds, object.GetKind())
		expectIdentity(object, s)
		Expect(object.GetAnnotations()).To(HaveKeyWithValue("zoscb.ibm.com/suboperatorconfig", soc.Namespace+"/"+soc.Name))
		if object.GetNamespace() == "" {
			Expect(object.GetOwnerReferences()).To(BeEmpty(), "owner references only reach inside one namespace")
			continue
		}
		Expect(object.GetNamespace()).To(Equal(soc.Namespace))
		Expect(object.GetOwnerReferences()).To(ConsistOf(HaveField("UID", soc.UID)))
	}
	Expect(kinds).To(ConsistOf("ServiceAccount", "Role", "RoleBinding", "NetworkPolicy", "ConfigMap", "Secret", "Deployment"))
	Expect(madeIn(ctx, soc.Namespace)).To(HaveLen(len(objects)+1), "nothing is missing in the inventory")

	config := &corev1.ConfigMap{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: soc.Namespace, Name: s.operator() + "-runtime"}, config)).To(Succeed())
	Expect(config.Data).To(HaveKeyWithValue("digest", soc.Status.Installations[0].Digest))
	Expect(config.Data["watches.yaml"]).To(And(ContainSubstring("kind: "+s.kind), ContainSubstring("markUnsafe: true")))
}
