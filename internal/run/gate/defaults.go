package gate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// maxDefaults limits the paths and values in Defaults, in bytes together.
const maxDefaults = 16 << 10

// Supply is what playbooks get of a spec. A default that another version of the collection has changed does not reach a
// resource that ran with the former one: the former one is supplied instead.
type Supply struct {
	// Kind has the defaults that are supplied.
	Kind KindSettings
	// present has those of the installed version.
	present KindSettings
	// last is the record of the last run, or nil.
	last *Record
	// kept has, by path, the defaults that are replaced with that of the last run, unless somebody has set them.
	kept map[string][]json.RawMessage
	set  Set
}

// NewSupply returns what playbooks get of a resource of a kind. last is the record of its last run, or nil. accepts is true if
// AnnotationAcceptDefaults has the installed version.
func NewSupply(kind KindSettings, last *Record, set Set, accepts bool) Supply {
	s := Supply{Kind: kind, present: kind, last: last, kept: map[string][]json.RawMessage{}, set: set}
	if last != nil && last.Defaults != nil && !accepts {
		s.Kind.Variables = s.withFormer(kind.Variables, "")
	}
	return s
}

// withFormer returns the variables with the defaults of the last run.
func (s Supply) withFormer(declared []Variable, prefix string) []Variable {
	former := slices.Clone(declared)
	for i, v := range former {
		path := prefix + v.Name
		if value, ok := s.last.Defaults.Values[path]; ok {
			former[i].Default = value
			if replaced := s.replaced(path, value, v.Default); !slices.Contains(s.last.Defaults.Mixed, path) && len(replaced) > 0 {
				s.kept[path] = replaced
			}
		}
		if len(v.Fields) > 0 {
			former[i].Fields = s.withFormer(v.Fields, path+".")
		}
	}
	return former
}

// replaced returns the defaults that the former default of a field replaces: the present one, and those of versions in between.
func (s Supply) replaced(path string, former, present json.RawMessage) []json.RawMessage {
	replaced := slices.Clone(s.last.Defaults.Replaced[path])
	isKnown := func(value json.RawMessage) bool { return sameJSON(value, present) }
	if !sameJSON(former, present) && !slices.ContainsFunc(replaced, isKnown) {
		replaced = append(replaced, present)
	}
	return replaced
}

// replaces reports whether the former default of a field replaces a value.
func (s Supply) replaces(path string, value any) bool {
	return slices.ContainsFunc(s.kept[path], func(usual json.RawMessage) bool { return Variable{Default: usual}.hasDefault(value) })
}

// Declared is like KindSettings.Declared.
func (s Supply) Declared(spec map[string]any) (vars map[string]any, ignored []string) {
	return s.Kind.Declared(s.withoutUnset(spec))
}

// ExtraVars returns what a playbook gets of ansible-operator's extra vars: those of the watch, ansible_operator_meta, and the declared
// variables, whose strings are marked as unsafe; and the paths of the fields that were dropped.
func (s Supply) ExtraVars(given map[string]any) (vars map[string]any, ignored []string) {
	return s.Kind.extraVars(s.withoutUnset(ReceivedSpec(given)), given)
}

func (s Supply) withoutUnset(spec map[string]any) map[string]any {
	if len(s.kept) == 0 {
		return spec
	}
	return s.strip(s.present.Variables, spec, place{applied: s.set.applied})
}

// place is where strip is in a spec: the prefix of paths, what kubectl apply has applied there, and whether it is in a list.
type place struct {
	prefix  string
	applied map[string]any
	inList  bool
}

// strip returns a copy of an object without the fields that nobody has set to their present default, so that they get the
// former one.
func (s Supply) strip(declared []Variable, object map[string]any, at place) map[string]any {
	object = maps.Clone(object)
	for _, v := range declared {
		value, path := object[v.Name], at.prefix+v.Name
		if value == nil {
			continue
		}
		if s.replaces(path, value) && !s.isSet(path, v.Name, at) {
			delete(object, v.Name)
			continue
		}
		if len(v.Fields) == 0 {
			continue
		}
		applied := at.applied[v.Name]
		switch value := value.(type) {
		case map[string]any:
			members, _ := applied.(map[string]any)
			object[v.Name] = s.strip(v.Fields, value, place{path + ".", members, at.inList})
		case []any:
			object[v.Name] = s.stripItems(v.Fields, value, path+".", applied)
		}
	}
	return object
}

func (s Supply) stripItems(declared []Variable, list []any, prefix string, applied any) []any {
	appliedList, _ := applied.([]any)
	stripped := slices.Clone(list)
	for i, item := range stripped {
		object, ok := item.(map[string]any)
		if !ok {
			continue
		}
		at := place{prefix: prefix, inList: true}
		if i < len(appliedList) {
			at.applied, _ = appliedList[i].(map[string]any)
		}
		stripped[i] = s.strip(declared, object, at)
	}
	return stripped
}

// Fingerprint is like Key.Fingerprint, of what is supplied. The present default of a variable counts as another value if somebody has
// set it, and the last run had another default that is not recorded.
func (s Supply) Fingerprint(key Key, f Facts) Fingerprint {
	f.Kind = s.Kind
	now := key.Fingerprint(f)
	if s.last == nil {
		return now
	}
	before := s.last.ran().Variables
	for path, hash := range now.Variables {
		areDefaults := strings.HasPrefix(hash, byDefault) && strings.HasPrefix(before[path], byDefault)
		if areDefaults && hash != before[path] && s.set.has(path) {
			now.Variables[path] = strings.TrimPrefix(hash, byDefault)
		}
	}
	return now
}

// isSet reports whether somebody has set a field. Of lists, managedFields only say who has set the whole list.
func (s Supply) isSet(path, name string, at place) bool {
	if _, ok := at.applied[name]; ok {
		return true
	}
	return !at.inList && s.set.owned(path)
}

// RanWith returns the defaults in what Declared returned.
func (s Supply) RanWith(vars map[string]any) *Defaults {
	d := &Defaults{Values: map[string]json.RawMessage{}, Replaced: map[string][]json.RawMessage{}}
	d.add(s.Kind.Variables, vars, "")
	for path, replaced := range s.kept {
		if d.Values[path] != nil {
			d.Replaced[path] = replaced
		}
	}
	d.bound()
	// A list in which a default is kept may have the later one as well, where somebody has set it.
	d.Mixed = slices.DeleteFunc(d.Mixed, func(path string) bool { return d.Values[path] == nil || s.kept[path] != nil })
	slices.Sort(d.Mixed)
	return d
}

// bound leaves out what exceeds maxDefaults.
func (d *Defaults) bound() {
	size := func(path string) int { return len(path) + len(d.Values[path]) + len(document(d.Replaced[path])) }
	total := 0
	for _, path := range slices.SortedFunc(maps.Keys(d.Values), func(a, b string) int {
		return cmp.Or(cmp.Compare(size(a), size(b)), strings.Compare(a, b))
	}) {
		if total += size(path); total > maxDefaults {
			delete(d.Values, path)
			delete(d.Replaced, path)
		}
	}
}

func (d *Defaults) add(declared []Variable, values map[string]any, prefix string) {
	for _, v := range declared {
		value, path := values[v.Name], prefix+v.Name
		if value != nil && v.hasDefault(value) {
			d.Values[path] = compact(v.Default)
		}
		switch value := value.(type) {
		case map[string]any:
			d.add(v.Fields, value, path+".")
		case []any:
			d.addItems(v.Fields, objectsIn(value), path+".")
		}
	}
}

// addItems adds the defaults of the members of the objects in a list.
func (d *Defaults) addItems(declared []Variable, items []map[string]any, prefix string) {
	for _, v := range declared {
		path := prefix + v.Name
		if _, ok := v.defaultValue(); ok {
			d.Values[path] = compact(v.Default)
			differs := func(item map[string]any) bool { return !v.hasDefault(item[v.Name]) }
			if len(items) == 0 || slices.ContainsFunc(items, differs) {
				d.Mixed = append(d.Mixed, path)
			}
		}
		if len(v.Fields) == 0 {
			continue
		}
		var members []map[string]any
		for _, item := range items {
			switch value := item[v.Name].(type) {
			case map[string]any:
				members = append(members, value)
			case []any:
				members = append(members, objectsIn(value)...)
			}
		}
		d.addItems(v.Fields, members, path+".")
	}
}

// differFrom reports whether a default that the last run had is another one now. Hashes of lists do not tell.
func (d *Defaults) differFrom(last *Defaults) bool {
	if d == nil || last == nil {
		return false
	}
	for path, value := range last.Values {
		if now, ok := d.Values[path]; ok && !sameJSON(now, value) && !slices.Contains(last.Mixed, path) {
			return true
		}
	}
	return false
}

func objectsIn(list []any) []map[string]any {
	var objects []map[string]any
	for _, item := range list {
		if object, ok := item.(map[string]any); ok {
			objects = append(objects, object)
		}
	}
	return objects
}

// hasDefault reports whether a value is the default of the variable.
func (v Variable) hasDefault(value any) bool {
	usual, ok := v.defaultValue()
	return ok && reflect.DeepEqual(normalize(value), normalize(usual))
}

func sameJSON(a, b json.RawMessage) bool {
	first, ok := Variable{Default: a}.defaultValue()
	second, alsoOK := Variable{Default: b}.defaultValue()
	return ok == alsoOK && reflect.DeepEqual(normalize(first), normalize(second))
}

func compact(value json.RawMessage) json.RawMessage {
	var out bytes.Buffer
	if err := json.Compact(&out, value); err != nil {
		return value // defaultValue has decoded it.
	}
	return out.Bytes()
}
