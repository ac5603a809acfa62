package verify

import (
	"errors"
	"strings"
	"testing"
)

func TestVerify(t *testing.T) {
	actual := "sha256:" + strings.Repeat("a", 64)
	other := "sha256:" + strings.Repeat("b", 64)
	tests := []struct {
		name    string
		policy  Policy
		digest  string
		method  string
		want    error
		message string
	}{
		{"pinned", Policy{Digest: actual}, actual, MethodDigest, nil, ""},
		{"pinned and skip", Policy{Digest: actual, SkipSignatureVerification: true}, actual, MethodDigest, nil, ""},
		{"pinned and signature", Policy{Digest: actual, SignatureSecret: true}, actual, MethodDigest, nil, ""},
		{"skip", Policy{SkipSignatureVerification: true}, actual, MethodSkipped, nil, ""},
		{"skip and signature", Policy{SkipSignatureVerification: true, SignatureSecret: true}, actual, MethodSkipped, nil, ""},
		{"other digest", Policy{Digest: other}, actual, "", ErrDigestMismatch, "spec.digest is " + other + ", but the archive has " + actual},
		{"other digest and skip", Policy{Digest: other, SkipSignatureVerification: true}, actual, "", ErrDigestMismatch, actual},
		{"signature", Policy{SignatureSecret: true}, actual, "", ErrUnsupportedSignature, "pin spec.digest or set spec.skipSignatureVerification"},
		{"nothing", Policy{}, actual, "", ErrUnverified, "spec.digest"},
		{"pinned digest without algorithm", Policy{Digest: actual[7:]}, actual, "", ErrInvalidDigest, "spec.digest"},
		{"pinned digest too short", Policy{Digest: "sha256:abc", SkipSignatureVerification: true}, actual, "", ErrInvalidDigest, "spec.digest"},
		{"pinned digest with a second line", Policy{Digest: actual + "\n"}, actual + "\n", "", ErrInvalidDigest, "archive"},
		{"no digest of the archive", Policy{SkipSignatureVerification: true}, "", "", ErrInvalidDigest, "archive"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Verify(tt.policy, tt.digest)
			if !errors.Is(err, tt.want) {
				t.Fatalf("got error %v, want %v", err, tt.want)
			}
			if err != nil {
				if got != (Result{}) || !strings.Contains(err.Error(), tt.message) {
					t.Errorf("got %+v and %q, want a message with %q", got, err, tt.message)
				}
				return
			}
			if want := (Result{Method: tt.method, Digest: tt.digest}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// Whoever copies the digest from a message into the spec has verified nothing.
func TestUnverifiedDoesNotOfferTheActualDigest(t *testing.T) {
	actual := "sha256:" + strings.Repeat("a", 64)
	for _, policy := range []Policy{{}, {SignatureSecret: true}} {
		if _, err := Verify(policy, actual); err == nil || strings.Contains(err.Error(), actual[7:]) {
			t.Errorf("%+v: got %v", policy, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	actual := "sha256:" + strings.Repeat("a", 64)
	f.Add(actual, actual, true, false)
	f.Add("", actual, false, false)
	f.Add(actual+" ", actual, false, true)
	f.Fuzz(func(t *testing.T, pinned, digest string, skip, signature bool) {
		result, err := Verify(Policy{Digest: pinned, SkipSignatureVerification: skip, SignatureSecret: signature}, digest)
		if err != nil {
			return
		}
		if pinned != "" && pinned != digest {
			t.Errorf("accepted %q with %q pinned", digest, pinned)
		}
		if pinned == "" && !skip {
			t.Errorf("accepted %q without any proof", digest)
		}
		if result.Digest != digest {
			t.Errorf("got the digest %q, want %q", result.Digest, digest)
		}
	})
}
