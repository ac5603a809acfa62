package integration

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/source/archive"
	"github.com/collection-operator/collection-operator/internal/source/verify"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// signer signs archives.
type signer struct {
	key         crypto.Signer
	fingerprint string
}

func newSignerOf(key crypto.Signer, err error) *signer {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	_, fingerprint, err := verify.Sign(key, strings.NewReader(""))
	Expect(err).NotTo(HaveOccurred())
	return &signer{key: key, fingerprint: fingerprint}
}

func rsaSigner() *signer {
	GinkgoHelper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	return newSignerOf(key, err)
}

func ecdsaSigner() *signer {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return newSignerOf(key, err)
}

func ed25519Signer() *signer {
	GinkgoHelper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return newSignerOf(key, err)
}

func (s *signer) public() []byte {
	GinkgoHelper()
	der, err := x509.MarshalPKIXPublicKey(s.key.Public())
	Expect(err).NotTo(HaveOccurred())
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func (s *signer) private() []byte {
	GinkgoHelper()
	der, err := x509.MarshalPKCS8PrivateKey(s.key)
	Expect(err).NotTo(HaveOccurred())
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func (s *signer) sign(content []byte) []byte {
	GinkgoHelper()
	signature, _, err := verify.Sign(s.key, bytes.NewReader(content))
	Expect(err).NotTo(HaveOccurred())
	return signature
}

// evidence is what a Secret has to hold for the content.
func (s *signer) evidence(content []byte) map[string][]byte {
	return map[string][]byte{"any-name": s.public(), "another": s.sign(content)}
}

const signatureSecret = "proof"

func secretOf(namespace string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: signatureSecret}, Data: data}
}

// setSecret creates the Secret or replaces what it holds.
func setSecret(ctx context.Context, namespace string, data map[string][]byte) {
	GinkgoHelper()
	secret := secretOf(namespace, data)
	Expect(client.IgnoreNotFound(K8s.Delete(ctx, secret.DeepCopy()))).To(Succeed())
	Create(ctx, secret)
}

// signed is the spec of an OperatorCollection whose archive must be signed.
func signed(content []byte) v2beta2.OperatorCollectionSpec {
	return v2beta2.OperatorCollectionSpec{CollectionURL: web.Serve(content), SignatureSecret: signatureSecret}
}

// gpg runs gpg with a home of its own.
func gpg(home string, args ...string) []byte {
	GinkgoHelper()
	command := exec.Command("gpg", append([]string{"--homedir", home, "--batch", "--yes", "--pinentry-mode", "loopback", "--passphrase", ""}, args...)...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "gpg is needed (hack/test-packages.sh): %s", stderr.String())
	return output
}

// galaxyEvidence signs an archive's MANIFEST.json as Ansible Galaxy does.
func galaxyEvidence(content []byte) map[string][]byte {
	GinkgoHelper()
	home, err := os.MkdirTemp("", "gpg") // The path of the agent's socket has to be short.
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		_ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run()
		Expect(os.RemoveAll(home)).To(Succeed())
	})
	gpg(home, "--quick-generate-key", "tests <tests@example.com>", "ed25519", "sign", "never")
	manifest, err := archive.ReadFile(bytes.NewReader(content), archive.DefaultLimits, verify.ManifestFile)
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(home, verify.ManifestFile)
	Expect(os.WriteFile(path, manifest, 0o600)).To(Succeed())
	return map[string][]byte{
		"galaxy.asc": gpg(home, "--armor", "--output", "-", "--detach-sign", path), "galaxy.pub": gpg(home, "--armor", "--export"),
	}
}

// replaceFile is the archive with other content in one file.
func replaceFile(content []byte, name, by string) []byte {
	GinkgoHelper()
	var replaced bytes.Buffer
	zipped := gzip.NewWriter(&replaced)
	writer := tar.NewWriter(zipped)
	Expect(archive.Walk(bytes.NewReader(content), archive.DefaultLimits, func(file string, mode fs.FileMode, _ int64, r io.Reader) error {
		body, err := io.ReadAll(r)
		if err != nil || mode.IsDir() {
			return err
		}
		if file == name {
			body = []byte(by)
		}
		if err := writer.WriteHeader(&tar.Header{Name: file, Mode: int64(mode.Perm()), Size: int64(len(body))}); err != nil {
			return err
		}
		_, err = writer.Write(body)
		return err
	})).To(Succeed())
	Expect(writer.Close()).To(Succeed())
	Expect(zipped.Close()).To(Succeed())
	return replaced.Bytes()
}

func expectVerified(ctx context.Context, oc *v2beta2.OperatorCollection, method, by string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		g.Expect(Condition(ctx, oc, v2beta2.ConditionImported)(g)).To(ConditionTrue())
		Get(ctx, g, oc)
		g.Expect(oc.Status.Artifact).To(HaveValue(And(HaveField("Verification", method), HaveField("VerifiedBy", by),
			HaveField("VerifiedAt", HaveValue(HaveField("Time", BeTemporally("~", time.Now(), time.Hour)))))))
	}).Should(Succeed())
}

var _ = Describe("A signed archive", func() {
	It("is refused when Ansible Galaxy's signature is right, but a file is not the one it vouches for", attack.Label, func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		content := s.archive()
		Create(ctx, secretOf(namespace, galaxyEvidence(content)))
		oc := newCollection(namespace, "oc", signed(replaceFile(content, "play.yml", "- {hosts: all, tasks: [{raw: id}]}\n")))
		Create(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonInvalidCollection, "the checksum of \"play.yml\" is not the listed one", true)
		Get(ctx, Default, oc)
		Expect(oc.Status.Artifact).To(BeNil())
		Expect(madeIn(ctx, namespace)).To(ConsistOf("Secret/" + signatureSecret))
		attack.Repelled("Origin", "change a file of an archive that Ansible Galaxy signed", "nothing of it is installed", seen(ctx, oc))
	})

	DescribeTable("is refused, nothing of it is installed, and it heals with the Secret", attack.Label,
		func(ctx context.Context, reason, message string, wrong func(right *signer, content []byte) map[string][]byte) {
			namespace, s, right := newNamespace(ctx), newSample(), ecdsaSigner()
			content := s.archive()
			if data := wrong(right, content); data != nil {
				Create(ctx, secretOf(namespace, data))
			}
			before := madeIn(ctx, namespace)
			oc := newCollection(namespace, "oc", signed(content))
			Create(ctx, oc)
			ExpectFailure(ctx, oc, reason, message, false)
			observed := seen(ctx, oc)
			Get(ctx, Default, oc)
			Expect(oc.Status.Artifact).To(BeNil())
			Expect(oc.Status.Phase).To(Equal(v2beta2.PhaseFailed))
			Expect(madeIn(ctx, namespace)).To(Equal(before))
			Expect(Gone(ctx, customResourceDefinition(s.crdName()))(Default)).To(BeTrue())
			Expect(filepath.Glob(filepath.Join(theManager.storage, ".artifacts", "sha256", DigestOf(content)[7:]+"*"))).To(BeEmpty(), "the store keeps nothing of it")
			Eventually(ctx, filepath.Glob).WithArguments(filepath.Join(theManager.storage, ".artifacts", "tmp", "*")).
				Should(BeEmpty(), "nor does the temporary folder, unless the manager tries again just then")

			attack.Repelled("Origin", "install an archive "+CurrentSpecReport().LeafNodeText, "nothing of it is installed or stored", observed)
			if len(before) == 0 {
				By("healing with the Secret that did not exist")
				Create(ctx, secretOf(namespace, right.evidence(content)))
				expectVerified(ctx, oc, "Signature", right.fingerprint)
			}
		},
		Entry("with the signature of another archive", v2beta2.ReasonSignatureInvalid, "is not signed by the key sha256:",
			func(right *signer, content []byte) map[string][]byte {
				return map[string][]byte{"k": right.public(), "s": right.sign(append(content, 0))}
			}),
		Entry("with the signature of another key", v2beta2.ReasonSignatureInvalid, "is not signed by the key sha256:",
			func(right *signer, content []byte) map[string][]byte {
				return map[string][]byte{"k": right.public(), "s": ecdsaSigner().sign(content)}
			}),
		Entry("with the GPG signature of another archive", v2beta2.ReasonSignatureInvalid, "MANIFEST.json is not what was signed",
			func(*signer, []byte) map[string][]byte { return galaxyEvidence(newSample().archive()) }),
		Entry("without the Secret", v2beta2.ReasonSignatureSecretInvalid, `Secret "proof" does not exist in namespace`,
			func(*signer, []byte) map[string][]byte { return nil }),
		Entry("with an empty Secret", v2beta2.ReasonSignatureSecretInvalid, "it is empty",
			func(*signer, []byte) map[string][]byte { return map[string][]byte{} }),
		Entry("with garbage in the Secret", v2beta2.ReasonSignatureSecretInvalid, `"garbage" has an unknown format`,
			func(right *signer, content []byte) map[string][]byte {
				data := right.evidence(content)
				data["garbage"] = []byte(SecretValue("garbage beside a signature"))
				return data
			}),
		Entry("without a public key", v2beta2.ReasonSignatureSecretInvalid, "without a public key",
			func(right *signer, content []byte) map[string][]byte {
				return map[string][]byte{"s": right.sign(content)}
			}),
		Entry("with a private key in the Secret", v2beta2.ReasonSignatureSecretInvalid, `"key" holds a private key`,
			func(right *signer, content []byte) map[string][]byte {
				return map[string][]byte{"key": right.private(), "s": right.sign(content)}
			}),
	)

	It("must have its pinned digest too, and the other way round", attack.Label, func(ctx context.Context) {
		namespace, s, signer := newNamespace(ctx), newSample(), ecdsaSigner()
		content := s.archive()
		Create(ctx, secretOf(namespace, signer.evidence(content)))
		spec := signed(content)
		spec.Digest = DigestOf(nil)
		oc := newCollection(namespace, "oc", spec)
		Create(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonDigestMismatch, DigestOf(nil), true)
		attack.Repelled("Origin", "install an archive with the right signature and another digest than the pinned one", "nothing of it is installed", seen(ctx, oc))
		Patch(ctx, oc, fmt.Sprintf(`{"spec":{"digest":%q}}`, DigestOf(content)))
		expectVerified(ctx, oc, "Signature", signer.fingerprint)

		other := newCollection(namespace, "other", spec)
		other.Spec.Digest = DigestOf(content)
		setSecret(ctx, namespace, ecdsaSigner().evidence(nil))
		Create(ctx, other)
		ExpectFailure(ctx, other, v2beta2.ReasonSignatureInvalid, "is not signed by", false)
		attack.Repelled("Origin", "install an archive with the pinned digest and a signature of another key", "nothing of it is installed", seen(ctx, other))
	})

	It("is not looked at when verification is skipped, and status says so", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		spec := signed(s.archive())
		spec.SkipSignatureVerification = true
		oc := newCollection(namespace, "oc", spec)
		Create(ctx, oc)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		Get(ctx, Default, oc)
		Expect(oc.Status.Artifact).To(HaveValue(And(HaveField("Verification", "Skipped"), HaveField("VerifiedBy", ""), HaveField("VerifiedAt", BeNil()))))
	})

	It("keeps running when the key is taken away, but is Ready only with one that is right, also after a restart", attack.Label, func(ctx context.Context) {
		namespace, s, signer := newNamespace(ctx), newSample(), ecdsaSigner()
		content := s.archive()
		Create(ctx, secretOf(namespace, signer.evidence(content)))
		oc := newCollection(namespace, "oc", signed(content))
		Create(ctx, oc)
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		Get(ctx, Default, oc)
		artifact := oc.Status.Artifact
		before := versions(installed(ctx, defaultSOC(oc)))
		// From here on the archive cannot be downloaded.
		web.Replace(oc.Spec.CollectionURL, http.NotFound)

		for _, change := range []struct {
			of, reason, message string
			data                map[string][]byte
		}{
			{"a rotated key", v2beta2.ReasonSignatureInvalid, "the running operator is unaffected", ecdsaSigner().evidence(content[:5])},
			{"a removed signature", v2beta2.ReasonSignatureSecretInvalid, "no signature", map[string][]byte{"k": signer.public()}},
		} {
			By(change.of)
			setSecret(ctx, namespace, change.data)
			ExpectFailure(ctx, oc, change.reason, change.message, false)
			theManager.kill()
			theManager.start(ctx)
			ExpectFailure(ctx, oc, change.reason, change.message, false)
			Expect(versions(installed(ctx, defaultSOC(oc)))).To(Equal(before))
			Get(ctx, Default, oc)
			Expect(oc.Status.Artifact).To(Equal(artifact))
			attack.Repelled("Origin", "restart the manager after "+change.of, "nothing else is installed, and what runs is not called verified", seen(ctx, oc))
		}

		By("the same key again")
		setSecret(ctx, namespace, signer.evidence(content))
		ExpectReady(ctx, oc)
		Get(ctx, Default, oc)
		Expect(oc.Status.Artifact).To(Equal(artifact), "also the time at which it was verified")

		By("another key that has signed the same archive")
		other := rsaSigner()
		setSecret(ctx, namespace, other.evidence(content))
		expectVerified(ctx, oc, "Signature", other.fingerprint)
		ExpectReady(ctx, oc)

		By("a digest instead, for which nothing needs to be downloaded")
		Patch(ctx, oc, fmt.Sprintf(`{"spec":{"signatureSecret":null,"digest":%q}}`, DigestOf(content)))
		expectVerified(ctx, oc, "Digest", "")
		ExpectReady(ctx, oc)
		Expect(versions(installed(ctx, defaultSOC(oc)))).To(Equal(before))
	})

	It("has to prove itself when skipping ends, without being downloaded again", attack.Label, func(ctx context.Context) {
		namespace, s, signer := newNamespace(ctx), newSample(), ed25519Signer()
		content := s.archive()
		oc := newCollection(namespace, "oc", unverified(web.Serve(content)))
		Create(ctx, oc)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		web.Replace(oc.Spec.CollectionURL, http.NotFound)

		Patch(ctx, oc, `{"spec":{"skipSignatureVerification":false}}`)
		ExpectFailure(ctx, oc, v2beta2.ReasonNotVerified, "spec.signatureSecret", true)
		attack.Repelled("Origin", "have an unverified archive pass as verified once skipping ends", "it has to prove itself", seen(ctx, oc))
		Create(ctx, secretOf(namespace, signer.evidence(content)))
		Patch(ctx, oc, `{"spec":{"signatureSecret":"proof"}}`)
		expectVerified(ctx, oc, "Signature", signer.fingerprint)
	})

	It("is not taken from the store on the word of a status that names another archive", attack.Label, func(ctx context.Context) {
		namespace, s, signer := newNamespace(ctx), newSample(), ecdsaSigner()
		content := s.archive()
		evil := newSample()
		evilContent := evil.archive()
		Create(ctx, secretOf(namespace, signer.evidence(content)))
		importUnverified := newCollection(namespace, "evil", unverified(web.Serve(evilContent)))
		Create(ctx, importUnverified)
		Eventually(ctx, Condition(ctx, importUnverified, v2beta2.ConditionImported)).Should(ConditionTrue())
		oc := newCollection(namespace, "oc", signed(content))
		Create(ctx, oc)
		expectVerified(ctx, oc, "Signature", signer.fingerprint)
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, oc)
			oc.Status.Artifact.Digest = DigestOf(evilContent)
			g.Expect(K8s.Status().Update(ctx, oc)).To(Succeed())
		}).Should(Succeed())
		Patch(ctx, oc, `{"metadata":{"annotations":{"look":"again"}}}`)
		ExpectFailure(ctx, oc, v2beta2.ReasonSignatureInvalid, DigestOf(evilContent), false)
		attack.Repelled("Origin", "name another stored archive in the status", "what is stored is verified again", seen(ctx, oc))
	})

	It("is verified like any other when it was uploaded, and again when the manager lost it", attack.Label, func(ctx context.Context) {
		namespace, s, signer := newNamespace(ctx), newSample(), ecdsaSigner()
		content := s.archive()
		Create(ctx, secretOf(namespace, signer.evidence(content)))
		evil := *s
		evil.files = map[string]string{"README.md": "# tampered with\n"}
		oc := newCollection(namespace, "oc", v2beta2.OperatorCollectionSpec{SignatureSecret: signatureSecret})
		oc.Labels = map[string]string{"operator-domain": domain, "operator-name": s.name, "operator-version": s.version}
		Create(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonArchiveNotUploaded, s.name, false)
		Get(ctx, Default, oc)
		Expect(oc.Status.Phase).To(Equal(v2beta2.PhasePending))

		By("being uploaded, without any other event")
		theManager.upload(s.name, s.version, evil.archive())
		ExpectFailure(ctx, oc, v2beta2.ReasonSignatureInvalid, "is not signed by", false)
		attack.Repelled("Origin", "upload an archive that was tampered with", "nothing of it is installed", seen(ctx, oc))
		theManager.upload(s.name, s.version, content)
		Patch(ctx, oc, `{"metadata":{"annotations":{"look":"again"}}}`)
		expectVerified(ctx, oc, "Signature", signer.fingerprint)

		theManager.upload(s.name, s.version, evil.archive())
		theManager.kill()
		theManager.loseArchives()
		theManager.start(ctx)
		ExpectFailure(ctx, oc, v2beta2.ReasonArtifactChanged, DigestOf(evil.archive()), false)
		attack.Repelled("Origin", "overwrite an upload and have the manager lose its store", "other content is never taken silently", seen(ctx, oc))
	})
})

var _ = Describe("The policy require-verification", func() {
	It("forbids to skip verification, but leaves alone what is there", attack.Label, func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		old := newCollection(namespace, "old", unverified(web.Serve(s.archive())))
		Create(ctx, old)
		Eventually(ctx, Condition(ctx, old, v2beta2.ConditionImported)).Should(ConditionTrue())
		content, err := os.ReadFile("../../config/components/require-verification/policy.yaml")
		Expect(err).NotTo(HaveOccurred())
		for _, document := range strings.Split(string(content), "\n---\n") {
			object := &unstructured.Unstructured{}
			Expect(yaml.Unmarshal([]byte(document), &object.Object)).To(Succeed())
			Create(ctx, object)
			DeferCleanup(func(ctx context.Context) {
				Remove(ctx, object)
				// Other specs skip verification.
				Eventually(ctx, func() error {
					return K8s.Create(ctx, newCollection("default", "allowed", unverified("https://example.com/x")), client.DryRunAll)
				}).Should(Succeed())
			})
		}
		beForbidden := MatchError(And(ContainSubstring("skipSignatureVerification: true is forbidden in this cluster"), ContainSubstring("spec.signatureSecret")))
		Eventually(ctx, func() error {
			return K8s.Create(ctx, newCollection(namespace, "new", unverified("https://example.com/x")), client.DryRunAll)
		}).Should(beForbidden)

		By("allowing everything else")
		fresh := newCollection(namespace, "new", newSample().pinned())
		Create(ctx, fresh)
		refusal := TryPatch(ctx, fresh, `{"spec":{"skipSignatureVerification":true}}`)
		Expect(refusal).To(beForbidden)
		attack.Repelled("Origin", "skip verification where the policy require-verification is installed", "the API server refuses it", firstOf(refusal.Error()))

		By("letting the manager work on what skips already, and nobody change it")
		Expect(TryPatch(ctx, old, fmt.Sprintf(`{"spec":{"collectionURL":%q}}`, web.Serve(nil)))).To(beForbidden)
		Patch(ctx, old, `{"metadata":{"labels":{"mine":"yes"}}}`)
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, old)
		Remove(ctx, old)
		Eventually(ctx, Gone(ctx, old)).Should(BeTrue())
	})
})
