package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// Inventory returns references to the objects, in the same order. Every object must have its kind set.
func Inventory(objects []client.Object) []v2beta2.ObjectReference {
	refs := make([]v2beta2.ObjectReference, 0, len(objects))
	for _, object := range objects {
		apiVersion, kind := object.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
		refs = append(refs, v2beta2.ObjectReference{
			APIVersion: apiVersion, Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(),
		})
	}
	return refs
}

// Union returns wanted, followed by the references that only recorded has. It is idempotent: Union(Union(a, b), b) equals
// Union(a, b).
func Union(wanted, recorded []v2beta2.ObjectReference) []v2beta2.ObjectReference {
	return append(slices.Clone(wanted), Difference(recorded, wanted)...)
}

// Difference returns the references in a that are not in b, in the order of a. API versions are ignored.
func Difference(a, b []v2beta2.ObjectReference) []v2beta2.ObjectReference {
	excluded := sets.New[identity]()
	for _, ref := range b {
		excluded.Insert(identityOf(ref))
	}
	var diff []v2beta2.ObjectReference
	for _, ref := range a {
		if !excluded.Has(identityOf(ref)) {
			diff = append(diff, ref)
		}
	}
	return diff
}

func identityOf(ref v2beta2.ObjectReference) identity {
	return identity{schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind(), client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}}
}

// Prune deletes objects in reverse order, and returns those that are not gone yet, in their old order. Objects that ours
// does not accept, or that are in use, are kept and count as gone. Prune waits for the pods of an object before it deletes
// the objects that these pods need.
func (a *Applier) Prune(ctx context.Context, refs []v2beta2.ObjectReference, ours Ours) ([]v2beta2.ObjectReference, error) {
	var errs []error
	remaining := slices.Clone(refs)
	for i := len(refs) - 1; i >= 0; i-- {
		gone, err := a.delete(ctx, refs[i], ours)
		if err == nil && gone && a.Aftermath != nil {
			gone, err = a.Aftermath(ctx, refs[i])
		}
		if err != nil {
			errs = append(errs, err)
		} else if gone {
			remaining = slices.DeleteFunc(remaining, func(r v2beta2.ObjectReference) bool { return r == refs[i] })
			continue
		}
		if makesPods(refs[i]) {
			break
		}
	}
	return remaining, errors.Join(errs...)
}

// makesPods reports whether pods are created for the object, directly or by OLM.
func makesPods(ref v2beta2.ObjectReference) bool {
	return ref.Kind == "Deployment" || ref.Kind == "Subscription"
}

func (a *Applier) delete(ctx context.Context, ref v2beta2.ObjectReference, ours Ours) (gone bool, err error) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
	live.Name, live.Namespace = ref.Name, ref.Namespace
	name := Name(live)

	err = a.Reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, live)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		err = ConfirmAbsenceOf(ctx, a.Reader, a.Client.RESTMapper(), live.GroupVersionKind().GroupKind(), err)
		return err == nil, err
	case err != nil:
		return false, fmt.Errorf("reading %s: %w", name, err)
	case !ours(live):
		return true, nil
	case live.DeletionTimestamp != nil:
		return false, nil
	}
	if a.InUse != nil {
		if used, err := a.InUse(ctx, live); err != nil || used {
			return used, err
		}
	}
	propagation := client.PropagationPolicy(metav1.DeletePropagationBackground)
	if ref.Kind == "Deployment" {
		propagation = client.PropagationPolicy(metav1.DeletePropagationForeground)
	}
	uid := live.UID
	err = a.Client.Delete(ctx, live, propagation, client.Preconditions{UID: &uid})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return false, fmt.Errorf("deleting %s: %w", name, err)
	}
	return ref.Kind != "Deployment", nil
}
