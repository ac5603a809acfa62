package gate

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// endpointVariable is the field of every spec that names the endpoint.
const endpointVariable = "zosendpoint"

// migrateVariable tells the migration playbook from which version to which the resource is migrated. No resource can set it.
const migrateVariable = "zoscb_migrate"

// watchVariables are the extra vars that ansible-operator adds, or takes from the watch, besides the two object variables.
var watchVariables = []string{
	"ansible_operator_meta", "k8s_managed", "k8s_cr_event", "k8s_cr_group", "k8s_cr_version", "k8s_cr_kind",
	"zoscb_playbook", "zoscb_inventory_name",
}

// ReceivedSpec returns the fields of the spec in the extra vars that ansible-operator has written, with plain values.
func ReceivedSpec(given map[string]any) map[string]any {
	object := objectVariable(given)
	spec := make(map[string]any, len(given))
	for name, value := range given {
		if slices.Contains(watchVariables, name) || object != "" && (name == object || name == object+"_spec") {
			continue
		}
		spec[name] = unmark(value)
	}
	return spec
}

// Declared returns the declared variables of a spec with plain values, defaults included, and the sorted paths of the fields
// that are not declared, such as "pyz" or "owner_info.pyz". zosendpoint is declared. All numbers are json.Number, and those
// of equal value are equal.
func (k KindSettings) Declared(spec map[string]any) (vars map[string]any, ignored []string) {
	declared := slices.DeleteFunc(slices.Clone(k.Variables), func(v Variable) bool {
		return v.Name == migrateVariable || slices.Contains(watchVariables, v.Name)
	})
	declared = append(declared, Variable{Name: endpointVariable})
	vars, ignored = reduceObject(declared, spec, "")
	slices.Sort(ignored)
	return vars, slices.Compact(ignored)
}

// extraVars returns what a playbook with a spec gets of ansible-operator's extra vars: those of the watch, ansible_operator_meta, and the
// declared variables, whose strings are marked as unsafe; and the paths of the fields that were dropped. The variable with
// the whole object is empty, and the one with its spec has the declared fields.
func (k KindSettings) extraVars(spec, given map[string]any) (vars map[string]any, ignored []string) {
	declared, ignored := k.Declared(spec)
	vars = eachField(declared, MarkUnsafe)
	if object := objectVariable(given); object != "" {
		vars[object] = map[string]any{}
		vars[object+"_spec"] = eachField(declared, MarkUnsafe)
	}
	for _, name := range watchVariables {
		if value, ok := given[name]; ok {
			vars[name] = value
		}
	}
	return vars, ignored
}

// SecretNames returns the sorted names of the Secrets that variables name. vars is what Declared returns.
func (k KindSettings) SecretNames(vars map[string]any) []string {
	return named(k.Variables, vars, func(v Variable, name string) string {
		if !v.Secret {
			return ""
		}
		return name
	})
}

// NamesSecrets reports whether a resource of any kind may name Secrets.
func (s Settings) NamesSecrets() bool {
	for _, kind := range s.Kinds {
		if slices.ContainsFunc(kind.Variables, Variable.namesSecrets) {
			return true
		}
	}
	return false
}

func (v Variable) namesSecrets() bool {
	return v.Secret || slices.ContainsFunc(v.Fields, Variable.namesSecrets)
}

// References returns the sorted resources that variables name, as plural/name. vars is what Declared returns.
func (k KindSettings) References(vars map[string]any) []string {
	return named(k.Variables, vars, func(v Variable, name string) string {
		if v.Reference == "" {
			return ""
		}
		return v.Reference + "/" + name
	})
}

// Vars returns what the migration playbook gets: what playbooks get, and the versions. playbook is its path.
func (m Migration) Vars(vars map[string]any, playbook string) map[string]any {
	vars = maps.Clone(vars)
	vars["zoscb_playbook"] = playbook
	vars[migrateVariable] = MarkUnsafe(map[string]any{"from": m.From, "to": m.To})
	return vars
}

// objectVariable returns the name of the variable with the whole object, or "" if the watch does not say the kind.
func objectVariable(given map[string]any) string {
	group, _ := given["k8s_cr_group"].(string)
	kind, _ := given["k8s_cr_kind"].(string)
	if kind == "" {
		return ""
	}
	return ObjectVariable(group, kind)
}

// ObjectVariable returns the name of the variable in which ansible-operator 1.34.1 passes the whole resource to playbooks. The same with the
// suffix _spec has the spec.
func ObjectVariable(group, kind string) string {
	return strings.NewReplacer(".", "_", "-", "_").Replace("_" + group + "_" + strings.ToLower(kind))
}

// reduceObject returns the declared fields of an object, and the paths of the others. Like the API server, it gives fields
// that are null their default.
func reduceObject(declared []Variable, object map[string]any, path string) (fields map[string]any, ignored []string) {
	fields = make(map[string]any, len(declared))
	for _, v := range declared {
		value, given := object[v.Name]
		if value == nil {
			if byDefault, ok := v.defaultValue(); ok {
				value, given = byDefault, true
			}
		}
		if !given {
			continue
		}
		reduced, dropped := v.reduce(value, path+v.Name)
		fields[v.Name] = reduced
		ignored = append(ignored, dropped...)
	}
	for name := range object {
		if !slices.ContainsFunc(declared, func(v Variable) bool { return v.Name == name }) {
			ignored = append(ignored, path+name)
		}
	}
	return fields, ignored
}

// reduce reduces an object, or the objects in a list, to the declared fields.
func (v Variable) reduce(value any, path string) (reduced any, ignored []string) {
	if len(v.Fields) == 0 {
		return normalize(value), nil
	}
	switch value := value.(type) {
	case map[string]any:
		return reduceObject(v.Fields, value, path+".")
	case []any:
		reduced := each(value, func(item any) any {
			item, dropped := v.reduce(item, path)
			ignored = append(ignored, dropped...)
			return item
		})
		return reduced, ignored
	}
	return normalize(value), nil
}

func (v Variable) defaultValue() (value any, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(v.Default))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil || value == nil {
		return nil, false
	}
	return value, true
}

// named returns the sorted results of name, without empty ones, for the texts in the values of variables.
func named(declared []Variable, values map[string]any, name func(Variable, string) string) []string {
	var names []string
	for _, v := range declared {
		names = append(names, v.named(values[v.Name], name)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (v Variable) named(value any, name func(Variable, string) string) []string {
	switch value := value.(type) {
	case string:
		if n := name(v, value); n != "" && value != "" {
			return []string{n}
		}
	case map[string]any:
		return named(v.Fields, value, name)
	case []any:
		var names []string
		for _, item := range value {
			names = append(names, v.named(item, name)...)
		}
		return names
	}
	return nil
}
