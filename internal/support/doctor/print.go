package doctor

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

const (
	// maxLine is the number of bytes of a message in text. JSON has all.
	maxLine = 400
	// maxPrinted is the number of findings of a check that are printed.
	maxPrinted = 20
	// maxPrintedAffected is the number of affected objects that are named in a line.
	maxPrintedAffected = 5
)

// Print writes the report as text. severity returns the text of a severity, which may be coloured.
func (r *Report) Print(w io.Writer, severity func(findings.Severity) string) error {
	var out bytes.Buffer
	printed, left := map[string]int{}, map[string]int{}
	var checks []string
	for i := range r.Findings {
		f := &r.Findings[i]
		if printed[f.Check]++; printed[f.Check] > maxPrinted {
			if left[f.Check]++; left[f.Check] == 1 {
				checks = append(checks, f.Check)
			}
			continue
		}
		fmt.Fprintf(&out, "%s %s: %s\n", severity(f.Severity), printable.Escape(f.Object.String()), printable.Escape(f.Reason))
		if f.Message != "" {
			first, _, _ := strings.Cut(f.Message, "\n")
			fmt.Fprintf(&out, "  %s\n", printable.Escape(printable.Cut(first, maxLine)))
		}
		fmt.Fprintf(&out, "  next: %s\n", printable.Escape(f.Next))
		if f.Affected > 0 {
			fmt.Fprintf(&out, "  affects: %s\n", printable.Escape(f.affected()))
		}
	}
	for _, check := range checks {
		fmt.Fprintf(&out, "and %s of check %s: -o json shows all\n", findings.Plural(left[check], "finding"), check)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// affected names the first of the objects that a finding affects.
func (f *Finding) affected() string {
	var names []string
	for _, object := range f.Affects[:min(len(f.Affects), maxPrintedAffected)] {
		names = append(names, object.String())
	}
	text := strings.Join(names, ", ")
	if more := f.Affected - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Summary returns a line with the number of findings.
func (r *Report) Summary() string {
	return fmt.Sprintf("%s looked at, %s", findings.Plural(r.Objects, "object"), findings.Plural(len(r.Findings), "finding"))
}
