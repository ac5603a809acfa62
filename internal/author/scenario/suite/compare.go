package suite

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// difference is a field that is not as expected.
type difference struct{ path, expected, got string }

// compare returns what of the expected value is missing in another one. Mappings may have more keys, and lists more items.
func compare(expected, got any, path string) []difference {
	switch expected := expected.(type) {
	case map[string]any:
		fields, ok := got.(map[string]any)
		if !ok && expected != nil {
			return []difference{{path, text(expected), text(got)}}
		}
		var out []difference
		for _, name := range slices.Sorted(maps.Keys(expected)) {
			value, found := fields[name]
			if !found {
				out = append(out, difference{path + "." + name, text(expected[name]), "nothing"})
				continue
			}
			out = append(out, compare(expected[name], value, path+"."+name)...)
		}
		return out
	case []any:
		items, ok := got.([]any)
		if !ok {
			return []difference{{path, text(expected), text(got)}}
		}
		var out []difference
		for _, wanted := range expected {
			if !slices.ContainsFunc(items, func(item any) bool { return len(compare(wanted, item, path)) == 0 }) {
				out = append(out, difference{path, "an item " + text(wanted), text(got)})
			}
		}
		return out
	}
	if reflect.DeepEqual(number(expected), number(got)) {
		return nil
	}
	return []difference{{path, text(expected), text(got)}}
}

// number makes integers comparable with other numbers.
func number(v any) any {
	if n, ok := v.(int64); ok {
		return float64(n)
	}
	return v
}

func text(v any) string {
	content, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(content)
}

// expectations describes differences, one in each line.
func expectations(differences []difference) (expected, got string) {
	var wanted, found []string
	for _, d := range differences {
		wanted = append(wanted, d.path+": "+d.expected)
		found = append(found, d.path+": "+d.got)
	}
	return strings.Join(wanted, "\n"), strings.Join(found, "\n")
}
