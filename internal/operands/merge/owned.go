package merge

import (
	"encoding/json"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fields are a set of fields as in managedFields: f:<name> for fields, other keys for items of lists, and "." for the value itself.
type fields map[string]fields

// WithoutOwned returns the content of an object without the fields that only the given field manager has applied.
func WithoutOwned(content map[string]any, managed []metav1.ManagedFieldsEntry, manager string) map[string]any {
	ours, others := fields{}, fields{}
	for _, entry := range managed {
		var set fields
		if entry.Subresource != "" || entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &set) != nil {
			continue
		}
		if entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply {
			ours.add(set)
		} else {
			others.add(set)
		}
	}
	return without(content, ours, others)
}

// Owns reports whether a field manager has applied any of the fields at a path, such as f:spec, f:mapping.
func Owns(managed []metav1.ManagedFieldsEntry, manager string, path ...string) bool {
	for _, entry := range managed {
		var set fields
		if entry.Manager != manager || entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &set) != nil {
			continue
		}
		found := true
		for _, name := range path {
			set, found = set[name]
			if !found {
				break
			}
		}
		if found {
			return true
		}
	}
	return false
}

func (f fields) add(set fields) {
	for name, inner := range set {
		if f[name] == nil {
			f[name] = fields{}
		}
		f[name].add(inner)
	}
}

func without(content map[string]any, ours, others fields) map[string]any {
	rest := maps.Clone(content)
	for key, inner := range ours {
		name, isField := strings.CutPrefix(key, "f:")
		value, exists := rest[name]
		if !isField || !exists {
			continue
		}
		shared, isShared := others[key]
		if object, ok := value.(map[string]any); ok && len(inner) > 0 {
			remaining := without(object, inner, shared)
			if len(remaining) > 0 || isShared {
				rest[name] = remaining
				continue
			}
		}
		if !isShared {
			delete(rest, name)
		}
	}
	return rest
}
