package verify

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
)

// ManifestFile is the file of an archive that an Ansible Galaxy signature is for.
const ManifestFile = "MANIFEST.json"

// Bounds of the work that a signature may ask for: each signature packet hashes all of MANIFEST.json.
const (
	maxManifestBytes     = 256 << 10
	maxGPGSignatureBytes = 8 << 10
)

// weakHashes prove nothing, neither in a signature nor in what binds a key to its owner.
var weakHashes = map[crypto.Hash]bool{crypto.MD5: true, crypto.SHA1: true, crypto.RIPEMD160: true}

// gpgConfig is strict: DSA and ElGamal keys are refused by the library's own choice.
func gpgConfig(at time.Time) *packet.Config {
	return &packet.Config{
		Time: func() time.Time { return at }, MinRSABits: minRSABits,
		RejectHashAlgorithms: weakHashes, RejectMessageHashAlgorithms: weakHashes,
	}
}

func (e *Evidence) addGPG(name string, armoured []byte) error {
	var content []byte
	block, err := armor.Decode(bytes.NewReader(armoured))
	if err == nil {
		content, err = io.ReadAll(block.Body)
	}
	if err != nil {
		return invalid("%q is damaged: its GPG armour cannot be read", name)
	}
	switch block.Type {
	case "PGP SIGNATURE":
		if len(content) > maxGPGSignatureBytes {
			return invalid("%q: the GPG signature has more than %d bytes", name, maxGPGSignatureBytes)
		}
		e.galaxySignatures = append(e.galaxySignatures, signature{name, content})
	case "PGP PUBLIC KEY BLOCK":
		return e.addKeyring(name, content)
	default:
		return invalid("%q is neither a GPG key nor a detached GPG signature (gpg --armor --detach-sign MANIFEST.json)", name)
	}
	return nil
}

func (e *Evidence) addKeyring(name string, content []byte) error {
	entities, err := openpgp.ReadKeyRing(bytes.NewReader(content))
	if err != nil || len(entities) == 0 {
		return invalid("%q: the GPG key is damaged, or of a kind that is not known", name)
	}
	for _, entity := range entities {
		if entity.PrivateKey != nil {
			return privateKeyFound(name)
		}
		if bits, err := entity.PrimaryKey.BitLength(); err == nil && bits > maxRSABits {
			return invalid("%q: the GPG key has %d bits: want at most %d", name, bits, maxRSABits)
		}
	}
	e.keyring = append(e.keyring, entities...)
	return nil
}

// verifyManifest returns the fingerprint of the key that has signed the archive's MANIFEST.json.
func (e *Evidence) verifyManifest(archive Archive, at time.Time) (string, error) {
	var manifest []byte
	_, err := archive.read(func(r io.Reader) (err error) {
		manifest, err = archive.Manifest(r)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: the archive has no MANIFEST.json, which a GPG signature would be for", ErrInvalidSignature)
	}
	if err != nil {
		return "", err
	}
	if len(manifest) > maxManifestBytes {
		return "", fmt.Errorf("%w: MANIFEST.json has more than %d bytes", ErrInvalidSignature, maxManifestBytes)
	}
	var reason error
	for _, s := range e.galaxySignatures {
		fingerprint, err := e.checkGPG(manifest, s.value, at)
		if err == nil {
			return fingerprint, nil
		}
		reason = err
	}
	return "", fmt.Errorf("%w of MANIFEST.json: %w", ErrInvalidSignature, reason)
}

// checkGPG demands that the key was valid both when it signed and at the given time: whoever has a key that has expired
// since can date a signature back.
func (e *Evidence) checkGPG(manifest, value []byte, at time.Time) (string, error) {
	config := gpgConfig(at)
	made, signer, err := openpgp.VerifyDetachedSignature(e.keyring, bytes.NewReader(manifest), bytes.NewReader(value), config)
	if err != nil {
		return "", gpgReason(err)
	}
	if made.SigType != packet.SigTypeBinary || made.IssuerKeyId == nil {
		return "", errors.New("it is not a signature over bytes (gpg --detach-sign without --textmode)")
	}
	fingerprint := fmt.Sprintf("%X", signer.PrimaryKey.Fingerprint)
	if _, valid := signer.SigningKeyById(at, *made.IssuerKeyId, config); !valid {
		return "", fmt.Errorf("the GPG key %s has expired, was revoked, or may not sign", fingerprint)
	}
	return fingerprint, nil
}

// gpgReason puts into plain words what users meet. Nothing of the signature's content is repeated.
func gpgReason(err error) error {
	var signatureError pgperrors.SignatureError
	switch {
	case errors.Is(err, pgperrors.ErrUnknownIssuer):
		return errors.New("it was made with a GPG key that is not there")
	case errors.Is(err, pgperrors.ErrSignatureExpired):
		return errors.New("it has expired, or is dated later than now")
	case errors.Is(err, pgperrors.ErrKeyExpired):
		return errors.New("the GPG key had expired when it signed")
	case errors.Is(err, pgperrors.ErrKeyRevoked):
		return errors.New("the GPG key was revoked")
	case errors.As(err, &signatureError):
		return fmt.Errorf("MANIFEST.json is not what was signed, or the signature is weak (%w)", err)
	}
	return errors.New("the GPG key may not sign, is weak, or the signature is damaged")
}
