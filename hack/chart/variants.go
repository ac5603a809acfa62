package main

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// A mapping, a sequence, a scalar or a template is the value of an entry.
type (
	mapping  []entry
	sequence []entry
	// template returns lines of a Helm template for a given indentation.
	template func(indent int) string
)

// entry is a field of a mapping, or an item of a sequence.
type entry struct {
	// key is empty for items of sequences, and for templates that write fields themselves.
	key string
	// when is the condition under which the entry exists, an expression of Go templates. Always, if empty.
	when string
	// each is what an object is repeated for, an expression of Go templates. It exists once, if empty.
	each  string
	value any
}

// variant is what kustomize builds with one component.
type variant struct {
	// when is the condition that selects the component.
	when  string
	value any
}

// missing is the value of a field that a variant does not have.
type missing struct{}

// convert turns a decoded YAML value into one of the types of this file, with fields sorted by name.
func convert(value any) any {
	switch value := value.(type) {
	case map[string]any:
		var m mapping
		for _, key := range slices.Sorted(maps.Keys(value)) {
			m = append(m, entry{key: key, value: convert(value[key])})
		}
		return m
	case []any:
		s := sequence{}
		for _, item := range value {
			s = append(s, entry{value: convert(item)})
		}
		return s
	default:
		return value
	}
}

// merge returns the entries that give base without components, and each variant's value with its component. Two components may
// not change the same value in different ways.
func merge(key string, base any, variants []variant) ([]entry, error) {
	variants = slices.DeleteFunc(slices.Clone(variants), func(v variant) bool { return reflect.DeepEqual(v.value, base) })
	if len(variants) == 0 {
		return []entry{{key: key, value: convert(base)}}, nil
	}
	if merged, ok, err := mergeInside(key, base, variants); ok || err != nil {
		return merged, err
	}
	conditions := make([]string, 0, len(variants))
	for _, v := range variants {
		if !reflect.DeepEqual(v.value, variants[0].value) {
			return nil, fmt.Errorf("%s: the components of %s and %s change it in different ways", key, variants[0].when, v.when)
		}
		conditions = append(conditions, v.when)
	}
	var entries []entry
	if _, ok := base.(missing); !ok {
		entries = append(entries, entry{key: key, when: negation(conditions), value: convert(base)})
	}
	if changed := variants[0].value; changed != (missing{}) {
		entries = append(entries, entry{key: key, when: disjunction(conditions), value: convert(changed)})
	}
	return entries, nil
}

// mergeInside merges mappings field by field, and lists item by item, if all values are of the same type. It reports whether
// that is possible.
func mergeInside(key string, base any, variants []variant) ([]entry, bool, error) {
	switch base := base.(type) {
	case map[string]any:
		for _, v := range variants {
			if _, ok := v.value.(map[string]any); !ok {
				return nil, false, nil
			}
		}
		merged, err := mergeFields(base, variants)
		return []entry{{key: key, value: merged}}, true, err
	case []any:
		merged, ok, err := mergeItems(base, variants)
		return []entry{{key: key, value: merged}}, ok, err
	}
	return nil, false, nil
}

func mergeFields(base map[string]any, variants []variant) (mapping, error) {
	keys := map[string]bool{}
	for key := range base {
		keys[key] = true
	}
	for _, v := range variants {
		for key := range v.value.(map[string]any) {
			keys[key] = true
		}
	}
	var merged mapping
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		fields := make([]variant, len(variants))
		for i, v := range variants {
			fields[i] = variant{when: v.when, value: field(v.value.(map[string]any), key)}
		}
		entries, err := merge(key, field(base, key), fields)
		if err != nil {
			return nil, err
		}
		merged = append(merged, entries...)
	}
	return merged, nil
}

func field(object map[string]any, key string) any {
	if value, ok := object[key]; ok {
		return value
	}
	return missing{}
}

// mergeItems merges lists whose variants have the items of base in the same order, with further ones. An item with a name is
// the same if the name is. It reports whether the lists are like that.
func mergeItems(base []any, variants []variant) (sequence, bool, error) {
	// same[i] are the variants of base[i], and added[i] are the items before it.
	same, added := make([][]variant, len(base)), make([][]entry, len(base)+1)
	for _, v := range variants {
		items, ok := v.value.([]any)
		if !ok {
			return nil, false, nil
		}
		position := 0
		for _, item := range items {
			if position < len(base) && identical(base[position], item) {
				same[position] = append(same[position], variant{when: v.when, value: item})
				position++
				continue
			}
			added[position] = append(added[position], entry{when: v.when, value: convert(item)})
		}
		if position < len(base) {
			return nil, false, nil
		}
	}
	var merged sequence
	for i, item := range base {
		merged = append(merged, added[i]...)
		entries, err := merge("", item, same[i])
		if err != nil {
			return nil, false, err
		}
		merged = append(merged, entries...)
	}
	return append(merged, added[len(base)]...), true, nil
}

func identical(a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	first, ok := a.(map[string]any)
	second, alsoOK := b.(map[string]any)
	return ok && alsoOK && first["name"] != nil && first["name"] == second["name"]
}

func disjunction(conditions []string) string {
	if len(conditions) == 1 {
		return conditions[0]
	}
	return "or (" + strings.Join(conditions, ") (") + ")"
}

func negation(conditions []string) string {
	if rest, ok := strings.CutPrefix(conditions[0], "not "); ok && len(conditions) == 1 {
		return rest
	}
	return "not (" + disjunction(conditions) + ")"
}
