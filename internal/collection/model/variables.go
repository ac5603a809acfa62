package model

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// maxKindLength leaves room for "List" in a name of at most 63 characters.
const maxKindLength = validation.DNS1035LabelMaxLength - len("List")

// readDisplayName reads a displayName that the specification asks for. The name is used if there is none.
func readDisplayName(v findings.Value, name string) string {
	if v.Blank() {
		v.Report(ruleDisplayName, "is required by the specification; the name is shown instead")
		return name
	}
	return v.Text()
}

var (
	// identifier is what Ansible accepts as a variable or group name.
	identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	kindName   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`)
)

var varKeys = []string{
	"name", "displayName", "type", "options", "required", "default", "description", "kindReference", "objectVariables", "array",
}

var (
	varTypes  = []VarType{String, Number, Integer, Boolean, Password, Object}
	typeNames = []string{string(String), string(Number), string(Integer), string(Boolean), string(Password), string(Object)}
)

// varLevel says where a variable stands: in a resource's vars ("Resource Variables"), or in another variable's
// objectVariables ("Object Variables").
type varLevel int

const (
	resourceVar varLevel = iota
	objectField
)

// readVars reads the variables of one resource or object. Their names are unique.
func readVars(v findings.Value, level varLevel) []Var {
	items := v.List()
	vars := make([]Var, 0, len(items))
	lines := make(map[string]int, len(items))
	for _, item := range items {
		m, ok := item.Mapping()
		if !ok {
			vars = append(vars, Var{}) // Positions stay those of the file.
			continue
		}
		variable := readVar(m, level)
		name := m.Get("name")
		variable.Place = name.Place()
		if first, twice := lines[variable.Name]; twice && variable.Name != "" {
			name.Report(ruleVarUnique, "%s is given twice, first in line %d", findings.Quote(variable.Name), first)
		} else {
			lines[variable.Name] = name.Place().Line
		}
		vars = append(vars, variable)
	}
	return vars
}

func readVar(m findings.Mapping, level varLevel) Var {
	m.WarnUnknown(varKeys...)
	v := Var{
		Name:        readVarName(m.Get("name"), level),
		Description: m.Get("description").Text(),
		Type:        readVarType(m.Get("type"), level),
		Required:    m.Get("required").Boolean(),
		Array:       m.Get("array").Boolean(),
	}
	v.DisplayName = readDisplayName(m.Get("displayName"), v.Name)
	checkArray(m.Get("array"), v, level)
	v.Options = readOptions(m.Get("options"), v.Type)
	v.KindReference = readKindReference(m.Get("kindReference"), v)
	v.Fields = readFields(m.Get("objectVariables"), v.Type, level)
	v.Default = readDefault(m.Get("default"), v)
	if v.Type == Object && !v.Array && !v.Required && v.Default == nil {
		checkOptionalObject(m, v)
	}
	return v
}

func checkArray(at findings.Value, v Var, level varLevel) {
	switch {
	case !v.Array:
	case v.Type == Boolean || v.Type == Password:
		at.Report(ruleArrayType, "the specification has no arrays of type %s: other brokers may refuse it; use one of type string, number, integer or object", v.Type)
	case level == objectField:
		at.Report(ruleNestedArray, "the specification has no arrays in objects: other brokers may refuse it; make the object an array, or use a variable of its own")
	}
}

// checkOptionalObject: an API server completes an object that is not there only if the defaults alone make a whole one.
func checkOptionalObject(m findings.Mapping, v Var) {
	if !slices.ContainsFunc(v.Fields, func(f Var) bool { return f.Default != nil }) {
		return
	}
	for _, field := range v.Fields {
		if field.Required && field.Default == nil && field.Name != "" {
			m.Get("objectVariables").Report(ruleOptionalObject,
				"the defaults of these fields apply only to a user who gives the object, because %s is required and has no default", findings.Quote(field.Name))
			return
		}
	}
}

// readVarName reads a name. Extra variables beat every other kind of variable in Ansible, so the names of resource
// variables that steer the connection or that the manager itself gives to playbooks are refused. Fields of an object
// are not variables of their own.
func readVarName(v findings.Value, level varLevel) string {
	s := v.RequiredText()
	switch {
	case s == "":
		return ""
	case !identifier.MatchString(s):
		v.Report(ruleVarName, "%s is not an Ansible variable name: use letters, digits and _, not beginning with a digit", findings.Quote(s))
		return ""
	case level == resourceVar && IsReservedVar(s):
		v.Report(ruleReservedVar, "%s is reserved: ansible_*, zoscb_*, k8s_*, zosendpoint, and names for the whole resource are set by Ansible or the operator, and a resource must not override them; choose another name", findings.Quote(s))
		return ""
	case level == resourceVar && slices.Contains(ansibleNames, s):
		v.Report(ruleAnsibleKeyword, "%s has a meaning of its own in Ansible: the user's value is lost, or takes the place of one that Ansible needs; choose another name", findings.Quote(s))
	case level == resourceVar && slices.Contains(ansibleKeywords, s):
		v.Report(ruleAnsibleKeyword, "%s is a keyword of Ansible, which warns about such variables; prefer another name", findings.Quote(s))
	}
	return s
}

// ansibleNames are variables that Ansible sets itself, some before and some after the extra variables, and words of Jinja.
var ansibleNames = strings.Fields(`
	environment group_names groups hostvars inventory_dir inventory_file inventory_hostname inventory_hostname_short item
	omit play_hosts playbook_dir role_name role_names role_path vars
	and else False false if in is None none not or self True true`)

// ansibleKeywords are the keywords of plays, roles, blocks and tasks, and the functions of templates, which ansible-core
// holds to be reserved names.
var ansibleKeywords = strings.Fields(`
	action always any_errors_fatal args async async_val become become_exe become_flags become_method become_user
	block changed_when check_mode collections connection cycler debugger delay delegate_facts delegate_to dict diff
	fact_path failed_when force_handlers gather_facts gather_subset gather_timeout handlers hosts ignore_errors
	ignore_unreachable joiner lipsum listen local_action lookup loop loop_control loop_with max_fail_percentage
	module_defaults name namespace no_log notify now order poll port post_tasks pre_tasks q query range register
	remote_user rescue retries roles run_once serial strategy tags tasks throttle timeout undef until
	validate_argspec vars_files vars_prompt when with_`)

// IsReservedVar reports whether a variable of this name is set by Ansible or the operator.
func IsReservedVar(name string) bool {
	prefixes := []string{"ansible_", "zoscb_", "k8s_"}
	if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
		return true
	}
	// ansible-operator hands the whole resource to playbooks as _<group>_<kind> and _<group>_<kind>_spec. The group may
	// be one of the collection's own.
	wholeResource := strings.HasPrefix(name, "_") && strings.Contains(name, strings.ReplaceAll(Group, ".", "_"))
	return name == "zosendpoint" || wholeResource
}

func readVarType(v findings.Value, level varLevel) VarType {
	s := v.RequiredText()
	t := VarType(s)
	switch {
	case s == "":
		return ""
	case !slices.Contains(varTypes, t):
		v.ReportFix(findings.Meant(s, typeNames), ruleVarType, "%s is not a type: use string, number, integer, boolean, password or object", findings.Quote(s))
		return ""
	case level == objectField && t == Object:
		v.Report(ruleNestedObject, "objects inside objects are not possible; use string, number, integer, boolean or password")
		return ""
	}
	return t
}

// readKindReference takes an empty text for no reference, as form editors write it. One that forms ignore is kept: playbooks run again
// when the resource that a value names changes.
func readKindReference(v findings.Value, of Var) string {
	if v.Blank() {
		return ""
	}
	s := v.Text()
	switch {
	case s == "":
		return ""
	case !kindName.MatchString(s) || len(s) > maxKindLength:
		v.Report(ruleKindReference, "%s is not the name of a kind, such as SomeMiddleware", findings.Quote(s))
		return ""
	case of.Type != String && of.Type != "":
		v.Report(ruleKindReferenceUnused, "forms ignore it, because the type is %s: the name of a resource is a string", of.Type)
	case len(of.Options) > 0:
		v.Report(ruleKindReferenceUnused, "forms ignore it, because they offer the options; remove one of the two")
	}
	return s
}

func readOptions(v findings.Value, t VarType) []string {
	var options []string
	seen := map[string]bool{}
	for _, item := range v.List() {
		option := item.Text()
		switch {
		case item.Blank():
			item.Report(ruleOptionEmpty, "an empty option is left out: a user who wants none leaves the variable out")
		case option == "":
		case seen[option]:
			item.Report(ruleOptionUnique, "%s is given twice", findings.Quote(option))
		default:
			seen[option] = true
			options = append(options, option)
		}
	}
	if len(options) > 0 && t != String && t != "" {
		v.Report(ruleOptionsType, "options are possible for string variables only; they are ignored")
		return nil
	}
	return options
}

func readFields(v findings.Value, t VarType, level varLevel) []Var {
	if level == objectField {
		if !v.Blank() {
			v.Report(ruleNestedObject, "objects inside objects are not possible")
		}
		return nil
	}
	if t != Object {
		if !v.Blank() && t != "" {
			v.Report(ruleObjectVariablesUnused, "is ignored, because the type is not object")
		}
		return nil
	}
	fields := readVars(v, objectField)
	if len(fields) == 0 {
		v.Report(ruleObjectVariables, "an object needs objectVariables, at least one")
	}
	return fields
}
