package model

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// jsonNumber is a decimal number in JSON's form. Octal, hexadecimal and the like, which YAML 1.1 and 1.2 read
// differently, are not taken.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// readDefault converts a default to its variable's type. The specification writes defaults as texts; collections also
// write them as what they are. Null and the empty text mean no default. What does not fit is reported and gives nil.
func readDefault(v findings.Value, variable Var) any {
	if v.Blank() || variable.Type == "" {
		return nil
	}
	isText := !variable.Array && (variable.Type == String || variable.Type == Password)
	if s, ok := v.Scalar(); ok && !isText && strings.Contains(s, "{{") {
		v.Report(ruleDefaultTemplate, "templates are not evaluated here, and this text does not fit the type: the default is left out; set it in the playbook")
		return nil
	}
	before := v.Errors()
	if out := convertDefault(v, variable); v.Errors() == before {
		return out
	}
	return nil
}

func convertDefault(v findings.Value, variable Var) any {
	switch {
	case variable.Array:
		return readArrayDefault(v, variable)
	case variable.Type == Object:
		return readObjectDefault(v, variable)
	}
	return readScalarDefault(v, variable)
}

func readArrayDefault(v findings.Value, variable Var) any {
	list, ok := v.Written(yaml.SequenceNode)
	if !ok {
		v.Report(ruleDefaultType, `must be a list, such as ["a", "b"]`)
		return nil
	}
	element := variable
	element.Array = false
	out := []any{}
	for _, item := range list.List() {
		converted := readMemberDefault(item, element)
		if converted == nil {
			if !item.Present() {
				item.Report(ruleDefaultType, "a list must not hold null")
			}
			continue
		}
		out = append(out, converted)
	}
	return out
}

// readObjectDefault converts an object's default. Fields that it leaves out get their own defaults, so that it is
// complete in itself: an API server accepts a default only if it fits the schema.
func readObjectDefault(v findings.Value, variable Var) any {
	written, ok := v.Written(yaml.MappingNode)
	if !ok {
		v.Report(ruleDefaultType, `must be a mapping of the objectVariables, such as {"name": "value"}`)
		return nil
	}
	m, _ := written.Mapping()
	out := map[string]any{}
	for _, key := range m.Keys {
		i := slices.IndexFunc(variable.Fields, func(f Var) bool { return f.Name == key })
		if i < 0 {
			m.Fields[key].Report(ruleDefaultObject, "is not one of the objectVariables")
			continue
		}
		if converted := readMemberDefault(m.Fields[key], variable.Fields[i]); converted != nil {
			out[key] = converted
		}
	}
	for _, field := range variable.Fields {
		if _, set := out[field.Name]; set || field.Name == "" {
			continue
		}
		if field.Default != nil {
			out[field.Name] = field.Default
		} else if field.Required && !m.Get(field.Name).Present() {
			m.Report(ruleDefaultObject, "lacks %s, which is required", findings.Quote(field.Name))
		}
	}
	return out
}

// readMemberDefault converts an element of a list or a field of an object. There an empty text is a value of a string.
func readMemberDefault(v findings.Value, variable Var) any {
	if !v.Present() {
		return nil
	}
	if v.Blank() && !variable.Array && (variable.Type == String || variable.Type == Password) && len(variable.Options) == 0 {
		return ""
	}
	return convertDefault(v, variable)
}

func readScalarDefault(v findings.Value, variable Var) any {
	s, ok := v.Scalar()
	if !ok {
		v.Report(ruleDefaultType, "must be a single %s, not %s", variable.Type, v.What())
		return nil
	}
	var converted any
	var err error
	switch variable.Type {
	case String:
		return readStringDefault(v, s, variable.Options)
	case Password:
		return readPasswordDefault(v, s)
	case Boolean:
		converted, err = convertBoolean(s)
	case Integer:
		converted, err = convertInteger(s)
	case Number:
		converted, err = convertNumber(s)
	}
	if err != nil {
		v.Report(ruleDefaultType, "%s does not fit type %s: %v", findings.Quote(s), variable.Type, err)
		return nil
	}
	return converted
}

func readStringDefault(v findings.Value, s string, options []string) any {
	if len(options) > 0 && !slices.Contains(options, s) {
		v.Report(ruleDefaultOption, "%s is not one of the options", findings.Quote(s))
		return nil
	}
	if strings.Contains(s, "{{") {
		v.Report(ruleDefaultTemplate, "templates are not evaluated here: the playbook gets {{ and what follows as text")
	}
	return s
}

// readPasswordDefault never shows the value: an author may have put a password there.
func readPasswordDefault(v findings.Value, s string) any {
	if len(validation.IsDNS1123Subdomain(s)) > 0 {
		v.Report(ruleDefaultSecret, "is not the name of a Secret; a password variable holds the name of a Secret, never a password")
	}
	return s
}

func convertBoolean(s string) (any, error) {
	b, ok := findings.ParseBoolean(s)
	if !ok {
		return nil, fmt.Errorf("must be true or false")
	}
	return b, nil
}

func convertInteger(s string) (any, error) {
	s = strings.TrimSpace(s)
	if !jsonNumber.MatchString(s) {
		return nil, fmt.Errorf("must be a decimal number without leading zeros, such as 9800")
	}
	i, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("must be a whole number of at most 64 bits")
	}
	return i, nil
}

func convertNumber(s string) (any, error) {
	s = strings.TrimSpace(s)
	if !jsonNumber.MatchString(s) {
		return nil, fmt.Errorf("must be a decimal number without leading zeros, such as 9800 or 0.5")
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, fmt.Errorf("is too large")
	}
	return f, nil
}
