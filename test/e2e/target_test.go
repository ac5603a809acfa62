//go:build e2e

package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/collection-operator/collection-operator/test/fixture"
)

// target is an SSH server in a pod that stands in for a z/OS system.
type target struct {
	name, user string
	// passphrase encrypts the user's key unless it is empty.
	passphrase string
	credential *corev1.Secret
}

// newKey returns a fresh key pair: the private key in OpenSSH's format, and the line that authorized_keys takes.
func newKey(passphrase string) (private, public string) {
	GinkgoHelper()
	publicKey, privateKey, err := ed25519.GenerateKey(rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	var block *pem.Block
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(privateKey, "e2e")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(privateKey, "e2e", []byte(passphrase))
	}
	Expect(err).NotTo(HaveOccurred())
	sshKey, err := ssh.NewPublicKey(publicKey)
	Expect(err).NotTo(HaveOccurred())
	return string(pem.EncodeToMemory(block)), string(ssh.MarshalAuthorizedKey(sshKey))
}

// start creates the target's pod and prepares the credential for it, without creating the latter.
func (t *target) start(ctx context.Context) {
	GinkgoHelper()
	private, public := newKey(t.passphrase)
	hostKey, _ := newKey("")
	Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: t.name + "-target", Namespace: namespace},
		StringData: map[string]string{"authorized_keys": public, "host_key": hostKey},
	})
	t.credential = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: t.name + "-credential", Namespace: namespace},
		Type:       corev1.SecretTypeSSHAuth,
		StringData: map[string]string{"username": t.user, "ssh-privatekey": private},
	}
	if t.passphrase != "" {
		t.credential.StringData["passphrase"] = t.passphrase
	}
	applyManifest(ctx, "ssh-target.yaml", "NAMESPACE", namespace, "NAME", t.name, "USER", t.user)
}

func (t *target) host() string { return t.name + "." + namespace + ".svc.cluster.local" }

// base is the directory below which the test collection works.
func (t *target) base() string { return "/home/" + t.user + "/files" }

// shell runs a script as root in the target's container, not over SSH.
func (t *target) shell(ctx context.Context, script string) string {
	GinkgoHelper()
	return kubectl(ctx, "exec", "-n", namespace, "deployment/"+t.name, "--", "/bin/sh", "-euc", script)
}

// files lists the names in the base directory, "" if there is none.
func (t *target) files(ctx context.Context) []string {
	GinkgoHelper()
	return strings.Split(strings.TrimSpace(t.shell(ctx, "ls -1 "+t.base()+" 2>/dev/null || true")), "\n")
}

// content returns a file of the base directory; the name may hold any character but a single quote's end of quoting.
func (t *target) content(ctx context.Context, name string) string {
	GinkgoHelper()
	quoted := "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	return t.shell(ctx, "cat "+t.base()+"/"+quoted)
}

// down ends the SSH server with its sessions and everything that they started.
func (t *target) down(ctx context.Context) {
	GinkgoHelper()
	t.shell(ctx, `touch /run/target/down
for process in /proc/[0-9]*; do
	case "$(cat $process/comm 2>/dev/null):$(stat -c %U $process 2>/dev/null)" in
	sshd*|*:`+t.user+`) kill -9 ${process#/proc/} 2>/dev/null || true ;;
	esac
done`)
}

func (t *target) up(ctx context.Context) {
	GinkgoHelper()
	t.shell(ctx, "rm -f /run/target/down")
}

// log is what the SSH server wrote.
func (t *target) log(ctx context.Context) string {
	GinkgoHelper()
	return kubectl(ctx, "logs", "-n", namespace, "deployment/"+t.name)
}

// applyManifest applies a manifest of the demo with its place-holders replaced, pairs of old and new, and waits for
// the Deployment in it.
func applyManifest(ctx context.Context, file string, replacements ...string) {
	GinkgoHelper()
	manifest, err := os.ReadFile(filepath.Join(projectDir, "hack", "demo", file))
	Expect(err).NotTo(HaveOccurred())
	replaced := filepath.Join(GinkgoT().TempDir(), file)
	Expect(os.WriteFile(replaced, []byte(strings.NewReplacer(replacements...).Replace(string(manifest))), 0o600)).To(Succeed())
	kubectl(ctx, "apply", "--server-side", "-f", replaced)
}
