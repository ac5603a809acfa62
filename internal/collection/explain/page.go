package explain

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// Width is the number of columns of a report.
const Width = 100

// Page is text for a terminal: printable characters in indented lines of at most Width columns.
type Page struct{ text strings.Builder }

// String returns the text so far.
func (p *Page) String() string { return p.text.String() }

// Blank writes an empty line.
func (p *Page) Blank() { p.text.WriteByte('\n') }

// Title starts a section.
func (p *Page) Title(text string) {
	if p.text.Len() > 0 {
		p.Blank()
	}
	p.Text(0, text)
	p.Blank()
}

// Text writes a paragraph.
func (p *Page) Text(indent int, text string) { p.Row(indent, 0, "", text) }

// Row writes a key and, in a column to the right of it, a paragraph. A key that is too wide has its own line. An empty
// paragraph without a key is omitted.
func (p *Page) Row(indent, column int, key, text string) {
	margin := strings.Repeat(" ", indent)
	key = printable.Escape(key)
	lines := wrap(text, Width-indent-column)
	keys := wrap(key, Width-indent)
	if width := utf8.RuneCountInString(key); len(keys) == 1 && width < column && len(lines) > 0 {
		p.text.WriteString(margin + key + strings.Repeat(" ", column-width) + lines[0] + "\n")
		keys, lines = nil, lines[1:]
	}
	for _, line := range keys {
		p.text.WriteString(margin + line + "\n")
	}
	for _, line := range lines {
		p.text.WriteString(margin + strings.Repeat(" ", column) + line + "\n")
	}
}

// maxFindings is how many findings a list has. lint prints all.
const maxFindings = 20

// Findings writes a list of findings, each after a mark, and how many more there are.
func (p *Page) Findings(indent int, mark string, list []findings.Finding) {
	for _, finding := range list[:min(len(list), maxFindings)] {
		p.Row(indent, len(mark)+1, mark, finding.String())
	}
	if more := len(list) - maxFindings; more > 0 {
		p.Row(indent, len(mark)+1, mark, fmt.Sprintf("and %d more", more))
	}
}

// wrap breaks text between words into lines of at most width characters. Longer words are broken at the width.
func wrap(text string, width int) []string {
	var lines []string
	line, length := "", 0
	for _, word := range strings.Fields(text) {
		runes := []rune(printable.Escape(word))
		if length > 0 && length+1+len(runes) > width {
			lines, line, length = append(lines, line), "", 0
		}
		for ; len(runes) > width; runes = runes[width:] {
			lines = append(lines, string(runes[:width]))
		}
		if length > 0 {
			line, length = line+" ", length+1
		}
		line, length = line+string(runes), length+len(runes)
	}
	if length > 0 {
		lines = append(lines, line)
	}
	return lines
}
