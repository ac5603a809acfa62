package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/servingcert"
	"github.com/collection-operator/collection-operator/internal/platform/servingcert/keeper"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// serveTLS restarts the manager so that it serves archives with TLS until the spec ends. Clients can verify it then: a manager is ready
// before it has published its CA.
func serveTLS(ctx context.Context, flags ...string) {
	GinkgoHelper()
	theManager.restart(ctx, slices.Concat(usualFlags, []string{"--artifact-url=https://" + theManager.artifactAddress}, flags)...)
	DeferCleanup(func(ctx context.Context) { Remove(ctx, servingSecret()) })
	public := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ManagerNamespace, Name: keeper.ConfigMap}}
	Eventually(ctx, func(g Gomega) {
		Get(ctx, g, public)
		response, err := trusting(public.Data[keeper.KeyBundle]).Get("https://" + theManager.artifactAddress)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
	}).Should(Succeed(), "once the manager has published the CA that it has now")
}

func servingSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ManagerNamespace, Name: keeper.Secret}}
}

func runtimeConfigMap(namespace string, s *sample) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator() + "-runtime"}}
}

// trusting is an HTTP client that trusts a bundle and nothing else.
func trusting(bundle string) *http.Client {
	GinkgoHelper()
	pool := x509.NewCertPool()
	Expect(pool.AppendCertsFromPEM([]byte(bundle))).To(BeTrue(), bundle)
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
}

// downloads returns the issuer of the server's certificate after a download as a pod makes it, with what its ConfigMap says.
func downloads(g Gomega, config *corev1.ConfigMap) string {
	GinkgoHelper()
	response, err := trusting(config.Data["ca.crt"]).Get(config.Data["artifactTLSURL"])
	g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(DigestOf(content)).To(Equal(config.Data["digest"]))
	return response.TLS.PeerCertificates[0].Issuer.CommonName
}

func certificates(bundle string) int { return strings.Count(bundle, "BEGIN CERTIFICATE") }

var _ = Describe("Archives over TLS", func() {
	It("are trusted by operators while the authority is replaced, without a rollout, also of one that is suspended", func(ctx context.Context) {
		serveTLS(ctx, "--intervals="+shortIntervals+",authority-overlap=12s") // The certificate of the restored authority has to be seen within this time.
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		config, operator := runtimeConfigMap(namespace, s), deployment(namespace, s.operator())
		Get(ctx, Default, config)
		Get(ctx, Default, operator)
		generation := operator.Generation
		Expect(certificates(config.Data["ca.crt"])).To(Equal(1))
		first := downloads(Default, config)

		By("refusing older versions of TLS, and keeping the authority when it restarts")
		old := trusting(config.Data["ca.crt"])
		tooOld := old.Transport.(*http.Transport).TLSClientConfig
		tooOld.MinVersion, tooOld.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		_, err := old.Get(config.Data["artifactTLSURL"])
		Expect(err).To(MatchError(ContainSubstring("protocol version")))
		theManager.kill()
		theManager.start(ctx)
		Expect(downloads(Default, config)).To(Equal(first))

		By("using an authority that a backup has, which is due")
		Patch(ctx, oc, `{"spec":{"suspend":true}}`)
		settings := servingcert.Settings{
			Names: []string{"127.0.0.1"}, AuthorityValidity: 2 * 365 * 24 * time.Hour, CertificateValidity: 90 * 24 * time.Hour, Overlap: time.Hour,
		}
		restored := &servingcert.State{}
		for _, days := range []int{-490, -10} {
			_, err := restored.Rotate(time.Now().AddDate(0, 0, days), settings)
			Expect(err).NotTo(HaveOccurred())
		}
		secret := servingSecret()
		Get(ctx, Default, secret)
		secret.Data = restored.Data()
		Expect(K8s.Update(ctx, secret)).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, config)
			g.Expect(config.Data["ca.crt"]).To(HavePrefix(string(restored.Bundle())))
			g.Expect(certificates(config.Data["ca.crt"])).To(Equal(2))
		}).Should(Succeed())
		second := downloads(Default, config)
		Expect(second).NotTo(Equal(first))

		By("serving a certificate of the next authority, which every pod trusts by then")
		Eventually(ctx, func(g Gomega) string {
			Get(ctx, g, config)
			return downloads(Default, config) // It never fails, not just in the end.
		}).ShouldNot(Equal(second))
		Get(ctx, Default, operator)
		Expect(operator.Generation).To(Equal(generation), "nothing is rolled out")

		By("publishing the bundle, and no key, for other clients")
		public := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ManagerNamespace, Name: keeper.ConfigMap}}
		Get(ctx, Default, public)
		Expect(public.Data).To(And(HaveLen(2), HaveKeyWithValue("serverName", "127.0.0.1"), HaveKeyWithValue("ca.crt", config.Data["ca.crt"])))
		Expect(theManager.log()).NotTo(ContainSubstring("PRIVATE KEY"))
		Patch(ctx, oc, `{"spec":{"suspend":false}}`)
	})

	It("are served with the leader's certificate by a manager that is not the leader, which takes no uploads", func(ctx context.Context) {
		serveTLS(ctx, "--intervals="+shortIntervals+",authority-overlap=2s")
		now := metav1.NowMicro()
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: ManagerNamespace, Name: "collection-operator.zoscb.ibm.com"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("leader"), LeaseDurationSeconds: ptr.To[int32](3600), AcquireTime: &now, RenewTime: &now},
		}
		Expect(client.IgnoreNotFound(K8s.Delete(ctx, lease.DeepCopy()))).To(Succeed(), "that of the managers of other specs")
		Create(ctx, lease)
		DeferCleanup(func(ctx context.Context) { Remove(ctx, lease) })
		follower := newManager(ctx, theManager.binary)
		follower.flags = append(theManager.flags[:len(theManager.flags):len(theManager.flags)], "--leader-elect=true")
		DeferCleanup(func() {
			follower.stop()
			follower.checkLog()
		})
		follower.start(ctx)
		public := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ManagerNamespace, Name: keeper.ConfigMap}}
		issuer := func(g Gomega, m *managerProcess) string {
			Get(ctx, g, public)
			upload, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://"+m.artifactAddress+"/uploads/x/y", nil)
			g.Expect(err).NotTo(HaveOccurred())
			upload.Header.Set("Authorization", "Bearer none")
			response, err := trusting(public.Data["ca.crt"]).Do(upload)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(response.Body.Close()).To(Succeed())
			if m == follower {
				g.Expect(response.StatusCode).To(Equal(http.StatusServiceUnavailable), response.Status)
			} else {
				g.Expect(response.StatusCode).NotTo(Equal(http.StatusServiceUnavailable), response.Status)
			}
			return hex.EncodeToString(response.TLS.PeerCertificates[0].AuthorityKeyId)
		}
		first := issuer(Default, theManager)
		Expect(issuer(Default, follower)).To(Equal(first))
		Remove(ctx, servingSecret())
		Eventually(ctx, func(g Gomega) {
			second := issuer(g, theManager)
			g.Expect(second).NotTo(Equal(first))
			g.Expect(issuer(g, follower)).To(Equal(second))
		}).Should(Succeed())
	})

	It("work again when the Secret with the authority is not valid or is lost", func(ctx context.Context) {
		serveTLS(ctx, "--intervals="+shortIntervals+",authority-overlap=2s")
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		config := runtimeConfigMap(namespace, s)
		Get(ctx, Default, config)
		instance := s.instance(namespace, "one")
		instance.SetFinalizers([]string{operatorsFinalizer})
		for _, damage := range []func(){
			func() { Patch(ctx, servingSecret(), `{"data":{"ca.crt":"eA=="}}`) },
			func() { Remove(ctx, servingSecret()) },
			func() {
				By("also for an operator that is kept to finalize resources")
				Create(ctx, instance)
				Expect(K8s.Delete(ctx, oc)).To(Succeed())
				soc := defaultSOC(oc)
				Expect(K8s.Delete(ctx, soc)).To(Succeed())
				ExpectFailure(ctx, soc, v2beta2.ReasonCollectionTerminating, "the operator is kept", false)
				Remove(ctx, servingSecret())
			},
		} {
			before := config.Data["ca.crt"]
			damage()
			Eventually(ctx, func(g Gomega) {
				Get(ctx, g, config)
				g.Expect(config.Data["ca.crt"]).NotTo(Equal(before))
				downloads(g, config)
			}).Should(Succeed())
		}
		Patch(ctx, instance, `{"metadata":{"finalizers":null}}`)
		Remove(ctx, instance)
	})

	It("are trusted in all namespaces that the manager may write to, although another one is excluded", func(ctx context.Context) {
		serveTLS(ctx, "--intervals="+shortIntervals+",authority-overlap=2s")
		excluded, namespace, s := newNamespace(ctx), newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		allowMapping(ctx, excluded, namespace)
		soc := defaultSOC(oc)
		Patch(ctx, soc, `{"spec":{"mapping":[{"namespace":"`+excluded+`"},{"namespace":"`+namespace+`"}]}}`)
		makeAvailable(ctx, excluded, s.operator())
		ExpectReady(ctx, oc)
		Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: excluded}}, `{"metadata":{"annotations":{"zoscb.ibm.com/managed":"false"}}}`)
		before := runtimeConfigMap(excluded, s)
		asManager := theManager.withToken()
		Eventually(ctx, func() error {
			return asManager.Patch(ctx, runtimeConfigMap(excluded, s), merge(`{"data":{"ca.crt":"other"}}`), client.DryRunAll)
		}).Should(MatchError(ContainSubstring("zoscb.ibm.com/managed")), "the API server knows it")
		Get(ctx, Default, before)
		Remove(ctx, servingSecret())
		ExpectFailure(ctx, soc, v2beta2.ReasonObjectRefused, "zoscb.ibm.com/managed", false)
		Eventually(ctx, func(g Gomega) {
			config := runtimeConfigMap(namespace, s)
			Get(ctx, g, config)
			g.Expect(config.Data["ca.crt"]).NotTo(Equal(before.Data["ca.crt"]))
			downloads(g, config)
		}).Should(Succeed())
		after := runtimeConfigMap(excluded, s)
		Get(ctx, Default, after)
		Expect(after.Data).To(Equal(before.Data))
	})
})
