// Package apply writes rendered objects to a cluster with server-side apply. All objects are validated in a dry run before
// any is changed. Objects of other owners are never adopted, also not those that appear after the dry run, and unchanged objects are
// not written.
package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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
	// Memory has what was applied before, and Watched the objects that the cache has. Without Memory nothing is remembered.
	Memory  *Memory
	Watched Watched
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
	// rendered is the digest of desired.
	rendered digest
	// live is the UID of the object, empty if it does not exist.
	live types.UID
	// needed is false when applying would change nothing.
	needed bool
}

// Apply applies the objects in the given order, and returns how many it wrote. All objects are validated in a server-side
// dry run first, except those that have not changed since they were seen to be as rendered. If that fails, nothing is written
// and all errors are returned, joined. Errors are *[ForeignObjectError], *[RefusedError], or any other API error, which may be
// retried: a conflict says that an object has appeared, or was replaced, since it was read.
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
		live := c.desired.DeepCopy()
		if err := a.patch(ctx, live, c.live); err != nil {
			return written, refused(c.desired, err)
		}
		a.Memory.put(live, c.rendered)
		written++
	}
	return written, nil
}

func (a *Applier) preflight(ctx context.Context, objects []client.Object, ours Ours) ([]change, error) {
	changes, errs := make([]change, len(objects)), make([]error, len(objects))
	for i, object := range objects {
		changes[i], errs[i] = a.check(ctx, object, ours)
	}
	return changes, errors.Join(errs...)
}

// check finds out whether an object has to be written, with as few requests as that takes: none if it is in the state in which
// it was last seen to be as rendered, and one if it does not exist, or if others have changed nothing but what they may.
func (a *Applier) check(ctx context.Context, object client.Object, ours Ours) (change, error) {
	desired, err := a.toUnstructured(object)
	if err != nil {
		return change{}, err
	}
	c := change{desired: desired, rendered: digestOf(desired.Object)}
	known, err := a.recall(c)
	if err != nil || known.current {
		return c, err
	}
	if known.absent {
		if a.isValidNew(ctx, &c) {
			return c, nil
		}
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(desired.GroupVersionKind())
	err = a.Reader.Get(ctx, client.ObjectKeyFromObject(desired), live)
	switch {
	case apierrors.IsNotFound(err):
		return c, a.validate(ctx, &c, nil)
	case err != nil:
		return c, fmt.Errorf("reading %s: %w", Name(desired), err)
	case !ours(live):
		return c, &ForeignObjectError{Object: Name(desired)}
	}
	if known.live == contentDigest(live) {
		a.Memory.put(live, c.rendered)
		return c, nil
	}
	return c, a.validate(ctx, &c, live)
}

// recollection is what is known of an object without a request.
type recollection struct {
	// live is the digest of the object when it was last seen to be as it is rendered now, or zero.
	live digest
	// current is true if the object has not changed since then.
	current bool
	// absent is true if neither the cache nor the memory have the object.
	absent bool
}

// IsApplied reports, without a request, whether an object was seen to be as it is rendered now, and has not changed since by what the
// cache has of it.
func (a *Applier) IsApplied(object client.Object) bool {
	desired, err := a.toUnstructured(object)
	if err != nil {
		return false
	}
	known, err := a.recall(change{desired: desired, rendered: digestOf(desired.Object)})
	return err == nil && known.current
}

func (a *Applier) recall(c change) (recollection, error) {
	if a.Memory == nil {
		return recollection{}, nil
	}
	kind, key := c.desired.GroupVersionKind(), client.ObjectKeyFromObject(c.desired)
	state, cached, err := a.Watched(kind, key)
	if err != nil {
		return recollection{}, fmt.Errorf("reading %s from the cache: %w", Name(c.desired), err)
	}
	known, isKnown := a.Memory.get(kind.GroupKind(), key)
	if !isKnown || known.rendered != c.rendered {
		return recollection{absent: !cached && !isKnown}, nil
	}
	return recollection{live: known.live, current: cached && known.state == state}, nil
}

// isValidNew validates an object that the cache does not have. It returns false if it is refused, or exists.
func (a *Applier) isValidNew(ctx context.Context, c *change) bool {
	err := a.patch(ctx, c.desired.DeepCopy(), "", client.DryRunAll)
	c.needed = err == nil || c.refused(err) == nil
	return c.needed
}

// validate finds out in a dry run what applying an object would change. Live is nil if it does not exist.
func (a *Applier) validate(ctx context.Context, c *change, live *unstructured.Unstructured) error {
	if live != nil {
		c.live = live.GetUID()
	}
	result := c.desired.DeepCopy()
	if err := a.patch(ctx, result, c.live, client.DryRunAll); err != nil {
		c.needed = true
		return c.refused(err)
	}
	c.needed = live == nil || !equal(live, result)
	if !c.needed {
		a.Memory.put(live, c.rendered)
	}
	return nil
}

// refused returns the error of a dry run, or nil if it says only that a binding cannot be validated before its role exists. The
// role's dry run shows whether the manager may grant its rules.
func (c *change) refused(err error) error {
	if c.live == "" && isBinding(c.desired) && apierrors.IsNotFound(err) {
		return nil
	}
	return refused(c.desired, err)
}

// noVersion is a resourceVersion that no object has: it is that of an empty etcd.
const noVersion = "1"

// patch applies server-side to the object with the UID live, or creates one that does not exist if that is empty. Otherwise it is a conflict:
// to apply without a precondition would adopt what somebody else has created in the meantime, with and without force.
func (a *Applier) patch(ctx context.Context, object *unstructured.Unstructured, live types.UID, options ...client.ApplyOption) error {
	options = append(options, client.FieldOwner(FieldOwner), client.ForceOwnership)
	if object.SetUID(live); live == "" {
		object.SetResourceVersion(noVersion)
	}
	err := a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...)
	if isOtherUID(err) {
		resource := schema.GroupResource{Group: object.GroupVersionKind().Group, Resource: object.GetKind()}
		return apierrors.NewConflict(resource, object.GetName(), errors.New("it was replaced by another object of that name"))
	}
	return err
}

// isOtherUID reports whether an error says that the live object has another UID.
func isOtherUID(err error) bool {
	var invalid apierrors.APIStatus
	return apierrors.IsInvalid(err) && errors.As(err, &invalid) && invalid.Status().Details != nil &&
		slices.ContainsFunc(invalid.Status().Details.Causes, func(cause metav1.StatusCause) bool { return cause.Field == "metadata.uid" })
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
		for _, field := range serverFields {
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
