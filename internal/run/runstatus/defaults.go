package runstatus

import (
	"fmt"
	"strings"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// maxValue is the maximum length of a default in a message, in bytes.
const maxValue = 64

func keptMessage(r Resource) string {
	fields := make([]string, 0, len(r.DefaultsKept))
	for _, d := range r.DefaultsKept {
		fields = append(fields, fmt.Sprintf("%s (%s instead of %s)", d.Field, valueText(d.Supplied), valueText(d.Present)))
	}
	return fieldsMessage(fmt.Sprintf("playbooks get the defaults that the resource ran with, not those of %s: ", versionOf(r)), fields,
		fmt.Sprintf("; to take the new ones, set the fields, or annotation %s: %q", gate.AnnotationAcceptDefaults, printable.Line(r.Version, maxName)))
}

func newMessage(r Resource) string {
	fields := make([]string, 0, len(r.DefaultsNew))
	for _, d := range r.DefaultsNew {
		fields = append(fields, fmt.Sprintf("%s (%s)", d.Field, valueText(d.Supplied)))
	}
	return fieldsMessage(fmt.Sprintf("the next run gets defaults of %s that the last run did not get: ", versionOf(r)), fields, "")
}

func valueText(value string) string {
	if value == "" {
		return "none"
	}
	return printable.Line(value, maxValue)
}

// fieldsMessage returns a message of bounded length with the first fields and the number of the others.
func fieldsMessage(before string, fields []string, after string) string {
	names := make([]string, 0, maxIgnored)
	for _, name := range fields[:min(len(fields), maxIgnored)] {
		names = append(names, printable.Line(name, maxName))
	}
	if n := len(fields) - len(names); n > 0 {
		after = fmt.Sprintf(" and %d more", n) + after
	}
	return printable.Cut(before+strings.Join(names, ", "), maxMessage-len(after)) + after
}
