package playbook

import (
	"regexp"
	"slices"
	"strings"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// reference is one use of a variable in a Jinja expression.
type reference struct {
	name string
	// needed says that the expression fails if the variable is not defined. If unsure it is false.
	needed bool
	// tested says that the expression asks whether the variable is there.
	tested bool
}

// usage is what a text of a playbook or template says about variables.
type usage struct {
	// references are the names at the top level of expressions: no attributes, filters, tests, functions, names of
	// arguments, texts, nor what the text itself binds with for, set and the like.
	references []reference
	// words are all other words in expressions, those in quotes included. They may be names of variables, as in
	// vars['name'] and hostvars.host.name.
	words []string
	// anything says that the text may use variables that it does not name.
	anything bool
}

// readTemplate reads the expressions and statements of a template. It takes any text, in time linear to its length.
func readTemplate(text string) usage {
	r := jinjaReader{text: text, bound: map[string]bool{}}
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

// readExpression reads an expression without braces, as in when.
func readExpression(text string) usage {
	r := jinjaReader{text: text, bound: map[string]bool{}}
	r.expression(r.tokens(""))
	return r.result()
}

// identifier is what Ansible accepts as the name of a variable.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// isTemplate reports whether Ansible evaluates a text.
func isTemplate(text string) bool {
	return strings.Contains(text, "{{") || strings.Contains(text, "{%")
}

// jinjaReader is one reading of a text under way.
type jinjaReader struct {
	text  string
	pos   int
	found usage
	// bound are the names that the text gives values to; lenient is set once a statement may decide what is evaluated.
	bound   map[string]bool
	lenient bool
}

func (r *jinjaReader) result() usage {
	out := r.found
	out.references = slices.DeleteFunc(out.references, func(ref reference) bool { return r.bound[ref.name] })
	if r.lenient {
		for i := range out.references {
			out.references[i].needed = false
		}
	}
	return out
}

// nextTag moves behind the next opening tag and returns it, or "" at the end.
func (r *jinjaReader) nextTag() string {
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
func (r *jinjaReader) skip(end string) {
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

// jinjaToken is a name, the content of a quoted text, or an operator (a number is one, too).
type jinjaToken struct {
	kind tokenKind
	text string
}

func (t jinjaToken) is(operator string) bool { return t.kind == otherToken && t.text == operator }

func (t jinjaToken) isName(name string) bool { return t.kind == nameToken && t.text == name }

// tokens reads up to and with the end of a tag. Braces are paired as Jinja does it; "" reads everything.
func (r *jinjaReader) tokens(end string) []jinjaToken {
	var out []jinjaToken
	open := 0
	for r.pos < len(r.text) {
		rest := r.text[r.pos:]
		switch c := rest[0]; {
		case end != "" && open == 0 && strings.HasPrefix(rest, end):
			r.pos += len(end)
			return out
		case c == '\'' || c == '"':
			out = append(out, jinjaToken{textToken, r.quoted(c)})
			continue
		case isWordStart(c):
			n := 1
			for n < len(rest) && isWord(rest[n]) {
				n++
			}
			out = append(out, jinjaToken{nameToken, rest[:n]})
			r.pos += n
			continue
		case c == '{' || c == '(' || c == '[':
			open++
		case (c == '}' || c == ')' || c == ']') && open > 0:
			open--
		}
		n := operatorLength(rest)
		if op := rest[:n]; strings.TrimSpace(op) != "" {
			out = append(out, jinjaToken{otherToken, op})
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
func (r *jinjaReader) quoted(quote byte) string {
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
func (r *jinjaReader) statement(tokens []jinjaToken) {
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
		r.bindUpTo(rest, func(t jinjaToken) bool { return t.isName("in") })
	case "set":
		r.bindUpTo(rest, func(t jinjaToken) bool { return t.is("=") })
	case "import", "from", "include", "extends":
		r.found.anything = r.found.anything || !isOwnTemplate(rest)
		r.bindUpTo(rest, func(jinjaToken) bool { return keyword == "include" || keyword == "extends" })
	case "macro":
		r.bindUpTo(rest, func(jinjaToken) bool { return false })
	case "call":
		r.bindUpTo(rest, func(t jinjaToken) bool { return t.is(")") })
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
func isOwnTemplate(tokens []jinjaToken) bool {
	return len(tokens) > 0 && tokens[0].kind == textToken && strings.HasSuffix(tokens[0].text, templateSuffix)
}

// bindUpTo takes the names before the end as bound by the text, and what follows as an expression.
func (r *jinjaReader) bindUpTo(tokens []jinjaToken, end func(jinjaToken) bool) {
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

var jinjaWords = []string{"and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "True", "False", "None", "recursive", "ignore", "missing", "with", "without", "context"}

// expression finds the references of one expression.
func (r *jinjaReader) expression(tokens []jinjaToken) {
	closing := closingBrackets(tokens)
	soft := softTokens(tokens, closing)
	conditional := slices.ContainsFunc(tokens, func(t jinjaToken) bool { return t.isName("if") })
	for i, t := range tokens {
		switch {
		case t.kind == textToken:
			r.words(t.text)
		case t.kind != nameToken || slices.Contains(jinjaWords, t.text):
		case isMember(tokens, i):
			r.found.words = append(r.found.words, t.text)
		case i+1 < len(tokens) && tokens[i+1].is("("):
			r.found.anything = r.found.anything || usesAnything(tokens[i:])
		case i+1 < len(tokens) && tokens[i+1].is("=") && i > 0 && (tokens[i-1].is("(") || tokens[i-1].is(",")):
		default:
			ref := reference{name: t.text, needed: !soft[i] && !conditional}
			end := endOfChain(tokens, closing, i)
			if end < len(tokens) && tokens[end].isName("is") {
				ref.tested, ref.needed = true, false
			} else if isDefault(tokens, end) {
				ref.needed = false
			}
			r.found.references = append(r.found.references, ref)
			r.found.anything = r.found.anything || holdsVariables(t.text) && !namesMember(tokens[i:end])
		}
	}
}

// words takes the words of a quoted text. One that is a name may be the name of a variable that is asked for.
func (r *jinjaReader) words(text string) {
	if identifier.MatchString(text) {
		r.found.references = append(r.found.references, reference{name: text, tested: true})
		return
	}
	r.found.words = append(r.found.words, wordsOf(text)...)
}

func wordsOf(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c > 0x7f || !isWord(byte(c)) })
}

// isMember reports whether the name at i is an attribute, a filter or a test.
func isMember(tokens []jinjaToken, i int) bool {
	if i == 0 {
		return false
	}
	before := tokens[i-1]
	return before.is(".") || before.is("|") || before.isName("is") ||
		before.isName("not") && i > 1 && tokens[i-2].isName("is")
}

// closingBrackets maps each opening bracket to its end.
func closingBrackets(tokens []jinjaToken) map[int]int {
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
func softTokens(tokens []jinjaToken, closing map[int]int) map[int]bool {
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
func endOfChain(tokens []jinjaToken, closing map[int]int, i int) int {
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
func isDefault(tokens []jinjaToken, i int) bool {
	return i+1 < len(tokens) && tokens[i].is("|") && (tokens[i+1].isName("default") || tokens[i+1].isName("d"))
}

// holdsVariables reports whether a variable holds others: one can use them without naming them.
func holdsVariables(name string) bool {
	return name == "vars" || name == "hostvars" || model.IsReservedVar(name) && strings.HasPrefix(name, "_")
}

// namesMember reports whether a chain such as vars['name'] or hostvars[host].name ends with a name. What stands behind
// hostvars is that of a host.
func namesMember(chain []jinjaToken) bool {
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
func usesAnything(call []jinjaToken) bool {
	if len(call) < 5 || !slices.Contains([]string{"lookup", "query", "q"}, call[0].text) {
		return false
	}
	plugin, term := call[2], call[4]
	if plugin.kind != textToken {
		return true
	}
	switch shortName(plugin.text) {
	case "template":
		return term.kind != textToken || !strings.HasSuffix(term.text, templateSuffix)
	case "vars", "varnames":
		return term.kind != textToken || !identifier.MatchString(term.text)
	}
	return false
}
