package deliver

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/test/clitest"
)

// Without --apply, the manifest is printed, and what is known of the key to standard error. No cluster is needed.
func TestCredential(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte("open sesame"))
	if err != nil {
		t.Fatal(err)
	}
	file, passphrase := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "passphrase")
	clitest.Write(t, file, string(pem.EncodeToMemory(block)))
	clitest.Write(t, passphrase, "open sesame\r\n")
	code, stdout, stderr := tool(t, "credential", "lpar1", "--user", "IBMUSER", "--key", file, "--passphrase-file", passphrase)
	var secret corev1.Secret
	if err := yaml.UnmarshalStrict([]byte(stdout), &secret); code != kit.ExitClean || err != nil || secret.Name != "lpar1" || secret.Namespace != "" || string(secret.Data["passphrase"]) != "open sesame" {
		t.Errorf("got %d, %v, %s%s", code, err, stdout, stderr)
	}
	if !strings.Contains(stderr, "ssh-ed25519, fingerprint SHA256:") || strings.Contains(stderr, "sesame") {
		t.Errorf("got %s", stderr)
	}
	for want, args := range map[string][]string{
		"give its passphrase with --passphrase-file": {"--user", "IBMUSER", "--key", file},
		"does not open the key":                      {"--user", "IBMUSER", "--key", file, "--passphrase-file", file},
		"required flag":                              {"--key", file},
		"cannot be a user ID":                        {"--user", "IBM USER", "--key", file, "--passphrase-file", passphrase},
		"no private key":                             {"--user", "IBMUSER", "--key", passphrase},
	} {
		code, _, stderr := tool(t, append([]string{"credential", "lpar1"}, args...)...)
		if code != kit.ExitFailure || !strings.Contains(stderr, want) {
			t.Errorf("%q: got %d, %s", args, code, stderr)
		}
	}
}
