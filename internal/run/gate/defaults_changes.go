package gate

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// ChangedDefault is a field whose default differs between the last run and the installed version.
type ChangedDefault struct {
	// Field is a path such as "owner_info.mode". Members of the objects in a list have that of the list.
	Field string
	// Supplied is what playbooks get, and Present what the installed version would give. Both are JSON; "" means nothing.
	Supplied, Present string
}

// Kept returns the fields that playbooks get with the default of a former version, sorted.
func (s Supply) Kept(spec map[string]any) []ChangedDefault {
	if len(s.kept) == 0 {
		return nil
	}
	supplied, _ := s.Declared(spec)
	present, _ := s.present.Declared(spec)
	found := map[string]ChangedDefault{}
	differences(s.present.Variables, supplied, present, "", found)
	return sortedChanges(found)
}

func differences(declared []Variable, supplied, present map[string]any, prefix string, found map[string]ChangedDefault) {
	for _, v := range declared {
		a, b, path := supplied[v.Name], present[v.Name], prefix+v.Name
		if reflect.DeepEqual(a, b) {
			continue
		}
		for i, object := range objectsOf(a) {
			if others := objectsOf(b); len(v.Fields) > 0 && i < len(others) {
				differences(v.Fields, object, others[i], path+".", found)
			}
		}
		if len(v.Fields) == 0 || objectsOf(a) == nil {
			if _, known := found[path]; !known {
				found[path] = ChangedDefault{Field: path, Supplied: jsonText(a), Present: jsonText(b)}
			}
		}
	}
}

// objectsOf returns an object, or the objects in a list.
func objectsOf(value any) []map[string]any {
	switch value := value.(type) {
	case map[string]any:
		return []map[string]any{value}
	case []any:
		return objectsIn(value)
	}
	return nil
}

// New returns the fields whose present default the next run gets and the last one did not get, sorted: the version declares them
// for the first time, or with a default for the first time, or the former default is not recorded.
func (s Supply) New(key Key, spec map[string]any) []ChangedDefault {
	if s.last == nil || s.last.RunID == "" {
		return nil
	}
	vars, _ := s.Declared(spec)
	now := map[string]string{}
	key.addVariables(now, "", s.Kind.Variables, vars)
	ran := s.RanWith(vars).Values
	found := map[string]ChangedDefault{}
	for path, hash := range now {
		before := s.last.ran().Variables[path]
		usual := strings.HasPrefix(hash, byDefault) && hash != before
		if usual && (before == "" || before == notSet || strings.HasPrefix(before, byDefault)) {
			found[path] = ChangedDefault{Field: path, Supplied: string(ran[path]), Present: string(ran[path])}
		}
	}
	if s.last.Defaults == nil {
		return sortedChanges(found)
	}
	for path, value := range ran {
		_, declared := now[path]
		if _, before := s.last.Defaults.Values[path]; !declared && !before {
			found[path] = ChangedDefault{Field: path, Supplied: string(value), Present: string(value)}
		}
	}
	return sortedChanges(found)
}

// WithoutNew returns what Declared returned without the variables that have their default and that the last run of the resource
// did not know.
func (s Supply) WithoutNew(vars map[string]any) map[string]any {
	if s.last == nil || s.last.RunID == "" {
		return vars
	}
	return s.withoutNew(s.Kind.Variables, vars, "")
}

func (s Supply) withoutNew(declared []Variable, vars map[string]any, prefix string) map[string]any {
	vars = maps.Clone(vars)
	for _, v := range declared {
		path := prefix + v.Name
		if object, ok := vars[v.Name].(map[string]any); ok && len(v.Fields) > 0 {
			vars[v.Name] = s.withoutNew(v.Fields, object, path+".")
			continue
		}
		if before := s.last.ran().Variables[path]; (before == "" || before == notSet) && v.hasDefault(vars[v.Name]) {
			delete(vars, v.Name)
		}
	}
	return vars
}

func sortedChanges(found map[string]ChangedDefault) []ChangedDefault {
	changes := make([]ChangedDefault, 0, len(found))
	for _, path := range slices.Sorted(maps.Keys(found)) {
		changes = append(changes, found[path])
	}
	return changes
}

func jsonText(value any) string {
	if value == nil {
		return ""
	}
	return string(document(value))
}
