package render

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// Variables parses the variables of a ZosEndpoint into Ansible host variables. Each item is one of
//
//	"name: value"            the value is read as YAML: a number, a boolean, text
//	"name=value"             the value is text
//	{"name": n, "value": v}  the value may be of any type
//
// Values may contain templates. A value that begins with a template needs no quotes. Names are Ansible variable names and
// must be unique. The error lists all invalid items by index, and contains no values.
func Variables(items []apiextensionsv1.JSON) (map[string]any, error) {
	vars := make(map[string]any, len(items))
	first := make(map[string]int, len(items))
	var problems []error
	for i, item := range items {
		name, value, err := readVariable(item.Raw)
		if err == nil {
			err = checkVariableName(name)
		}
		if j, again := first[name]; err == nil && again {
			err = fmt.Errorf("%s is already set by item %d", name, j)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("variables[%d]: %w", i, err))
			continue
		}
		vars[name], first[name] = value, i
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return vars, nil
}

var errVariableForm = errors.New(`must be "name: value", "name=value" or an object with name and value`)

func readVariable(raw []byte) (name string, value any, err error) {
	var item any
	if err := json.Unmarshal(raw, &item); err != nil {
		return "", nil, errVariableForm
	}
	switch item := item.(type) {
	case string:
		return readAssignment(item)
	case map[string]any:
		name, isText := item["name"].(string)
		value, hasValue := item["value"]
		if !isText || !hasValue || len(item) != 2 {
			return "", nil, errors.New("an object must have name, which is text, and value, and nothing else")
		}
		return name, value, nil
	}
	return "", nil, errVariableForm
}

// assignment splits at the first "=" or ":". As in YAML, a colon must be followed by a blank.
var assignment = regexp.MustCompile(`^\s*([^\s:=]*)\s*(=|:(?:\s+|$))(.*)$`)

func readAssignment(text string) (name string, value any, err error) {
	text = strings.TrimSpace(text)
	if strings.ContainsAny(text, "\n\r\x00") {
		return "", nil, errors.New("text must be one line: use an object with name and value")
	}
	m := assignment.FindStringSubmatch(text)
	if m == nil {
		return "", nil, errVariableForm
	}
	name, rest := m[1], strings.TrimSpace(m[3])
	if m[2] == "=" || strings.HasPrefix(rest, "{{") || strings.HasPrefix(rest, "{%") {
		return name, rest, nil
	}
	value, err = readScalar(rest)
	return name, value, err
}

// readScalar parses one value as YAML 1.1, like Ansible.
func readScalar(text string) (any, error) {
	raw, err := yaml.YAMLToJSON([]byte("value: " + text))
	if err != nil {
		return nil, errors.New("the value is not YAML: put it in quotes, or write name=value")
	}
	var document map[string]any
	if err := json.Unmarshal(raw, &document); err != nil {
		return nil, errors.New("the value is not a number, a boolean or text: put it in quotes")
	}
	switch value := document["value"].(type) {
	case []any, map[string]any:
		return nil, errors.New("the value is a list or a mapping: use an object with name and value")
	default:
		return value, nil
	}
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// notNames lists the keywords of Python, which Ansible does not accept as names of variables.
var notNames = []string{
	"False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
	"elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
	"not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
}

func checkVariableName(name string) error {
	switch {
	case !variableName.MatchString(name) || slices.Contains(notNames, name):
		return errors.New("the name is not an Ansible variable name: use letters, digits and _, not beginning with a digit, and no keyword of Python")
	case strings.HasPrefix(name, "zoscb_"):
		return fmt.Errorf("%s: names that begin with zoscb_ are the operator's own", name)
	}
	return nil
}
