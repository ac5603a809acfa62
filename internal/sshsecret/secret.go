package sshsecret

import (
	"fmt"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// Keys of a credential Secret.
const (
	KeyUsername   = "username"
	KeyPassphrase = "passphrase"
	KeyPassword   = "password"
)

// maxUserBytes limits the user name. A z/OS user ID has eight characters.
const maxUserBytes = 64

// New returns the Secret of a credential. The namespace may be empty.
func New(namespace, name, user string, key *Key) (*corev1.Secret, error) {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return nil, fmt.Errorf("%q cannot be the name of a Secret: %s", name, strings.Join(problems, "; "))
	}
	if user == "" || len(user) > maxUserBytes || strings.ContainsFunc(user, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return nil, fmt.Errorf("%q cannot be a user ID: give the z/OS user ID that the key logs on as", user)
	}
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Type:       corev1.SecretTypeSSHAuth,
		Data:       map[string][]byte{KeyUsername: []byte(user), corev1.SSHAuthPrivateKey: key.Content},
	}
	if len(key.Passphrase) > 0 {
		secret.Data[KeyPassphrase] = key.Passphrase
	}
	return secret, nil
}

// Manifest is the Secret as kubectl apply reads it.
func Manifest(secret *corev1.Secret) ([]byte, error) {
	return yaml.Marshal(secret)
}
