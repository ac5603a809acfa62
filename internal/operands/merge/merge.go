// Package merge combines the content of a resource from an operator's example, an OperandConfig and the resource as it is. Values
// are those of decoded JSON. They are never changed, and results may share them.
package merge

import (
	"encoding/json"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Merge returns changed, completed by defaults, as the Operand Deployment Lifecycle Manager does: maps are merged; lists of maps are
// merged by index, and have the length of those in changed; of all else, changed has precedence. A null in changed counts as
// absent if there is a default, and a null in defaults always.
func Merge(defaults, changed map[string]any) map[string]any {
	merged := maps.Clone(changed)
	if merged == nil {
		merged = map[string]any{}
	}
	for key, value := range defaults {
		switch {
		case value == nil:
		case merged[key] == nil:
			merged[key] = value
		default:
			merged[key] = mergeValue(value, merged[key])
		}
	}
	return merged
}

func mergeValue(defaults, changed any) any {
	switch changed := changed.(type) {
	case map[string]any:
		if defaults, ok := defaults.(map[string]any); ok {
			return Merge(defaults, changed)
		}
	case []any:
		if defaults, ok := defaults.([]any); ok {
			return mergeItems(defaults, changed)
		}
	}
	return changed
}

// mergeItems merges the maps in two lists. An item that is a map in only one of them is that of changed.
func mergeItems(defaults, changed []any) []any {
	merged := make([]any, len(changed))
	for i, item := range changed {
		merged[i] = item
		if i >= len(defaults) {
			continue
		}
		fields, ok := item.(map[string]any)
		if defaultFields, alsoOK := defaults[i].(map[string]any); ok && alsoOK {
			merged[i] = Merge(defaultFields, fields)
		}
	}
	return merged
}

// Update returns the content of a resource that exists: config has precedence over live, and live over example.
func Update(example, live, config map[string]any) map[string]any {
	return Merge(Merge(example, live), config)
}

// Configuration returns the part of [Update] that is applied to a resource on the server side: the fields that example or config have,
// without nulls. Others are what others wrote into the resource, see [WithoutOwned], so that a field which config has no longer
// gets the value of example again, or none.
func Configuration(example, others, config map[string]any) map[string]any {
	return restrict(Update(example, others, config), Merge(example, config))
}

// restrict returns the fields of a map that shape has.
func restrict(value, shape map[string]any) map[string]any {
	restricted := map[string]any{}
	for key, inner := range shape {
		fields, ok := value[key].(map[string]any)
		if shapeFields, alsoOK := inner.(map[string]any); ok && alsoOK {
			restricted[key] = restrict(fields, shapeFields)
		} else if value[key] != nil {
			restricted[key] = value[key]
		}
	}
	return restricted
}

// Overlay returns what applying a configuration makes of what others wrote. Lists are replaced.
func Overlay(others, configuration map[string]any) map[string]any {
	result := maps.Clone(others)
	if result == nil {
		result = map[string]any{}
	}
	for key, value := range configuration {
		fields, ok := value.(map[string]any)
		if existing, alsoOK := result[key].(map[string]any); ok && alsoOK {
			result[key] = Overlay(existing, fields)
		} else {
			result[key] = value
		}
	}
	return result
}

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
