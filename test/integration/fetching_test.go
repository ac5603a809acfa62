package integration

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// authority issues certificates for servers on loopback and for their clients.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority() *authority {
	GinkgoHelper()
	a := &authority{}
	a.certificate, a.key = a.issue(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue makes a certificate, which an authority that has none signs itself.
func (a *authority) issue(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	template.SerialNumber, template.Subject = big.NewInt(1), pkix.Name{CommonName: rand.Text()}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.certificate, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	Expect(err).NotTo(HaveOccurred())
	certificate, err := x509.ParseCertificate(der)
	Expect(err).NotTo(HaveOccurred())
	return certificate, key
}

// leaf is a certificate and its key in PEM.
func (a *authority) leaf() (certificate, key string) {
	GinkgoHelper()
	issued, private := a.issue(&x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	der, err := x509.MarshalPKCS8PrivateKey(private)
	Expect(err).NotTo(HaveOccurred())
	return encode(issued), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func encode(certificate *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}))
}

// serve answers over TLS to those with a client certificate of the authority, and to all others if it is optional.
func (a *authority) serve(auth tls.ClientAuthType, handler http.HandlerFunc) string {
	GinkgoHelper()
	certificate, key := a.leaf()
	pair, err := tls.X509KeyPair([]byte(certificate), []byte(key))
	Expect(err).NotTo(HaveOccurred())
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: auth, ClientCAs: pool}
	server.StartTLS()
	DeferCleanup(server.Close)
	return server.URL + "/collection.tar.gz"
}

// downloadSecret is the Secret for a download with a client certificate and what else it is given.
func (a *authority) downloadSecret(namespace string, more map[string]string) *corev1.Secret {
	GinkgoHelper()
	certificate, key := a.leaf()
	SecretValues[fmt.Sprintf("client's private key (%d)", len(SecretValues))] = strings.Split(key, "\n")[1]
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "download", Labels: map[string]string{credentialLabel: "true"}},
		StringData: map[string]string{"tls.crt": certificate, "tls.key": key, "ca.crt": encode(a.certificate)},
	}
	for name, value := range more {
		secret.StringData[name] = value
	}
	return secret
}

// origin is a URL whose archive may change, with what was asked of it.
type origin struct {
	url string
	// answers are the status codes and If-None-Match headers of all requests.
	answers chan string
}

type recorder struct {
	http.ResponseWriter
	code int
}

func (r *recorder) WriteHeader(code int) {
	r.code = code
	r.ResponseWriter.WriteHeader(code)
}

// newOrigin serves archives with an ETag.
func newOrigin(content []byte) *origin {
	o := &origin{answers: make(chan string, 1000)}
	o.url = web.Handle(http.NotFound)
	o.publish(content)
	return o
}

func (o *origin) publish(content []byte) {
	o.answer(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"`+DigestOf(content)+`"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})
}

func (o *origin) answer(handler http.HandlerFunc) {
	web.Replace(o.url, func(w http.ResponseWriter, r *http.Request) {
		recorded := &recorder{ResponseWriter: w, code: http.StatusOK}
		handler(recorded, r)
		o.answers <- fmt.Sprint(recorded.code, " ", r.Header.Get("If-None-Match"))
	})
}

var _ = Describe("A download", func() {
	It("proves both sides with what the Secret holds: a private authority and a client certificate", attack.Label, func(ctx context.Context) {
		namespace, s, ours, theirs := newNamespace(ctx), newSample(), newAuthority(), newAuthority()
		archive := s.archive()
		url := ours.serve(tls.RequireAndVerifyClientCert, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(archive) })
		unusable := SecretValue("text that is no certificate")
		secret := ours.downloadSecret(namespace, map[string]string{"ca.crt": unusable})
		Create(ctx, secret)
		oc := newCollection(namespace, "oc", v2beta2.OperatorCollectionSpec{CollectionURL: url, Digest: DigestOf(archive), CredentialsSecret: secret.Name})
		Create(ctx, oc)

		By("naming the key that is of no use")
		ExpectFailure(ctx, oc, v2beta2.ReasonCredentialsInvalid, `Secret "download" has no usable certificate in PEM under the key ca.crt`, false)

		By("refusing a server that another authority speaks for")
		Patch(ctx, secret, fmt.Sprintf(`{"stringData":{"ca.crt":%q}}`, encode(theirs.certificate)))
		ExpectFailure(ctx, oc, v2beta2.ReasonSourceUnreachable, "an authority that is not trusted here", false)
		attack.Repelled("Fetching", "answer for the source with a certificate of another authority", "nothing is downloaded", seen(ctx, oc))

		By("importing when all is right")
		Patch(ctx, secret, fmt.Sprintf(`{"stringData":{"ca.crt":%q}}`, encode(ours.certificate)))
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		expectSecrecy(ctx, namespace)
	})

	It("takes neither token nor client certificate to another host that it is redirected to", attack.Label, func(ctx context.Context) {
		namespace, s, ours := newNamespace(ctx), newSample(), newAuthority()
		archive, token := s.archive(), SecretValue("token of one host")
		type request struct {
			authorization string
			certificates  int
		}
		first, second := make(chan request, 100), make(chan request, 100)
		elsewhere := ours.serve(tls.RequestClientCert, func(w http.ResponseWriter, r *http.Request) {
			second <- request{r.Header.Get("Authorization"), len(r.TLS.PeerCertificates)}
			_, _ = w.Write(archive)
		})
		url := ours.serve(tls.RequestClientCert, func(w http.ResponseWriter, r *http.Request) {
			first <- request{r.Header.Get("Authorization"), len(r.TLS.PeerCertificates)}
			http.Redirect(w, r, elsewhere, http.StatusFound)
		})
		Create(ctx, ours.downloadSecret(namespace, map[string]string{"token": token}))
		oc := newCollection(namespace, "oc", v2beta2.OperatorCollectionSpec{CollectionURL: url, Digest: DigestOf(archive), CredentialsSecret: "download"})
		Create(ctx, oc)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		Expect(first).To(Receive(Equal(request{"Bearer " + token, 1})))
		var got request
		Expect(second).To(Receive(&got))
		Expect(got).To(Equal(request{}))
		expectSecrecy(ctx, namespace)
		attack.Repelled("Fetching", "redirect a download with token and client certificate to another host", "neither goes there",
			fmt.Sprintf("the other host got the header Authorization %q and %d certificates", got.authorization, got.certificates))
	})

	It("that never ends holds up nobody but who asked for it", attack.Label, func(ctx context.Context) {
		const each = 20 // Many more than the manager works on at once.
		namespace, s, attackers := newNamespace(ctx), newSample(), []string{newNamespace(ctx), newNamespace(ctx)}
		theManager.restart(ctx, append(slices.Clone(usualFlags), "--fetch-timeout=10m")...)
		oc := installSample(ctx, namespace, s)
		var open atomic.Int32
		endless := web.Handle(func(w http.ResponseWriter, r *http.Request) {
			open.Add(1)
			defer open.Add(-1)
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		for _, attacker := range attackers {
			for i := range each {
				Create(ctx, newCollection(attacker, fmt.Sprintf("endless-%d", i), unverified(endless)))
			}
		}
		Eventually(ctx, func(g Gomega) {
			waiting := 0
			for _, attacker := range attackers {
				for i := range each {
					ready := Condition(ctx, newCollection(attacker, fmt.Sprintf("endless-%d", i), unverified("")), v2beta2.ConditionReady)(g)
					if strings.Contains(ready.Message, "waiting for other downloads to end") {
						waiting++
					}
				}
			}
			g.Expect(waiting + int(open.Load())).To(Equal(len(attackers) * each))
		}).Should(Succeed(), "each downloads or waits its turn")
		downloads := open.Load()

		By("importing and installing another collection")
		begin := time.Now()
		other := installSample(ctx, newNamespace(ctx), newSample())
		By("telling of an operator that goes away and comes back")
		operator := deployment(namespace, s.operator())
		Get(ctx, Default, operator)
		operator.Status = appsv1.DeploymentStatus{ObservedGeneration: operator.Generation}
		Expect(K8s.Status().Update(ctx, operator)).To(Succeed())
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).Should(ConditionFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		took := time.Since(begin)
		Expect(took).To(BeNumerically("<", soon))
		Expect(open.Load()).To(Equal(downloads), "all of it while they downloaded")
		attack.Repelled("Fetching", fmt.Sprintf("name a server that never ends its answers in %d OperatorCollections of %d namespaces", len(attackers)*each, len(attackers)),
			"others import, install and see changes as usual", fmt.Sprintf("%d of them download; all that others did took %s; %s", downloads, took.Round(time.Second), seen(ctx, other)))
	})

	It("is not repeated without spec.interval, and with it costs one request and no write while nothing changes", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		archive := s.archive()
		source := newOrigin(archive)
		oc := newCollection(namespace, "oc", unverified(source.url))
		Create(ctx, oc)
		Eventually(ctx, source.answers).Should(Receive(Equal("200 ")))
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		Get(ctx, Default, oc)
		Expect(oc.Status.Artifact.ETag).To(Equal(`"` + DigestOf(archive) + `"`))
		Patch(ctx, oc, `{"spec":{"runtime":{"env":[{"name":"LANG","value":"C"}]}}}`)
		Eventually(ctx, podTemplateOf(ctx, namespace, s)).Should(
			HaveField("Spec.Containers", ContainElement(HaveField("Env", ContainElement(HaveField("Name", "LANG"))))))
		Consistently(ctx, source.answers).ShouldNot(Receive())

		By("asking at once when the interval is set, and again when the manager starts")
		conditional := fmt.Sprintf(`304 "%s"`, DigestOf(archive))
		Patch(ctx, oc, `{"spec":{"interval":"1h"}}`)
		Eventually(ctx, source.answers).Should(Receive(Equal(conditional)))
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, defaultSOC(oc))
		ExpectReady(ctx, oc)
		var mark *auditMark
		// Ready comes before the last events and the roll-up of the OperatorCollection.
		Eventually(ctx, func(g Gomega) {
			mark = markAudit()
			g.Consistently(mark.writesAbout(namespace)).WithTimeout(3 * time.Second).Should(BeEmpty())
		}).Should(Succeed())
		theManager.stop()
		theManager.start(ctx)
		Eventually(ctx, source.answers).Should(Receive(Equal(conditional)))
		Consistently(ctx, mark.writesAbout(namespace)).Should(BeEmpty())
		Expect(source.answers).NotTo(Receive())

		By("a server that ignores what it is asked")
		source.answer(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"`+rand.Text()+`"`)
			_, _ = w.Write(archive)
		})
		theManager.stop()
		theManager.start(ctx)
		Eventually(ctx, source.answers).Should(Receive(HavePrefix("200 ")))
		Consistently(ctx, mark.writesAbout(namespace)).Should(BeEmpty())
	})

	It("with spec.interval upgrades when the origin changed, never to something older or unproven, and goes on when it is away", attack.Label, func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		source := newOrigin(s.archive())
		spec := unverified(source.url)
		spec.Interval = &metav1.Duration{Duration: time.Hour}
		oc := newCollection(namespace, "oc", spec)
		Create(ctx, oc)
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		hours := 1
		look := func() {
			hours++
			Patch(ctx, oc, fmt.Sprintf(`{"spec":{"interval":"%dh"}}`, hours)) // A changed spec is looked at once.
		}

		s.version = "1.1.0"
		newer := s.archive()
		source.publish(newer)
		look()
		makeReadyAgain(ctx, oc, s, "1.1.0")
		Get(ctx, Default, oc)
		Expect(oc.Status.Artifact).To(HaveValue(And(HaveField("Digest", DigestOf(newer)), HaveField("ETag", ContainSubstring(DigestOf(newer))))))

		By("refusing an older version")
		s.version = "0.9.0"
		older := s.archive()
		source.publish(older)
		look()
		ExpectFailure(ctx, oc, v2beta2.ReasonArtifactChanged, "0.9.0", false)
		attack.Repelled("Fetching", "put an older version in the place of the installed one", "what is installed stays", seen(ctx, oc))
		Get(ctx, Default, oc)
		Expect(oc.Status.Artifact.Digest).To(Equal(DigestOf(newer)))
		Eventually(ctx, theManager.storedArchives).ShouldNot(ContainElement(ContainSubstring(strings.TrimPrefix(DigestOf(older), "sha256:"))), "a refused archive is not kept")

		By("going on with a warning while the origin is away")
		source.answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
		look()
		ExpectReady(ctx, oc)
		Get(ctx, Default, oc)
		Expect(oc.Status.Warnings).To(ContainElement(ContainSubstring("503")))

		By("asking for nothing else while the imported archive is pinned")
		source.publish(newer)
		Patch(ctx, oc, fmt.Sprintf(`{"spec":{"digest":%q}}`, DigestOf(newer)))
		ExpectReady(ctx, oc)
		Get(ctx, Default, oc)
		Expect(oc.Status.Warnings).To(BeEmpty())
		s.version = "1.2.0"
		source.publish(s.archive())
		answered := len(source.answers)
		look()
		expectObserved(ctx, oc)
		ExpectReady(ctx, oc)
		Expect(source.answers).To(HaveLen(answered))

		By("refusing what the pinned digest is not of")
		Patch(ctx, oc, fmt.Sprintf(`{"spec":{"digest":%q}}`, DigestOf(older)))
		ExpectFailure(ctx, oc, v2beta2.ReasonDigestMismatch, DigestOf(s.archive()), false)
		attack.Repelled("Fetching", "put another archive in the place of the pinned one", "what is installed stays", seen(ctx, oc))
		Get(ctx, Default, oc)
		Expect(oc.Status.Collection.Version).To(Equal("1.1.0"))
	})

	It("and a probe go to no local address unless the administrator allows it", attack.Label, func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		theManager.restart(ctx)
		oc, endpoint := newCollection(namespace, "oc", s.pinned()), newEndpoint(namespace, "lpar1", startSSHServer())
		Create(ctx, oc, endpoint)
		ExpectFailure(ctx, oc, v2beta2.ReasonSourceForbidden, "a loopback address", false)
		Eventually(ctx, Condition(ctx, endpoint, v2beta2.ConditionReachable)).
			Should(And(ConditionFalse(), WithReason(v2beta2.ReasonHostForbidden), WithMessage("a loopback address")))
		ExpectReady(ctx, endpoint)
		Get(ctx, Default, endpoint)
		Expect(endpoint.Status.HostKeys).To(BeEmpty())
		attack.Repelled("Fetching", "download from a loopback address", "no connection", seen(ctx, oc))
		attack.Repelled("Secrets and hosts", "scan the manager's own pod by an endpoint with a loopback address", "no connection", seen(ctx, endpoint, v2beta2.ConditionReachable))

		By("however it is written")
		for i, row := range []struct{ host, message string }{
			{"localhost", "a loopback address"}, {"0.0.0.0", "an unspecified address"}, {"0:0:0:0:0:ffff:127.0.0.1", "a loopback address"},
			{"169.254.169.254", "a cloud metadata service"}, {"169.254.1.1", "a link-local address"},
		} {
			scan := newEndpoint(namespace, fmt.Sprintf("scan%d", i), nil)
			scan.Spec.Host = row.host
			Create(ctx, scan)
			Eventually(ctx, Condition(ctx, scan, v2beta2.ConditionReachable)).
				Should(And(ConditionFalse(), WithReason(v2beta2.ReasonHostForbidden), WithMessage(row.message)), row.host)
			attack.Repelled("Secrets and hosts", "probe "+row.host, "no connection", seen(ctx, scan, v2beta2.ConditionReachable))
		}
		metadata := newCollection(namespace, "metadata", unverified("http://169.254.169.254/latest/meta-data/x.tar.gz"))
		Create(ctx, metadata)
		ExpectFailure(ctx, metadata, v2beta2.ReasonSourceForbidden, "a cloud metadata service", false)
		attack.Repelled("Fetching", "download from a cloud's metadata service", "no connection", seen(ctx, metadata))
	})

	It("and a probe keep to the networks, and a download to the URLs, that the administrator allows", attack.Label, func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		archive := s.archive()
		allowed, refused := web.Serve(archive), web.Serve(archive)
		away := web.Handle(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, refused, http.StatusFound) })
		theManager.restart(ctx, "--allow-local-addresses", "--forbidden-networks=127.0.0.2/32",
			"--allowed-source-prefixes="+allowed, "--allowed-source-prefixes="+away)
		for _, row := range []struct{ name, url, attack string }{
			{"other", refused, "download from a URL that is not allowed"},
			{"up", allowed + "/.." + strings.TrimPrefix(refused, web.URL), "lead out of an allowed prefix by /.."},
			{"away", away, "redirect from an allowed URL to another"},
		} {
			oc := newCollection(namespace, row.name, v2beta2.OperatorCollectionSpec{CollectionURL: row.url, Digest: DigestOf(archive)})
			Create(ctx, oc)
			ExpectFailure(ctx, oc, v2beta2.ReasonSourceForbidden, "not below a prefix", true)
			attack.Repelled("Fetching", row.attack, "nothing is downloaded", seen(ctx, oc))
		}
		oc := newCollection(namespace, "oc", v2beta2.OperatorCollectionSpec{CollectionURL: allowed, Digest: DigestOf(archive)})
		endpoint := newEndpoint(namespace, "lpar1", startSSHServer())
		endpoint.Spec.Host = "127.0.0.2"
		Create(ctx, oc, endpoint)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		Eventually(ctx, Condition(ctx, endpoint, v2beta2.ConditionReachable)).
			Should(And(ConditionFalse(), WithReason(v2beta2.ReasonHostForbidden), WithMessage("the forbidden network 127.0.0.2/32")))
		attack.Repelled("Secrets and hosts", "probe a network that the administrator forbids", "no connection", seen(ctx, endpoint, v2beta2.ConditionReachable))
	})
})
