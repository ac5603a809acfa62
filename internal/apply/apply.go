// Package apply writes rendered objects to a cluster: everything is tried in a dry run before anything is changed,
// one field owner writes, objects of other owners are never taken over, and an object that is already as it should be
// is not written at all.
package apply

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// FieldOwner is the name under which all objects are applied.
const FieldOwner = "collection-operator"

// Applier applies sets of objects.
type Applier struct {
	// Client writes. Its cache is not used.
	Client client.Client
	// Reader reads live objects, past every cache: caches know only objects that carry our labels.
	Reader client.Reader
	// InUse says whether others need an object of ours, which Prune then leaves to them. Nil means that nobody does.
	InUse func(ctx context.Context, live client.Object) (bool, error)
	// Aftermath removes what others have made because of an object that Prune has deleted, and says whether nothing of it
	// is left. Nil means that nobody makes anything.
	Aftermath func(ctx context.Context, deleted v2beta2.ObjectReference) (gone bool, err error)
}

// Ours decides whether a live object may be changed.
type Ours func(live client.Object) bool

// ForeignObjectError says that an object of the set exists and belongs to somebody else. Nothing was written.
type ForeignObjectError struct {
	Object string
}

func (e *ForeignObjectError) Error() string {
	return e.Object + " exists and was not made for this object: remove or rename it"
}

// RefusedError says that the API server will not take an object as it is. Unwrap gives its answer.
type RefusedError struct {
	Object string
	// Kind of the object.
	Kind schema.GroupKind
	Err  error
}

func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %v", e.Object, e.Err) }
func (e *RefusedError) Unwrap() error { return e.Err }

// change is one object of a set together with what the dry run said about it.
type change struct {
	desired *unstructured.Unstructured
	// live is nil when the object does not exist.
	live *unstructured.Unstructured
	// needed is false when applying would change nothing.
	needed bool
}

// Apply makes the cluster hold the objects, in the order given, and returns how many it wrote. All objects are tried in
// a server-side dry run first; every error of that run is returned, joined, and nothing is written then. Errors are
// *[ForeignObjectError], *[RefusedError] where the server said the object is invalid or forbidden, or any other API
// error, which may be tried again.
func (a *Applier) Apply(ctx context.Context, objects []client.Object, ours Ours) (int, error) {
	changes, err := a.preflight(ctx, objects, ours)
	if err != nil {
		return 0, err
	}
	written := 0
	for _, c := range changes {
		if !c.needed {
			continue
		}
		if err := a.patch(ctx, c.desired.DeepCopy(), c.live != nil); err != nil {
			return written, refused(c.desired, err)
		}
		written++
	}
	return written, nil
}

func (a *Applier) preflight(ctx context.Context, objects []client.Object, ours Ours) ([]change, error) {
	changes := make([]change, 0, len(objects))
	var errs []error
	for _, object := range objects {
		c, err := a.dryRun(ctx, object, ours)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		changes = append(changes, c)
	}
	return changes, errors.Join(errs...)
}

func (a *Applier) dryRun(ctx context.Context, object client.Object, ours Ours) (change, error) {
	desired, err := a.toUnstructured(object)
	if err != nil {
		return change{}, err
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(desired.GroupVersionKind())
	err = a.Reader.Get(ctx, client.ObjectKeyFromObject(desired), live)
	switch {
	case apierrors.IsNotFound(err):
		live = nil
	case err != nil:
		return change{}, fmt.Errorf("reading %s: %w", Name(desired), err)
	case !ours(live):
		return change{}, &ForeignObjectError{Object: Name(desired)}
	}

	result := desired.DeepCopy()
	if err := a.patch(ctx, result, live != nil, client.DryRunAll); err != nil {
		if live == nil && isBinding(desired) && apierrors.IsNotFound(err) {
			// A binding cannot be tried before its role exists. The role's own dry run is what tells whether we may
			// grant what it holds.
			return change{desired: desired, needed: true}, nil
		}
		return change{}, refused(desired, err)
	}
	return change{desired: desired, live: live, needed: live == nil || !equal(live, result)}, nil
}

// patch applies server-side. Fields are taken over from other writers only where the object is known to be ours.
func (a *Applier) patch(ctx context.Context, object *unstructured.Unstructured, force bool, options ...client.ApplyOption) error {
	options = append(options, client.FieldOwner(FieldOwner))
	if force {
		options = append(options, client.ForceOwnership)
	}
	return a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...)
}

// toUnstructured drops what a rendered object must not have an opinion on.
func (a *Applier) toUnstructured(object client.Object) (*unstructured.Unstructured, error) {
	gvk, err := a.Client.GroupVersionKindFor(object)
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", object.GetName(), err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", gvk.Kind, object.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	unstructured.RemoveNestedField(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(u.Object, "spec", "template", "metadata", "creationTimestamp")
	return u, nil
}

// equal compares an object with the result of a dry run over it, except for the server's own bookkeeping.
func equal(live, result *unstructured.Unstructured) bool {
	strip := func(u *unstructured.Unstructured) map[string]any {
		u = u.DeepCopy()
		for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
			unstructured.RemoveNestedField(u.Object, "metadata", field)
		}
		return u.Object
	}
	return equality.Semantic.DeepEqual(strip(live), strip(result))
}

func refused(object client.Object, err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) {
		return &RefusedError{Object: Name(object), Kind: object.GetObjectKind().GroupVersionKind().GroupKind(), Err: err}
	}
	return fmt.Errorf("applying %s: %w", Name(object), err)
}

func isBinding(u *unstructured.Unstructured) bool {
	switch u.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"},
		schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:
		return true
	}
	return false
}

// Name is how messages refer to an object: kind and namespace/name.
func Name(object client.Object) string {
	kind := object.GetObjectKind().GroupVersionKind().Kind
	if object.GetNamespace() == "" {
		return fmt.Sprintf("%s %q", kind, object.GetName())
	}
	return fmt.Sprintf("%s %q", kind, object.GetNamespace()+"/"+object.GetName())
}
