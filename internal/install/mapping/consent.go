package mapping

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// AnnotationAllow on a namespace lists the namespaces, separated by commas, whose SubOperatorConfigs may map it.
const AnnotationAllow = "zoscb.ibm.com/allow-mapping-from"

// Selection has the namespaces that the manager may use. An empty one stands for all.
type Selection []string

// Check returns nil if the manager may use a namespace, else an error with a reason.
func (s Selection) Check(namespace string) error {
	if len(s) == 0 || slices.Contains(s, namespace) {
		return nil
	}
	return status.Waiting(v2beta2.ReasonNamespaceNotSelected, intervals.Missing,
		"the manager does not use namespace %q: an administrator can bind ClusterRole collection-operator-manager-namespace there, "+
			"and add the namespace to the manager's flag --namespaces", namespace)
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
