package findings

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
)

// Finding is a problem as commands report it: lint, explain, diff and build alike.
type Finding struct {
	File     string   `json:"file"`
	Line     int      `json:"line"`
	Column   int      `json:"column"`
	Severity Severity `json:"severity"`
	Rule     string   `json:"rule"`
	Message  string   `json:"message"`
	// Fixable says that there is one right answer, which lint --fix gives.
	Fixable bool `json:"fixable,omitempty"`
}

// Finding puts a problem of a whole file at its beginning, so that editors can show it, and one of no file at source, which was checked.
func (p Problem) Finding(source string) Finding {
	message := p.Message
	if p.Path != "" {
		message = p.Path + ": " + message
	}
	return Finding{
		File: cmp.Or(p.File, filepath.Base(source)), Line: max(p.Line, 1), Column: max(p.Column, 1),
		Severity: p.Severity, Rule: p.Rule, Message: message, Fixable: p.Fix != Fix{},
	}
}

// Listed returns the findings about source. It is never nil, so that it is a list in JSON.
func (ps Problems) Listed(source string) []Finding {
	list := make([]Finding, len(ps))
	for i, p := range ps {
		list[i] = p.Finding(source)
	}
	return list
}

// String is the line "file:line:column: severity rule: message". It may hold control characters of the author.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d:%d: %s %s: %s", f.File, f.Line, f.Column, f.Severity, f.Rule, f.Message)
}

// Without returns the problems that others do not have, wherever in a file they are.
func (ps Problems) Without(others Problems) Problems {
	unplaced := func(p Problem) Problem { return Problem{File: p.File, Rule: p.Rule, Message: p.Message} }
	known := map[Problem]int{}
	for _, p := range others {
		known[unplaced(p)]++
	}
	return ps.filter(func(p Problem) bool {
		known[unplaced(p)]--
		return known[unplaced(p)] < 0
	})
}

// Counts says how many problems there are of each severity: "1 error", "2 warnings", "0 hints".
func (ps Problems) Counts() []string {
	return []string{
		Plural(len(ps.WithSeverity(SeverityError)), "error"),
		Plural(len(ps.WithSeverity(SeverityWarning)), "warning"),
		Plural(len(ps.WithSeverity(SeverityInfo)), "hint"),
	}
}

// Count is Counts in one text, without what there is none of: "1 error and 2 warnings".
func (ps Problems) Count() string {
	var counts []string
	for _, count := range ps.Counts() {
		if !strings.HasPrefix(count, "0 ") {
			counts = append(counts, count)
		}
	}
	return Enumerate(counts)
}

// Plural is a number with a noun: "1 error", "2 errors".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Enumerate joins words: "a", "a and b", "a, b and c".
func Enumerate(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
