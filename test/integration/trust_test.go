package integration

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// runtimeData returns the data of an operator's ConfigMap.
func runtimeData(ctx context.Context, namespace string, s *sample) func(Gomega) map[string]string {
	return func(g Gomega) map[string]string {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator() + "-runtime"}}
		Get(ctx, g, config)
		return config.Data
	}
}

var _ = Describe("Trusted authorities", func() {
	It("reach downloads and operators without a new pod, and an unusable ConfigMap leaves the last ones", func(ctx context.Context) {
		namespace, s, ours, later := newNamespace(ctx), newSample(), newAuthority(), newAuthority()
		archive := s.archive()
		url := ours.serve(tls.NoClientCert, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(archive) })
		spec := v2beta2.OperatorCollectionSpec{CollectionURL: url, Digest: DigestOf(archive)}
		untrusted := newCollection(newNamespace(ctx), "oc", spec)
		Create(ctx, untrusted)
		ExpectFailure(ctx, untrusted, v2beta2.ReasonSourceUnreachable, "an authority that is not trusted here", false)

		By("trusting the authority in the ConfigMap")
		bundle := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: ManagerNamespace, Name: "collection-operator-trusted-ca"},
			Data:       map[string]string{"ca-bundle.crt": "# our own\n" + encode(ours.certificate)},
		}
		Create(ctx, bundle)
		DeferCleanup(func(ctx context.Context) { Remove(ctx, bundle) })
		Eventually(ctx, theManager.log).Should(ContainSubstring("trusting certificate authorities"))
		oc := newCollection(namespace, "oc", spec)
		Create(ctx, oc)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		Eventually(ctx, runtimeData(ctx, namespace, s)).Should(HaveKeyWithValue("trusted-ca.crt", encode(ours.certificate)))
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		d := deployment(namespace, s.operator())

		By("giving operators another one")
		bundle.Data["ca-bundle.crt"] = encode(ours.certificate) + encode(later.certificate)
		Expect(K8s.Update(ctx, bundle)).To(Succeed())
		both := HaveKeyWithValue("trusted-ca.crt", encode(ours.certificate)+encode(later.certificate))
		Eventually(ctx, runtimeData(ctx, namespace, s)).Should(both)

		By("reporting what is no certificate")
		bundle.Data["ca-bundle.crt"] = "-----BEGIN PRIVATE KEY-----\neA==\n-----END PRIVATE KEY-----\n"
		Expect(K8s.Update(ctx, bundle)).To(Succeed())
		Eventually(ctx, notes(ctx, bundle, v2beta2.ReasonTrustedAuthoritiesInvalid)).Should(ConsistOf(
			"key ca-bundle.crt: block 1 is a private key, not a certificate: remove it, and replace the key pair; the authorities that were read before are still trusted"))
		Expect(runtimeData(ctx, namespace, s)(Default)).To(both)

		By("leaving operators what they have when the manager starts meanwhile")
		theManager.restart(ctx, usualFlags...)
		Patch(ctx, oc, `{"spec":{"runtime":{"maxRetries":7}}}`)
		Eventually(ctx, runtimeData(ctx, namespace, s)).Should(HaveKeyWithValue("runs.json", ContainSubstring(`"maxRetries": 7`)))
		Expect(runtimeData(ctx, namespace, s)(Default)).To(both)

		By("skipping single blocks that are no certificates")
		bundle.Data["ca-bundle.crt"] = "-----BEGIN X509 CRL-----\neA==\n-----END X509 CRL-----\n" + encode(later.certificate)
		Expect(K8s.Update(ctx, bundle)).To(Succeed())
		Eventually(ctx, runtimeData(ctx, namespace, s)).Should(HaveKeyWithValue("trusted-ca.crt", encode(later.certificate)))

		Get(ctx, Default, d)
		generation := d.Generation

		By("forgetting them with the ConfigMap")
		Remove(ctx, bundle)
		Eventually(ctx, runtimeData(ctx, namespace, s)).ShouldNot(HaveKey("trusted-ca.crt"))
		Get(ctx, Default, d)
		Expect(d.Generation).To(Equal(generation), "no new pod is needed")
	})
})

var _ = Describe("The manager's proxy", func() {
	It("is used for downloads and by operators, not for the cluster, and its password stays with the manager", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		archive := s.archive()
		var asked atomic.Value
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Store(r.URL.String())
			_, _ = w.Write(archive)
		}))
		DeferCleanup(proxy.Close)
		for key, value := range map[string]string{"HTTP_PROXY": proxy.URL, "HTTPS_PROXY": "http://user:secret-of-the-proxy@proxy.invalid:3128"} {
			Expect(os.Setenv(key, value)).To(Succeed())
		}
		theManager.restart(ctx, usualFlags...) // It ends after the next clean-up.
		DeferCleanup(func() {
			for _, key := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
				Expect(os.Unsetenv(key)).To(Succeed())
			}
		})
		const url = "http://archives.invalid/collection.tar.gz"
		oc := newCollection(namespace, "oc", v2beta2.OperatorCollectionSpec{CollectionURL: url, Digest: DigestOf(archive)})
		Create(ctx, oc)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		Expect(asked.Load()).To(Equal(url))
		Eventually(ctx, runtimeData(ctx, namespace, s)).Should(HaveKeyWithValue("environment", "HTTP_PROXY="+proxy.URL+"\n"))
		Expect(theManager.log()).To(ContainSubstring("operators do not get variables with credentials"))
		Expect(theManager.log()).NotTo(ContainSubstring("secret-of-the-proxy"))
	})
})
