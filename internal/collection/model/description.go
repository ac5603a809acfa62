package model

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

var (
	// heading is a line of markdown that its author means as a heading.
	heading = regexp.MustCompile(`^#{1,6} \S`)
	// gluedHeading is a heading with a further one of the second level or below on its line.
	gluedHeading = regexp.MustCompile(`^#{1,6} .*\S #{2,6} \S`)
)

// checkHeadings reports headings that do not stand alone on their line in the resulting description, which YAML folds
// where the author wrote ">-", quotes or nothing: then the console shows the text after the heading as part of it.
func checkHeadings(v findings.Value, content []byte) {
	text, ok := v.Scalar()
	if !ok {
		return
	}
	lines := map[string]bool{}
	glued := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		lines[line] = true
		glued = glued || gluedHeading.MatchString(line)
	}
	found := false
	for _, written := range writtenLines(v.Node, content) {
		if heading.MatchString(written.text) && !lines[written.text] {
			found = true
			v.ReportAt(written.line, written.column, ruleDescriptionHeading,
				"the heading %s does not end up alone on its line, because YAML joins the lines here; begin the description with |- instead", findings.Quote(written.text))
		}
	}
	if glued && !found {
		v.Report(ruleDescriptionHeading, "a heading does not stand alone on its line; put each on a line of its own")
	}
}

// writtenLine is a line of a text in the author's file.
type writtenLine struct {
	text         string
	line, column int
}

// writtenLines returns the lines of a text in its author's file, as far as they go without an escape or a closing
// quote. The text ends before the next line that is not indented more than the one it begins in.
func writtenLines(n *yaml.Node, content []byte) []writtenLine {
	source := strings.Split(string(content), "\n")
	if n.Line < 1 || n.Line > len(source) {
		return nil
	}
	var out []writtenLine
	add := func(line, column int, text string) {
		if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
			if end := strings.IndexAny(text, `\"'`); end >= 0 {
				text = text[:end]
			}
		}
		indentation := len(text) - len(strings.TrimLeft(text, " \t"))
		out = append(out, writtenLine{strings.TrimSpace(text), line, column + indentation})
	}
	first := source[n.Line-1]
	if quoted := n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0; quoted && n.Column < len(first) {
		add(n.Line, n.Column+1, first[n.Column:])
	}
	indentation := len(first) - len(strings.TrimLeft(first, " "))
	for i, line := range source[n.Line:] {
		trimmed := strings.TrimLeft(line, " ")
		if len(line)-len(trimmed) <= indentation && strings.TrimSpace(trimmed) != "" {
			break
		}
		add(n.Line+1+i, 1, line)
	}
	return out
}
