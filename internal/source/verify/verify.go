// Package verify decides whether an archive may be installed: it is proven to be what the user meant, or the user
// has said that no proof is wanted. Nothing else is accepted. It also makes the signatures that it accepts.
package verify

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/opencontainers/go-digest"
)

// Methods by which an archive can be accepted.
const (
	// MethodSignature: a detached signature over the whole archive is right.
	MethodSignature = "Signature"
	// MethodGalaxySignature: an Ansible Galaxy signature over the archive's MANIFEST.json is right. That the archive's files
	// are those that MANIFEST.json vouches for is for the caller to check.
	MethodGalaxySignature = "GalaxySignature"
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
	// ErrUnverified: the user gave nothing that the archive can be verified with.
	ErrUnverified = errors.New("unverified archive")
	// ErrInvalidSignature: no signature is right for the archive and one of the keys.
	ErrInvalidSignature = errors.New("invalid signature")
	// ErrInvalidEvidence: what should hold public keys and signatures does not, or holds what must not be there.
	ErrInvalidEvidence = errors.New("no usable signature")
	// ErrContentChanged: the content that was read is not that of the digest.
	ErrContentChanged = errors.New("the archive's content changed")
)

// Policy is what an OperatorCollection says about the verification of its archive.
type Policy struct {
	// Digest is spec.digest, a sha256, or empty.
	Digest digest.Digest
	// SkipSignatureVerification is spec.skipSignatureVerification.
	SkipSignatureVerification bool
	// Evidence is what spec.signatureSecret holds, or nil if no Secret is named.
	Evidence *Evidence
	// Time is when GPG keys and signatures must be valid: not expired, and of the past.
	Time time.Time
}

// Archive is what is verified.
type Archive struct {
	// Digest of the archive. Without a signature the caller's word is taken for it; with one the content must have it.
	Digest digest.Digest
	// Size in bytes.
	Size int64
	// Open gives the content from its beginning. It is called only if there is a signature to check.
	Open func() (io.ReadCloser, error)
	// Manifest finds MANIFEST.json in the content. It fails with fs.ErrNotExist if there is none.
	Manifest func(content io.Reader) ([]byte, error)
}

// Result says how an archive was accepted.
type Result struct {
	// Method is one of the methods of this package.
	Method string
	// Key is the fingerprint of the key whose signature was right: see [Evidence].
	Key string
	// Digest is the digest of the accepted archive.
	Digest digest.Digest
}

func isSHA256(d digest.Digest) bool { return d.Validate() == nil && d.Algorithm() == digest.SHA256 }

// Check says, before there is an archive, whether the policy can accept any. It fails with ErrInvalidDigest or
// ErrUnverified.
func (p *Policy) Check() error {
	switch {
	case p.Digest != "" && !isSHA256(p.Digest):
		return fmt.Errorf("%w %q in spec.digest: want sha256:<64 hexadecimal digits, lower case>", ErrInvalidDigest, p.Digest)
	case p.Digest == "" && !p.SkipSignatureVerification && p.Evidence == nil:
		return fmt.Errorf("%w: name a Secret with its signature and public key in spec.signatureSecret, or set spec.digest to the "+
			"sha256 of an archive you trust (\"sha256:\" followed by the output of `sha256sum` on your own copy), or set "+
			"spec.skipSignatureVerification: true", ErrUnverified)
	}
	return nil
}

// Verify decides about an archive. A pinned digest must always be right. So must a signature, if there is evidence for
// one, unless signature verification is skipped. It fails with an error that wraps one of the Err values of this package,
// or with one of Archive's functions.
func Verify(policy Policy, archive Archive) (Result, error) {
	if err := policy.Check(); err != nil {
		return Result{}, err
	}
	switch {
	case !isSHA256(archive.Digest):
		return Result{}, fmt.Errorf("%w %q of the archive: want sha256:<64 hexadecimal digits>", ErrInvalidDigest, archive.Digest)
	case policy.Digest != "" && policy.Digest != archive.Digest:
		return Result{}, fmt.Errorf("%w: spec.digest is %s, but the archive has %s", ErrDigestMismatch, policy.Digest, archive.Digest)
	case policy.Evidence != nil && !policy.SkipSignatureVerification:
		return policy.Evidence.verify(archive, policy.Time)
	case policy.Digest != "":
		return Result{Method: MethodDigest, Digest: archive.Digest}, nil
	}
	return Result{Method: MethodSkipped, Digest: archive.Digest}, nil
}
