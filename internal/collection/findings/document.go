package findings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds on the YAML of one collection (MaxNodes for all its files together), aliases followed. They are far above what
// a collection needs and keep a few hundred bytes of aliases from growing into gigabytes.
const (
	MaxNodes = 100_000
	maxDepth = 64
)

// maxIndicators bounds the characters of a document of which each value needs at least one, line ends included. It is
// checked before parsing, which takes a hundred times the memory of the text.
const maxIndicators = 4 * MaxNodes

// Value is one YAML value of a file, or its absence, with the place to report it at.
type Value struct {
	r          *Reporter
	File, Path string
	// at is the node whose line and column stand for the value. For an absent value it is the mapping that lacks it.
	at *yaml.Node
	// Node is the value itself with aliases resolved; nil for an absent or null value.
	Node *yaml.Node
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

// ParseYAML returns the root of the only document of content, within the package's bounds: nodesLeft is how many more
// values there may be, and becomes less. An empty content is a null. The error is a [BoundsError], or one for [SyntaxError].
func ParseYAML(content []byte, nodesLeft *int) (*yaml.Node, error) {
	if indicators(content) > maxIndicators {
		return nil, BoundsError("the document is too large")
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var doc yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: 1, Column: 1}, nil
	} else if err != nil {
		return nil, err
	}
	var second yaml.Node
	if err := decoder.Decode(&second); err == nil {
		return nil, fmt.Errorf("line %d: the file holds more than one document (---); keep the first only", second.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := checkSize(&doc, 0, nodesLeft); err != nil {
		return nil, err
	}
	return doc.Content[0], nil
}

// BoundsError says that a document is larger than the package's bounds. It may be sound YAML.
type BoundsError string

func (e BoundsError) Error() string { return string(e) }

func indicators(content []byte) int {
	n := 0
	for _, c := range content {
		switch c {
		case '\n', '\r', ',', ':', '-', '?', '[', '{':
			n++
		}
	}
	return n
}

func checkSize(n *yaml.Node, depth int, budget *int) error {
	*budget--
	switch {
	case *budget < 0:
		return BoundsError(fmt.Sprintf("line %d: the collection has more than %d YAML values, aliases followed", n.Line, MaxNodes))
	case depth > maxDepth:
		return BoundsError(fmt.Sprintf("line %d: the document is nested more than %d levels deep", n.Line, maxDepth))
	case n.Kind == yaml.AliasNode:
		return checkSize(n.Alias, depth+1, budget)
	}
	for _, child := range n.Content {
		if err := checkSize(child, depth+1, budget); err != nil {
			return err
		}
	}
	return nil
}

var lineInMessage = regexp.MustCompile(`^(?:yaml: )?(?:line ([0-9]+): )?`)

// SyntaxError returns the place of an error of ParseYAML and the message without it. The YAML package says the line in the
// message alone. The place is that line, or the last one with a text before it, and the column in which its text begins.
func SyntaxError(content []byte, err error) (line, column int, message string) {
	match := lineInMessage.FindStringSubmatch(err.Error())
	message = err.Error()[len(match[0]):]
	told, err := strconv.Atoi(match[1])
	if err != nil || strings.Contains(message, "did not find expected") {
		told++ // The package's parser, unlike its scanner, counts lines from 0 and keeps quiet about 0.
	}
	line, column = 1, 1
	at := 0
	for text := range bytes.Lines(content) {
		if at++; at > told {
			break
		}
		if len(bytes.TrimSpace(text)) > 0 {
			line, column = at, 1+len(text)-len(bytes.TrimLeft(text, " "))
		}
	}
	return line, column, message
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

// ParseBoolean knows the spellings of YAML 1.1, which is what Ansible reads.
func ParseBoolean(s string) (b, ok bool) {
	switch strings.ToLower(s) {
	case "true", "yes", "on":
		return true, true
	case "false", "no", "off":
		return false, true
	}
	return false, false
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

// pinned gives all nodes below n the place of another node.
func pinned(n, place *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	out := *n
	out.Line, out.Column, out.Content = place.Line, place.Column, make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		out.Content[i] = pinned(child, place)
	}
	return &out
}

// Mapping is a YAML mapping with text keys.
type Mapping struct {
	Value
	Keys   []string
	Fields map[string]Value
}

// Mapping reads a mapping. A key given twice is an error; "<<" merges as YAML 1.1 says. ok is false, and the reason
// reported, if the value is none.
func (v Value) Mapping() (m Mapping, ok bool) {
	m = Mapping{Value: v, Fields: map[string]Value{}}
	if v.Node == nil || v.Node.Kind != yaml.MappingNode {
		v.Report(ruleType, "must be a mapping of keys to values, not %s", v.What())
		return m, false
	}
	var merges []Value
	for i := 0; i+1 < len(v.Node.Content); i += 2 {
		key, node := v.Node.Content[i], v.Node.Content[i+1]
		if key.ShortTag() == "!!merge" {
			merges = append(merges, v.child(v.Path, key, node))
			continue
		}
		keyValue := Value{r: v.r, File: v.File, Path: v.Path, at: key, Node: key}
		if key.Kind == yaml.AliasNode {
			keyValue.Node = key.Alias
		}
		name, ok := keyValue.Scalar()
		if !ok {
			keyValue.Report(ruleType, "a key must be a text, not %s", keyValue.What())
			continue
		}
		if first, twice := m.Fields[name]; twice {
			keyValue.Report(ruleDuplicateKey, "key %s is given twice, first in line %d; keep one", Quote(name), first.at.Line)
			continue
		}
		m.add(name, v.child(JoinPath(v.Path, name), ValuePlace(key, node), node))
	}
	m.merge(merges)
	return m, true
}

// Keyed is mapping for a value that may be something else, which is not reported.
func (v Value) Keyed() (Mapping, bool) {
	if v.Node == nil || v.Node.Kind != yaml.MappingNode {
		return Mapping{}, false
	}
	return v.Mapping()
}

func (m *Mapping) add(name string, field Value) {
	m.Keys = append(m.Keys, name)
	m.Fields[name] = field
}

func (m *Mapping) merge(sources []Value) {
	for _, source := range sources {
		if source.Node != nil && source.Node.Kind == yaml.SequenceNode {
			m.merge(source.List())
			continue
		}
		merged, ok := source.Mapping()
		if !ok {
			continue
		}
		for _, name := range merged.Keys {
			if _, set := m.Fields[name]; !set {
				m.add(name, merged.Fields[name])
			}
		}
	}
}

// ValuePlace is where to report a field: at its value, or at its key when there is nothing to see of the value.
func ValuePlace(key, node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.ScalarNode && node.Value == "" {
		return key
	}
	return node
}

// Get returns a field; an absent one is reported at the mapping.
func (m Mapping) Get(name string) Value {
	if field, ok := m.Fields[name]; ok {
		return field
	}
	return Value{r: m.r, File: m.File, Path: JoinPath(m.Path, name), at: m.at}
}

// WarnUnknown warns about the keys that nothing reads.
func (m Mapping) WarnUnknown(known ...string) {
	m.reportUnknown(ruleUnknownKey, "unknown key, ignored", known)
}

// RefuseUnknown reports the keys that nothing reads as problems of a rule.
func (m Mapping) RefuseUnknown(rule Rule, known ...string) {
	m.reportUnknown(rule, "unknown key", known)
}

func (m Mapping) reportUnknown(rule Rule, message string, known []string) {
	for _, key := range m.Keys {
		if slices.Contains(known, key) {
			continue
		}
		place := m.Fields[key].Place()
		if m.r.Keeps(rule) {
			if near := nearest(key, known); near != "" {
				place.Fix = m.renamed(key, m.meant(key, known))
				m.r.Report(place, rule, "%s; did you mean %s?", message, near)
				continue
			}
		}
		m.r.Report(place, rule, "%s", message)
	}
}

// meant is the known name that an unknown key means, "" if another unknown key means it too, or there are too many to compare.
func (m Mapping) meant(key string, known []string) string {
	if len(m.Keys) > maxCompared {
		return ""
	}
	name := Meant(key, known)
	for _, other := range m.Keys {
		if other != key && !slices.Contains(known, other) && Meant(other, known) == name {
			return ""
		}
	}
	return name
}

// maxCompared bounds the keys of a mapping that are compared with each other.
const maxCompared = 100

// renamed is the fix that gives a key another name: none for a key that is merged from elsewhere, and if the name is taken.
func (m Mapping) renamed(key, name string) Fix {
	if _, taken := m.Fields[name]; taken || name == "" {
		return Fix{}
	}
	for i := 0; i+1 < len(m.Node.Content); i += 2 {
		if node := m.Node.Content[i]; node.Kind == yaml.ScalarNode && node.Value == key {
			return Fix{Line: node.Line, Column: node.Column, Old: key, New: name}
		}
	}
	return Fix{}
}

// nearest is the known key that is likely meant by another one: at most a third of it differs. "" if there is none.
func nearest(key string, known []string) string {
	if len(key) > MaxQuoted {
		return ""
	}
	best, least := "", len(key)/3+1
	for _, k := range known {
		if d := distance(strings.ToLower(key), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// Meant is the only known name that a misspelt one can mean, "" if that is not certain: beside capitals, - and _ one character
// differs, of long names two, and of all other known names more.
func Meant(name string, known []string) string {
	bare := func(s string) string { return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s)) }
	most := 0
	switch n := len(bare(name)); {
	case n > MaxQuoted:
		return ""
	case n >= 8:
		most = 2
	case n >= 3:
		most = 1
	}
	best, least := "", most+1
	for _, k := range known {
		switch d := distance(bare(name), bare(k)); {
		case d < least:
			best, least = k, d
		case d == least || d <= most:
			return ""
		}
	}
	return best
}

// distance is how many characters one must insert, remove or replace to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// JoinPath is the path of a key of the mapping at parent.
func JoinPath(parent, key string) string {
	if len(key) > MaxQuoted {
		key = key[:MaxQuoted]
	}
	if !plainKey.MatchString(key) {
		key = strconv.Quote(key)
	}
	if parent == "" {
		return key
	}
	return parent + "." + key
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// MaxQuoted keeps messages short, whatever an author's text is.
const MaxQuoted = 80

// Quote quotes an author's text for a message, shortened.
func Quote(s string) string {
	if len(s) > MaxQuoted {
		return strconv.Quote(strings.ToValidUTF8(s[:MaxQuoted], "")) + "..."
	}
	return strconv.Quote(s)
}
