package jinja

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// BracedCondition is the value of when, failed_when, changed_when, until or that, which Ansible takes as an expression
// without braces, with templates in it. Ansible refuses one that is put together from the text of a resource's field:
// that text could be an expression of its own.
type BracedCondition struct {
	Place findings.Problem
	// Keyword is when or the like; InList says that the expression is one of several.
	Keyword string
	InList  bool
	Text    string
	// Names are the variables in the templates.
	Names []string
}

// maxCorrected bounds the expressions for which a message shows the correction.
const maxCorrected = 300

// Corrected is the line that the author should write instead, or "" if that is not certain. asText says for a name
// whether it must be made a text to stay what it was between quotes.
func (c BracedCondition) Corrected(asText func(name string) bool) string {
	if len(c.Text) > maxCorrected {
		return ""
	}
	expression, ok := withoutBraces(c.Text, asText)
	if !ok {
		return ""
	}
	var line any = map[string]string{c.Keyword: expression}
	if c.InList {
		line = []string{expression}
	}
	out, err := yaml.Marshal(line)
	if text := strings.TrimSpace(string(out)); err == nil && !strings.Contains(text, "\n") {
		return text
	}
	return ""
}

// withoutBraces turns the templates of a conditional expression into plain parts of it. ok is false if it cannot.
func withoutBraces(text string, asText func(name string) bool) (string, bool) {
	text = strings.TrimSpace(text)
	if strings.Contains(text, "{%") || strings.Contains(text, "{#") {
		return "", false
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '\'' || c == '"':
			literal, end, ok := plainLiteral(text, i, asText)
			if !ok {
				return "", false
			}
			b.WriteString(literal)
			i = end
			if rest := strings.TrimSpace(text[end:]); rest != "" && strings.IndexByte(`'"`, rest[0]) >= 0 {
				return "", false // two texts side by side are one
			}
		case strings.HasPrefix(text[i:], "{{"):
			inner, end, ok := braced(text, i)
			if !ok {
				return "", false
			}
			if i == 0 && end == len(text) {
				return inner, true
			}
			b.WriteString(inBrackets(inner))
			i = end
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String(), true
}

// braced returns the expression of the template at i, and the index behind it.
func braced(text string, i int) (inner string, end int, ok bool) {
	r := reader{text: text, pos: i + 2}
	r.tokens("}}")
	if inner, ok = strings.CutSuffix(text[i+2:r.pos], "}}"); !ok {
		return "", 0, false
	}
	inner = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(inner, "-"), "-"))
	return inner, r.pos, inner != ""
}

// plainLiteral reads the quoted text at i and writes its templates as operands beside its other parts.
func plainLiteral(text string, i int, asText func(name string) bool) (literal string, end int, ok bool) {
	quote := text[i : i+1]
	var parts []string
	templates := 0
	start := i + 1
	fixed := func(end int) {
		if end > start {
			parts = append(parts, quote+text[start:end]+quote)
		}
	}
	for i++; i < len(text); {
		switch {
		case text[i] == '\\':
			i += 2
		case text[i:i+1] == quote:
			fixed(i)
			switch {
			case templates == 0:
				return quote + text[start:i] + quote, i + 1, true
			case len(parts) == 1:
				return parts[0], i + 1, true
			}
			return "(" + strings.Join(parts, " ~ ") + ")", i + 1, true
		case strings.HasPrefix(text[i:], "{{"):
			inner, end, ok := braced(text, i)
			if !ok {
				return "", 0, false
			}
			fixed(i)
			templates++
			if asText(inner) {
				inner += " | string"
			}
			parts = append(parts, inBrackets(inner))
			i, start = end, end
		default:
			i++
		}
	}
	return "", 0, false
}

// inBrackets puts brackets around what may bind less than what stands beside it.
func inBrackets(expression string) string {
	if strings.ContainsAny(expression, " |~+-*/%<>=!") {
		return "(" + expression + ")"
	}
	return expression
}
