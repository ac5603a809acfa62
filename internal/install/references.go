package install

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/status"
)

// checkReferences rejects runtime settings that name objects of the namespace without the label with which its owner lets operators
// use them. A running operator is unaffected. It reads metadata only.
func (r *Installer) checkReferences(ctx context.Context, s *scope) error {
	for _, ref := range render.References(&s.options.Runtime) {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(ref.Kind))
		key := client.ObjectKey{Namespace: s.Namespace, Name: ref.Name}
		err := r.Reader.Get(ctx, key, object)
		switch {
		case apierrors.IsNotFound(err):
			return status.Waiting(v2beta2.ReasonRuntimeObjectMissing, status.MissingInterval,
				"runtime.%s: %s %q does not exist: create it with the label %s=%s", ref.Field, ref.Kind, key, v2beta2.LabelRuntime, v2beta2.LabelRuntimeAll)
		case err != nil:
			return fmt.Errorf("reading %s %q: %w", ref.Kind, key, err)
		}
		if value := object.Labels[v2beta2.LabelRuntime]; value != v2beta2.LabelRuntimeAll && value != s.Collection.OperatorName() {
			return status.Waiting(v2beta2.ReasonRuntimeObjectNotAllowed, status.MissingInterval,
				"runtime.%s: %s %q does not allow its use by operators: it needs the label %s=%s, or %s=%s",
				ref.Field, ref.Kind, key, v2beta2.LabelRuntime, v2beta2.LabelRuntimeAll, v2beta2.LabelRuntime, s.Collection.OperatorName())
		}
	}
	return nil
}
