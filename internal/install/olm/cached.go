package olm

import (
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// KeepSubscription transforms Subscriptions for the cache: of Subscriptions to other catalogs, it keeps only the identity.
func KeepSubscription(object any) (any, error) {
	subscription, ok := object.(*operatorsv1alpha1.Subscription)
	if !ok {
		return object, nil // A metadata-only watch.
	}
	subscription.ManagedFields = nil
	if subscription.Spec != nil && subscription.Spec.CatalogSource == CatalogSourceName {
		return subscription, nil
	}
	return &operatorsv1alpha1.Subscription{TypeMeta: subscription.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: subscription.Namespace, Name: subscription.Name, UID: subscription.UID, ResourceVersion: subscription.ResourceVersion,
	}}, nil
}

// KeptWhole reports whether [KeepSubscription] kept the spec of a Subscription.
func KeptWhole(object client.Object) bool {
	return object.(*operatorsv1alpha1.Subscription).Spec != nil
}
