package grants

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MetadataOf returns an object for watches of the metadata of an RBAC kind.
func MetadataOf(kind string) client.Object {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind))
	return object
}
