package install

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// maxKept is the number of names of Secrets that are kept, the first in order. Runs that use others wait for a label.
const maxKept = 1000

// findKept returns the names of the Secrets that the living custom resources of an installation name, as JSON: it was made by a manager
// that asked for no label. Those that do not exist, the product's own, and tokens of ServiceAccounts are not among them.
func (r *Installer) findKept(ctx context.Context, s *scope, recordKey gate.Key) ([]byte, error) {
	named, err := r.secretsInUse(ctx, s, recordKey)
	if err != nil {
		return nil, fmt.Errorf("finding out which Secrets resources use: %w", err)
	}
	kept := []string{}
	for _, name := range named {
		if endpoint.IsOwnSecret(name) || len(validation.IsDNS1123Subdomain(name)) > 0 {
			continue
		}
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kindSecret))
		err := r.Cache.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, secret)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading Secret %s/%s from the cache: %w", s.Namespace, name, err)
		}
		isToken := metav1.HasAnnotation(secret.ObjectMeta, corev1.ServiceAccountNameKey)
		if err == nil && !isToken && len(kept) < maxKept {
			kept = append(kept, name)
		}
	}
	return render.JSON(kept, "")
}

// secretsInUse returns the sorted names of the Secrets that the living custom resources of an installation name.
func (r *Installer) secretsInUse(ctx context.Context, s *scope, recordKey gate.Key) ([]string, error) {
	if !s.Collection.UsesPasswords() {
		return nil, nil
	}
	finder := instances.Finder{Client: r.Client, Reader: r.Reader}
	crds, err := finder.CRDs(ctx, s.Collection.ID())
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for i := range crds {
		resource, isDeclared := s.Collection.Resource(crds[i].Spec.Names.Kind)
		if !isDeclared || !resource.UsesPasswords() {
			continue
		}
		variables, err := render.GateVariables(s.Collection, resource.Vars)
		if err != nil {
			return nil, err
		}
		kind := gate.KindSettings{Variables: variables}
		err = finder.EachOf(ctx, &crds[i], s.Namespace, func(item *unstructured.Unstructured) {
			for _, name := range secretsOf(s.Collection, kind, recordKey, item) {
				names[name] = true
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// secretsOf returns the names of the Secrets that a custom resource names, as its next run would get them.
func secretsOf(c *model.Collection, kind gate.KindSettings, key gate.Key, item *unstructured.Unstructured) []string {
	annotations := item.GetAnnotations()
	id := gate.Identity{Group: item.GroupVersionKind().Group, Kind: item.GetKind(), Namespace: item.GetNamespace(), Name: item.GetName()}
	last, accepts := key.Verify(id, annotations[gate.AnnotationRecord]), annotations[gate.AnnotationAcceptDefaults] == c.Version.String()
	spec, _, _ := unstructured.NestedMap(item.Object, "spec")
	variables, _ := gate.NewSupply(kind, last, gate.SetOf(item), accepts).Declared(spec)
	return kind.SecretNames(variables)
}
