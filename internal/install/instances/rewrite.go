package instances

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

const (
	// rewritePage is the number of custom resources that are rewritten at a time.
	rewritePage = 50
	// maxProblemBytes limits the reason why a custom resource could not be rewritten.
	maxProblemBytes = 512
	// rewriter is the field manager of the rewriting. It owns no field.
	rewriter = "collection-operator-rewriter"
)

// errWouldChange says that a write through a version would change a custom resource.
var errWouldChange = errors.New("the API server would change its spec")

// Rewrite makes the API server store the next page of the custom resources of a CRD in its storage version, and adds to the record
// what was done. Their spec, generation and the owners of their fields remain as they are. A custom resource that the API server refuses to write
// so is counted as failed. After the last page, Continue is empty. After any other error the record is as it was, and the page is to be
// repeated.
func (f *Finder) Rewrite(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition, recorded *crd.Rewriting) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{
		Group: definition.Spec.Group, Version: servedVersion(definition), Kind: definition.Spec.Names.ListKind,
	})
	err := f.Reader.List(ctx, list, client.Limit(rewritePage), client.Continue(recorded.Continue))
	page := *recorded
	if next, expired := continueAfterExpiry(err); expired {
		page.Continue = next
		err = f.Reader.List(ctx, list, client.Limit(rewritePage), client.Continue(next))
	}
	if err != nil {
		return fmt.Errorf("listing %s: %w", definition.Name, err)
	}
	if page.Continue == "" {
		page.Done, page.Total, page.Failed = 0, 0, 0
	}
	if page.Failed == 0 {
		page.Problem = ""
	}
	for i := range list.Items {
		item := &list.Items[i]
		if err := f.rewriteOne(ctx, definition, item); err != nil {
			err = fmt.Errorf("%s %s/%s: %w", definition.Spec.Names.Kind, item.Namespace, item.Name, err)
			if !isRefused(err) {
				return err
			}
			page.Refuse(printable.Line(err.Error(), maxProblemBytes))
		}
		page.Done++
	}
	remaining := int64(0)
	if list.RemainingItemCount != nil {
		remaining = *list.RemainingItemCount
	}
	page.Total = max(page.Total, page.Done+int(remaining))
	page.Continue = list.Continue
	*recorded = page
	return nil
}

// isRefused says whether a write fails again if nothing changes.
func isRefused(err error) bool {
	return errors.Is(err, errWouldChange) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
}

// continueAfterExpiry returns the token with which a list goes on after its own has expired. What was created since then is stored in
// the storage version.
func continueAfterExpiry(err error) (token string, expired bool) {
	var status apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return "", false
	}
	return status.Status().Continue, true
}

// rewriteOne returns nil for a custom resource that is gone, or was written by somebody else meanwhile.
func (f *Finder) rewriteOne(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition, item *metav1.PartialObjectMetadata) error {
	var problem error
	for _, version := range versionsToWrite(definition, item.ManagedFields) {
		wrote, err := f.renameManagers(ctx, definition, version, item)
		if !wrote && err == nil && len(definition.Status.StoredVersions) > 1 {
			err = f.applyNothing(ctx, definition, version, item)
		}
		if err == nil || apierrors.IsConflict(err) {
			return nil
		}
		problem = err
		if !isRefused(err) {
			break
		}
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(schema.GroupVersionKind{Group: definition.Spec.Group, Version: servedVersion(definition), Kind: definition.Spec.Names.Kind})
	if err := f.Reader.Get(ctx, client.ObjectKeyFromObject(item), live); apierrors.IsNotFound(err) {
		return nil
	}
	return problem
}

// applyNothing applies, server-side, no field. An API server then sets no default, unlike for an update, and stores what was stored
// before in the storage version. As a precaution against API servers that do otherwise, it is tried without effect first.
func (f *Finder) applyNothing(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition, version string, item *metav1.PartialObjectMetadata) error {
	nothing := &metav1.PartialObjectMetadata{}
	nothing.SetGroupVersionKind(schema.GroupVersionKind{Group: definition.Spec.Group, Version: version, Kind: definition.Spec.Names.Kind})
	nothing.Namespace, nothing.Name = item.Namespace, item.Name
	content, err := json.Marshal(map[string]any{
		"apiVersion": nothing.APIVersion, "kind": nothing.Kind,
		"metadata": map[string]any{
			"namespace": item.Namespace, "name": item.Name,
			// With both, one that was deleted is not created, nor is another one of its name written.
			"uid": item.UID, "resourceVersion": item.ResourceVersion,
		},
	})
	if err != nil {
		return err
	}
	patch := client.RawPatch(types.ApplyPatchType, content)
	tried := nothing.DeepCopy()
	if err := f.Client.Patch(ctx, tried, patch, client.FieldOwner(rewriter), client.DryRunAll); err != nil {
		return err
	}
	if tried.Generation != item.Generation {
		return errWouldChange
	}
	return f.Client.Patch(ctx, nothing, patch, client.FieldOwner(rewriter))
}

// versionsToWrite are the versions through which a custom resource may be written, the best first: the one through which its spec was
// written last, whose rules it follows, and then those in which it may be stored, the oldest first.
func versionsToWrite(definition *apiextensionsv1.CustomResourceDefinition, managers []metav1.ManagedFieldsEntry) []string {
	var versions []string
	var last metav1.Time
	for _, manager := range managers {
		if manager.Subresource != "" || manager.FieldsV1 == nil || !bytes.Contains(manager.FieldsV1.GetRawBytes(), []byte(`"f:spec"`)) {
			continue
		}
		if version, err := schema.ParseGroupVersion(manager.APIVersion); err == nil && (versions == nil || manager.Time != nil && !manager.Time.Before(&last)) {
			versions, last = []string{version.Version}, ptr.Deref(manager.Time, metav1.Time{})
		}
	}
	for _, version := range slices.Backward(definition.Spec.Versions) {
		if slices.Contains(definition.Status.StoredVersions, version.Name) && !slices.Contains(versions, version.Name) {
			versions = append(versions, version.Name)
		}
	}
	return slices.DeleteFunc(versions, func(version string) bool { return !apihelpers.HasServedCRDVersion(definition, version) })
}

// renameManagers lets a custom resource name no version of its kind that ends as that of a field manager: once such a version is
// removed, the API server refuses to apply the custom resource server-side, and forgets all owners of fields when it is changed
// otherwise. Fields keep their owners. It writes through a version, and reports whether there was anything to write, after which the
// custom resource is stored in the storage version.
func (f *Finder) renameManagers(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition, through string, item *metav1.PartialObjectMetadata) (wrote bool, err error) {
	to := schema.GroupVersion{Group: definition.Spec.Group, Version: StorageVersion(definition)}
	managers, err := renamed(definition, to, item.ManagedFields)
	if err != nil || managers == nil {
		return false, err
	}
	patch, err := json.Marshal([]map[string]any{
		// With these, a custom resource that was written meanwhile is a conflict, and so is another one of its name.
		{"op": "replace", "path": "/metadata/uid", "value": item.UID},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": item.ResourceVersion},
		{"op": "replace", "path": "/metadata/managedFields", "value": managers},
	})
	if err != nil {
		return false, err
	}
	written := &metav1.PartialObjectMetadata{}
	written.SetGroupVersionKind(schema.GroupVersionKind{Group: to.Group, Version: through, Kind: definition.Spec.Names.Kind})
	written.Namespace, written.Name = item.Namespace, item.Name
	tried := written.DeepCopy()
	if err := f.Client.Patch(ctx, tried, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(rewriter), client.DryRunAll); err != nil {
		return false, err
	}
	if tried.Generation != item.Generation {
		return false, errWouldChange
	}
	return true, f.Client.Patch(ctx, written, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(rewriter))
}

// renamed returns the field managers with those of versions that end as managers of another one, or nil if there are none.
// Managers that become the same own the fields of both.
func renamed(definition *apiextensionsv1.CustomResourceDefinition, to schema.GroupVersion, managers []metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, error) {
	changed := false
	var all []metav1.ManagedFieldsEntry
	for _, entry := range managers {
		version, err := schema.ParseGroupVersion(entry.APIVersion)
		if err == nil && version.Group == to.Group && ends(definition, version.Version) {
			entry.APIVersion, changed = to.String(), true
		}
		same := slices.IndexFunc(all, func(other metav1.ManagedFieldsEntry) bool {
			return other.Manager == entry.Manager && other.Operation == entry.Operation && other.Subresource == entry.Subresource && other.APIVersion == entry.APIVersion
		})
		if same < 0 {
			all = append(all, entry)
			continue
		}
		if all[same], err = joined(all[same], entry); err != nil {
			return nil, err
		}
	}
	if !changed {
		return nil, nil
	}
	return all, nil
}

// joined returns a field manager that owns the fields of both.
func joined(a, b metav1.ManagedFieldsEntry) (metav1.ManagedFieldsEntry, error) {
	var sets [2]fieldpath.Set
	for i, entry := range []metav1.ManagedFieldsEntry{a, b} {
		if entry.FieldsV1 == nil {
			continue
		}
		if err := sets[i].FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
			return a, fmt.Errorf("fields of manager %q: %w", entry.Manager, err)
		}
	}
	fields, err := sets[0].Union(&sets[1]).ToJSON()
	if err != nil {
		return a, fmt.Errorf("fields of manager %q: %w", a.Manager, err)
	}
	a.FieldsV1 = metav1.NewFieldsV1(string(fields))
	if a.Time.Before(b.Time) {
		a.Time = b.Time
	}
	return a, nil
}

// ends reports whether a version is deprecated, not served any more, or removed.
func ends(definition *apiextensionsv1.CustomResourceDefinition, version string) bool {
	for _, v := range definition.Spec.Versions {
		if v.Name == version {
			return v.Deprecated || !v.Served
		}
	}
	return true
}
