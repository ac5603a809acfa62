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

// wanted is what may be in a Secret.
const wanted = "a public key in PEM, a signature of the archive (raw, base64 or PEM), or an ASCII-armoured GPG key or signature"

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

var privateKeyParsers = []func([]byte) (any, error){
	x509.ParsePKCS8PrivateKey,
	func(der []byte) (any, error) { return x509.ParsePKCS1PrivateKey(der) },
	func(der []byte) (any, error) { return x509.ParseECPrivateKey(der) },
}

func isPrivateKey(der []byte) bool {
	for _, parse := range privateKeyParsers {
		if _, err := parse(der); err == nil {
			return true
		}
	}
	return false
}

// ParsePrivateKey reads the key that an archive is signed with: RSA, ECDSA or Ed25519, in PEM as openssl writes it (PKCS#8,
// PKCS#1 or SEC1), not encrypted. Its errors repeat nothing of the key.
func ParsePrivateKey(content []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		switch {
		case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "":
			return nil, errors.New("the private key is encrypted, and passphrases are not supported: decrypt it with openssl pkey -in KEY.pem")
		case block.Type == "OPENSSH PRIVATE KEY":
			return nil, errors.New("the private key is in the format of OpenSSH: make one with openssl genpkey, or convert a copy with " +
				"ssh-keygen -p -m PEM -f COPY")
		}
		for _, parse := range privateKeyParsers {
			key, err := parse(block.Bytes)
			if err != nil {
				continue
			}
			signer, ok := key.(crypto.Signer)
			if !ok {
				return nil, errors.New("a private key of this kind does not sign: want an RSA, ECDSA or Ed25519 key")
			}
			if err := checkStrength(signer.Public()); err != nil {
				return nil, err
			}
			return signer, nil
		}
	}
	if bytes.Contains(content, []byte("PUBLIC KEY-----")) {
		return nil, errors.New("it is a public key: signing takes the private one")
	}
	return nil, errors.New("there is no private key in PEM (PKCS#8, PKCS#1 or SEC1) that can be read")
}

// Sign makes the signature that openssl makes: RSA (PKCS#1 v1.5) and ECDSA keys sign the sha256 of the archive (`openssl dgst
// -sha256 -sign`), Ed25519 keys the archive (`openssl pkeyutl -sign -rawin`). Same input, same bytes. The fingerprint is
// that of the public key.
func Sign(key crypto.Signer, archive io.Reader) (signature []byte, fingerprint string, err error) {
	fingerprint, err = fingerprintOf(key.Public())
	if err != nil {
		return nil, "", err
	}
	if isEd25519(key.Public()) {
		content, err := readAtMost(archive, 0, MaxEd25519Bytes)
		switch {
		case err != nil:
			return nil, "", err
		case content == nil:
			return nil, "", fmt.Errorf("the archive has more than %d MiB, too much for an Ed25519 key: use an RSA or ECDSA key", MaxEd25519Bytes>>20)
		}
		signature, err = key.Sign(nil, content, &ed25519.Options{})
		return signature, fingerprint, err
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, archive); err != nil {
		return nil, "", err
	}
	// Without a source of randomness ECDSA signs as in RFC 6979.
	signature, err = key.Sign(nil, hash.Sum(nil), crypto.SHA256)
	return signature, fingerprint, err
}
