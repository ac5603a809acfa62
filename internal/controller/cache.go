package controller

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
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/runcount"
)

// CacheOptions keep the manager's memory independent of the size of the cluster: of kinds that are not its own it caches only
// what it made, and of Subscriptions those to its own packages. Of all objects it caches only the fields that controllers read
// from the cache; see [keepMetadata], [keepName], [keepDefinition] and [keepOwn].
func CacheOptions() cache.Options {
	made := labels.SelectorFromSet(labels.Set{render.LabelManagedBy: render.ManagedBy})
	metadata := cache.ByObject{Label: made, Transform: keepMetadata}
	own := cache.ByObject{Transform: keepOwn}
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
		&operatorsv1alpha1.Subscription{}:           {Transform: keepSubscription},
		&v2beta2.OperatorCollection{}:               own,
		&v2beta2.SubOperatorConfig{}:                own,
		&v2beta2.ZosEndpoint{}:                      own,
	}}
}

// Fields by which the cache finds objects, with [client.MatchingFields]. The API server does not know them.
const (
	// indexCollection finds the OperatorCollections that have a collection or replace it, or say by their labels that they will.
	indexCollection = "collection"
	// indexSecret finds the objects that name a Secret.
	indexSecret = "secret"
	// indexOperatorCollection finds the SubOperatorConfigs that name an OperatorCollection.
	indexOperatorCollection = "operatorCollection"
	// indexState finds the ZosEndpoints of a security domain by the name of the Secret with its state.
	indexState = "state"
	// indexNamespace finds the SubOperatorConfigs that map a namespace, or have installed there.
	indexNamespace = mapping.IndexNamespace
)

// AddIndexes makes the cache keep the indexes that the controllers use. It is called before the cache starts.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &v2beta2.OperatorCollection{}, indexCollection, func(object client.Object) []string {
			return collectionsOf(object.(*v2beta2.OperatorCollection))
		}),
		indexer.IndexField(ctx, &v2beta2.OperatorCollection{}, indexSecret, func(object client.Object) []string {
			spec := object.(*v2beta2.OperatorCollection).Spec
			names := []string{spec.CredentialsSecret, spec.SignatureSecret}
			if spec.Dependencies != nil {
				names = append(names, spec.Dependencies.CredentialsSecret)
			}
			return names
		}),
		indexer.IndexField(ctx, &v2beta2.ZosEndpoint{}, indexSecret, func(object client.Object) []string {
			return []string{object.(*v2beta2.ZosEndpoint).Spec.CredentialName}
		}),
		indexer.IndexField(ctx, &v2beta2.ZosEndpoint{}, indexState, func(object client.Object) []string {
			return []string{endpoint.StateName(object.(*v2beta2.ZosEndpoint))}
		}),
		indexer.IndexField(ctx, &v2beta2.SubOperatorConfig{}, indexSecret, mappedCredentials),
		indexer.IndexField(ctx, &v2beta2.SubOperatorConfig{}, indexNamespace, func(object client.Object) []string {
			soc := object.(*v2beta2.SubOperatorConfig)
			names := install.Namespaces(soc)
			for _, m := range soc.Spec.Mapping {
				names = append(names, m.Namespace)
			}
			return names
		}),
		indexer.IndexField(ctx, &v2beta2.SubOperatorConfig{}, indexOperatorCollection, func(object client.Object) []string {
			return []string{object.(*v2beta2.SubOperatorConfig).Spec.OperatorCollection}
		}),
	)
}

// collectionsOf returns the collections that an OperatorCollection has, replaces, and says by its labels that it will have.
func collectionsOf(oc *v2beta2.OperatorCollection) []string {
	ids := []string{importedID(oc).String(), labelledID(oc).String()}
	if replaced := replacedID(oc); replaced != (model.ID{}) {
		ids = append(ids, replaced.String())
	}
	return ids
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
