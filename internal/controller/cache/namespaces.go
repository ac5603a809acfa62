package cache

import (
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/install/mapping"
)

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
