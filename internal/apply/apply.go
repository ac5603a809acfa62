// Package apply writes rendered objects to a cluster with server-side apply. All objects are validated in a dry run before
// any is changed. Objects of other owners are never adopted, and unchanged objects are not written.
package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// FieldOwner is the field manager of all objects that are applied.
const FieldOwner = "collection-operator"

// Applier applies sets of objects.
type Applier struct {
	// Client writes objects. Its cache is not used.
	Client client.Client
	// Reader reads live objects: caches only contain objects with the manager's labels.
	Reader client.Reader
	// InUse reports whether others need an object, which Prune then keeps. Nil means that no object is shared.
	InUse func(ctx context.Context, live client.Object) (bool, error)
	// Aftermath removes objects that other controllers created for an object that Prune has deleted, and reports whether the
	// removal is complete. Nil means that there are none.
	Aftermath func(ctx context.Context, deleted v2beta2.ObjectReference) (gone bool, err error)
}

// Ours reports whether a live object may be changed.
type Ours func(live client.Object) bool

// ForeignObjectError reports an existing object that is managed by someone else. Nothing was written.
type ForeignObjectError struct {
	Object string
}

func (e *ForeignObjectError) Error() string {
	return e.Object + " exists and was not created for this object: delete or rename it"
}

// RefusedError reports an object that the API server rejects as invalid or forbidden. Unwrap returns the API error.
type RefusedError struct {
	Object string
	// Kind of the object.
	Kind schema.GroupKind
	Err  error
}

func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %v", e.Object, e.Err) }
func (e *RefusedError) Unwrap() error { return e.Err }

// change is an object with the result of its dry run.
type change struct {
	desired *unstructured.Unstructured
	// live is nil when the object does not exist.
	live *unstructured.Unstructured
	// needed is false when applying would change nothing.
	needed bool
}

// Apply applies the objects in the given order, and returns how many it wrote. All objects are validated in a server-side
// dry run first. If that fails, nothing is written and all errors are returned, joined. Errors are *[ForeignObjectError],
// *[RefusedError], or any other API error, which may be retried.
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
	changes, errs := make([]change, len(objects)), make([]error, len(objects))
	for i, object := range objects {
		changes[i], errs[i] = a.dryRun(ctx, object, ours)
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
			// A binding cannot be validated before its role exists. The role's dry run shows whether the manager may grant
			// its rules.
			return change{desired: desired, needed: true}, nil
		}
		return change{}, refused(desired, err)
	}
	return change{desired: desired, live: live, needed: live == nil || !equal(live, result)}, nil
}

// patch applies server-side. Fields of other managers are only overwritten with force.
func (a *Applier) patch(ctx context.Context, object *unstructured.Unstructured, force bool, options ...client.ApplyOption) error {
	options = append(options, client.FieldOwner(FieldOwner))
	if force {
		options = append(options, client.ForceOwnership)
	}
	return a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...)
}

// toUnstructured converts a rendered object, without fields that are not applied.
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

// equal compares an object with the result of its dry run, except for fields that the server maintains.
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
	return u.GroupVersionKind().Group == rbacv1.GroupName && (u.GetKind() == "RoleBinding" || u.GetKind() == "ClusterRoleBinding")
}

// Name returns the kind and namespace/name of an object for messages.
func Name(object client.Object) string {
	name := strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
	return fmt.Sprintf("%s %q", object.GetObjectKind().GroupVersionKind().Kind, name)
}
