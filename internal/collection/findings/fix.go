package findings

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Fix is the one right answer to a problem, where there is one: another value for one scalar of the problem's file. The zero
// value is none.
type Fix struct {
	// Line and Column of the scalar count from 1, columns in characters.
	Line, Column int
	// Old and New are the values of the scalar, not as they are written.
	Old, New string
	// Quote says that Old is the text of the scalar as it is written, and that quotes around it make it one value. New is not used.
	Quote bool
}

// Apply returns the content with the fix. All else stays as it is, byte for byte. ok is false if it is not certain that the
// content then means the same but for the scalar: it is then not changed.
func (f Fix) Apply(content []byte) (fixed []byte, ok bool) {
	start, ok := offset(content, f.Line, f.Column)
	if !ok || strings.ContainsAny(f.Old+f.New, "\r\n") {
		return content, false
	}
	rest, _, _ := bytes.Cut(content[start:], []byte("\n"))
	for _, edit := range f.edits(string(rest)) {
		fixed = slices.Concat(content[:start], []byte(edit.new), content[start+len(edit.old):])
		if f.proven(content, fixed) {
			return fixed, true
		}
	}
	return content, false
}

// edit is a text in a line and what takes its place.
type edit struct{ old, new string }

// edits are the ways to write the fix of a scalar with which a line goes on, the best first.
func (f Fix) edits(rest string) []edit {
	switch {
	case f.Quote && strings.HasPrefix(rest, f.Old):
		return []edit{{f.Old, singleQuoted(f.Old)}}
	case f.Quote:
		return nil
	case strings.HasPrefix(rest, singleQuoted(f.Old)):
		return []edit{{singleQuoted(f.Old), singleQuoted(f.New)}}
	case strings.HasPrefix(rest, `"`):
		literal, err := strconv.QuotedPrefix(rest) // What it does not take for a whole text is left alone.
		if err != nil {
			return nil
		}
		if strings.ContainsAny(f.New, "\\\"") {
			return []edit{{literal, singleQuoted(f.New)}}
		}
		return []edit{{literal, `"` + f.New + `"`}}
	case f.Old != "" && strings.HasPrefix(rest, f.Old):
		return []edit{{f.Old, f.New}, {f.Old, singleQuoted(f.New)}}
	}
	return nil
}

func singleQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// offset is where a line and column begin in a content. ok is false if there is no such place.
func offset(content []byte, line, column int) (at int, ok bool) {
	for ; line > 1; line-- {
		i := bytes.IndexByte(content[at:], '\n')
		if i < 0 {
			return 0, false
		}
		at += i + 1
	}
	text, _, _ := bytes.Cut(content[at:], []byte("\n"))
	columns := 1
	for i := range string(text) {
		if columns == column {
			return at + i, true
		}
		columns++
	}
	return 0, false
}

// proven reports whether both contents can be read, and differ in the scalar alone. What has to be quoted need not be readable
// before.
func (f Fix) proven(content, fixed []byte) bool {
	left, leftBefore := MaxNodes, MaxNodes
	after, err := ParseYAML(fixed, &left)
	if err != nil {
		return false
	}
	before, err := ParseYAML(content, &leftBefore)
	if err != nil {
		found := 0
		eachNode(after, func(n *yaml.Node) {
			if f.isAt(n) && n.Value == f.Old && n.Style == yaml.SingleQuotedStyle {
				found++
			}
		})
		return f.Quote && found == 1
	}
	changed := 0
	return f.same(before, after, &changed) && changed == 1
}

func (f Fix) isAt(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Line == f.Line && n.Column == f.Column
}

// same compares two documents, and counts how often the scalar is changed as it should.
func (f Fix) same(before, after *yaml.Node, changed *int) bool {
	if f.isAt(after) && before.Line == f.Line && before.Column == f.Column && before.Anchor == "" {
		*changed++
		if f.Quote {
			return before.Kind == yaml.MappingNode && after.Value == f.Old
		}
		return before.Kind == yaml.ScalarNode && before.Value == f.Old && after.Value == f.New && before.ShortTag() == after.ShortTag()
	}
	if before.Kind != after.Kind || before.Value != after.Value || before.ShortTag() != after.ShortTag() || before.Anchor != after.Anchor ||
		before.Line != after.Line || len(before.Content) != len(after.Content) {
		return false
	}
	for i := range before.Content {
		if !f.same(before.Content[i], after.Content[i], changed) {
			return false
		}
	}
	return true
}

// unquoted is a line with a key and a template without quotes as its value. With a colon in the value a line end may be what is missing;
// what a tab or a # begins may be a comment.
var unquoted = regexp.MustCompile(`^( *(?:- +)*[A-Za-z0-9_.-]+: +)(\{\{[^:#\t]*\}\}[^:#\t]*)$`)

// QuoteFix is the fix of a document that cannot be read because a template has no quotes. line is where the error is, or nearly. The zero
// Fix if neither it has such a value nor exactly one of its neighbours.
func QuoteFix(content []byte, line int) Fix {
	var near []Fix
	at := 0
	for text := range bytes.Lines(content) {
		at++
		if at < line-1 || at > line+1 {
			continue
		}
		match := unquoted.FindStringSubmatch(strings.TrimRight(string(text), " \r\n"))
		if match == nil {
			continue
		}
		fix := Fix{Line: at, Column: len(match[1]) + 1, Old: match[2], Quote: true}
		if at == line {
			return fix
		}
		near = append(near, fix)
	}
	if len(near) != 1 {
		return Fix{}
	}
	return near[0]
}
