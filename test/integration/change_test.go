package integration

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// withKinds is the sample with these kinds instead of its own.
func (s *sample) withKinds(kinds ...string) *sample {
	lines := []string{
		"domain: " + domain, "name: " + s.name, "version: " + s.version, "displayName: " + s.kind, s.permissions, "resources:",
	}
	for _, kind := range kinds {
		lines = append(lines, "  - kind: "+kind, "    playbook: play.yml", "    finalizer: play.yml", "    vars:", "      - "+s.variables)
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
})
