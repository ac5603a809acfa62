package collection

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says what a problem means for the collection.
type Severity string

// An error stops a collection from loading; a warning does not.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Problem is one thing that is wrong with a collection, and where.
type Problem struct {
	// File is relative to the collection's root. It is "" when the problem is of no single file.
	File string
	// Line and Column count from 1. They are 0 where the problem is of the whole file.
	Line, Column int
	// Path is the field, such as "resources[0].vars[2].default", or "" for the whole file.
	Path string
	// Rule is the short stable name of the rule that was broken, such as "kind-name".
	Rule string
	// Message says what is wrong and what to do, in lower case and without a final stop.
	Message  string
	Severity Severity
}

// String is "file:line:column: path: message", with the parts that are not known left out and warnings marked.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
		}
		b.WriteString(": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	if p.Severity == SeverityWarning {
		b.WriteString("warning: ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems is the error that [Load] returns for a collection that breaks rules: all errors and warnings, sorted by file,
// line, column and severity.
type Problems []Problem

// Error prints one problem per line. For a status message, which must stay short, use [Problems.Summary].
func (ps Problems) Error() string { return ps.lines(len(ps)) }

// Summary prints the first limit errors, one per line, and says how many more there are. Warnings are left out if there
// is an error.
func (ps Problems) Summary(limit int) string {
	if errs := ps.withSeverity(SeverityError); len(errs) > 0 {
		ps = errs
	}
	return ps.lines(limit)
}

func (ps Problems) lines(limit int) string {
	limit = min(max(limit, 0), len(ps))
	lines := make([]string, 0, limit+1)
	for _, p := range ps[:limit] {
		lines = append(lines, p.String())
	}
	if more := len(ps) - limit; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// withSeverity returns the problems of one severity, in order.
func (ps Problems) withSeverity(s Severity) Problems {
	var out Problems
	for _, p := range ps {
		if p.Severity == s {
			out = append(out, p)
		}
	}
	return out
}

func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Severity, b.Severity),
			cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Message, b.Message),
		)
	})
}
