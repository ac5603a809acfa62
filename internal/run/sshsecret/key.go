// Package sshsecret makes the Secret of a credential from an SSH key, and checks the key before: a run would find out only when it logs
// on to z/OS.
package sshsecret

import (
	"bytes"
	"crypto"
	"crypto/dsa" //nolint:staticcheck // It is recognised in order to be refused.
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

const (
	// MaxKeyBytes limits a private key. One with 16384 bits has 13 KiB.
	MaxKeyBytes = 64 << 10
	// minRSABits is the shortest RSA key that OpenSSH and z/OS accept with their defaults.
	minRSABits = 2048
)

// Key is a private key that ssh can use.
type Key struct {
	// Content is the file, with the line ends that ssh requires.
	Content []byte
	// Passphrase opens it, or is empty if it is not encrypted.
	Passphrase []byte
	// Type is that of the public key, such as ssh-ed25519, and Bits its length, or zero where the type says it.
	Type string
	Bits int
	// Fingerprint is that of the public key, as ssh-keygen -l prints it.
	Fingerprint string
}

// ErrPassphraseMissing says that a key is encrypted and no passphrase was given.
var ErrPassphraseMissing = errors.New("the key is encrypted: give its passphrase")

// ParseKey checks a private key and its passphrase. The errors contain neither.
func ParseKey(content, passphrase []byte) (*Key, error) {
	if len(content) > MaxKeyBytes {
		return nil, fmt.Errorf("the file is larger than %d bytes: it is no private key", MaxKeyBytes)
	}
	content = withUnixLineEnds(content)
	if err := recognize(content); err != nil {
		return nil, err
	}
	raw, err := ssh.ParseRawPrivateKey(content)
	var missing *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &missing) && len(passphrase) == 0:
		return nil, ErrPassphraseMissing
	case errors.As(err, &missing):
		if raw, err = ssh.ParseRawPrivateKeyWithPassphrase(content, passphrase); err != nil {
			return nil, errors.New("the passphrase does not open the key, or the key is damaged")
		}
	case err != nil:
		return nil, errors.New("the file is no private key that ssh can use, or it is damaged: make one with ssh-keygen")
	default:
		passphrase = nil // It is not needed.
	}
	key := &Key{Content: content, Passphrase: passphrase}
	return key, key.describe(raw)
}

// withUnixLineEnds removes what an editor or a transfer from another system added: ssh refuses such a file.
func withUnixLineEnds(content []byte) []byte {
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	content = bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n"))
	return append(bytes.TrimSpace(content), '\n')
}

// recognize names what else people take for a private key.
func recognize(content []byte) error {
	text := string(content[:min(len(content), 200)])
	switch {
	case strings.HasPrefix(text, "PuTTY-User-Key-File"):
		return errors.New("it is a key of PuTTY: convert it with puttygen KEY -O private-openssh -o NEWKEY")
	case strings.HasPrefix(text, "ssh-"), strings.HasPrefix(text, "ecdsa-"), strings.HasPrefix(text, "sk-"), strings.Contains(text, "PUBLIC KEY"):
		return errors.New("it is a public key: give the private one, whose file has the same name without .pub")
	case strings.Contains(text, "BEGIN CERTIFICATE"):
		return errors.New("it is a certificate: give the private key")
	case !strings.Contains(text, "PRIVATE KEY-----"):
		return errors.New("it is no private key: its file begins with -----BEGIN OPENSSH PRIVATE KEY----- or another kind of PRIVATE KEY")
	}
	return nil
}

// describe sets what is known of the public key, and refuses a key that z/OS does not accept.
func (k *Key) describe(raw any) error {
	switch private := raw.(type) {
	case *rsa.PrivateKey:
		k.Bits = private.N.BitLen()
		if k.Bits < minRSABits {
			return fmt.Errorf("it is an RSA key with %d bits: ssh needs at least %d, make another one with ssh-keygen -t ed25519", k.Bits, minRSABits)
		}
	case *dsa.PrivateKey:
		return errors.New("it is a DSA key, which ssh does not accept any more: make another one with ssh-keygen -t ed25519")
	case *ecdsa.PrivateKey, *ed25519.PrivateKey, ed25519.PrivateKey:
	default:
		return fmt.Errorf("the type %T of the key is not known", raw)
	}
	signer, ok := raw.(crypto.Signer)
	if !ok {
		return fmt.Errorf("the type %T of the key cannot sign", raw)
	}
	public, err := ssh.NewPublicKey(signer.Public())
	if err != nil {
		return fmt.Errorf("the public key: %w", err)
	}
	k.Type, k.Fingerprint = public.Type(), ssh.FingerprintSHA256(public)
	return nil
}

// String describes the public key in one line.
func (k *Key) String() string {
	text := k.Type
	if k.Bits > 0 {
		text += fmt.Sprintf(" with %d bits", k.Bits)
	}
	text += ", fingerprint " + k.Fingerprint
	if len(k.Passphrase) > 0 {
		text += ", encrypted with a passphrase"
	}
	return text
}

// TrimPassphrase removes the line break at the end of a file or of an answer.
func TrimPassphrase(content []byte) []byte {
	content = bytes.TrimSuffix(content, []byte("\n"))
	return bytes.TrimSuffix(content, []byte("\r"))
}
