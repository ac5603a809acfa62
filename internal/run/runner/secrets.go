package runner

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// reasonSecretNotAllowed means that playbooks may not read a Secret that the resource names, or that does not exist.
const reasonSecretNotAllowed endpoint.Reason = v2beta2.ReasonRuntimeObjectNotAllowed

// maxFollowed limits the resources whose Secrets a run waits for.
const maxFollowed = 1000

// awaitSecrets returns why a run may not start: it would read a Secret that does not allow it. The Secrets are those that its variables
// name, and those of resources that it refers to, which playbooks read too. The run gets these variables: it does not start if the resource
// has changed since it was read.
func (r *runner) awaitSecrets(ctx context.Context, s *situation) (*waiting, error) {
	if !r.files.settings.NamesSecrets() {
		return nil, nil
	}
	variables, _ := r.supplyOf(s.live).Declared(gate.ReceivedSpec(r.files.given))
	names, err := r.secretNames(ctx, variables)
	if len(names) == 0 || err != nil {
		return nil, err
	}
	access := endpoint.SecretAccess{Operator: r.files.settings.Operator}
	if access.Kept, err = r.files.keptSecrets(); err != nil {
		return nil, err
	}
	refused := map[endpoint.Access][]string{}
	for _, name := range names {
		secret, err := r.readSecret(ctx, name)
		if err != nil {
			return nil, err
		}
		allowed := access.Of(name, secret)
		// A deletion playbook finds nothing to read, and often needs nothing: Secrets may be deleted together with their resource.
		if allowed == endpoint.AccessAllowed || allowed == endpoint.AccessNeedsLabel && secret == nil && r.files.event == gate.EventDelete {
			continue
		}
		refused[allowed] = append(refused[allowed], name)
	}
	if len(refused) == 0 {
		return nil, nil
	}
	return r.waitsFor(s.live, reasonSecretNotAllowed, access.Refusal(r.files.namespace, refused))
}

// secretNames returns the sorted names of the Secrets that variables of the resource name, and those of resources that it refers to.
func (r *runner) secretNames(ctx context.Context, variables map[string]any) ([]string, error) {
	names, next := r.files.kind.SecretNames(variables), r.files.kind.References(variables)
	followed := map[string]bool{}
	for ; len(next) > 0; next = next[1:] {
		reference := next[0]
		if followed[reference] {
			continue
		}
		if followed[reference] = true; len(followed) > maxFollowed {
			return nil, fmt.Errorf("the resource refers to more than %d others", maxFollowed)
		}
		plural, name, _ := strings.Cut(reference, "/")
		other, err := r.lookUp(ctx, kindResource(r.files, plural), name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", reference, err)
		}
		if other == nil {
			continue
		}
		id, kind := r.files.identity(), r.files.settings.Kind(plural)
		id.Kind, id.Name = other.GetKind(), name
		variables, _ := r.supply(kind, id, other).Declared(specOf(other))
		names, next = append(names, kind.SecretNames(variables)...), append(next, kind.References(variables)...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// readSecret returns a Secret of the namespace, or nil if there is none.
func (r *runner) readSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	object, err := r.lookUp(ctx, corev1.SchemeGroupVersion.WithResource("secrets"), name)
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	if object == nil {
		return nil, nil
	}
	secret := &corev1.Secret{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, secret) != nil {
		return nil, fmt.Errorf("read Secret %s: it cannot be decoded", name) // The error may have a part of the content.
	}
	return secret, nil
}

// keptSecrets returns the names of Secrets that need no label.
func (f *files) keptSecrets() ([]string, error) {
	content, err := f.endpointFile("", gate.KeptSecretsFile)
	if content == nil || err != nil {
		return nil, err
	}
	var kept []string
	return kept, readJSON(filepath.Join(f.endpointsDir, gate.KeptSecretsFile), &kept)
}
