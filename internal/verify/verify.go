// Package verify decides whether an archive may be installed: it is proven to be what the user meant, or the user
// has said that no proof is wanted. Nothing else is accepted.
package verify

import (
	"errors"
	"fmt"
	"regexp"
)

// Methods by which an archive can be accepted.
const (
	// MethodDigest: the archive has the digest that the user pinned.
	MethodDigest = "Digest"
	// MethodSkipped: the user asked for no verification.
	MethodSkipped = "Skipped"
)

var (
	// ErrDigestMismatch: the archive is not the pinned one. No other setting overrules this.
	ErrDigestMismatch = errors.New("digest mismatch")
	// ErrInvalidDigest: a digest is not "sha256:" and 64 lower-case hexadecimal digits.
	ErrInvalidDigest = errors.New("invalid digest")
	// ErrUnsupportedSignature: only a signature could prove the archive, and this version cannot check one.
	ErrUnsupportedSignature = errors.New("unsupported signature")
	// ErrUnverified: the user gave nothing that the archive can be verified with.
	ErrUnverified = errors.New("unverified archive")
)

// Policy is what an OperatorCollection says about the verification of its archive.
type Policy struct {
	// Digest is spec.digest, "sha256:<hex>", or empty.
	Digest string
	// SkipSignatureVerification is spec.skipSignatureVerification.
	SkipSignatureVerification bool
	// SignatureSecret says that spec.signatureSecret names a Secret.
	SignatureSecret bool
}

// Result says how an archive was accepted.
type Result struct {
	// Method is MethodDigest or MethodSkipped.
	Method string
	// Digest is the digest of the accepted archive.
	Digest string
}

var digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Verify decides about the archive with the given digest. The first rule that applies decides: a pinned digest, the
// wish to skip verification, a signature. It fails with an error that is one of the Err values of this package.
func Verify(policy Policy, digest string) (Result, error) {
	if !digestPattern.MatchString(digest) {
		return Result{}, fmt.Errorf("%w %q of the archive: want sha256:<64 hexadecimal digits>", ErrInvalidDigest, digest)
	}
	switch {
	case policy.Digest != "" && !digestPattern.MatchString(policy.Digest):
		return Result{}, fmt.Errorf("%w %q in spec.digest: want sha256:<64 hexadecimal digits, lower case>", ErrInvalidDigest, policy.Digest)
	case policy.Digest != "" && policy.Digest != digest:
		return Result{}, fmt.Errorf("%w: spec.digest is %s, but the archive has %s", ErrDigestMismatch, policy.Digest, digest)
	case policy.Digest != "":
		return Result{Method: MethodDigest, Digest: digest}, nil
	case policy.SkipSignatureVerification:
		return Result{Method: MethodSkipped, Digest: digest}, nil
	case policy.SignatureSecret:
		return Result{}, fmt.Errorf("%w: spec.signatureSecret is set, but signature verification is not supported by this version yet; "+
			"pin spec.digest or set spec.skipSignatureVerification", ErrUnsupportedSignature)
	default:
		return Result{}, fmt.Errorf("%w: set spec.digest to the sha256 of an archive you trust (\"sha256:\" followed by the output of "+
			"`sha256sum` on your own copy), or set spec.skipSignatureVerification: true", ErrUnverified)
	}
}
