// Package mapping determines in which namespaces a SubOperatorConfig may install, and with which endpoints, credentials and
// sources of dependencies.
package mapping

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// AnnotationOwner is [render.AnnotationOwner].
const AnnotationOwner = render.AnnotationOwner

// Resolver resolves the mappings of SubOperatorConfigs. It reads each credential once, and is for one reconciliation. It is not safe
// for concurrent use.
type Resolver struct {
	// Client reads through the cache.
	Client client.Client
	// Reader reads live objects. Secrets are not cached.
	Reader client.Reader
	// CredentialKey is the key of the hashes that identify credentials.
	CredentialKey endpoint.Key
	// Selection has the namespaces that the manager may use.
	Selection Selection

	// credentials that were read, by namespace and name: namespaces share them.
	credentials map[types.NamespacedName]readSecret
}

// readSecret is the result of reading a Secret.
type readSecret struct {
	secret *corev1.Secret
	err    error
}

// Namespaces returns the mappings whose namespace consents, and an error with a reason for each other one.
func (r *Resolver) Namespaces(ctx context.Context, soc *v2beta2.SubOperatorConfig) (agreed []v2beta2.NamespaceMapping, problems []error, err error) {
	for _, m := range soc.Spec.Mapping {
		refused := r.usable(ctx, soc.Namespace, m.Namespace)
		switch {
		case refused == nil:
			agreed = append(agreed, m)
		case status.Is(refused):
			problems = append(problems, refused)
		default:
			return nil, nil, refused
		}
	}
	return agreed, problems, nil
}

// CollectionOf returns the collection that a SubOperatorConfig installs or will install, by its status, or else by that of its
// OperatorCollection. It is zero if neither says so. Labels do not count: users can change them.
func CollectionOf(ctx context.Context, reader client.Reader, soc *v2beta2.SubOperatorConfig) (model.ID, error) {
	if recorded := soc.Status.Collection; recorded != nil {
		return model.ID{Domain: recorded.Domain, Name: recorded.Name}, nil
	}
	oc := &v2beta2.OperatorCollection{}
	key := types.NamespacedName{Namespace: soc.Namespace, Name: soc.Spec.OperatorCollection}
	if err := reader.Get(ctx, key, oc); client.IgnoreNotFound(err) != nil {
		return model.ID{}, fmt.Errorf("reading OperatorCollection %q: %w", soc.Spec.OperatorCollection, err)
	}
	if oc.Status.Collection == nil {
		return model.ID{}, nil
	}
	return model.ID{Domain: oc.Status.Collection.Domain, Name: oc.Status.Collection.Name}, nil
}

// Maps reports whether a SubOperatorConfig maps a namespace.
func Maps(soc *v2beta2.SubOperatorConfig, namespace string) bool {
	return Contains(soc.Spec.Mapping, namespace)
}

// Contains reports whether one of the mappings maps a namespace.
func Contains(mappings []v2beta2.NamespaceMapping, namespace string) bool {
	return slices.ContainsFunc(mappings, func(m v2beta2.NamespaceMapping) bool { return m.Namespace == namespace })
}

// Older reports whether a was created before b. Objects of the same second are ordered by UID.
func Older(a, b client.Object) bool {
	if at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp(); !at.Equal(&bt) {
		return at.Before(&bt)
	}
	return a.GetUID() < b.GetUID()
}
