package author

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/collection-operator/collection-operator/internal/author/galaxy"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/source/archive"
	"github.com/collection-operator/collection-operator/internal/source/verify"
)

// workshop is a folder with an archive, a tampered copy of it, and a key pair.
func workshop(t *testing.T) (file func(name string) string, content []byte) {
	t.Helper()
	dir := t.TempDir()
	file = func(name string) string { return filepath.Join(dir, name) }
	build := func(readme string) []byte {
		var built bytes.Buffer
		if err := galaxy.Build(fstest.MapFS{
			"galaxy.yml": {Data: []byte("{namespace: acme, name: files, version: 1.0.0, readme: README.md, authors: [tests]}")},
			"README.md":  {Data: []byte(readme)},
			"operator-config.yml": {Data: []byte(
				"domain: acme\nname: files\nversion: 1.0.0\ndisplayName: Files\nresources: [{kind: Thing, playbook: play.yml}]\n")},
			"play.yml": {Data: []byte("- {hosts: all, tasks: []}\n")},
		}, &built); err != nil {
			t.Fatal(err)
		}
		return built.Bytes()
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	content = build("# Files\n")
	for name, bytes := range map[string][]byte{
		"X.tar.gz": content, "tampered.tar.gz": build("# tampered with\n"), "text": []byte("some text"),
		"edited.tar.gz": tamper(t, content),
		"key.pem":       pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		"pub.pem":       pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		"large":         make([]byte, maxSmallFile+1),
	} {
		if err := os.WriteFile(file(name), bytes, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file, content
}

// edit replaces the README of an archive, and leaves MANIFEST.json and FILES.json as they are.
func tamper(t *testing.T, content []byte) []byte {
	t.Helper()
	var edited bytes.Buffer
	zipped := gzip.NewWriter(&edited)
	writer := tar.NewWriter(zipped)
	err := archive.Walk(bytes.NewReader(content), archive.DefaultLimits, func(name string, mode fs.FileMode, _ int64, r io.Reader) error {
		body, err := io.ReadAll(r)
		if err != nil || mode.IsDir() {
			return err
		}
		if name == "README.md" {
			body = []byte("# edited\n")
		}
		if err := writer.WriteHeader(&tar.Header{Name: name, Mode: int64(mode.Perm()), Size: int64(len(body))}); err != nil {
			return err
		}
		_, err = writer.Write(body)
		return err
	})
	if err := errors.Join(err, writer.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return edited.Bytes()
}

// expect runs the tool and checks its exit code and what it says, wherever it says it.
func expect(t *testing.T, code int, message string, args ...string) {
	t.Helper()
	var output bytes.Buffer
	if got := kit.Run(kit.Root(Commands()...), args, strings.NewReader(""), &output, &output); got != code || !strings.Contains(output.String(), message) {
		t.Errorf("%s: exit code %d, want %d, and %q in\n%s", strings.Join(args, " "), got, code, message, output.String())
	}
}

func TestSignAndVerify(t *testing.T) {
	file, content := workshop(t)
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
	other := "sha256:" + strings.Repeat("0", 64)
	x, sig, pub := file("X.tar.gz"), file("X.tar.gz.sig"), file("pub.pem")

	expect(t, kit.ExitClean, sig+": signed by sha256:", "sign", x, "--key", file("key.pem"))
	expect(t, kit.ExitClean, file("other.sig")+": signed by", "sign", file("tampered.tar.gz"), "--key", file("key.pem"), "--output", file("other.sig"))
	expect(t, kit.ExitClean, "is verified\nmethod: Signature\nkey:    sha256:", "verify", x, "--key", pub, "--signature", sig)
	expect(t, kit.ExitClean, "digest: "+digest, "verify", x, "--key", pub, "--signature", file("other.sig"), "--signature", sig)
	expect(t, kit.ExitClean, "method: Signature", "verify", x, "--key", pub, "--signature", sig, "--digest", digest)
	expect(t, kit.ExitClean, "method: Digest\ndigest: "+digest, "verify", x, "--digest", digest)

	expect(t, kit.ExitFindings, "is NOT verified: invalid signature", "verify", file("tampered.tar.gz"), "--key", pub, "--signature", sig)
	expect(t, kit.ExitFindings, "is NOT verified: invalid signature", "verify", x, "--key", pub, "--signature", file("other.sig"), "--digest", digest)
	expect(t, kit.ExitFindings, "is NOT verified: digest mismatch", "verify", x, "--digest", other)
	expect(t, kit.ExitFindings, "is NOT verified: digest mismatch", "verify", x, "--key", pub, "--signature", sig, "--digest", other)

	expect(t, kit.ExitFailure, "give --key and --signature, or --digest", "verify", x)
	expect(t, kit.ExitFailure, "no such file", "verify", file("absent"), "--digest", digest)
	expect(t, kit.ExitFailure, "no such file", "verify", x, "--key", pub, "--signature", file("absent"))
	expect(t, kit.ExitFailure, "no signature of the archive", "verify", x, "--key", pub)
	expect(t, kit.ExitFailure, "has an unknown format", "verify", x, "--key", pub, "--signature", file("text"))
	expect(t, kit.ExitFailure, "holds a private key", "verify", x, "--key", file("key.pem"), "--signature", sig)
	expect(t, kit.ExitFailure, "more than 1048576 bytes", "verify", x, "--key", file("large"), "--signature", sig)
	expect(t, kit.ExitFailure, "64 hexadecimal digits", "verify", x, "--digest", "sha256:abc")
	expect(t, kit.ExitFailure, "required flag(s) \"key\"", "sign", x)
	expect(t, kit.ExitFailure, "it is a public key", "sign", x, "--key", pub)
	expect(t, kit.ExitFailure, "no private key in PEM", "sign", x, "--key", file("text"))
	expect(t, kit.ExitFailure, "no such file", "sign", file("absent"), "--key", file("key.pem"))
}

func TestVerifyGalaxySignature(t *testing.T) {
	file, content := workshop(t)
	manifest, err := archive.ReadFile(bytes.NewReader(content), archive.DefaultLimits, verify.ManifestFile)
	if err != nil {
		t.Fatal(err)
	}
	entity, err := openpgp.NewEntity("tests", "", "tests@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	var key, signature bytes.Buffer
	armoured, err := armor.Encode(&key, "PGP PUBLIC KEY BLOCK", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := entity.Serialize(armoured); err != nil {
		t.Fatal(err)
	}
	if err := armoured.Close(); err != nil {
		t.Fatal(err)
	}
	if err := openpgp.ArmoredDetachSign(&signature, []*openpgp.Entity{entity}, bytes.NewReader(manifest), nil); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"galaxy.pub": key.Bytes(), "galaxy.asc": signature.Bytes()} {
		if err := os.WriteFile(file(name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	proof := []string{"--key", file("galaxy.pub"), "--signature", file("galaxy.asc")}
	expect(t, kit.ExitClean, fmt.Sprintf("method: GalaxySignature\nkey:    %X\n", entity.PrimaryKey.Fingerprint), append([]string{"verify", file("X.tar.gz")}, proof...)...)
	expect(t, kit.ExitFindings, `the checksum of "README.md" is not the listed one`, append([]string{"verify", file("edited.tar.gz")}, proof...)...)
	expect(t, kit.ExitFindings, "MANIFEST.json is not what was signed", append([]string{"verify", file("tampered.tar.gz")}, proof...)...)
	expect(t, kit.ExitFindings, "not a gzip file", append([]string{"verify", file("text")}, proof...)...)
}
