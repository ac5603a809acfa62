// Package mapping determines in which namespaces a SubOperatorConfig may install, and with which endpoints, credentials and
// sources of dependencies.
package mapping

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// IndexNamespace is the field by which the cache finds the SubOperatorConfigs that map a namespace, or have installed there.
const IndexNamespace = "namespace"

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
	return divide(soc.Spec.Mapping, func(namespace string) error { return r.usable(ctx, soc.Namespace, namespace) })
}

// divide returns the mappings whose namespace a check accepts, and its error with a reason for each other one.
func divide(mappings []v2beta2.NamespaceMapping, check func(namespace string) error) (accepted []v2beta2.NamespaceMapping, problems []error, err error) {
	for _, m := range mappings {
		refused := check(m.Namespace)
		switch {
		case refused == nil:
			accepted = append(accepted, m)
		case status.Is(refused):
			problems = append(problems, refused)
		default:
			return nil, nil, refused
		}
	}
	return accepted, problems, nil
}

// usable returns nil if an operator can be installed in a namespace, else an error with a reason.
func (r *Resolver) usable(ctx context.Context, from, namespace string) error {
	if err := r.Selection.Check(namespace); err != nil {
		return err
	}
	if err := Consent(ctx, r.Client, from, namespace); err != nil {
		return err
	}
	terminating, err := instances.IsTerminating(ctx, r.Client, namespace)
	if err == nil && terminating && namespace != from {
		err = status.Waiting(v2beta2.ReasonMappingNotAllowed, status.Watched, "spec.mapping: namespace %q is being deleted", namespace)
	}
	return err
}

// WithoutConflicts returns the mappings whose namespace does not have the collection's operator from another
// SubOperatorConfig, and an error with a reason for each other one. The oldest SubOperatorConfig has precedence, once the
// current one has uninstalled.
func (r *Resolver) WithoutConflicts(ctx context.Context, soc *v2beta2.SubOperatorConfig, id model.ID, mappings []v2beta2.NamespaceMapping) (
	free []v2beta2.NamespaceMapping, problems []error, err error) {
	return divide(mappings, func(namespace string) error { return r.conflict(ctx, soc, id, namespace) })
}

func (r *Resolver) conflict(ctx context.Context, soc *v2beta2.SubOperatorConfig, id model.ID, namespace string) error {
	rivals, restored, err := r.rivals(ctx, id, namespace)
	if err != nil {
		return err
	}
	for i := range rivals {
		other := &rivals[i]
		if other.UID == soc.UID {
			continue
		}
		isFirst := other.DeletionTimestamp == nil && precedes(other, soc, restored) && Maps(other, namespace)
		if isFirst {
			err := Consent(ctx, r.Client, other.Namespace, namespace)
			if err != nil && !status.Is(err) {
				return err
			}
			isFirst = err == nil
		}
		if isFirst || InstalledIn(other, namespace) && !InstalledIn(soc, namespace) {
			return status.Waiting(v2beta2.ReasonMappingConflict, intervals.Missing,
				"spec.mapping: namespace %q already has this collection's operator, from SubOperatorConfig %q in namespace %q", namespace, other.Name, other.Namespace)
		}
	}
	return nil
}

// rivals returns the SubOperatorConfigs of a collection that map a namespace or have installed there, and which of them was restored
// from a backup together with its operator. Of those whose collection is not known yet, it is the only rival.
func (r *Resolver) rivals(ctx context.Context, id model.ID, namespace string) (rivals []v2beta2.SubOperatorConfig, restored client.ObjectKey, err error) {
	list := &v2beta2.SubOperatorConfigList{}
	if err := r.Client.List(ctx, list, client.MatchingFields{IndexNamespace: namespace}); err != nil {
		return nil, restored, fmt.Errorf("listing SubOperatorConfigs: %w", err)
	}
	var unknown []v2beta2.SubOperatorConfig
	for i := range list.Items {
		switch has, err := CollectionOf(ctx, r.Client, &list.Items[i]); {
		case err != nil:
			return nil, restored, err
		case has == id:
			rivals = append(rivals, list.Items[i])
		case has == model.ID{}:
			unknown = append(unknown, list.Items[i])
		}
	}
	restored, err = r.restoredOwner(ctx, id, namespace, slices.Concat(rivals, unknown))
	for _, other := range unknown {
		if client.ObjectKeyFromObject(&other) == restored {
			rivals = append(rivals, other)
		}
	}
	return rivals, restored, err
}

// restoredOwner returns the SubOperatorConfig whose operator was restored from a backup together with it: creation times of
// SubOperatorConfigs say nothing then. It is empty if there is none, or only one SubOperatorConfig.
func (r *Resolver) restoredOwner(ctx context.Context, id model.ID, namespace string, all []v2beta2.SubOperatorConfig) (owner client.ObjectKey, err error) {
	if len(all) < 2 {
		return owner, nil
	}
	account := &metav1.PartialObjectMetadata{}
	account.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	err = r.Reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: id.OperatorName()}, account)
	if err != nil {
		return owner, client.IgnoreNotFound(err)
	}
	owner.Namespace, owner.Name, _ = strings.Cut(account.Annotations[render.AnnotationOwner], "/")
	if !wasRestored(account, owner, namespace, all) {
		return client.ObjectKey{}, nil
	}
	return owner, nil
}

// wasRestored reports whether an operator's ServiceAccount was restored with its owner: no status says that anything is installed, or
// it was created before the owner that has installed it. In the same second it may be one that its owner has just created.
func wasRestored(account client.Object, owner client.ObjectKey, namespace string, all []v2beta2.SubOperatorConfig) bool {
	created := account.GetCreationTimestamp()
	for i := range all {
		soc := &all[i]
		if InstalledIn(soc, namespace) && (client.ObjectKeyFromObject(soc) != owner || !created.Before(&soc.CreationTimestamp)) {
			return false
		}
	}
	return true
}

// precedes reports whether a has precedence over b: the restored owner, or else the older one.
func precedes(a, b *v2beta2.SubOperatorConfig, restored client.ObjectKey) bool {
	switch restored {
	case client.ObjectKeyFromObject(a):
		return true
	case client.ObjectKeyFromObject(b):
		return false
	}
	return Older(a, b)
}

// CollectionOf returns the collection that a SubOperatorConfig installs or will install, by its status, or else by that of its
// OperatorCollection. It is zero if neither says so. Labels do not count: users can change them.
func CollectionOf(ctx context.Context, reader client.Reader, soc *v2beta2.SubOperatorConfig, options ...client.GetOption) (model.ID, error) {
	if recorded := soc.Status.Collection; recorded != nil {
		return model.ID{Domain: recorded.Domain, Name: recorded.Name}, nil
	}
	oc := &v2beta2.OperatorCollection{}
	key := types.NamespacedName{Namespace: soc.Namespace, Name: soc.Spec.OperatorCollection}
	if err := reader.Get(ctx, key, oc, options...); client.IgnoreNotFound(err) != nil {
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

// InstalledIn reports whether a SubOperatorConfig has an operator in a namespace, including one that is being removed.
func InstalledIn(soc *v2beta2.SubOperatorConfig, namespace string) bool {
	return slices.ContainsFunc(soc.Status.Installations, func(i v2beta2.InstallationStatus) bool { return i.Namespace == namespace })
}
