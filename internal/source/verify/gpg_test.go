package verify

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// gpgHome is a GPG home of its own. Its agent ends with the test.
type gpgHome struct {
	t   *testing.T
	dir string
}

func newGPG(t *testing.T) *gpgHome {
	t.Helper()
	// The path of the agent's socket has to be short.
	dir, err := os.MkdirTemp("", "gpg")
	if err != nil {
		t.Fatal(err)
	}
	g := &gpgHome{t: t, dir: dir}
	t.Cleanup(func() { os.RemoveAll(dir) })
	g.run("--version")
	t.Cleanup(func() { run(t, dir, "gpgconf", "--homedir", dir, "--kill", "all") })
	write(t, dir, "MANIFEST.json", manifest)
	return g
}

func (g *gpgHome) run(args ...string) []byte {
	g.t.Helper()
	common := []string{"--homedir", g.dir, "--batch", "--yes", "--pinentry-mode", "loopback", "--passphrase", ""}
	return run(g.t, g.dir, "gpg", append(common, args...)...)
}

// generate makes a key and returns its fingerprint.
func (g *gpgHome) generate(algorithm, usage, expires string, args ...string) string {
	g.t.Helper()
	g.run(append(args, "--quick-generate-key", "tests <tests@example.com>", algorithm, usage, expires)...)
	return g.fingerprint()
}

func (g *gpgHome) fingerprint() string {
	g.t.Helper()
	for line := range strings.Lines(string(g.run("--with-colons", "--list-keys"))) {
		if rest, found := strings.CutPrefix(line, "fpr:::::::::"); found {
			return strings.TrimSuffix(rest, ":\n")
		}
	}
	g.t.Fatal("no key")
	return ""
}

func (g *gpgHome) sign(args ...string) []byte {
	g.t.Helper()
	g.run(append(args, "--armor", "--output", "MANIFEST.json.asc", "--detach-sign", "MANIFEST.json")...)
	return load(g.t, g.dir, "MANIFEST.json.asc")
}

func (g *gpgHome) public() []byte { return g.run("--armor", "--export") }

// evidence is a key with the signature that it makes.
func (g *gpgHome) evidence(args ...string) *Evidence {
	g.t.Helper()
	return recognize(g.t, map[string][]byte{"signature": g.sign(args...), "keyring": g.public()})
}

var manifest = []byte("{\"format\": 1,\r\n \"file_manifest_file\": {}}\n")

func TestGPG(t *testing.T) {
	now := time.Now()
	for _, algorithm := range []string{"rsa2048", "rsa3072", "nistp256", "ed25519"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			g := newGPG(t)
			fingerprint := g.generate(algorithm, "sign", "never")
			for _, evidence := range []*Evidence{
				g.evidence(),
				// All in one value, beside a signature over the archive that is not right.
				recognize(t, map[string][]byte{
					"all": slices.Concat(g.public(), g.sign()), "pub": publicPEM(t, ed25519Key()), "sig": sign(t, ed25519Key(), []byte("x")),
				}),
			} {
				result, err := Verify(Policy{Evidence: evidence, Time: time.Now()}, archiveOf(content, manifest))
				want := Result{Method: MethodGalaxySignature, Key: fingerprint, Digest: archiveOf(content, nil).Digest}
				if err != nil || result != want {
					t.Errorf("got %+v and %v, want %+v", result, err, want)
				}
			}
			expectGPG(t, g.evidence(), append(slices.Clone(manifest), '\n'), now.Add(time.Hour), "MANIFEST.json is not what was signed")
			expectGPG(t, g.evidence(), make([]byte, maxManifestBytes+1), now.Add(time.Hour), "more than 262144 bytes")
			expectGPG(t, g.evidence(), nil, now.Add(time.Hour), "has no MANIFEST.json")
			expectGPG(t, g.evidence(), manifest, now.Add(-time.Hour), "dated later than now")
		})
	}
}

// expectGPG expects a signature to be refused.
func expectGPG(t *testing.T, evidence *Evidence, manifest []byte, at time.Time, message string) {
	t.Helper()
	_, err := Verify(Policy{Evidence: evidence, Time: at}, archiveOf(content, manifest))
	if !errors.Is(err, ErrInvalidSignature) || !strings.Contains(err.Error(), message) {
		t.Errorf("got %v, want %q", err, message)
	}
}

func TestGPGRefuses(t *testing.T) {
	later := time.Now().Add(time.Hour)
	t.Run("another key", func(t *testing.T) {
		t.Parallel()
		signer, other := newGPG(t), newGPG(t)
		signer.generate("ed25519", "sign", "never")
		other.generate("ed25519", "sign", "never")
		evidence := recognize(t, map[string][]byte{"signature": signer.sign(), "keyring": other.public()})
		expectGPG(t, evidence, manifest, later, "a GPG key that is not there")
	})
	t.Run("a key that has expired since", func(t *testing.T) {
		t.Parallel()
		g := newGPG(t)
		g.generate("ed25519", "sign", "7d")
		evidence := g.evidence()
		if _, err := Verify(Policy{Evidence: evidence, Time: later}, archiveOf(content, manifest)); err != nil {
			t.Errorf("before it expires: %v", err)
		}
		expectGPG(t, evidence, manifest, later.AddDate(0, 0, 8), "has expired")
	})
	t.Run("a signature that has expired", func(t *testing.T) {
		t.Parallel()
		g := newGPG(t)
		g.generate("ed25519", "sign", "never")
		expectGPG(t, g.evidence("--default-sig-expire", "1d"), manifest, later.AddDate(0, 0, 2), "it has expired")
	})
	t.Run("a revoked key", func(t *testing.T) {
		t.Parallel()
		g := newGPG(t)
		fingerprint := g.generate("ed25519", "sign", "never")
		signed := g.sign()
		certificate := load(t, filepath.Join(g.dir, "openpgp-revocs.d"), fingerprint+".rev")
		write(t, g.dir, "revocation", []byte(strings.Replace(string(certificate), ":-----BEGIN", "-----BEGIN", 1)))
		g.run("--import", "revocation")
		expectGPG(t, recognize(t, map[string][]byte{"s": signed, "k": g.public()}), manifest, later, "was revoked")
	})
	t.Run("a weak hash", func(t *testing.T) {
		t.Parallel()
		g := newGPG(t)
		g.generate("rsa2048", "sign", "never")
		expectGPG(t, g.evidence("--digest-algo", "SHA1"), manifest, later, "insecure message hash algorithm")
	})
	t.Run("a weak key", func(t *testing.T) {
		t.Parallel()
		g := newGPG(t)
		g.generate("rsa1024", "sign", "never")
		expectGPG(t, g.evidence(), manifest, later, "is weak")
	})
	t.Run("DSA", func(t *testing.T) {
		t.Parallel()
		g := newGPG(t)
		g.generate("dsa2048", "sign", "never")
		expectGPG(t, g.evidence(), manifest, later, "is weak")
	})
	t.Run("a key that may not sign", func(t *testing.T) {
		t.Parallel()
		g := newGPG(t)
		g.generate("ed25519", "cert", "never")
		g.run("--quick-add-key", g.fingerprint(), "ed25519", "sign", "never")
		signed := g.sign()
		g.run("--delete-keys", "--expert", g.subkey()+"!")
		expectGPG(t, recognize(t, map[string][]byte{"s": signed, "k": g.public()}), manifest, later, "GPG key")
	})
	t.Run("a text signature", func(t *testing.T) {
		t.Parallel()
		g := newGPG(t)
		g.generate("ed25519", "sign", "never")
		expectGPG(t, g.evidence("--textmode"), manifest, later, "not a signature over bytes")
	})
	t.Run("a private key", func(t *testing.T) {
		t.Parallel()
		g := newGPG(t)
		g.generate("ed25519", "sign", "never")
		_, err := Recognize(map[string][]byte{"k": g.run("--armor", "--export-secret-keys")})
		if !errors.Is(err, ErrInvalidEvidence) || !strings.Contains(err.Error(), "private key") {
			t.Errorf("got %v", err)
		}
	})
}

// subkey is the fingerprint of the last subkey.
func (g *gpgHome) subkey() string {
	g.t.Helper()
	lines := strings.Split(strings.TrimSpace(string(g.run("--with-colons", "--list-keys"))), "\n")
	return strings.Trim(strings.TrimPrefix(lines[len(lines)-1], "fpr:"), ":")
}

// Most signers keep the primary key offline and sign with a subkey.
func TestGPGSubkey(t *testing.T) {
	g := newGPG(t)
	fingerprint := g.generate("ed25519", "cert", "never")
	g.run("--quick-add-key", fingerprint, "ed25519", "sign", "never")
	evidence := g.evidence()
	result, err := Verify(Policy{Evidence: evidence, Time: time.Now()}, archiveOf(content, manifest))
	if err != nil || result.Key != fingerprint {
		t.Errorf("got %+v and %v, want the primary key %s", result, err, fingerprint)
	}
}
