package sshsecret

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"unicode"

	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
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

// Replace puts the credential of a Secret into one that exists, whose type cannot change, in the place of the one that it has. It fails if the
// Secret that exists is no credential.
func Replace(live, secret *corev1.Secret) error {
	if !endpoint.IsCredential(live) {
		return fmt.Errorf("the Secret %q in namespace %q exists and is no credential: choose another name, or label it %s=true",
			live.Name, live.Namespace, endpoint.LabelCredential)
	}
	for _, key := range []string{endpoint.KeyAuthorsTools, KeyPassphrase, KeyPassword} {
		delete(live.Data, key)
	}
	if live.Data == nil {
		live.Data = map[string][]byte{}
	}
	maps.Copy(live.Data, secret.Data)
	if live.Type != corev1.SecretTypeSSHAuth { // One that old clients have made was a credential by its keys.
		metav1.SetMetaDataLabel(&live.ObjectMeta, endpoint.LabelCredential, "true")
	}
	return nil
}

// Manifest is the Secret as kubectl apply reads it.
func Manifest(secret *corev1.Secret) ([]byte, error) {
	return yaml.Marshal(secret)
}

// Print writes the manifest of the Secret, but not to a terminal, which keeps what it shows.
func Print(out io.Writer, secret *corev1.Secret) error {
	if file, ok := out.(interface{ Fd() uintptr }); ok && term.IsTerminal(int(file.Fd())) {
		return errors.New("the manifest has the private key, and is not shown on a terminal: pipe it into kubectl apply --server-side -f -, or into a file")
	}
	manifest, err := Manifest(secret)
	if err == nil {
		_, err = out.Write(manifest)
	}
	return err
}
