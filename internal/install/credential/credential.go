// Package credential reads the credential Secrets that specs name, and the key of the hashes that identify them.
package credential

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
