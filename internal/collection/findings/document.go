package findings

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxProblems bounds what a hostile file can make a check collect, for each rule.
const MaxProblems = 500

// Reporter collects the problems of one reading, and where each field lies.
type Reporter struct {
	// Problems are those that were reported, in this order. Of each rule only the first MaxProblems are kept.
	Problems Problems

	count  map[string]int
	errors int
	places map[string]Value
	// nodesLeft is how many more YAML values this reading may hold.
	nodesLeft int
}

// NewReporter makes a Reporter that may read MaxNodes YAML values.
func NewReporter() *Reporter {
	return &Reporter{count: map[string]int{}, places: map[string]Value{}, nodesLeft: MaxNodes}
}

// Report records that a rule is broken at a place.
func (r *Reporter) Report(place Problem, rule Rule, format string, args ...any) {
	if rule.Severity == SeverityError {
		r.errors++
	}
	if r.Keeps(rule) {
		r.Problems = append(r.Problems, rule.At(place, format, args...))
	}
	r.count[rule.Name]++
}

// Keeps reports whether a further problem of a rule would be kept.
func (r *Reporter) Keeps(rule Rule) bool { return r.count[rule.Name] < MaxProblems }

// ReportFile records that a file as a whole breaks a rule.
func (r *Reporter) ReportFile(file string, rule Rule, format string, args ...any) {
	r.Report(Problem{File: file}, rule, format, args...)
}

// At finds a field that was read before, for reporting at it. A field that was not read has no line.
func (r *Reporter) At(file, path string) Value {
	if v, ok := r.places[file+"\x00"+path]; ok {
		return v
	}
	return Value{r: r, File: file, Path: path, at: &yaml.Node{}}
}

// ParseDocument reads the only YAML document of a file. ok is false, and the reason reported, if it cannot be read.
func (r *Reporter) ParseDocument(file string, content []byte) (doc Value, ok bool) {
	doc = Value{r: r, File: file, at: &yaml.Node{}}
	root, err := ParseYAML(content, &r.nodesLeft)
	if err != nil {
		var message string
		doc.at.Line, doc.at.Column, message = SyntaxError(content, err)
		place := doc.Place()
		place.Fix = QuoteFix(content, doc.at.Line)
		r.Report(place, ruleYAML, "cannot be read as YAML: %s", message)
		return doc, false
	}
	return doc.child("", root, root), true
}

// Value is one YAML value of a file, or its absence, with the place to report it at.
type Value struct {
	r          *Reporter
	File, Path string
	// at is the node whose line and column stand for the value. For an absent value it is the mapping that lacks it.
	at *yaml.Node
	// Node is the value itself with aliases resolved; nil for an absent or null value.
	Node *yaml.Node
}

// child makes the value of node at path, remembering its place for the rules that look at the finished model.
func (v Value) child(path string, at, node *yaml.Node) Value {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" {
		node = nil
	}
	c := Value{r: v.r, File: v.File, Path: path, at: at, Node: node}
	v.r.places[c.File+"\x00"+c.Path] = c
	return c
}

// Present reports whether the author wrote a value other than null.
func (v Value) Present() bool { return v.Node != nil }

// Blank reports whether there is nothing to read: no value, a null, or an empty text.
func (v Value) Blank() bool {
	return v.Node == nil || v.Node.Kind == yaml.ScalarNode && v.Node.ShortTag() == "!!str" && v.Node.Value == ""
}

// Place is a Problem without rule and message.
func (v Value) Place() Problem {
	return Problem{File: v.File, Line: v.at.Line, Column: v.at.Column, Path: v.Path}
}

// Report records that the value breaks a rule.
func (v Value) Report(rule Rule, format string, args ...any) {
	v.r.Report(v.Place(), rule, format, args...)
}

// ReportFix is Report for a scalar that has one right value.
func (v Value) ReportFix(right string, rule Rule, format string, args ...any) {
	place := v.Place()
	if written, ok := v.Scalar(); ok && right != "" {
		place.Fix = Fix{Line: v.at.Line, Column: v.at.Column, Old: written, New: right}
	}
	v.r.Report(place, rule, format, args...)
}

// ReportAt is Report at another place of the same value.
func (v Value) ReportAt(line, column int, rule Rule, format string, args ...any) {
	place := v.Place()
	place.Line, place.Column = line, column
	v.r.Report(place, rule, format, args...)
}

// Scalar returns the text of a scalar as its author wrote it, also where YAML sees a number, a boolean or a date.
func (v Value) Scalar() (string, bool) {
	if v.Node == nil || v.Node.Kind != yaml.ScalarNode {
		return "", false
	}
	switch v.Node.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp":
		return v.Node.Value, true
	}
	return "", false
}

// Text reads an optional text; absent is "".
func (v Value) Text() string {
	if !v.Present() {
		return ""
	}
	s, ok := v.Scalar()
	if !ok {
		v.Report(ruleType, "must be a text, not %s", v.What())
	}
	return s
}

// RequiredText reads a text that must be there and not be empty.
func (v Value) RequiredText() string {
	if v.Blank() {
		v.Report(RuleRequired, "is required")
		return ""
	}
	return v.Text()
}

// Boolean reads an optional boolean in any of YAML's spellings, also quoted; absent is false.
func (v Value) Boolean() bool {
	if v.Blank() {
		return false
	}
	s, ok := v.Scalar()
	if ok {
		if b, ok := ParseBoolean(s); ok {
			return b
		}
	}
	v.Report(ruleType, "must be true or false, not %s", v.What())
	return false
}

// List reads an optional list; absent is empty.
func (v Value) List() []Value {
	if v.Blank() {
		return nil
	}
	if v.Node.Kind != yaml.SequenceNode {
		v.Report(ruleType, "must be a list, not %s", v.What())
		return nil
	}
	items := make([]Value, len(v.Node.Content))
	for i, node := range v.Node.Content {
		items[i] = v.child(fmt.Sprintf("%s[%d]", v.Path, i), node, node)
	}
	return items
}

// Texts reads an optional list of texts.
func (v Value) Texts(emptyAllowed bool) []string {
	var out []string
	for _, item := range v.List() {
		switch {
		case item.Present() && item.IsScalar() && (emptyAllowed || !item.Blank()):
			out = append(out, item.Text())
		case item.Blank():
			item.Report(ruleType, "must not be empty")
		default:
			item.Report(ruleType, "must be a text, not %s", item.What())
		}
	}
	return out
}

// TextOrList reads a list of texts that may be written as a single text.
func (v Value) TextOrList() []string {
	if v.IsScalar() && !v.Blank() {
		return []string{strings.TrimSpace(v.Text())}
	}
	return v.Texts(true)
}

// Errors is how many errors were reported so far in the reading that the value belongs to.
func (v Value) Errors() int { return v.r.errors }

// IsScalar reports whether Scalar has a text.
func (v Value) IsScalar() bool {
	_, ok := v.Scalar()
	return ok
}

// What describes the value for a message.
func (v Value) What() string {
	switch {
	case v.Node == nil:
		return "null"
	case v.Node.Kind == yaml.MappingNode:
		return "a mapping"
	case v.Node.Kind == yaml.SequenceNode:
		return "a list"
	}
	return Quote(v.Node.Value)
}

// Written returns a list or mapping that may be written as a text holding YAML, as the specification has it. The
// places inside such a text are that of the text.
func (v Value) Written(kind yaml.Kind) (Value, bool) {
	if v.Node.Kind == kind {
		return v, true
	}
	s, ok := v.Scalar()
	if !ok {
		return v, false
	}
	root, err := ParseYAML([]byte(s), &v.r.nodesLeft)
	if err != nil || root.Kind != kind {
		return v, false
	}
	return Value{r: v.r, File: v.File, Path: v.Path, at: v.at, Node: pinned(root, v.at)}, true
}
