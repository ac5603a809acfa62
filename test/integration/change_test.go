package integration

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// withKinds is the sample with these kinds instead of its own. Only the first has a finalizer playbook.
func (s *sample) withKinds(kinds ...string) *sample {
	lines := []string{
		"domain: " + domain, "name: " + s.name, "version: " + s.version, "displayName: " + s.kind, s.permissions, "resources:",
	}
	for i, kind := range kinds {
		lines = append(lines, "  - kind: "+kind, "    playbook: play.yml")
		if i == 0 {
			lines = append(lines, "    finalizer: play.yml")
		}
		lines = append(lines, "    vars:", "      - "+s.variables)
	}
	with := *s
	with.files = map[string]string{"operator-config.yml": strings.Join(lines, "\n")}
	return &with
}

// podTemplateOf is what decides whether pods are replaced.
func podTemplateOf(ctx context.Context, namespace string, s *sample) func(Gomega) corev1.PodTemplateSpec {
	return func(g Gomega) corev1.PodTemplateSpec {
		d := deployment(namespace, s.operator())
		Get(ctx, g, d)
		return d.Spec.Template
	}
}

var _ = Describe("A change", func() {
	It("of the archive, by URL or by digest, upgrades in place and rolls the pods", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := newCollection(namespace, "oc", unverified(web.Serve(s.archive())))
		Create(ctx, oc)
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		template := podTemplateOf(ctx, namespace, s)(Default)
		uid := Live(ctx, Default, deployment(namespace, s.operator())).GetUID()

		s.version = "1.1.0"
		Patch(ctx, oc, fmt.Sprintf(`{"spec":{"collectionURL":%q}}`, web.Serve(s.archive())))
		Eventually(ctx, podTemplateOf(ctx, namespace, s)).ShouldNot(Equal(template))
		makeReadyAgain(ctx, oc, s, "1.1.0")
		template = podTemplateOf(ctx, namespace, s)(Default)

		By("other content of the same version, which only a digest can ask for")
		s.files = map[string]string{"README.md": "# changed\n"}
		changed := s.archive()
		web.Replace(oc.Spec.CollectionURL, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(changed) })
		Patch(ctx, oc, `{"metadata":{"annotations":{"look":"again"}}}`)
		Consistently(ctx, podTemplateOf(ctx, namespace, s)).Should(Equal(template))
		Patch(ctx, oc, fmt.Sprintf(`{"spec":{"digest":%q}}`, DigestOf(changed)))
		Eventually(ctx, podTemplateOf(ctx, namespace, s)).ShouldNot(Equal(template))
		makeReadyAgain(ctx, oc, s, "1.1.0")
		Expect(oc.Status.Artifact.Digest).NotTo(BeEmpty())
		Get(ctx, Default, oc)
		Expect(oc.Status.Artifact.Digest).To(Equal(DigestOf(changed)))
		Expect(Live(ctx, Default, deployment(namespace, s.operator())).GetUID()).To(Equal(uid))
	})

	It("of runtime settings rolls the pods, with those of the SubOperatorConfig over those of the OperatorCollection", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		template := podTemplateOf(ctx, namespace, s)(Default)
		for _, change := range []struct {
			of    string
			patch string
		}{
			{"the image", `{"spec":{"runtime":{"image":"registry.invalid/mine:2"}}}`},
			{"the environment", `{"spec":{"runtime":{"env":[{"name":"LANG","value":"C"}]}}}`},
			{"the resources", `{"spec":{"runtime":{"resources":{"limits":{"memory":"1Gi"}}}}}`},
			{"the reconcile period", `{"spec":{"runtime":{"reconcilePeriod":"1h"}}}`},
			{"the number of concurrent runs", `{"spec":{"runtime":{"maxConcurrentReconciles":7}}}`},
		} {
			By(change.of)
			Patch(ctx, oc, change.patch)
			Eventually(ctx, podTemplateOf(ctx, namespace, s)).ShouldNot(Equal(template))
			template = podTemplateOf(ctx, namespace, s)(Default)
		}
		By("the SubOperatorConfig's own")
		Patch(ctx, soc, `{"spec":{"runtime":{"image":"registry.invalid/theirs:3"}}}`)
		Eventually(ctx, func(g Gomega) string { return podTemplateOf(ctx, namespace, s)(g).Spec.Containers[0].Image }).Should(Equal("registry.invalid/theirs:3"))
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
	})

	It("is not made while the OperatorCollection is suspended, and what is installed keeps running", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		Patch(ctx, oc, `{"spec":{"suspend":true}}`)
		before := versions(installed(ctx, soc))
		s.version = "1.1.0"
		spec := s.pinned()
		spec.Suspend = true
		changeSpec(ctx, oc, spec)
		Patch(ctx, soc, `{"spec":{"runtime":{"image":"registry.invalid/later:1"}}}`)
		Consistently(ctx, func(g Gomega) {
			g.Expect(versions(installed(ctx, soc))).To(Equal(before))
			Get(ctx, g, oc)
			g.Expect(oc.Status.Collection.Version).To(Equal("1.0.0"))
		}).Should(Succeed())

		By("being made when it is resumed")
		Patch(ctx, oc, `{"spec":{"suspend":false}}`)
		makeReadyAgain(ctx, oc, s, "1.1.0")
		Expect(podTemplateOf(ctx, namespace, s)(Default).Spec.Containers[0].Image).To(Equal("registry.invalid/later:1"))
	})

	It("of the origin alone is not installed after the manager lost its storage", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		original := s.archive()
		oc := newCollection(namespace, "oc", unverified(web.Serve(original)))
		Create(ctx, oc)
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		soc := defaultSOC(oc)
		before := versions(installed(ctx, soc))
		s.version = "9.0.0"
		changed := s.archive()
		answer := func(content []byte) {
			web.Replace(oc.Spec.CollectionURL, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) })
		}
		loseStorage := func() {
			theManager.kill()
			theManager.loseArchives()
			theManager.start(ctx)
		}
		answer(changed)
		loseStorage()
		ExpectFailure(ctx, oc, v2beta2.ReasonArtifactChanged, DigestOf(changed), false)
		Expect(Condition(ctx, oc, v2beta2.ConditionReady)(Default)).To(WithMessage("spec.digest"))
		Get(ctx, Default, oc)
		Expect(oc.Status.Artifact.Digest).To(Equal(DigestOf(original)))
		Expect(oc.Status.Collection.Version).To(Equal("1.0.0"))
		Expect(versions(installed(ctx, soc))).To(Equal(before))

		By("healing when the origin changes back")
		answer(original)
		Patch(ctx, oc, `{"metadata":{"annotations":{"look":"again"}}}`)
		ExpectReady(ctx, oc)
		ExpectReady(ctx, soc)
		Expect(versions(installed(ctx, soc))).To(Equal(before))

		By("healing when spec.digest accepts it")
		answer(changed)
		loseStorage()
		ExpectFailure(ctx, oc, v2beta2.ReasonArtifactChanged, DigestOf(changed), false)
		Patch(ctx, oc, fmt.Sprintf(`{"spec":{"digest":%q}}`, DigestOf(changed)))
		makeReadyAgain(ctx, oc, s, "9.0.0")
	})

	It("to a version without clusterRoles takes the ClusterRole and its binding away", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		s.permissions = "clusterRoles: [{nonResourceURLs: [/version], verbs: [get]}]"
		grantVersion(ctx)
		oc := importSample(ctx, namespace, s)
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).WithTimeout(InstallTimeout).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.clusterRole(namespace)}}
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: s.clusterRole(namespace)}}
		Get(ctx, Default, role)
		Get(ctx, Default, binding)

		s.version, s.permissions = "1.1.0", ""
		changeSpec(ctx, oc, s.pinned())
		makeReadyAgain(ctx, oc, s, "1.1.0")
		Eventually(ctx, Gone(ctx, role)).Should(BeTrue())
		Eventually(ctx, Gone(ctx, binding)).Should(BeTrue())
		Eventually(ctx, func(g Gomega) {
			soc := defaultSOC(oc)
			Get(ctx, g, soc)
			g.Expect(soc.Status.Inventory).To(HaveLen(7))
		}).Should(Succeed())
	})

	It("to a version without a kind removes its CRD, but not while it has custom resources", Slow, func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		both := s.withKinds(s.kind, s.kind+"Extra")
		oc := newCollection(namespace, "oc", both.pinned())
		Create(ctx, oc)
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		extra := *s
		extra.kind += "Extra"
		thing, dropped := s.instance(namespace, "one"), extra.instance("default", "one")
		Create(ctx, thing, dropped)

		s.version = "1.1.0"
		changeSpec(ctx, oc, s.pinned())
		makeReadyAgain(ctx, oc, s, "1.1.0")
		crd := customResourceDefinition(extra.crdName())
		Consistently(ctx, Gone(ctx, crd)).Should(BeFalse())
		Get(ctx, Default, dropped)
		Remove(ctx, dropped)
		Eventually(ctx, Gone(ctx, crd)).Should(BeTrue())
		Get(ctx, Default, thing)
	})

	It("to a version without a finalizer playbook frees custom resources, once the old pods cannot put the finalizer back", func(ctx context.Context) {
		namespace, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		allowMapping(ctx, other, namespace)
		Create(ctx, newSOC(namespace, "soc", "oc", mapTo(namespace, other)...))
		oc := newCollection(namespace, "oc", s.withKinds(s.kind, s.kind+"First").pinned())
		Create(ctx, oc)
		namespaces := []string{namespace, other}
		for _, n := range namespaces {
			Eventually(ctx, Gone(ctx, deployment(n, s.operator()))).Should(BeFalse())
			makeAvailable(ctx, n, s.operator())
		}
		ExpectReady(ctx, oc)
		for _, n := range namespaces {
			thing := s.instance(n, "one")
			thing.SetFinalizers([]string{InstanceFinalizer, "example.com/mine"})
			Create(ctx, thing)
		}

		s.version = "1.1.0"
		changeSpec(ctx, oc, s.withKinds(s.kind+"First", s.kind).pinned())
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue(), "its version of the kind is served")
		finalizers := func(namespace string) func(Gomega) []string {
			return func(g Gomega) []string {
				thing := s.instance(namespace, "one")
				Get(ctx, g, thing)
				return thing.GetFinalizers()
			}
		}
		slices.Sort(namespaces) // They are upgraded in this order.
		for _, n := range namespaces {
			Eventually(ctx, func(g Gomega) map[string]string { return podTemplateOf(ctx, n, s)(g).Labels }).Should(HaveKeyWithValue("operator-version", "1.1.0"))
			Consistently(ctx, finalizers(n)).Should(ContainElement(InstanceFinalizer))
			By("freeing those in " + n)
			makeAvailable(ctx, n, s.operator())
			Eventually(ctx, finalizers(n)).Should(ConsistOf("example.com/mine"))
		}
		ExpectReady(ctx, oc)
		for _, n := range namespaces {
			Patch(ctx, s.instance(n, "one"), `{"metadata":{"finalizers":null}}`)
		}
	})
})
