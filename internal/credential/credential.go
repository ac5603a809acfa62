// Package credential reads the Secrets that specs name.
package credential

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Label marks a Secret of any type as a credential that may be sent to endpoints and servers. Without it, whoever may
// create our objects could have any Secret of their namespace sent to a server of their own.
const Label = "zoscb.ibm.com/credential"

// Is says whether a Secret is labelled as a credential.
func Is(secret *corev1.Secret) bool { return secret.Labels[Label] == "true" }

// Read reads a Secret that a spec names. A name that no Secret can have, such as "../other/secret", is not found: clients
// would build another path from it.
func Read(ctx context.Context, reader client.Reader, namespace, name string) (*corev1.Secret, error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
	}
	secret := &corev1.Secret{}
	return secret, reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
}
