package endpoint

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// AnnotationCredential of a custom resource names the Secret, in its namespace, with the credential of its runs. It counts where
// credentials are personal.
const AnnotationCredential = "zoscb.ibm.com/credential"

// Keys of a credential Secret, in addition to those of the type kubernetes.io/ssh-auth.
const (
	keyUsername   = "username"
	keyPassphrase = "passphrase"
	keyPassword   = "password"
)

// Credential is the content of a credential Secret.
type Credential struct {
	// User is the user ID. It may be empty if the endpoint's variables set it.
	User string
	// PrivateKey, with Passphrase if it is encrypted, or Password.
	PrivateKey, Passphrase, Password []byte
}

// KeyAuthorsTools is the key of the private key in Secrets that authors' tools have made.
const KeyAuthorsTools = "ssh_key"

// PrivateKey returns the private key in a credential Secret, or nil.
func PrivateKey(secret *corev1.Secret) []byte {
	if key := secret.Data[corev1.SSHAuthPrivateKey]; len(key) > 0 {
		return key
	}
	return secret.Data[KeyAuthorsTools]
}

// IsCredential reports whether a Secret may be used to log on: its type is kubernetes.io/ssh-auth, or it has the label, or it is as
// authors' tools of the closed product make it, which set neither: Opaque, with a user ID, a private key, and at most its passphrase.
// Logging on with a key gives away no part of the Secret.
func IsCredential(secret *corev1.Secret) bool {
	return secret.Type == corev1.SecretTypeSSHAuth || secret.Labels[LabelCredential] == "true" || isOfAuthorsTools(secret)
}

func isOfAuthorsTools(secret *corev1.Secret) bool {
	if secret.Type != corev1.SecretTypeOpaque || len(secret.Data[keyUsername]) == 0 || len(secret.Data[KeyAuthorsTools]) == 0 {
		return false
	}
	for key := range secret.Data {
		if !slices.Contains([]string{keyUsername, KeyAuthorsTools, keyPassphrase}, key) {
			return false
		}
	}
	return true
}

// ParseCredential returns the credential in a Secret. userKnown is true if the user ID need not be in it. The error completes a
// sentence that begins with the Secret, and has nothing of its content.
func ParseCredential(secret *corev1.Secret, userKnown bool) (Credential, error) {
	if !IsCredential(secret) {
		return Credential{}, fmt.Errorf("is not a credential: set the type %s or add the label %s=true", corev1.SecretTypeSSHAuth, LabelCredential)
	}
	c := Credential{
		User:       strings.TrimSpace(string(secret.Data[keyUsername])),
		PrivateKey: PrivateKey(secret), Passphrase: secret.Data[keyPassphrase], Password: secret.Data[keyPassword],
	}
	switch {
	case c.User == "" && !userKnown:
		return Credential{}, errors.New("has no key " + keyUsername)
	case len(c.PrivateKey) == 0 && len(c.Password) == 0:
		return Credential{}, fmt.Errorf("has neither %s nor %s", corev1.SSHAuthPrivateKey, keyPassword)
	case len(c.PrivateKey) > 0 && len(c.Password) > 0:
		return Credential{}, fmt.Errorf("has both %s and %s: keep one", corev1.SSHAuthPrivateKey, keyPassword)
	}
	return c, nil
}

// userName excludes templates, and options of the ssh command line.
var userName = regexp.MustCompile(`^[A-Za-z0-9_@#$][A-Za-z0-9_@#$.\\-]{0,255}$`)

// IsUser reports whether a text can be a user ID.
func IsUser(text string) bool { return userName.MatchString(text) }

// KeyBytes is the length of a Key.
const KeyBytes = 32

// Key is the manager's key of the hashes that identify credentials in states. Operators can read states, so they must not have it:
// they could test guesses of each other's passwords.
type Key []byte

// ParseKey checks the length of a key.
func ParseKey(content []byte) (Key, error) {
	if len(content) != KeyBytes {
		return nil, fmt.Errorf("the key has %d bytes instead of %d", len(content), KeyBytes)
	}
	return Key(content), nil
}

// In returns the key for the credentials of a namespace. Whoever may create credentials in one namespace cannot have the manager
// compute hashes that occur in the states of another.
func (k Key) In(namespace string) Key {
	mac := hmac.New(sha256.New, k)
	mac.Write([]byte(namespace))
	return mac.Sum(nil)
}

// Personal returns the key that operators in a namespace get, to identify the credentials that the resources there name. They cannot
// have other hashes computed with it.
func (k Key) Personal(namespace string) Key { return k.In("personal/" + namespace) }

// Credential identifies a user ID with its key, passphrase and password, without revealing them. The parts may be nil. User IDs
// that differ in case are the same, as on z/OS.
func (k Key) Credential(user string, key, passphrase, password []byte) string {
	mac := hmac.New(sha256.New, k)
	for _, part := range [][]byte{[]byte(strings.ToLower(user)), key, passphrase, password} {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write(part)
	}
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
