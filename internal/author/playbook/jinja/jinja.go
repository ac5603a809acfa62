// Package jinja tells which variables the templates and expressions of Ansible use. What is not understood is skipped.
package jinja

import (
	"regexp"
	"slices"
	"strings"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// Suffix is that of the names of templates.
const Suffix = ".j2"

// Reference is one use of a variable in a Jinja expression.
type Reference struct {
	Name string
	// Needed says that the expression fails if the variable is not defined. If unsure it is false.
	Needed bool
	// Tested says that the expression asks whether the variable is there.
	Tested bool
}

// Usage is what a text of a playbook or template says about variables.
type Usage struct {
	// References are the names at the top level of expressions: no attributes, filters, tests, functions, names of
	// arguments, texts, nor what the text itself binds with for, set and the like.
	References []Reference
	// Words are all other words in expressions, those in quotes included. They may be names of variables, as in
	// vars['name'] and hostvars.host.name.
	Words []string
	// Anything says that the text may use variables that it does not name.
	Anything bool
}

// ReadTemplate reads the expressions and statements of a template. It takes any text, in time linear to its length.
func ReadTemplate(text string) Usage {
	r := reader{text: text, bound: map[string]bool{}}
	for {
		switch r.nextTag() {
		case "{{":
			r.expression(r.tokens("}}"))
		case "{%":
			r.statement(r.tokens("%}"))
		case "{#":
			r.skip("#}")
		default:
			return r.result()
		}
	}
}

// ReadExpression reads an expression without braces, as in when.
func ReadExpression(text string) Usage {
	r := reader{text: text, bound: map[string]bool{}}
	r.expression(r.tokens(""))
	return r.result()
}

// Identifier is what Ansible accepts as the name of a variable.
var Identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// IsTemplate reports whether Ansible evaluates a text.
func IsTemplate(text string) bool {
	return strings.Contains(text, "{{") || strings.Contains(text, "{%")
}

// reader is one reading of a text under way.
type reader struct {
	text  string
	pos   int
	found Usage
	// bound are the names that the text gives values to; lenient is set once a statement may decide what is evaluated.
	bound   map[string]bool
	lenient bool
}

func (r *reader) result() Usage {
	out := r.found
	out.References = slices.DeleteFunc(out.References, func(ref Reference) bool { return r.bound[ref.Name] })
	if r.lenient {
		for i := range out.References {
			out.References[i].Needed = false
		}
	}
	return out
}

// nextTag moves behind the next opening tag and returns it, or "" at the end.
func (r *reader) nextTag() string {
	for {
		i := strings.IndexByte(r.text[r.pos:], '{')
		if i < 0 || r.pos+i+2 > len(r.text) {
			r.pos = len(r.text)
			return ""
		}
		r.pos += i
		switch tag := r.text[r.pos : r.pos+2]; tag {
		case "{{", "{%", "{#":
			r.pos += 2
			return tag
		}
		r.pos++
	}
}

// skip moves behind the next end, or to the end of the text.
func (r *reader) skip(end string) {
	if i := strings.Index(r.text[r.pos:], end); i >= 0 {
		r.pos += i + len(end)
		return
	}
	r.pos = len(r.text)
}

type tokenKind int

const (
	nameToken tokenKind = iota
	textToken
	otherToken
)

// token is a name, the content of a quoted text, or an operator (a number is one, too).
type token struct {
	kind tokenKind
	text string
}

func (t token) is(operator string) bool { return t.kind == otherToken && t.text == operator }

func (t token) isName(name string) bool { return t.kind == nameToken && t.text == name }

// tokens reads up to and with the end of a tag. Braces are paired as Jinja does it; "" reads everything.
func (r *reader) tokens(end string) []token {
	var out []token
	open := 0
	for r.pos < len(r.text) {
		rest := r.text[r.pos:]
		switch c := rest[0]; {
		case end != "" && open == 0 && strings.HasPrefix(rest, end):
			r.pos += len(end)
			return out
		case c == '\'' || c == '"':
			out = append(out, token{textToken, r.quoted(c)})
			continue
		case isWordStart(c):
			n := 1
			for n < len(rest) && isWord(rest[n]) {
				n++
			}
			out = append(out, token{nameToken, rest[:n]})
			r.pos += n
			continue
		case c == '{' || c == '(' || c == '[':
			open++
		case (c == '}' || c == ')' || c == ']') && open > 0:
			open--
		}
		n := operatorLength(rest)
		if op := rest[:n]; strings.TrimSpace(op) != "" {
			out = append(out, token{otherToken, op})
		}
		r.pos += n
	}
	return out
}

// operatorLength: of the operators of two characters only those with = matter, to tell them from a single one. A number
// is read whole, so that its exponent is no name.
func operatorLength(s string) int {
	if len(s) > 1 && s[1] == '=' && strings.IndexByte("=!<>", s[0]) >= 0 {
		return 2
	}
	n := 0
	for isDigit(s[0]) && n < len(s) && isWord(s[n]) {
		n++
	}
	return max(n, 1)
}

// quoted reads a text in quotes and returns what is between them.
func (r *reader) quoted(quote byte) string {
	start := r.pos + 1
	for r.pos = start; r.pos < len(r.text); r.pos++ {
		switch r.text[r.pos] {
		case '\\':
			r.pos++
		case quote:
			r.pos++
			return r.text[start : r.pos-1]
		}
	}
	r.pos = len(r.text)
	return r.text[min(start, len(r.text)):]
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWordStart(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }

func isWord(c byte) bool { return isWordStart(c) || isDigit(c) }

// statement reads what stands between {% and %}.
func (r *reader) statement(tokens []token) {
	for len(tokens) > 0 && (tokens[0].is("-") || tokens[0].is("+")) {
		tokens = tokens[1:]
	}
	if len(tokens) == 0 || tokens[0].kind != nameToken {
		return
	}
	r.lenient = true
	keyword, rest := tokens[0].text, tokens[1:]
	switch keyword {
	case "raw":
		r.skip("endraw")
		r.skip("%}")
	case "for":
		r.bindUpTo(rest, func(t token) bool { return t.isName("in") })
	case "set":
		r.bindUpTo(rest, func(t token) bool { return t.is("=") })
	case "import", "from", "include", "extends":
		r.found.Anything = r.found.Anything || !isOwnTemplate(rest)
		r.bindUpTo(rest, func(token) bool { return keyword == "include" || keyword == "extends" })
	case "macro":
		r.bindUpTo(rest, func(token) bool { return false })
	case "call":
		r.bindUpTo(rest, func(t token) bool { return t.is(")") })
	case "with":
		for i, t := range rest {
			if t.kind == nameToken && i+1 < len(rest) && rest[i+1].is("=") {
				r.bound[t.text] = true
			}
		}
		r.expression(rest)
	case "filter", "block", "endblock", "endmacro":
	default:
		r.expression(rest)
	}
}

// isOwnTemplate reports whether a statement names one *.j2 file, as those of the collection are all read.
func isOwnTemplate(tokens []token) bool {
	return len(tokens) > 0 && tokens[0].kind == textToken && strings.HasSuffix(tokens[0].text, Suffix)
}

// bindUpTo takes the names before the end as bound by the text, and what follows as an expression.
func (r *reader) bindUpTo(tokens []token, end func(token) bool) {
	for i, t := range tokens {
		if end(t) {
			r.expression(tokens[i+1:])
			return
		}
		if t.kind == nameToken {
			r.bound[t.text] = true
		}
	}
}

var keywords = []string{"and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "True", "False", "None", "recursive", "ignore", "missing", "with", "without", "context"}

// expression finds the references of one expression.
func (r *reader) expression(tokens []token) {
	closing := closingBrackets(tokens)
	soft := softTokens(tokens, closing)
	conditional := slices.ContainsFunc(tokens, func(t token) bool { return t.isName("if") })
	for i, t := range tokens {
		switch {
		case t.kind == textToken:
			r.words(t.text)
		case t.kind != nameToken || slices.Contains(keywords, t.text):
		case isMember(tokens, i):
			r.found.Words = append(r.found.Words, t.text)
		case i+1 < len(tokens) && tokens[i+1].is("("):
			r.found.Anything = r.found.Anything || usesAnything(tokens[i:])
		case i+1 < len(tokens) && tokens[i+1].is("=") && i > 0 && (tokens[i-1].is("(") || tokens[i-1].is(",")):
		default:
			ref := Reference{Name: t.text, Needed: !soft[i] && !conditional}
			end := endOfChain(tokens, closing, i)
			if end < len(tokens) && tokens[end].isName("is") {
				ref.Tested, ref.Needed = true, false
			} else if isDefault(tokens, end) {
				ref.Needed = false
			}
			r.found.References = append(r.found.References, ref)
			r.found.Anything = r.found.Anything || holdsVariables(t.text) && !namesMember(tokens[i:end])
		}
	}
}

// words takes the words of a quoted text. One that is a name may be the name of a variable that is asked for.
func (r *reader) words(text string) {
	if Identifier.MatchString(text) {
		r.found.References = append(r.found.References, Reference{Name: text, Tested: true})
		return
	}
	r.found.Words = append(r.found.Words, wordsOf(text)...)
}

func wordsOf(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c > 0x7f || !isWord(byte(c)) })
}

// isMember reports whether the name at i is an attribute, a filter or a test.
func isMember(tokens []token, i int) bool {
	if i == 0 {
		return false
	}
	before := tokens[i-1]
	return before.is(".") || before.is("|") || before.isName("is") ||
		before.isName("not") && i > 1 && tokens[i-2].isName("is")
}

// closingBrackets maps each opening bracket to its end.
func closingBrackets(tokens []token) map[int]int {
	closing := map[int]int{}
	var open []int
	for i, t := range tokens {
		switch {
		case t.is("(") || t.is("[") || t.is("{"):
			open = append(open, i)
		case (t.is(")") || t.is("]") || t.is("}")) && len(open) > 0:
			closing[open[len(open)-1]] = i
			open = open[:len(open)-1]
		}
	}
	return closing
}

// softTokens marks what stands in brackets that a default follows, or as the default itself.
func softTokens(tokens []token, closing map[int]int) map[int]bool {
	soft := map[int]bool{}
	until := 0
	for i := range tokens {
		if i < until {
			soft[i] = true
		}
		end, isBracket := closing[i]
		if isBracket && (isDefault(tokens, end+1) || i > 1 && isDefault(tokens, i-2)) {
			until = max(until, end)
		}
	}
	return soft
}

// endOfChain returns the index behind a name with its attributes, elements and calls.
func endOfChain(tokens []token, closing map[int]int, i int) int {
	i++
	for i < len(tokens) {
		end, isBracket := closing[i]
		switch {
		case isBracket && !tokens[i].is("{"):
			i = end + 1
		case tokens[i].is(".") && i+1 < len(tokens):
			i += 2
		default:
			return i
		}
	}
	return i
}

// isDefault reports whether the filter at i replaces an undefined value.
func isDefault(tokens []token, i int) bool {
	return i+1 < len(tokens) && tokens[i].is("|") && (tokens[i+1].isName("default") || tokens[i+1].isName("d"))
}

// holdsVariables reports whether a variable holds others: one can use them without naming them.
func holdsVariables(name string) bool {
	return name == "vars" || name == "hostvars" || model.IsReservedVar(name) && strings.HasPrefix(name, "_")
}

// namesMember reports whether a chain such as vars['name'] or hostvars[host].name ends with a name. What stands behind
// hostvars is that of a host.
func namesMember(chain []token) bool {
	n := len(chain)
	switch {
	case chain[0].isName("hostvars") && (n < 4 || chain[1].is("[") && n < 6):
		return false
	case n >= 3 && chain[n-2].is("."):
		return true
	}
	return n >= 4 && chain[n-1].is("]") && chain[n-2].kind == textToken && chain[n-3].is("[")
}

// usesAnything reports whether a call reads a variable or a template whose name is not in the text.
func usesAnything(call []token) bool {
	if len(call) < 5 || !slices.Contains([]string{"lookup", "query", "q"}, call[0].text) {
		return false
	}
	plugin, term := call[2], call[4]
	if plugin.kind != textToken {
		return true
	}
	switch plugin.text[strings.LastIndexByte(plugin.text, '.')+1:] {
	case "template":
		return term.kind != textToken || !strings.HasSuffix(term.text, Suffix)
	case "vars", "varnames":
		return term.kind != textToken || !Identifier.MatchString(term.text)
	}
	return false
}
