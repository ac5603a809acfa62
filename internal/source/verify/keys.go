package verify

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"

	"github.com/opencontainers/go-digest"
)

const (
	// MaxEd25519Bytes is the largest archive that is verified or signed with an Ed25519 key: all of it must be in memory,
	// because such a signature is not one over a digest.
	MaxEd25519Bytes = 64 << 20

	minRSABits   = 2048
	maxRSABits   = 8192
	minCurveBits = 256
)

// publicKey makes signatures over whole archives.
type publicKey struct {
	key         crypto.PublicKey
	fingerprint string
}

// parsePublicKey reads the public keys that openssl writes.
func parsePublicKey(block *pem.Block) (publicKey, error) {
	var key crypto.PublicKey
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	default:
		return publicKey{}, errors.New("PEM of a kind that is not known: want " + wanted)
	}
	if err != nil {
		return publicKey{}, errors.New("the public key is damaged, or of a kind that is not known: want an RSA, ECDSA or Ed25519 key")
	}
	if err := checkStrength(key); err != nil {
		return publicKey{}, err
	}
	fingerprint, err := fingerprintOf(key)
	return publicKey{key: key, fingerprint: fingerprint}, err
}

func checkStrength(key crypto.PublicKey) error {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return fmt.Errorf("the RSA key has %d bits: want %d to %d", bits, minRSABits, maxRSABits)
		}
	case *ecdsa.PublicKey:
		if bits := key.Curve.Params().BitSize; bits < minCurveBits {
			return fmt.Errorf("the ECDSA key has %d bits: want at least %d", bits, minCurveBits)
		}
	case ed25519.PublicKey:
	default:
		return errors.New("a key of this kind makes no signatures that are known: want an RSA, ECDSA or Ed25519 key")
	}
	return nil
}

func fingerprintOf(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("the public key cannot be encoded: %w", err)
	}
	return digest.FromBytes(der).String(), nil
}

// couldHaveMade says whether the bytes have the form of a signature by this key.
func (k publicKey) couldHaveMade(value []byte) bool {
	switch key := k.key.(type) {
	case *rsa.PublicKey:
		return len(value) == key.Size()
	case ed25519.PublicKey:
		return len(value) == ed25519.SignatureSize
	}
	var pair struct{ R, S *big.Int }
	rest, err := asn1.Unmarshal(value, &pair)
	return err == nil && len(rest) == 0
}

// hasSigned says whether the signature is right. Content is the archive if it was kept in memory.
func (k publicKey) hasSigned(digest [sha256.Size]byte, content, signature []byte) bool {
	switch key := k.key.(type) {
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], signature) == nil
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, digest[:], signature)
	case ed25519.PublicKey:
		return content != nil && len(signature) == ed25519.SignatureSize && ed25519.Verify(key, content, signature)
	}
	return false
}

func isEd25519(key crypto.PublicKey) bool {
	_, is := key.(ed25519.PublicKey)
	return is
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

func (e *Evidence) keyNames() string {
	if len(e.keys) == 1 {
		return "the key " + e.keys[0].fingerprint
	}
	return fmt.Sprintf("any of the %d keys", len(e.keys))
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
