package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/status"
)

// readSecret reads a Secret that a spec names. One whose name no Secret can have, such as "../other/secret", does not
// exist: clients would fail on it in other ways.
func readSecret(ctx context.Context, reader client.Reader, namespace, name string) (*corev1.Secret, error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
	}
	secret := &corev1.Secret{}
	return secret, reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
}

// requireSecret reads a Secret that a field of the spec names. One that does not exist is waited for, with a reason.
func (r *OperatorCollectionReconciler) requireSecret(ctx context.Context, oc *v2beta2.OperatorCollection, field, name, reason string) (*corev1.Secret, error) {
	secret, err := readSecret(ctx, r.Reader, oc.Namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, status.Waiting(reason, status.MissingInterval, "%s: Secret %q does not exist in namespace %q", field, name, oc.Namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %q: %w", name, err)
	}
	return secret, nil
}
