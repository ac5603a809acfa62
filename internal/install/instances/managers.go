package instances

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

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
