package verify

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"maps"
	"slices"
	"strings"
)

// Bounds of what Recognize reads. The API server takes Secrets of up to 1 MiB.
const (
	maxEvidenceBytes = 1 << 20
	maxKeys          = 32
	maxSignatures    = 32
)

// Recognize finds public keys and signatures in the content of a Secret, whatever its keys are called. Public keys are in
// PEM, RSA keys with at least 2048 bits; signatures over the whole archive are raw, base64 or in PEM. The keys and
// signatures of Ansible Galaxy are ASCII-armoured by GPG. One value may hold several. It fails with ErrInvalidEvidence
// and never repeats what it has read.
func Recognize(data map[string][]byte) (*Evidence, error) {
	size := 0
	for _, value := range data {
		size += len(value)
	}
	if size > maxEvidenceBytes {
		return nil, invalid("it holds more than %d bytes", maxEvidenceBytes)
	}
	e := &Evidence{}
	// Without the keys nobody can tell which bytes are a signature.
	unarmoured := map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		value := data[name]
		switch {
		case bytes.Contains(value, []byte("PRIVATE KEY")) || isPrivateKey(value):
			return nil, privateKeyFound(name)
		case bytes.Contains(value, []byte(armourBegin)):
			if err := e.addArmoured(name, value); err != nil {
				return nil, err
			}
		default:
			unarmoured[name] = value
		}
		if err := e.checkBounds(); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unarmoured)) {
		if err := e.addUnarmoured(name, unarmoured[name]); err != nil {
			return nil, err
		}
	}
	if err := e.checkBounds(); err != nil {
		return nil, err
	}
	return e, e.checkComplete()
}

const armourBegin = "-----BEGIN "

// addArmoured reads what lies between BEGIN and END lines. Text around these is passed over, as other tools do.
func (e *Evidence) addArmoured(name string, value []byte) error {
	for {
		_, after, found := bytes.Cut(value, []byte(armourBegin))
		if !found {
			return nil
		}
		end := len(after)
		if next := bytes.Index(after, []byte(armourBegin)); next >= 0 {
			end = next
		}
		block := slices.Concat([]byte(armourBegin), after[:end])
		add := e.addPEM
		if bytes.HasPrefix(after, []byte("PGP ")) {
			add = e.addGPG
		}
		if err := add(name, block); err != nil {
			return err
		}
		value = after[end:]
	}
}

func (e *Evidence) addPEM(name string, armoured []byte) error {
	block, _ := pem.Decode(armoured)
	switch {
	case block == nil:
		return invalid("%q is damaged: a BEGIN line has no END line, or what is between them is not base64", name)
	case block.Type == "CERTIFICATE":
		return invalid("%q holds a certificate. Put its public key there: openssl x509 -in CERTIFICATE -noout -pubkey", name)
	case strings.HasSuffix(block.Type, "SIGNATURE") && block.Type != "SSH SIGNATURE":
		e.signatures = append(e.signatures, signature{name, block.Bytes})
		return nil
	}
	key, err := parsePublicKey(block)
	if err != nil {
		return invalid("%q: %v", name, err)
	}
	e.keys = append(e.keys, key)
	return nil
}

// addUnarmoured reads a signature that is raw or in base64.
func (e *Evidence) addUnarmoured(name string, value []byte) error {
	if len(bytes.TrimSpace(value)) == 0 {
		return invalid("%q is empty", name)
	}
	decoded, err := decodeBase64(value)
	switch {
	case err == nil && isPrivateKey(decoded):
		return privateKeyFound(name)
	case err == nil && e.couldHaveMade(decoded):
		e.signatures = append(e.signatures, signature{name, decoded})
		return nil
	case e.couldHaveMade(value):
		e.signatures = append(e.signatures, signature{name, value})
		return nil
	case len(e.keys) == 0:
		return invalid("%q has an unknown format, and without a public key in PEM it cannot be told whether it is a signature: "+
			"want %s", name, wanted)
	}
	return invalid("%q has an unknown format, and not the length of a signature by one of the public keys: want %s", name, wanted)
}

func (e *Evidence) couldHaveMade(value []byte) bool {
	return slices.ContainsFunc(e.keys, func(k publicKey) bool { return k.couldHaveMade(value) })
}

// decodeBase64 decodes base64 with line breaks anywhere.
func decodeBase64(text []byte) ([]byte, error) {
	return base64.StdEncoding.DecodeString(string(bytes.Join(bytes.Fields(text), nil)))
}

func (e *Evidence) checkBounds() error {
	if len(e.keys)+len(e.keyring) > maxKeys || len(e.signatures)+len(e.galaxySignatures) > maxSignatures {
		return invalid("it holds more than %d keys or %d signatures", maxKeys, maxSignatures)
	}
	return nil
}

// checkComplete says what is missing.
func (e *Evidence) checkComplete() error {
	switch {
	case len(e.keys) > 0 && len(e.signatures) > 0, len(e.keyring) > 0 && len(e.galaxySignatures) > 0:
		return nil
	case len(e.signatures) > 0:
		return invalid("a signature is there, but no public key in PEM")
	case len(e.galaxySignatures) > 0:
		return invalid("a GPG signature is there, but no public GPG key: add the output of gpg --armor --export KEY")
	case len(e.keys) > 0:
		return invalid("a public key is there, but no signature of the archive")
	case len(e.keyring) > 0:
		return invalid("a public GPG key is there, but no ASCII-armoured GPG signature of MANIFEST.json")
	}
	return invalid("it is empty: want a public key and a signature")
}
