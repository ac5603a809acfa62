package intake

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/author/galaxy"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/source/archive"
	"github.com/collection-operator/collection-operator/internal/source/verify"
)

// signedArchive is an archive whose MANIFEST.json was signed at a time, with a GPG key that is valid for an hour.
func signedArchive(t *testing.T, at time.Time) (content []byte, policy *imports.VerificationPolicy, fingerprint string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var built, key, signature bytes.Buffer
	must(galaxy.Build(fstest.MapFS{
		"galaxy.yml": {Data: []byte("{namespace: acme, name: files, version: 1.0.0, readme: README.md, authors: [tests]}")},
		"README.md":  {Data: []byte("# Files\n")},
	}, &built))
	manifest, err := archive.ReadFile(bytes.NewReader(built.Bytes()), archive.DefaultLimits, verify.ManifestFile)
	must(err)
	config := &packet.Config{Time: func() time.Time { return at }, KeyLifetimeSecs: 3600}
	entity, err := openpgp.NewEntity("tests", "", "tests@example.com", config)
	must(err)
	armoured, err := armor.Encode(&key, "PGP PUBLIC KEY BLOCK", nil)
	must(err)
	must(entity.Serialize(armoured))
	must(armoured.Close())
	must(openpgp.ArmoredDetachSign(&signature, []*openpgp.Entity{entity}, bytes.NewReader(manifest), &openpgp.SignParams{Config: config}))
	evidence, err := verify.Recognize(map[string][]byte{"key": key.Bytes(), "signature": signature.Bytes()})
	must(err)
	return built.Bytes(), &imports.VerificationPolicy{Policy: verify.Policy{Evidence: evidence}, Secret: "uid", Version: "1"}, fmt.Sprintf("%X", entity.PrimaryKey.Fingerprint)
}

func TestAKeyThatExpiresLaterDoesNotUndoAnImport(t *testing.T) {
	signedAt := time.Now().Add(-2 * time.Hour).Truncate(time.Second)
	content, policy, fingerprint := signedArchive(t, signedAt)
	archived := digest.FromBytes(content)
	then := metav1.NewTime(signedAt.Add(time.Minute))
	for name, test := range map[string]struct {
		before *v2beta2.Artifact
		want   bool
	}{
		"verified while it was valid": {&v2beta2.Artifact{Digest: archived.String(), Verification: "GalaxySignature", VerifiedBy: fingerprint, VerifiedAt: &then}, true},
		"never verified":              {nil, false},
		"another archive verified":    {&v2beta2.Artifact{Digest: "sha256:x", Verification: "GalaxySignature", VerifiedBy: fingerprint, VerifiedAt: &then}, false},
		"verified with another key":   {&v2beta2.Artifact{Digest: archived.String(), Verification: "GalaxySignature", VerifiedBy: "AB", VerifiedAt: &then}, false},
		"pinned while it was valid":   {&v2beta2.Artifact{Digest: archived.String(), Verification: "Digest", VerifiedAt: &then}, false},
	} {
		r := &verifier{Collections: &imports.CollectionCache{}}
		oc := &v2beta2.OperatorCollection{Status: v2beta2.OperatorCollectionStatus{Artifact: test.before}}
		got, err := r.accept(oc, policy, archived, int64(len(content)), func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(content)), nil
		})
		switch {
		case !test.want && (!errors.Is(err, verify.ErrInvalidSignature) || !strings.Contains(err.Error(), "has expired")):
			t.Errorf("%s: got %+v, %v", name, got, err)
		case test.want && (err != nil || !got.VerifiedAt.Equal(&then) || got.VerifiedBy != fingerprint):
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

// An archive is read again only when it, or the Secret, is another.
func TestProofs(t *testing.T) {
	content, policy, _ := signedArchive(t, time.Now().Add(-time.Minute))
	policy.Time = time.Now()
	reads := 0
	candidate := verify.Archive{
		Digest: digest.FromBytes(content), Manifest: readManifest,
		Open: func() (io.ReadCloser, error) { reads++; return io.NopCloser(bytes.NewReader(content)), nil },
	}
	var known imports.SignatureCache
	expect := func(want int, valid bool, what string) {
		t.Helper()
		if _, err := known.Verify(policy, candidate); (err == nil) != valid || reads != want {
			t.Errorf("%s: got %v and %d reads, want %d", what, err, reads, want)
		}
	}
	expect(1, true, "first")
	expect(1, true, "again")
	policy.Version = "2"
	expect(2, true, "the Secret changed")
	expect(2, true, "again")
	policy.Digest = digest.NewDigestFromEncoded(digest.SHA256, strings.Repeat("0", 64))
	expect(3, false, "another digest is pinned, for what may be no archive")
	policy.Digest = candidate.Digest
	expect(4, true, "the right one is pinned")
	known.Forget(candidate.Digest)
	expect(5, true, "the archive was removed from the store")
	policy.Version, policy.Time = "3", time.Now().Add(2*time.Hour)
	expect(7, false, "the signature is not right any more")
	expect(9, false, "which is not remembered")
}
