package integration

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("An OperatorCollection", func() {
	It("becomes an operator: imported, installed by default, and ready once its Deployment is available", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := newCollection(namespace, "oc", s.pinned())
		Create(ctx, oc)

		By("being imported")
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).
			Should(And(ConditionTrue(), WithReason(v2beta2.ReasonSucceeded), WithMessage("1.0.0")))
		Get(ctx, Default, oc)
		Expect(oc.Status.Phase).To(Equal(v2beta2.PhaseSuccessful))
		Expect(oc.Status.Artifact).To(HaveValue(And(
			HaveField("Digest", oc.Spec.Digest), HaveField("Verification", "Digest"), HaveField("Size", BeNumerically(">", 100)))))
		Expect(oc.Status.Collection).To(HaveValue(Equal(v2beta2.ImportedCollection{
			Domain: domain, Name: s.name, Version: "1.0.0",
			APIVersion: SharedGroup + "/v1minor0patch0", Kinds: []string{s.kind},
		})))
		expectIdentity(oc, s)
		crd := customResourceDefinition(s.crdName())
		Get(ctx, Default, crd)
		Expect(established(crd)).To(BeTrue())
		expectIdentity(crd, s)

		By("being installed, but not Ready before its Deployment is")
		soc := defaultSOC(oc)
		ExpectFailure(ctx, soc, v2beta2.ReasonProgressing, s.operator(), false)
		ExpectFailure(ctx, oc, v2beta2.ReasonProgressing, "oc-soc", false)
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).Should(BeFalse())
		expectInstallation(ctx, soc, s)

		By("becoming Ready with its Deployment")
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, soc)
		ExpectReady(ctx, oc)
		Get(ctx, Default, soc)
		Expect(soc.Status.Phase).To(Equal(v2beta2.PhaseSuccessful))
		Expect(soc.Status.Installations).To(ConsistOf(HaveField("ReadySince", Not(BeNil()))))
		soc.Status.Installations[0].ReadySince = nil
		Expect(soc.Status.Installations).To(ConsistOf(v2beta2.InstallationStatus{
			Namespace: namespace, Digest: oc.Spec.Digest, Install: v2beta2.InstallDirect, RunTimeout: &metav1.Duration{Duration: 24 * time.Hour}, Ready: true,
		}))
		Expect(soc.Status.CustomResourceDefinition).To(ConsistOf(HaveField("Metadata.Name", s.crdName())))
		Get(ctx, Default, oc)
		Expect(oc.Status.SubOperatorConfigMappingStatus).To(ConsistOf(And(HaveField("Name", "oc-soc"), HaveField("Phase", v2beta2.PhaseSuccessful))))

		By("serving its kind with typed defaults and the endpoint's field")
		thing := s.instance(namespace, "one")
		Create(ctx, thing)
		size, _, _ := unstructured.NestedInt64(thing.Object, "spec", "size")
		Expect(size).To(BeEquivalentTo(3))
		nowhere := s.instance(namespace, "two")
		unstructured.RemoveNestedField(nowhere.Object, "spec", "zosendpoint")
		Expect(K8s.Create(ctx, nowhere)).To(MatchError(ContainSubstring("zosendpoint")))
	})

	It("gets its default SubOperatorConfig once, and keeps away from a name that is taken over", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)

		By("leaving alone what a user makes of it")
		Patch(ctx, soc, `{"spec":{"mapping":[]}}`)
		Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).Should(And(ConditionTrue(), WithMessage("no namespace")))
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).Should(BeTrue())
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, soc)
			g.Expect(soc.Status.Inventory).To(BeEmpty())
			g.Expect(soc.Spec.Mapping).To(BeEmpty())
		}).Should(Succeed())

		By("not making it again")
		Remove(ctx, soc)
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
		ExpectFailure(ctx, oc, v2beta2.ReasonNotInstalled, "no SubOperatorConfig", false)
		Expect(Condition(ctx, oc, v2beta2.ConditionImported)(Default)).To(ConditionTrue())
		Consistently(ctx, Gone(ctx, soc)).Should(BeTrue())
	})

	It("says which rules its archive breaks, and is installed all the same", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		sound := s.variables
		s.variables = "{name: size, displayName: Size, type: integer, default: many}"
		oc := newCollection(namespace, "oc", s.pinned())
		Create(ctx, oc)
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		const flaw = "operator-config.yml:10:65: resources[0].vars[0].default: \"many\" does not fit type integer"
		Expect(Condition(ctx, oc, v2beta2.ConditionConformant)(Default)).
			To(And(ConditionFalse(), WithReason(v2beta2.ReasonRulesBroken), WithMessage(flaw)))
		Get(ctx, Default, oc)
		Expect(oc.Status.Warnings).To(ContainElement(ContainSubstring(flaw)))

		By("saying nothing of the kind about a new version without flaws")
		s.variables, s.version = sound, "1.0.1"
		spec := s.pinned()
		Patch(ctx, oc, fmt.Sprintf(`{"spec":{"collectionURL":%q,"digest":%q}}`, spec.CollectionURL, spec.Digest))
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionConformant)).
			Should(And(ConditionTrue(), WithReason(v2beta2.ReasonSucceeded)))
		Get(ctx, Default, oc)
		Expect(oc.Status.Warnings).To(ConsistOf(HavePrefix("upgrade to version 1.0.1: ")), "what the upgrade changes")
	})

	It("can serve its kinds in an API group of its own", func(ctx context.Context) {
		s := newSample()
		group := s.name + "." + domain + "." + SharedGroup
		grant(ctx, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"*"}, Verbs: []string{"*"}})
		namespace := newNamespace(ctx)
		spec := s.pinned()
		spec.APIGroup = v2beta2.APIGroupPerCollection
		oc := newCollection(namespace, "oc", spec)
		Create(ctx, oc)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		crd := customResourceDefinition(s.plural() + "." + group)
		Get(ctx, Default, crd)
		Expect(established(crd)).To(BeTrue())
		Expect(Gone(ctx, customResourceDefinition(s.crdName()))(Default)).To(BeTrue())
		Get(ctx, Default, oc)
		Expect(oc.Status.Collection.APIVersion).To(Equal(group + "/" + s.apiVersion()))
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
	})
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
	g := Default
	Get(ctx, g, soc)
	expectIdentity(soc, s)
	Expect(soc.OwnerReferences).To(BeEmpty())
	objects := installed(ctx, soc)
	var kinds []string
	for _, object := range objects {
		kinds = append(kinds, object.GetKind())
		expectIdentity(object, s)
		Expect(object.GetAnnotations()).To(HaveKeyWithValue("zoscb.ibm.com/suboperatorconfig", soc.Namespace+"/"+soc.Name))
		Expect(object.GetOwnerReferences()).To(BeEmpty(), "the garbage collector would follow them before any finalizer has run")
		Expect(object.GetNamespace()).To(BeElementOf("", soc.Namespace))
	}
	Expect(kinds).To(ConsistOf("ServiceAccount", "Role", "RoleBinding", "NetworkPolicy", "ConfigMap", "Secret", "Deployment"))
	Expect(madeIn(ctx, soc.Namespace)).To(HaveLen(len(objects)+1), "nothing is missing in the inventory")

	config := &corev1.ConfigMap{}
	Expect(K8s.Get(ctx, client.ObjectKey{Namespace: soc.Namespace, Name: s.operator() + "-runtime"}, config)).To(Succeed())
	Expect(config.Data).To(HaveKeyWithValue("digest", soc.Status.Installations[0].Digest))
	Expect(config.Data["watches.yaml"]).To(And(ContainSubstring("kind: "+s.kind), ContainSubstring("markUnsafe: true")))
}
