package verify

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// run runs a program of the machine that these tests compare with.
func run(t *testing.T, dir, name string, args ...string) []byte {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is needed: run hack/test-packages.sh", name)
		}
		t.Skipf("SKIPPED: %s is needed: run hack/test-packages.sh", name)
	}
	command := exec.Command(name, args...)
	command.Dir = dir
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return output
}

func write(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, dir, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// opensslKey is a kind of key: how openssl makes one, and other forms in which it writes the private and public key.
type opensslKey struct {
	generate []string
	ed25519  bool
	private  [][]string
	public   [][]string
}

var opensslKeys = map[string]opensslKey{
	"RSA 2048": {
		generate: []string{"genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"},
		private:  [][]string{{"rsa", "-in", "key.pem", "-traditional"}},
		public:   [][]string{{"rsa", "-in", "key.pem", "-RSAPublicKey_out"}},
	},
	"RSA 3072": {generate: []string{"genrsa", "3072"}},
	"ECDSA P-256": {
		generate: []string{"genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"},
		private:  [][]string{{"ec", "-in", "key.pem"}},
	},
	// The traditional command writes the parameters first.
	"ECDSA P-384": {generate: []string{"ecparam", "-name", "secp384r1", "-genkey"}},
	"ECDSA P-521": {generate: []string{"genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-521"}},
	"Ed25519":     {generate: []string{"genpkey", "-algorithm", "ED25519"}, ed25519: true},
}

// signatureForms are how a signature may lie in a Secret.
var signatureForms = map[string]func(raw []byte) []byte{
	"raw":    func(raw []byte) []byte { return raw },
	"base64": func(raw []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(raw)) },
	"base64 with line breaks": func(raw []byte) []byte {
		text := base64.StdEncoding.EncodeToString(raw)
		return []byte(text[:40] + "\r\n" + text[40:76] + "\n" + text[76:] + "\n")
	},
	"PEM": func(raw []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "SIGNATURE", Bytes: raw}) },
}

func TestOpenSSL(t *testing.T) {
	for name, kind := range opensslKeys {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "X.tar.gz", content)
			write(t, dir, "key.pem", run(t, dir, "openssl", kind.generate...))
			run(t, dir, "openssl", "pkey", "-in", "key.pem", "-pubout", "-out", "pub.pem")
			signing := []string{"dgst", "-sha256", "-sign", "key.pem", "-out", "X.sig", "X.tar.gz"}
			checking := []string{"dgst", "-sha256", "-verify", "pub.pem", "-signature", "ours.sig", "X.tar.gz"}
			if kind.ed25519 {
				signing = []string{"pkeyutl", "-sign", "-rawin", "-inkey", "key.pem", "-in", "X.tar.gz", "-out", "X.sig"}
				checking = []string{"pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", "pub.pem", "-sigfile", "ours.sig", "-in", "X.tar.gz"}
			}
			run(t, dir, "openssl", signing...)
			der := run(t, dir, "openssl", "pkey", "-pubin", "-in", "pub.pem", "-outform", "DER")
			fingerprint := archiveOf(der, nil).Digest.String()

			publics := [][]byte{load(t, dir, "pub.pem")}
			for _, args := range kind.public {
				publics = append(publics, run(t, dir, "openssl", args...))
			}
			for _, public := range publics {
				checkForms(t, public, load(t, dir, "X.sig"), fingerprint)
			}

			privates := [][]byte{load(t, dir, "key.pem")}
			for _, args := range kind.private {
				privates = append(privates, run(t, dir, "openssl", args...))
			}
			for _, private := range privates {
				key, err := ParsePrivateKey(private)
				if err != nil {
					t.Fatal(err)
				}
				ours, of, err := Sign(key, bytes.NewReader(content))
				if err != nil || of != fingerprint {
					t.Fatalf("got the fingerprint %s and %v, want %s", of, err, fingerprint)
				}
				write(t, dir, "ours.sig", ours)
				run(t, dir, "openssl", checking...)
				checkForms(t, publics[0], ours, fingerprint)
			}
		})
	}
}

// checkForms checks a right signature in every form, with its key alone and among others, and then a wrong archive and a
// wrong signature.
func checkForms(t *testing.T, public, raw []byte, fingerprint string) {
	t.Helper()
	for name, form := range signatureForms {
		for _, keys := range [][]byte{public, bytes.Join([][]byte{publicPEM(t, ed25519Key()), public}, nil)} {
			evidence := recognize(t, map[string][]byte{"a": form(raw), "b": keys})
			got, err := Verify(Policy{Evidence: evidence}, archiveOf(content, nil))
			if err != nil || got.Key != fingerprint || got.Method != MethodSignature {
				t.Errorf("%s: got %+v and %v, want the key %s", name, got, err, fingerprint)
			}
			if _, err := Verify(Policy{Evidence: evidence}, archiveOf([]byte("tampered"), nil)); !errors.Is(err, ErrInvalidSignature) {
				t.Errorf("%s: a tampered archive: got %v", name, err)
			}
		}
	}
	broken := bytes.Clone(raw)
	broken[len(broken)-1] ^= 1
	evidence := recognize(t, map[string][]byte{"a": broken, "b": public})
	if _, err := Verify(Policy{Evidence: evidence}, archiveOf(content, nil)); !errors.Is(err, ErrInvalidSignature) {
		t.Errorf("a tampered signature: got %v", err)
	}
}

// A key that is too weak, or of a kind that signs otherwise, is refused on both sides, before anything is verified.
func TestUnusableKeys(t *testing.T) {
	dir := t.TempDir()
	run(t, dir, "openssl", "genpkey", "-algorithm", "ED25519", "-out", "good.pem")
	for name, test := range map[string]struct {
		generate        []string
		public, private string
	}{
		"weak RSA":   {[]string{"genrsa", "1024"}, "the RSA key has 1024 bits", "the RSA key has 1024 bits"},
		"weak ECDSA": {[]string{"genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-224"}, "the ECDSA key has 224 bits", "the ECDSA key has 224 bits"},
		"other ECDSA": {
			[]string{"genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:brainpoolP256r1"}, "of a kind that is not known", "no private key in PEM",
		},
		"X25519":    {[]string{"genpkey", "-algorithm", "X25519"}, "makes no signatures", "does not sign"},
		"Ed448":     {[]string{"genpkey", "-algorithm", "ED448"}, "of a kind that is not known", "no private key in PEM"},
		"encrypted": {[]string{"genpkey", "-algorithm", "ED25519", "-aes256", "-pass", "pass:secret"}, "", "is encrypted"},
		"encrypted, traditional": {
			[]string{"genrsa", "-aes256", "-traditional", "-passout", "pass:secret", "2048"}, "", "is encrypted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "key.pem", run(t, dir, "openssl", test.generate...))
			if _, err := ParsePrivateKey(load(t, dir, "key.pem")); err == nil || !strings.Contains(err.Error(), test.private) {
				t.Errorf("private key: got %v, want %q", err, test.private)
			}
			public := run(t, dir, "openssl", "pkey", "-in", "key.pem", "-pubout", "-passin", "pass:secret")
			if _, err := Recognize(map[string][]byte{"k": public}); test.public != "" && (err == nil || !strings.Contains(err.Error(), test.public)) {
				t.Errorf("public key: got %v, want %q", err, test.public)
			}
			if _, err := ParsePrivateKey(public); err == nil || !strings.Contains(err.Error(), "it is a public key") {
				t.Errorf("public key as private one: got %v", err)
			}
		})
	}
	if _, err := ParsePrivateKey([]byte("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n")); err == nil || !strings.Contains(err.Error(), "ssh-keygen") {
		t.Errorf("got %v", err)
	}
}

// A private key is recognised in every form that openssl writes.
func TestPrivateKeysAreRefused(t *testing.T) {
	dir := t.TempDir()
	for _, kind := range []string{"RSA 2048", "ECDSA P-256", "Ed25519"} {
		write(t, dir, "key.pem", run(t, dir, "openssl", opensslKeys[kind].generate...))
		der := run(t, dir, "openssl", "pkey", "-in", "key.pem", "-outform", "DER")
		for form, value := range map[string][]byte{
			"PEM": load(t, dir, "key.pem"), "DER": der, "base64": []byte(base64.StdEncoding.EncodeToString(der)),
		} {
			_, err := Recognize(map[string][]byte{"key": publicPEM(t, ed25519Key()), "sig": value})
			if err == nil || !strings.Contains(err.Error(), `"sig" holds a private key`) {
				t.Errorf("%s in %s: got %v", kind, form, err)
			}
		}
	}
}
