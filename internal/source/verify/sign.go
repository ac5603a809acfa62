package verify

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
)

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
