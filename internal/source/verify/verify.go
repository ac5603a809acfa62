// Package verify decides whether an archive may be installed: it is proven to be what the user meant, or the user
// has said that no proof is wanted. Nothing else is accepted. It also makes the signatures that it accepts.
package verify

import (
	"errors"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
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
// or with one of Archive's functions. If a file that is not accepted is no archive at all, the error says what it is first.
func Verify(policy Policy, archive Archive) (Result, error) {
	result, err := decide(policy, archive)
	if errors.Is(err, ErrDigestMismatch) || errors.Is(err, ErrInvalidSignature) {
		err = archive.explain(err)
	}
	return result, err
}

func decide(policy Policy, archive Archive) (Result, error) {
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

// verify reads the archive, once or, for GPG signatures, twice.
func (e *Evidence) verify(archive Archive, at time.Time) (Result, error) {
	var problems []error
	for _, way := range []struct {
		method   string
		possible bool
		verify   func() (key string, err error)
	}{
		{MethodSignature, len(e.keys) > 0 && len(e.signatures) > 0, func() (string, error) { return e.verifyArchive(archive) }},
		{MethodGalaxySignature, len(e.keyring) > 0 && len(e.galaxySignatures) > 0, func() (string, error) { return e.verifyManifest(archive, at) }},
	} {
		if !way.possible {
			continue
		}
		key, err := way.verify()
		if err == nil {
			return Result{Method: way.method, Key: key, Digest: archive.Digest}, nil
		}
		if !errors.Is(err, ErrInvalidSignature) {
			return Result{}, err
		}
		problems = append(problems, err)
	}
	return Result{}, errors.Join(problems...)
}
