// Package findings has what a check of a collection reports: problems with their places, the rules that they break, and
// YAML whose values know where they were written. A package that checks something has its own [Rules].
package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says what a problem means for the collection.
type Severity string

// A broken MUST of the specification is an error, a broken SHOULD a warning; an info is a hint. Whether a collection
// loads is up to the rule, see [Rule].
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
	SeverityInfo    Severity = "info"
)

// Problem is one thing that is wrong with a collection, and where.
type Problem struct {
	// File is relative to the collection's root. It is "" when the problem is of no single file.
	File string
	// Line and Column count from 1. They are 0 where the problem is of the whole file.
	Line, Column int
	// Path is the field, such as "resources[0].vars[2].default", or "" for the whole file.
	Path string
	// Rule is the name of the [Rule] that was broken, such as "kind-name".
	Rule string
	// Message says what is wrong and what to do, in lower case and without a final stop.
	Message  string
	Severity Severity
	// Refused says that the cluster refuses the collection because of the problem.
	Refused bool `json:"-"`
	// Fix is the one right answer, if there is one.
	Fix Fix `json:"-"`
}

// String is "file:line:column: path: message", with the parts that are not known left out, and warnings and infos marked.
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
	if p.Severity != SeverityError {
		b.WriteString(string(p.Severity) + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems are all that is wrong with a collection, sorted by file, line, column and severity. They are the error of a
// function that refuses the collection.
type Problems []Problem

// Error prints one problem per line. For a status message, which must stay short, use [Problems.Summary].
func (ps Problems) Error() string { return ps.lines(len(ps)) }

// Summary prints the first limit problems, errors first, one per line, and says how many more there are.
func (ps Problems) Summary(limit int) string {
	return slices.Concat(ps.WithSeverity(SeverityError), ps.WithSeverity(SeverityWarning), ps.WithSeverity(SeverityInfo)).lines(limit)
}

// Refused returns the problems because of which the cluster refuses the collection.
func (ps Problems) Refused() Problems { return ps.filter(func(p Problem) bool { return p.Refused }) }

// Findings returns the errors and warnings, without the infos.
func (ps Problems) Findings() Problems {
	return ps.filter(func(p Problem) bool { return p.Severity != SeverityInfo })
}

// Fixable returns the problems that have one right answer.
func (ps Problems) Fixable() Problems {
	return ps.filter(func(p Problem) bool { return p.Fix != Fix{} })
}

// Merge returns the problems of both lists, sorted, each once.
func Merge(a, b Problems) Problems {
	merged := slices.Concat(a, b)
	merged.Sort()
	return slices.Compact(merged)
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

// WithSeverity returns the problems of one severity, in order.
func (ps Problems) WithSeverity(s Severity) Problems {
	return ps.filter(func(p Problem) bool { return p.Severity == s })
}

func (ps Problems) filter(keep func(Problem) bool) Problems {
	var out Problems
	for _, p := range ps {
		if keep(p) {
			out = append(out, p)
		}
	}
	return out
}

// Sort sorts by place, severity and text.
func (ps Problems) Sort() {
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
