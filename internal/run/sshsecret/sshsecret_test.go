package sshsecret

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// encoded is a private key as ssh-keygen writes it.
func encoded(t *testing.T, key any, passphrase string) string {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(key, "")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block))
}

func TestParseKey(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(ed.Public())
	if err != nil {
		t.Fatal(err)
	}
	plain := encoded(t, ed, "")
	for name, test := range map[string]struct {
		content, passphrase string
		want, problem       string
	}{
		"Ed25519":                       {plain, "", "ssh-ed25519, fingerprint " + ssh.FingerprintSHA256(public), ""},
		"ECDSA":                         {encoded(t, ec, ""), "", "ecdsa-sha2-nistp256, fingerprint SHA256:", ""},
		"RSA":                           {encoded(t, long, ""), "", "ssh-rsa with 2048 bits, fingerprint SHA256:", ""},
		"a passphrase":                  {encoded(t, ed, "open sesame"), "open sesame", "encrypted with a passphrase", ""},
		"a passphrase that is not used": {plain, "open sesame", "ssh-ed25519, fingerprint " + ssh.FingerprintSHA256(public), ""},
		"from Windows":                  {strings.ReplaceAll(strings.TrimSpace(plain), "\n", "\r\n"), "", "ssh-ed25519", ""},
		"no passphrase":                 {encoded(t, ed, "open sesame"), "", "", "give its passphrase"},
		"another passphrase":            {encoded(t, ed, "open sesame"), "guess", "", "does not open the key"},
		"short":                         {encoded(t, short, ""), "", "", "1024 bits"},
		"public":                        {string(ssh.MarshalAuthorizedKey(public)), "", "", "is a public key"},
		"PuTTY":                         {"PuTTY-User-Key-File-3: ssh-ed25519\n", "", "", "puttygen"},
		"a certificate":                 {"-----BEGIN CERTIFICATE-----\n", "", "", "is a certificate"},
		"damaged":                       {strings.Replace(plain, "b3Bl", "b3Bm", 1), "", "", "damaged"},
		"empty":                         {"", "", "", "no private key"},
		"large":                         {strings.Repeat("x", MaxKeyBytes+1), "", "", "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			key, err := ParseKey([]byte(test.content), []byte(test.passphrase))
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) || test.passphrase != "" && strings.Contains(err.Error(), test.passphrase) {
					t.Fatalf("got %v", err)
				}
				return
			}
			if err != nil || !strings.Contains(key.String(), test.want) || strings.Contains(string(key.Content), "\r") || !strings.HasSuffix(string(key.Content), "-----\n") {
				t.Fatalf("got %v, %v", key, err)
			}
			if strings.Contains(key.String(), "passphrase") != (len(key.Passphrase) > 0) {
				t.Errorf("got %s", key)
			}
		})
	}
	if _, err := ParseKey([]byte(encoded(t, ed, "x")), nil); !errors.Is(err, ErrPassphraseMissing) {
		t.Errorf("got %v", err)
	}
}

func TestNew(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParseKey([]byte(encoded(t, ed, "x")), []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	secret, err := New("zos", "lpar1", "IBMUSER", key)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := Manifest(secret)
	if err != nil {
		t.Fatal(err)
	}
	var read corev1.Secret
	if err := yaml.UnmarshalStrict(manifest, &read); err != nil {
		t.Fatal(err)
	}
	if read.Type != corev1.SecretTypeSSHAuth || string(read.Data[KeyUsername]) != "IBMUSER" || string(read.Data[KeyPassphrase]) != "x" || string(read.Data[corev1.SSHAuthPrivateKey]) != string(key.Content) {
		t.Errorf("got %s", manifest)
	}
	for _, wrong := range [][2]string{{"Lpar1", "IBMUSER"}, {"", "IBMUSER"}, {"lpar1", ""}, {"lpar1", "IBM USER"}, {"lpar1", "IBM\nUSER"}, {"lpar1", strings.Repeat("x", 65)}} {
		if _, err := New("", wrong[0], wrong[1], key); err == nil {
			t.Errorf("%q: it is accepted", wrong)
		}
	}
}

// A private key is not shown on a terminal.
func TestPrint(t *testing.T) {
	secret := &corev1.Secret{Data: map[string][]byte{corev1.SSHAuthPrivateKey: []byte("key")}}
	var out bytes.Buffer
	if err := Print(&out, secret); err != nil || !strings.Contains(out.String(), "a2V5") {
		t.Errorf("got %v, %s", err, out.String())
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there are no terminals: %v", err)
	}
	defer terminal.Close()
	if err := Print(terminal, secret); err == nil || !strings.Contains(err.Error(), "not shown on a terminal") {
		t.Errorf("got %v", err)
	}
}

// A Secret that old clients have made has no label, and would be no credential with the key under its usual name.
func TestReplaceInASecretOfOldClients(t *testing.T) {
	live := &corev1.Secret{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"username": []byte("OLD"), "ssh_key": []byte("old"), "passphrase": []byte("old")}}
	secret := &corev1.Secret{Type: corev1.SecretTypeSSHAuth, Data: map[string][]byte{KeyUsername: []byte("NEW"), corev1.SSHAuthPrivateKey: []byte("new")}}
	if err := Replace(live, secret); err != nil {
		t.Fatal(err)
	}
	read, err := endpoint.ParseCredential(live, false)
	if err != nil || read.User != "NEW" || string(read.PrivateKey) != "new" || len(read.Passphrase) > 0 {
		t.Errorf("got %+v, %v", read, err)
	}
	live.Labels, live.Data = nil, map[string][]byte{"username": []byte("APP"), "password": []byte("x")}
	if err := Replace(live, secret); err == nil || string(live.Data["password"]) != "x" {
		t.Errorf("a Secret of somebody else is replaced: %v", err)
	}
}
func FuzzParseKey(f *testing.F) {
	f.Add([]byte("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----\n"), []byte("x"))
	f.Fuzz(func(t *testing.T, content, passphrase []byte) {
		if key, err := ParseKey(content, passphrase); err == nil && key.Fingerprint == "" {
			t.Error("a key without a fingerprint")
		}
	})
}
