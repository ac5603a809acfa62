package apply

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// RemoveFinalizer removes [v2beta2.Finalizer] from an object, unless it changed since it was read. One that is gone is no error.
func RemoveFinalizer(ctx context.Context, c client.Client, object client.Object) error {
	before := object.DeepCopyObject().(client.Object)
	if !controllerutil.RemoveFinalizer(object, v2beta2.Finalizer) {
		return nil
	}
	err := c.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldOwner))
	return client.IgnoreNotFound(err)
}

// AddFinalizer adds [v2beta2.Finalizer] to an object that lacks it, unless it changed since it was read.
func AddFinalizer(ctx context.Context, c client.Client, object client.Object) error {
	before := object.DeepCopyObject().(client.Object)
	if !controllerutil.AddFinalizer(object, v2beta2.Finalizer) {
		return nil
	}
	return c.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldOwner))
}

// AddLabels sets the labels that an object lacks, and replaces other values of those named firm.
func AddLabels(ctx context.Context, c client.Client, object client.Object, wanted map[string]string, firm ...string) error {
	before := object.DeepCopyObject().(client.Object)
	if !SetLabels(object, wanted, firm...) {
		return nil
	}
	return c.Patch(ctx, object, client.MergeFrom(before), client.FieldOwner(FieldOwner))
}

// SetLabels is AddLabels without a write, and reports whether it changed anything.
func SetLabels(object client.Object, wanted map[string]string, firm ...string) (changed bool) {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	for name, value := range wanted {
		if is, set := labels[name]; !set || is != value && slices.Contains(firm, name) {
			labels[name], changed = value, true
		}
	}
	if changed {
		object.SetLabels(labels)
	}
	return changed
}

// PatchMetadata fails with a conflict if the object was changed since it was read.
func PatchMetadata(ctx context.Context, c client.Client, object, before client.Object) error {
	return c.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldOwner))
}
