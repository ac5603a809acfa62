package controller

import (
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/render"
)

// CacheOptions keep the manager's memory independent of the size of the cluster: of kinds that are not its own it caches only
// what it made, of Secrets the metadata, and of Subscriptions those to its own packages.
func CacheOptions() cache.Options {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{render.LabelManagedBy: render.ManagedBy})}
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&apiextensionsv1.CustomResourceDefinition{}: ours,
		&appsv1.Deployment{}:                        ours,
		&corev1.ServiceAccount{}:                    ours,
		&corev1.ConfigMap{}:                         ours,
		&networkingv1.NetworkPolicy{}:               ours,
		&rbacv1.Role{}:                              ours,
		&rbacv1.RoleBinding{}:                       ours,
		&rbacv1.ClusterRole{}:                       ours,
		&rbacv1.ClusterRoleBinding{}:                ours,
		&operatorsv1alpha1.CatalogSource{}:          ours,
		&operatorsv1alpha1.ClusterServiceVersion{}:  ours,
		&operatorsv1alpha1.Subscription{}:           {Transform: keepSubscription},
	}}
}
