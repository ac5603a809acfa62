package main

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// emitter writes YAML with the conditions and templates of Helm.
type emitter struct {
	strings.Builder
	err error
}

// when writes what f writes under a condition.
func (e *emitter) when(condition string, indent int, f func()) {
	if condition == "" {
		f()
		return
	}
	space := strings.Repeat(" ", indent)
	fmt.Fprintf(e, "%s{{- if %s }}\n", space, condition)
	f()
	fmt.Fprintf(e, "%s{{- end }}\n", space)
}

func (e *emitter) mapping(m mapping, indent int) {
	for _, f := range m {
		e.when(f.when, indent, func() {
			if f.key == "" {
				e.WriteString(f.value.(template)(indent))
				return
			}
			fmt.Fprintf(e, "%s%s:", strings.Repeat(" ", indent), e.scalar(f.key, 0))
			e.value(f.value, indent)
		})
	}
}

// value writes what follows the colon of a field.
func (e *emitter) value(value any, indent int) {
	switch value := value.(type) {
	case mapping:
		if len(value) == 0 {
			e.WriteString(" {}\n")
			return
		}
		e.WriteString("\n")
		e.mapping(value, indent+2)
	case sequence:
		if len(value) == 0 {
			e.WriteString(" []\n")
			return
		}
		e.WriteString("\n")
		e.sequence(value, indent)
	case template:
		e.WriteString(value(indent + 2))
	default:
		e.WriteString(" " + e.scalar(value, indent) + "\n")
	}
}

func (e *emitter) sequence(s sequence, indent int) {
	space := strings.Repeat(" ", indent)
	for _, item := range s {
		e.when(item.when, indent, func() {
			switch value := item.value.(type) {
			case mapping:
				e.item(value, indent)
			case sequence:
				e.err = fmt.Errorf("a list within a list is not supported: %v", value)
			case template:
				e.WriteString(value(indent))
			default:
				e.WriteString(space + "- " + e.scalar(value, indent) + "\n")
			}
		})
	}
}

// item writes a mapping in a list. Its first field is one that always exists, since it has the dash.
func (e *emitter) item(m mapping, indent int) {
	first := slices.IndexFunc(m, func(f entry) bool { return f.key == "name" && f.when == "" })
	if first < 0 {
		first = slices.IndexFunc(m, func(f entry) bool { return f.key != "" && f.when == "" })
	}
	if first < 0 {
		e.err = fmt.Errorf("all fields of an item are conditional: %v", m)
		return
	}
	inner := &emitter{}
	inner.mapping(append(mapping{m[first]}, slices.Delete(slices.Clone(m), first, first+1)...), indent+2)
	if inner.err != nil {
		e.err = inner.err
	}
	space := strings.Repeat(" ", indent)
	e.WriteString(space + "- " + strings.TrimPrefix(inner.String(), space+"  "))
}

// scalar returns a value as YAML, for the namespace in which Helm installs. Lines after the first are indented.
func (e *emitter) scalar(value any, indent int) string {
	if value == namespace {
		return "{{ $.Release.Namespace | quote }}"
	}
	text, err := yaml.Marshal(value)
	if err != nil {
		e.err = err
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for i, line := range lines[1:] {
		if line != "" {
			lines[i+1] = strings.Repeat(" ", indent) + line
		}
	}
	// Braces of other template languages, such as those of Prometheus, are text.
	escaped := strings.ReplaceAll(strings.Join(lines, "\n"), "{{", `{{ "{{" }}`)
	return strings.ReplaceAll(escaped, namespace, "{{ $.Release.Namespace }}")
}
