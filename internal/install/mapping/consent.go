package mapping

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// AnnotationAllow on a namespace lists the namespaces, separated by commas, whose SubOperatorConfigs may map it.
const AnnotationAllow = "zoscb.ibm.com/allow-mapping-from"

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

// Consent returns nil if SubOperatorConfigs in the namespace from may map namespace, else an error. The error has a reason
// unless it is an API error.
func Consent(ctx context.Context, reader client.Reader, from, namespace string) error {
	if namespace == from {
		return nil
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := reader.Get(ctx, types.NamespacedName{Name: namespace}, object)
	if apierrors.IsNotFound(err) {
		return status.Waiting(v2beta2.ReasonMappingNotAllowed, status.Watched, "spec.mapping: namespace %q does not exist", namespace)
	}
	if err != nil {
		return fmt.Errorf("reading namespace %q: %w", namespace, err)
	}
	for allowed := range strings.SplitSeq(object.Annotations[AnnotationAllow], ",") {
		if strings.TrimSpace(allowed) == from {
			return nil
		}
	}
	return status.Waiting(v2beta2.ReasonMappingNotAllowed, status.Watched,
		"spec.mapping: namespace %q does not allow it: an owner of that namespace can add the annotation %s: %s", namespace, AnnotationAllow, from)
}
