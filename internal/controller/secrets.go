package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
