package verify

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
)

// content is what is signed in these tests. That it is no archive does not matter here.
var content = []byte("an archive")

// archiveOf is an archive with a MANIFEST.json, unless that is nil.
func archiveOf(content, manifest []byte) Archive {
	return Archive{
		Digest: digest.FromBytes(content),
		Size:   int64(len(content)),
		Open:   func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		Manifest: func(io.Reader) ([]byte, error) {
			if manifest == nil {
				return nil, fs.ErrNotExist
			}
			return manifest, nil
		},
	}
}

// ed25519Key is always the same.
func ed25519Key() crypto.Signer { return ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) }

func publicPEM(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func sign(t testing.TB, key crypto.Signer, content []byte) []byte {
	t.Helper()
	signature, _, err := Sign(key, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return signature
}

func recognize(t testing.TB, data map[string][]byte) *Evidence {
	t.Helper()
	evidence, err := Recognize(data)
	if err != nil {
		t.Fatal(err)
	}
	return evidence
}

func evidenceFor(t testing.TB, content []byte) *Evidence {
	t.Helper()
	key := ed25519Key()
	return recognize(t, map[string][]byte{"key": publicPEM(t, key), "signature": sign(t, key, content)})
}

func TestVerify(t *testing.T) {
	archive := archiveOf(content, nil)
	actual, other := archive.Digest, digest.Digest("sha256:"+strings.Repeat("b", 64))
	right, wrong := evidenceFor(t, content), evidenceFor(t, []byte("another archive"))
	tests := []struct {
		name    string
		policy  Policy
		digest  digest.Digest
		method  string
		want    error
		message string
	}{
		{"pinned", Policy{Digest: actual}, actual, MethodDigest, nil, ""},
		{"pinned and skip", Policy{Digest: actual, SkipSignatureVerification: true}, actual, MethodDigest, nil, ""},
		{"pinned and signature", Policy{Digest: actual, Evidence: right}, actual, MethodSignature, nil, ""},
		{"pinned and a wrong signature", Policy{Digest: actual, Evidence: wrong}, actual, "", ErrInvalidSignature, string(actual)},
		{"other digest and a right signature", Policy{Digest: other, Evidence: right}, actual, "", ErrDigestMismatch, string(other)},
		{"signature", Policy{Evidence: right}, actual, MethodSignature, nil, ""},
		{"wrong signature", Policy{Evidence: wrong}, actual, "", ErrInvalidSignature, "is not signed by the key sha256:"},
		{"skip", Policy{SkipSignatureVerification: true}, actual, MethodSkipped, nil, ""},
		{"skip and a wrong signature", Policy{SkipSignatureVerification: true, Evidence: wrong}, actual, MethodSkipped, nil, ""},
		{"other digest", Policy{Digest: other}, actual, "", ErrDigestMismatch, "spec.digest is " + string(other) + ", but the archive has " + string(actual)},
		{"other digest and skip", Policy{Digest: other, SkipSignatureVerification: true}, actual, "", ErrDigestMismatch, string(actual)},
		{"nothing", Policy{}, actual, "", ErrUnverified, "spec.signatureSecret"},
		{"pinned digest without algorithm", Policy{Digest: actual[7:]}, actual, "", ErrInvalidDigest, "spec.digest"},
		{"pinned digest too short", Policy{Digest: "sha256:abc", SkipSignatureVerification: true}, actual, "", ErrInvalidDigest, "spec.digest"},
		{"pinned digest with a second line", Policy{Digest: actual + "\n"}, actual + "\n", "", ErrInvalidDigest, "spec.digest"},
		{"no digest of the archive", Policy{SkipSignatureVerification: true}, "", "", ErrInvalidDigest, "archive"},
		{"content that is not that of the digest", Policy{Evidence: right}, other, "", ErrContentChanged, string(actual)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			archive := archive
			archive.Digest = tt.digest
			got, err := Verify(tt.policy, archive)
			if !errors.Is(err, tt.want) {
				t.Fatalf("got error %v, want %v", err, tt.want)
			}
			if err != nil {
				if got != (Result{}) || !strings.Contains(err.Error(), tt.message) {
					t.Errorf("got %+v and %q, want a message with %q", got, err, tt.message)
				}
				return
			}
			want := Result{Method: tt.method, Digest: tt.digest}
			if tt.method == MethodSignature {
				want.Key = right.keys[0].fingerprint
			}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestWhatIsNoArchiveIsNamedFirst(t *testing.T) {
	page := []byte("<html>Sign in</html>")
	for name, tt := range map[string]struct {
		policy Policy
		want   error
	}{
		"pinned": {Policy{Digest: archiveOf(content, nil).Digest}, ErrDigestMismatch},
		"signed": {Policy{Evidence: evidenceFor(t, content)}, ErrInvalidSignature},
	} {
		_, err := Verify(tt.policy, archiveOf(page, nil))
		if !errors.Is(err, tt.want) || !strings.HasPrefix(err.Error(), "archive: the file is a web page") || !strings.Contains(err.Error(), tt.want.Error()) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Whoever copies the digest from a message into the spec has verified nothing.
func TestUnverifiedDoesNotOfferTheActualDigest(t *testing.T) {
	archive := archiveOf(content, nil)
	if _, err := Verify(Policy{}, archive); err == nil || strings.Contains(err.Error(), archive.Digest.Encoded()) {
		t.Errorf("got %v", err)
	}
}

func TestVerifyReadsNothingWithoutASignature(t *testing.T) {
	archive := archiveOf(content, nil)
	archive.Open = nil
	for _, policy := range []Policy{
		{Digest: archive.Digest}, {SkipSignatureVerification: true}, {SkipSignatureVerification: true, Evidence: evidenceFor(t, content)},
	} {
		if _, err := Verify(policy, archive); err != nil {
			t.Errorf("%+v: %v", policy, err)
		}
	}
}

func TestVerifyTellsWhatKeptItFromReading(t *testing.T) {
	broken := errors.New("broken disk")
	for name, open := range map[string]func() (io.ReadCloser, error){
		"opening": func() (io.ReadCloser, error) { return nil, broken },
		"reading": func() (io.ReadCloser, error) { return io.NopCloser(failing{broken}), nil },
	} {
		archive := archiveOf(content, nil)
		archive.Open = open
		if _, err := Verify(Policy{Evidence: evidenceFor(t, content)}, archive); !errors.Is(err, broken) || errors.Is(err, ErrInvalidSignature) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// zeros is an endless archive.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestEd25519IsBounded(t *testing.T) {
	large := func() io.Reader { return io.LimitReader(zeros{}, MaxEd25519Bytes+1) }
	if _, _, err := Sign(ed25519Key(), large()); err == nil || !strings.Contains(err.Error(), "RSA or ECDSA") {
		t.Errorf("signing: got %v", err)
	}
	actual, err := digest.FromReader(large())
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{MaxEd25519Bytes + 1, 5} { // told right, and told wrong
		archive := Archive{
			Digest: actual, Size: size,
			Open: func() (io.ReadCloser, error) { return io.NopCloser(large()), nil },
		}
		_, err := Verify(Policy{Evidence: evidenceFor(t, content)}, archive)
		if !errors.Is(err, ErrInvalidSignature) || !strings.Contains(err.Error(), "64 MiB") {
			t.Errorf("size %d: got %v", size, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	archive := archiveOf(content, nil)
	f.Add(archive.Digest.String(), archive.Digest.String(), true, false)
	f.Add("", archive.Digest.String(), false, false)
	f.Add(archive.Digest.String()+" ", archive.Digest.String(), false, true)
	right := evidenceFor(f, content)
	f.Fuzz(func(t *testing.T, pinned, actual string, skip, signature bool) {
		archive := archive
		archive.Digest = digest.Digest(actual)
		policy := Policy{Digest: digest.Digest(pinned), SkipSignatureVerification: skip, Time: time.Unix(1, 0)}
		if signature {
			policy.Evidence = right
		}
		result, err := Verify(policy, archive)
		if err != nil {
			return
		}
		if pinned != "" && pinned != actual {
			t.Errorf("accepted %q with %q pinned", actual, pinned)
		}
		if pinned == "" && !skip && !signature {
			t.Errorf("accepted %q without any proof", actual)
		}
		if result.Digest != archive.Digest {
			t.Errorf("got the digest %q, want %q", result.Digest, actual)
		}
	})
}
