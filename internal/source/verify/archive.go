package verify

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/internal/source/archive"
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

// Archive is what is verified.
type Archive struct {
	// Digest of the archive. Without a signature the caller's word is taken for it; with one the content must have it.
	Digest digest.Digest
	// Size in bytes.
	Size int64
	// Open gives the content from its beginning. It is called only if there is a signature to check, or the archive is not accepted.
	Open func() (io.ReadCloser, error)
	// Manifest finds MANIFEST.json in the content. It fails with fs.ErrNotExist if there is none.
	Manifest func(content io.Reader) ([]byte, error)
}

// read gives the whole content to use, and discards the rest. It fails with ErrContentChanged if that was not
// the content that the digest belongs to, even if use failed: what use has seen is worth nothing then.
func (a Archive) read(use func(io.Reader) error) ([sha256.Size]byte, error) {
	var sum [sha256.Size]byte
	content, err := a.Open()
	if err != nil {
		return sum, err
	}
	defer content.Close()
	hash := sha256.New()
	hashed := io.TeeReader(content, hash)
	useErr := use(hashed)
	if _, err := io.Copy(io.Discard, hashed); err != nil {
		return sum, fmt.Errorf("reading the archive: %w", err)
	}
	sum = [sha256.Size]byte(hash.Sum(nil))
	if is := digest.NewDigest(digest.SHA256, hash); is != a.Digest {
		return sum, fmt.Errorf("%w: it is now %s instead of %s", ErrContentChanged, is, a.Digest)
	}
	return sum, useErr
}

// explain adds to the reason for which a file is not accepted what it is, if it is often published in the place of an archive.
func (a Archive) explain(reason error) error {
	content, err := a.Open()
	if err != nil {
		return reason
	}
	defer content.Close()
	if mistake := archive.Recognize(content); mistake != nil && !errors.As(reason, new(*archive.Error)) {
		return fmt.Errorf("%w; %w", mistake, reason)
	}
	return reason
}

// readAtMost reads all there is, or gives nil if that is more than most. The size is what is expected.
func readAtMost(r io.Reader, size, most int64) ([]byte, error) {
	buffer := bytes.NewBuffer(make([]byte, 0, max(size, 0)+bytes.MinRead))
	if _, err := buffer.ReadFrom(io.LimitReader(r, most+1)); err != nil {
		return nil, fmt.Errorf("reading the archive: %w", err)
	}
	if int64(buffer.Len()) > most {
		return nil, nil
	}
	return buffer.Bytes(), nil
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
