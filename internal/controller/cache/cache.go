// Package cache says what the manager's cache holds: which kinds, in which namespaces, with which of their fields, and the fields by which
// it finds them.
package cache

import (
	"context"
	"errors"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/runcount"
)

// Options keep the manager's memory independent of the size of the cluster: of kinds that are not its own it caches only
// what it made, and of Subscriptions those to its own packages. Of all objects it caches only the fields that controllers read
// from the cache; see [keepMetadata], [keepName], [keepDefinition] and [KeepOwn].
func Options() cache.Options {
	made := labels.SelectorFromSet(labels.Set{render.LabelManagedBy: render.ManagedBy})
	metadata := cache.ByObject{Label: made, Transform: keepMetadata}
	own := cache.ByObject{Transform: KeepOwn}
	return cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: map[client.Object]cache.ByObject{
		&apiextensionsv1.CustomResourceDefinition{}: {Label: made, Transform: keepDefinition},
		&appsv1.Deployment{}:                        metadata,
		&corev1.Pod{}:                               {Label: made, Transform: keepPod},
		&corev1.ServiceAccount{}:                    metadata,
		&corev1.ConfigMap{}:                         metadata,
		&networkingv1.NetworkPolicy{}:               metadata,
		&coordinationv1.Lease{}:                     {Label: labels.SelectorFromSet(labels.Set{runcount.Label: "true"}), Transform: keepName},
		&rbacv1.Role{}:                              metadata,
		&rbacv1.RoleBinding{}:                       metadata,
		&rbacv1.ClusterRole{}:                       metadata,
		&rbacv1.ClusterRoleBinding{}:                metadata,
		&corev1.Secret{}:                            {Transform: keepMetadata},
		&corev1.Namespace{}:                         {Transform: keepNamespace},
		&operatorsv1alpha1.CatalogSource{}:          {Label: made},
		&operatorsv1alpha1.ClusterServiceVersion{}:  metadata,
		&operatorsv1alpha1.Subscription{}:           {Transform: olm.KeepSubscription},
		&v2beta2.OperatorCollection{}:               own,
		&v2beta2.SubOperatorConfig{}:                own,
		&v2beta2.ZosEndpoint{}:                      own,
	}}
}

// AddIndexes makes the cache keep the indexes that the controllers use. It is called before the cache starts.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &v2beta2.OperatorCollection{}, imports.IndexCollection, func(object client.Object) []string {
			return imports.CollectionsOf(object.(*v2beta2.OperatorCollection))
		}),
		indexer.IndexField(ctx, &v2beta2.OperatorCollection{}, imports.IndexSecret, func(object client.Object) []string {
			spec := object.(*v2beta2.OperatorCollection).Spec
			names := []string{spec.CredentialsSecret, spec.SignatureSecret}
			if spec.Dependencies != nil {
				names = append(names, spec.Dependencies.CredentialsSecret)
			}
			return names
		}),
		indexer.IndexField(ctx, &v2beta2.ZosEndpoint{}, imports.IndexSecret, func(object client.Object) []string {
			return []string{object.(*v2beta2.ZosEndpoint).Spec.CredentialName}
		}),
		indexer.IndexField(ctx, &v2beta2.ZosEndpoint{}, imports.IndexState, func(object client.Object) []string {
			return []string{endpoint.StateName(object.(*v2beta2.ZosEndpoint))}
		}),
		indexer.IndexField(ctx, &v2beta2.SubOperatorConfig{}, imports.IndexSecret, mappedCredentials),
		indexer.IndexField(ctx, &v2beta2.SubOperatorConfig{}, imports.IndexNamespace, func(object client.Object) []string {
			soc := object.(*v2beta2.SubOperatorConfig)
			names := install.Namespaces(soc)
			for _, m := range soc.Spec.Mapping {
				names = append(names, m.Namespace)
			}
			return names
		}),
		indexer.IndexField(ctx, &v2beta2.SubOperatorConfig{}, imports.IndexOperatorCollection, func(object client.Object) []string {
			return []string{object.(*v2beta2.SubOperatorConfig).Spec.OperatorCollection}
		}),
	)
}

// mappedCredentials returns the Secrets that the mappings of a SubOperatorConfig name.
func mappedCredentials(object client.Object) []string {
	var names []string
	for _, m := range object.(*v2beta2.SubOperatorConfig).Spec.Mapping {
		if m.ZosEndpoints == nil {
			continue
		}
		for _, endpoint := range *m.ZosEndpoints {
			names = append(names, endpoint.CredentialName)
		}
	}
	return names
}

// LimitCache returns options with which a cache reads Secrets, and the objects that the manager installs, in the selected
// namespaces only.
func LimitCache(options cache.Options, selection mapping.Selection) cache.Options {
	if len(selection) == 0 {
		return options
	}
	selected := map[string]cache.Config{}
	for _, namespace := range selection {
		selected[namespace] = cache.Config{}
	}
	byObject, secrets := map[client.Object]cache.ByObject{}, false
	for object, of := range options.ByObject {
		if isInstalled(object) {
			of.Namespaces = selected
		}
		_, isSecret := object.(*corev1.Secret)
		byObject[object], secrets = of, secrets || isSecret
	}
	if !secrets {
		byObject[&corev1.Secret{}] = cache.ByObject{Namespaces: selected}
	}
	options.ByObject = byObject
	return options
}

// isInstalled reports whether an object is a Secret, a pod, a Lease, or of a namespaced kind that the manager installs.
func isInstalled(object client.Object) bool {
	switch object.(type) {
	case *corev1.Secret, *corev1.Pod, *corev1.ServiceAccount, *corev1.ConfigMap, *appsv1.Deployment, *coordinationv1.Lease, *networkingv1.NetworkPolicy, *rbacv1.Role, *rbacv1.RoleBinding:
		return true
	}
	return false
}
