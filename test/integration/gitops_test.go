package integration

import (
	"context"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// gitOpsTool applies as a GitOps tool does: on the server side and with force, after it has added marks to each object.
type gitOpsTool struct {
	manager             string
	labels, annotations map[string]string
}

var (
	argoCD = gitOpsTool{"argocd-controller", map[string]string{"app.kubernetes.io/instance": "zos"}, map[string]string{"argocd.argoproj.io/tracking-id": "zos:a/b:c/d"}}
	flux   = gitOpsTool{"kustomize-controller", map[string]string{"kustomize.toolkit.fluxcd.io/name": "zos", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}, nil}
)

// manifest is an object as it is in Git, with the tool's marks.
func (t gitOpsTool) manifest(object client.Object) *unstructured.Unstructured {
	GinkgoHelper()
	gvk, err := K8s.GroupVersionKindFor(object)
	Expect(err).NotTo(HaveOccurred())
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	Expect(err).NotTo(HaveOccurred())
	manifest := &unstructured.Unstructured{Object: content}
	manifest.SetGroupVersionKind(gvk)
	unstructured.RemoveNestedField(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	manifest.SetLabels(t.labels)
	if t.annotations != nil {
		manifest.SetAnnotations(t.annotations)
	}
	return manifest
}

func (t gitOpsTool) apply(ctx context.Context, manifest *unstructured.Unstructured, options ...client.ApplyOption) *unstructured.Unstructured {
	GinkgoHelper()
	applied := manifest.DeepCopy()
	options = append(options, client.FieldOwner(t.manager), client.ForceOwnership)
	Expect(K8s.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), options...)).To(Succeed())
	return applied
}

// expectNoDifference expects that another sync finds nothing to do, and does nothing if it is forced.
func (t gitOpsTool) expectNoDifference(ctx context.Context, manifests ...*unstructured.Unstructured) {
	GinkgoHelper()
	for _, manifest := range manifests {
		live := Live(ctx, Default, manifest)
		wouldBe := t.apply(ctx, manifest, client.DryRunAll)
		wouldBe.SetManagedFields(nil)
		seen := live.DeepCopy()
		seen.SetManagedFields(nil)
		Expect(wouldBe.Object).To(Equal(seen.Object))
		Expect(t.apply(ctx, manifest).GetResourceVersion()).To(Equal(live.GetResourceVersion()), "%s %s was written", live.GetKind(), live.GetName())
	}
}

// expectUnmarked expects that what the manager made does not look as if it were in Git: tools would prune it.
func (t gitOpsTool) expectUnmarked(ctx context.Context, s *sample, namespaces ...string) {
	GinkgoHelper()
	marks := slices.Concat(slices.Collect(maps.Keys(t.labels)), slices.Collect(maps.Keys(t.annotations)))
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: s.crdName()}}
	Get(ctx, Default, crd)
	made := []client.Object{crd}
	for _, namespace := range namespaces {
		for _, list := range []client.ObjectList{
			&appsv1.DeploymentList{}, &corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{},
			&rbacv1.RoleBindingList{}, &networkingv1.NetworkPolicyList{},
		} {
			made = append(made, listObjects(ctx, list, client.InNamespace(namespace))...)
		}
	}
	Expect(len(made)).To(BeNumerically(">", 8))
	for _, object := range made {
		content := MustJSON(object)
		for _, mark := range marks {
			Expect(content).NotTo(ContainSubstring(mark), object.GetName())
		}
	}
}

var _ = Describe("A GitOps tool", func() {
	It("takes over a default, and then sees no difference", func(ctx context.Context) {
		own, other, s, tool := newNamespace(ctx), newNamespace(ctx), newSample(), argoCD
		allowMapping(ctx, other, own)
		local := newEndpoint(own, "lpar1", nil)
		local.Spec.EndpointType = v2beta2.EndpointLocal
		endpoint := tool.manifest(local)
		oc := tool.manifest(newCollection(own, "oc", s.pinned()))
		tool.apply(ctx, endpoint)
		tool.apply(ctx, oc)

		By("syncing a wave after the manager has made a default for another namespace")
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		ExpectHealth(ctx, "collection-installing", oc)
		soc := defaultSOC(oc)
		Eventually(ctx, annotationOf(ctx, soc, "zoscb.ibm.com/default")).Should(Equal("true"))
		wanted := tool.manifest(newSOC(own, soc.Name, oc.GetName(), mapTo(other)...))
		tool.apply(ctx, wanted)
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, soc)
			g.Expect(soc.Annotations).NotTo(HaveKey("zoscb.ibm.com/default"))
			g.Expect(soc.Spec.Mapping).To(Equal(mapTo(other)))
		}).Should(Succeed())
		Eventually(ctx, notes(ctx, soc, v2beta2.ReasonHandedOver)).Should(ConsistOf(And(
			HavePrefix(tool.manager+" has applied"), HaveSuffix("namespace %q, which the manifest does not map, was removed from spec.mapping", own))))
		makeAvailable(ctx, other, s.operator())
		ExpectReady(ctx, soc)
		ExpectReady(ctx, oc)
		ExpectReady(ctx, endpoint)
		Eventually(ctx, Gone(ctx, deployment(own, s.operator()))).Should(BeTrue())
		ExpectHealth(ctx, "collection-ready", oc)
		ExpectHealth(ctx, "config-ready", soc)
		ExpectHealth(ctx, "endpoint-ready", endpoint)

		By("syncing a custom resource, of which defaults, status and annotations are the cluster's")
		thing := tool.manifest(s.instance(other, "one"))
		thing = tool.apply(ctx, thing)
		ExpectHealth(ctx, "resource-pending", thing)
		thing = tool.manifest(s.instance(other, "one"))
		reportRun(ctx, thing.DeepCopy(), "Succeeded", runOf("1", "Succeeded", ""))
		Patch(ctx, thing.DeepCopy(), `{"metadata":{"annotations":{"zoscb.ibm.com/reconcile-requested-at":"1"}}}`)

		By("syncing it all again and again")
		expectRest(ctx)
		mark := markAudit()
		for range 3 {
			tool.expectNoDifference(ctx, endpoint, oc, wanted, thing)
		}
		Expect(mark.writesAbout(own)()).To(BeEmpty())
		Expect(mark.writesAbout(other)()).To(BeEmpty())
		tool.expectUnmarked(ctx, s, own, other)
	})

	It("does not uninstall the operator of a default that has custom resources by applying another namespace", func(ctx context.Context) {
		own, other, s, tool := newNamespace(ctx), newNamespace(ctx), newSample(), flux
		allowMapping(ctx, other, own)
		oc := importSample(ctx, own, s)
		soc, operator := defaultSOC(oc), deployment(own, s.operator())
		Eventually(ctx, Gone(ctx, operator)).Should(BeFalse())
		installed := Live(ctx, Default, operator).GetUID()
		Create(ctx, s.instance(own, "one"))
		Eventually(ctx, Field(ctx, soc, "status", "collection", "name")).ShouldNot(BeEmpty())
		wanted := tool.manifest(newSOC(own, soc.Name, oc.Name, mapTo(other)...))
		tool.apply(ctx, wanted)
		Eventually(ctx, annotationOf(ctx, soc, "zoscb.ibm.com/default")).Should(BeEmpty())
		Eventually(ctx, notes(ctx, soc, v2beta2.ReasonHandedOver)).Should(ConsistOf(
			ContainSubstring("namespace %q stays in spec.mapping, because its operator is in use", own)))
		makeAvailable(ctx, own, s.operator())
		makeAvailable(ctx, other, s.operator())
		ExpectReady(ctx, soc)
		Get(ctx, Default, soc)
		Expect(soc.Spec.Mapping).To(ConsistOf(mapTo(own, other)))
		Expect(Live(ctx, Default, operator).GetUID()).To(Equal(installed))
		expectRest(ctx)
		tool.expectNoDifference(ctx, wanted)
	})

	It("is told what it waits for", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		refused, unfetched := newCollection(namespace, "refused", s.pinned()), newCollection(namespace, "unfetched", s.pinned())
		refused.Spec.Digest, unfetched.Spec.CollectionURL = DigestOf(nil), web.URL+"/absent.tar.gz"
		lost := newEndpoint(namespace, "lost", startSSHServer())
		lost.Spec.HostKeys = []string{"ssh-rsa nonsense"}
		unmapped := newSOC(namespace, "unmapped", "oc", mapTo("default")...)
		Create(ctx, refused, unfetched, lost, unmapped)
		ExpectFailure(ctx, refused, v2beta2.ReasonDigestMismatch, "", true)
		ExpectHealth(ctx, "collection-refused", refused)
		ExpectFailure(ctx, unfetched, v2beta2.ReasonArchiveNotFound, "404", false)
		ExpectHealth(ctx, "collection-unfetched", unfetched)
		ExpectFailure(ctx, lost, v2beta2.ReasonInvalidHostKeys, "spec.hostKeys[0]", true)
		ExpectHealth(ctx, "endpoint-refused", lost)
		ExpectFailure(ctx, unmapped, v2beta2.ReasonCollectionNotFound, `"oc"`, false)
		ExpectHealth(ctx, "config-waiting", unmapped)
	})

	It("and kubectl find all kinds of collections by their category", func(ctx context.Context) {
		s := newSample()
		importSample(ctx, newNamespace(ctx), s)
		served, err := discovery.NewDiscoveryClientForConfig(RestConfig)
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func(g Gomega) {
			resources, err := served.ServerResourcesForGroupVersionWithContext(ctx, SharedGroup+"/"+s.apiVersion())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(resources.APIResources).To(ContainElement(And(HaveField("Kind", s.kind), HaveField("Categories", ConsistOf("zos")))))
		}).Should(Succeed())
	})
})
