package integration

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/collection-operator/collection-operator/test/fixture"
)

// keyFile is the path of a private key, and its content. The key is encrypted unless the passphrase is empty.
func keyFile(passphrase string) (path, content string) {
	GinkgoHelper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	block, err := ssh.MarshalPrivateKey(key, "")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	}
	Expect(err).NotTo(HaveOccurred())
	encoded := pem.EncodeToMemory(block)
	path = filepath.Join(GinkgoT().TempDir(), "key")
	Expect(os.WriteFile(path, encoded, 0o600)).To(Succeed())
	return path, string(encoded)
}

var _ = Describe("A credential", func() {
	It("is made by kubectl collection credential, and may have the keys of authors' tools", func(ctx context.Context) {
		namespace, s, server, binary := newNamespace(ctx), newSample(), startSSHServer(), toolBinary()
		apply := func(code int, name, key string, more ...string) string {
			GinkgoHelper()
			return runTool(ctx, code, binary, append([]string{"credential", name, "--user=MINE", "--key=" + key, "-n", namespace, "--apply"}, more...)...)
		}
		file, _ := keyFile("")
		Expect(apply(0, "made", file)).To(Equal("secret/made created\n"))
		passphrase := filepath.Join(GinkgoT().TempDir(), "passphrase")
		Expect(os.WriteFile(passphrase, []byte("open sesame\n"), 0o600)).To(Succeed())
		file, key := keyFile("open sesame")
		apply(2, "made", file)
		Expect(apply(0, "made", file, "--passphrase-file="+passphrase)).To(Equal("secret/made replaced\n"))

		By("not replacing a Secret that is no credential")
		Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}, StringData: map[string]string{"token": "x"}})
		apply(2, "other", file, "--passphrase-file="+passphrase)

		By("reaching the operator")
		theirs := SecretValue("private key of an authors' tool")
		Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "theirs"}, // They set neither a type nor a label.
			StringData: map[string]string{"username": "THEIRS", "ssh_key": theirs},
		})
		first, second := newEndpoint(namespace, "lpar1", server), newEndpoint(namespace, "lpar2", server)
		first.Spec.CredentialName, second.Spec.CredentialName = "made", "theirs"
		Create(ctx, first, second)
		installSample(ctx, namespace, s)
		Eventually(ctx, func(g Gomega) map[string]string {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator() + "-endpoints"}}
			Get(ctx, g, secret)
			texts := map[string]string{}
			for name, value := range secret.Data {
				texts[name] = string(value)
			}
			return texts
		}).Should(And(
			HaveKeyWithValue("lpar1_key", key), HaveKeyWithValue("lpar1_passphrase", "open sesame"), HaveKeyWithValue("lpar1_vars.yaml", ContainSubstring(`"MINE"`)),
			HaveKeyWithValue("lpar2_key", theirs), HaveKeyWithValue("lpar2_vars.yaml", ContainSubstring(`"THEIRS"`))))
	})
})
