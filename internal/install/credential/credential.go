// Package credential reads the credential Secrets that specs name, and the key of the hashes that identify them.
package credential

import (
	"context"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// Label marks a Secret of any type as a credential that may be sent to endpoints and servers. Without this requirement,
// users who may create objects of this API could send any Secret of their namespace to their own server.
const Label = endpoint.LabelCredential

// Is reports whether a Secret is labelled as a credential.
func Is(secret *corev1.Secret) bool { return secret.Labels[Label] == "true" }

// Read reads a Secret that a spec names. An invalid name, such as "../other/secret", is not found: a client would build
// another path from it.
func Read(ctx context.Context, reader client.Reader, namespace, name string) (*corev1.Secret, error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
	}
	secret := &corev1.Secret{}
	return secret, reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
}

// Require is [Read] for the Secret that a field of a spec names. A Secret that does not exist is an error with the reason.
func Require(ctx context.Context, reader client.Reader, namespace, field, name, reason string) (*corev1.Secret, error) {
	secret, err := Read(ctx, reader, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, status.Waiting(reason, intervals.Missing, "%s: Secret %q does not exist in namespace %q", field, name, namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %q: %w", name, err)
	}
	return secret, nil
}

const (
	// KeySecret is the Secret in the manager's namespace with the key of the hashes that identify credentials.
	KeySecret = "collection-operator-credential-key"
	// KeyField is the key of the Secret with that key.
	KeyField = "key"
)

// LoadKey returns the key of the hashes that identify credentials, and creates it if it does not exist. It is the same for all
// managers in a namespace. reader must read live objects. A key with the wrong length is an error, and never replaced.
func LoadKey(ctx context.Context, writer client.Writer, reader client.Reader, namespace string) (endpoint.Key, error) {
	failed := func(doing string, err error) error {
		return fmt.Errorf("%s Secret %q in namespace %q, which has the key of the hashes of credentials: %w", doing, KeySecret, namespace, err)
	}
	secret, err := Read(ctx, reader, namespace, KeySecret)
	if apierrors.IsNotFound(err) {
		secret = newKeySecret(namespace)
		if err := writer.Create(ctx, secret); err == nil {
			return endpoint.ParseKey(secret.Data[KeyField])
		} else if !apierrors.IsAlreadyExists(err) {
			return nil, failed("creating", err)
		}
		secret, err = Read(ctx, reader, namespace, KeySecret) // Another manager has created it.
	}
	if err != nil {
		return nil, failed("reading", err)
	}
	key, err := endpoint.ParseKey(secret.Data[KeyField])
	if err != nil {
		return nil, fmt.Errorf("the Secret %q in namespace %q is not valid: %w: restore it from a backup, or delete it and restart the manager, "+
			"which creates another key; each refused credential may then be tried once more", KeySecret, namespace, err)
	}
	return key, nil
}

func newKeySecret(namespace string) *corev1.Secret {
	key := make([]byte, endpoint.KeyBytes)
	_, _ = rand.Read(key) // It never fails.
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: KeySecret},
		Data:       map[string][]byte{KeyField: key},
	}
}
