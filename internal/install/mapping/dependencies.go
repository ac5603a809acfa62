package mapping

import (
	"cmp"
	"context"
	"encoding/pem"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install/credential"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// Dependencies returns where the collection's dependencies are downloaded from: the OperatorCollection's settings, or else
// the defaults. An error has a reason unless it is an API error.
func (r *Resolver) Dependencies(ctx context.Context, oc *v2beta2.OperatorCollection, defaults render.DependencySettings) (render.DependencySettings, error) {
	spec := oc.Spec.Dependencies
	if spec == nil {
		return defaults, nil
	}
	settings := defaults
	settings.GalaxyURL = cmp.Or(spec.GalaxyURL, defaults.GalaxyURL)
	settings.PipIndexURL = cmp.Or(spec.PipIndexURL, defaults.PipIndexURL)
	if spec.CredentialsSecret == "" {
		return settings, nil
	}
	credentials, err := r.dependencyCredentials(ctx, oc.Namespace, spec.CredentialsSecret)
	settings.Credentials = credentials
	return settings, err
}

// dependencyCredentials returns the known keys of a credential Secret.
func (r *Resolver) dependencyCredentials(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	invalid := func(format string, args ...any) error {
		return status.Waiting(v2beta2.ReasonCredentialsInvalid, status.Watched,
			"spec.dependencies.credentialsSecret of the OperatorCollection: Secret %q %s", name, fmt.Sprintf(format, args...))
	}
	secret, err := credential.Read(ctx, r.Reader, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, invalid("does not exist in namespace %q", namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %q: %w", name, err)
	}
	if !credential.Is(secret) {
		return nil, invalid("is not labelled as a credential: add the label %s=true", credential.Label)
	}
	credentials := map[string][]byte{}
	for _, key := range render.DependencyKeys {
		if text := strings.TrimSpace(string(secret.Data[key])); text != "" {
			credentials[key] = []byte(text)
		}
	}
	has := func(key string) bool { return credentials[key] != nil }
	switch {
	case len(credentials) == 0:
		return nil, invalid("has none of the keys %s", strings.Join(render.DependencyKeys, ", "))
	case has(render.KeyGalaxyToken) && has(render.KeyGalaxyUsername):
		return nil, invalid("has both %s and %s: keep one", render.KeyGalaxyToken, render.KeyGalaxyUsername)
	case has(render.KeyGalaxyUsername) != has(render.KeyGalaxyPassword):
		return nil, invalid("needs both %s and %s", render.KeyGalaxyUsername, render.KeyGalaxyPassword)
	case has(render.KeyPipUsername) != has(render.KeyPipPassword):
		return nil, invalid("needs both %s and %s", render.KeyPipUsername, render.KeyPipPassword)
	}
	if block, _ := pem.Decode(credentials[render.KeyCA]); has(render.KeyCA) && block == nil {
		return nil, invalid("has no PEM certificate in the key %s", render.KeyCA)
	}
	return credentials, nil
}
