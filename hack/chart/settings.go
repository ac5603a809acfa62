package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// flagLine matches a flag in the manager's help: its name, its type, and what it means.
var flagLine = regexp.MustCompile(`^ +(?:-\w, )?--([a-z0-9-]+)(?: ([a-z-]+))? {2,}(\S.*)$`)

// ownValues are flags that have a value of their own in the chart, or that the pod depends on.
var ownValues = []string{"artifact-bind-address", "health-probe-bind-address", "help", "leader-elect", "manager-namespace", "memory-limit",
	"namespaces", "pod-name", "runtime-architectures", "runtime-image", "storage-dir"}

// environmentDefault matches the default of a flag that takes it from an environment variable: it is one of whoever makes the chart.
var environmentDefault = regexp.MustCompile(`(default: environment variable .*?) \(default .*\)$`)

// parseSettings returns the flags in the manager's help that are settings of the chart.
func parseSettings(help string) ([]property, error) {
	var settings []property
	_, flags, _ := strings.Cut(help, "\nFlags:\n")
	for line := range strings.Lines(flags) {
		match := flagLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if match == nil || slices.Contains(ownValues, match[1]) {
			continue
		}
		description := environmentDefault.ReplaceAllString(match[3], "$1")
		settings = append(settings, property{name: match[1], description: description, schema: settingSchema(match[1], match[2], match[3])})
	}
	if len(settings) < 20 {
		return nil, fmt.Errorf("only %d flags were found in the manager's help", len(settings))
	}
	return settings, nil
}

// settingSchema returns what a flag may be. A flag that may be repeated is a list, or a text with commas.
func settingSchema(flag, kind, description string) schema {
	switch {
	case strings.Contains(description, "(DEPRECATED: "): // Whatever it was.
		return schema{"type": []any{"integer", "string"}}
	case flag == "runtime-defaults":
		return schema{"type": "object"}
	case strings.Contains(description, "may be repeated"):
		return schema{"type": []any{"array", "string"}, "items": text()}
	case kind == "":
		return boolean()
	case kind == "int":
		return schema{"type": "integer"}
	case kind == "bytes":
		return schema{"type": []any{"integer", "string"}}
	case kind == "duration":
		return like(`^([0-9]+(\.[0-9]+)?(h|m|s|ms))+$`)
	default:
		return text()
	}
}
