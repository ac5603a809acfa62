package install

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
)

// RemoveOwners removes the owner references to a SubOperatorConfig, which earlier versions applied, from the objects of its installations.
// It needs nothing but the inventory, and writes metadata only: no pod restarts.
func (r *Installer) RemoveOwners(ctx context.Context, soc *v2beta2.SubOperatorConfig) error {
	var errs []error
	for _, ref := range parts(soc, soc.Namespace) {
		if ref.Namespace != "" { // Those that are cluster-scoped never had any.
			errs = append(errs, r.removeOwner(ctx, soc, ref))
		}
	}
	return errors.Join(errs...)
}

func (r *Installer) removeOwner(ctx context.Context, soc *v2beta2.SubOperatorConfig, ref v2beta2.ObjectReference) error {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, live)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s %s/%s: %w", ref.Kind, ref.Namespace, ref.Name, err)
	}
	before := live.DeepCopy()
	live.OwnerReferences = slices.DeleteFunc(live.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == soc.UID })
	if len(live.OwnerReferences) == len(before.OwnerReferences) || !OwnedBy(soc)(live) {
		return nil
	}
	err = r.Client.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(apply.FieldOwner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the owner reference of %s %s/%s: %w", ref.Kind, ref.Namespace, ref.Name, err)
	}
	return nil
}
