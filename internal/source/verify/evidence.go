package verify

import (
	"fmt"
	"io"

	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
)

// Evidence holds public keys and signatures. Any signature that any of the keys has made proves an archive. Fingerprints
// are, for a key in PEM, "sha256:" and the sha256 of its DER encoding (PKIX), for a GPG key, its own in upper-case
// hexadecimal digits: that of the primary key, also if a subkey has signed.
type Evidence struct {
	keys             []publicKey
	signatures       []signature
	keyring          openpgp.EntityList
	galaxySignatures []signature
}

// signature is one detached signature, as bytes.
type signature struct {
	name  string
	value []byte
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalidEvidence, fmt.Sprintf(format, args...))
}

func privateKeyFound(name string) error {
	return invalid("%q holds a private key, which belongs only to the signer: remove it, and replace the key pair if "+
		"others can read this", name)
}

// verifyArchive returns the fingerprint of the key that has signed the archive.
func (e *Evidence) verifyArchive(archive Archive) (string, error) {
	needsContent := false
	for _, k := range e.keys {
		needsContent = needsContent || isEd25519(k.key)
	}
	var content []byte
	digest, err := archive.read(func(r io.Reader) (err error) {
		if needsContent && archive.Size <= MaxEd25519Bytes {
			content, err = readAtMost(r, archive.Size, MaxEd25519Bytes)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	for _, s := range e.signatures {
		for _, k := range e.keys {
			if k.hasSigned(digest, content, s.value) {
				return k.fingerprint, nil
			}
		}
	}
	if needsContent && content == nil {
		return "", fmt.Errorf("%w: an archive of more than %d MiB cannot be verified with an Ed25519 key: sign it with an RSA or ECDSA key, "+
			"or pin spec.digest", ErrInvalidSignature, MaxEd25519Bytes>>20)
	}
	return "", fmt.Errorf("%w: %s is not signed by %s: the archive is not what was signed, or it was signed with another key",
		ErrInvalidSignature, archive.Digest, e.keyNames())
}

func (e *Evidence) keyNames() string {
	if len(e.keys) == 1 {
		return "the key " + e.keys[0].fingerprint
	}
	return fmt.Sprintf("any of the %d keys", len(e.keys))
}
