package collection

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

// Bounds on the YAML of one collection (maxNodes for all its files together), aliases followed. They are far above what
// a collection needs and keep a few hundred bytes of aliases from growing into gigabytes.
const (
	maxNodes = 100_000
	maxDepth = 64
)

// maxIndicators bounds the characters of a document of which each value needs at least one, line ends included. It is
// checked before parsing, which takes a hundred times the memory of the text.
const maxIndicators = 4 * maxNodes

// value is one YAML value of a file, or its absence, with the place to report it at.
type value struct {
	r    *reporter
	file string
	path string
	// at is the node whose line and column stand for the value. For an absent value it is the mapping that lacks it.
	at *yaml.Node
	// node is the value itself with aliases resolved; nil for an absent or null value.
	node *yaml.Node
}

// parseDocument reads the only YAML document of a file. ok is false, and the reason reported, if it cannot be read.
func (r *reporter) parseDocument(file string, content []byte) (doc value, ok bool) {
	doc = value{r: r, file: file, at: &yaml.Node{}}
	root, err := r.parseYAML(content)
	if err != nil {
		doc.at.Line, doc.at.Column = syntaxPlace(content, err)
		doc.report(ruleYAML, "cannot be read as YAML: %s", lineInMessage.ReplaceAllString(err.Error(), ""))
		return doc, false
	}
	return doc.child("", root, root), true
}

// parseYAML returns the root of the only document of content, within the package's bounds. An empty content is a null.
func (r *reporter) parseYAML(content []byte) (*yaml.Node, error) {
	if indicators(content) > maxIndicators {
		return nil, boundsError("the document is too large")
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
	if err := checkSize(&doc, 0, &r.nodesLeft); err != nil {
		return nil, err
	}
	return doc.Content[0], nil
}

// boundsError says that a document is larger than the package's bounds. It may be sound YAML.
type boundsError string

func (e boundsError) Error() string { return string(e) }

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
		return boundsError(fmt.Sprintf("line %d: the collection has more than %d YAML values, aliases followed", n.Line, maxNodes))
	case depth > maxDepth:
		return boundsError(fmt.Sprintf("line %d: the document is nested more than %d levels deep", n.Line, maxDepth))
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

// syntaxPlace is the place of a syntax error: the line that the YAML package tells in the message, or the last one with
// a text before it, and the column in which its text begins.
func syntaxPlace(content []byte, err error) (line, column int) {
	message := err.Error()
	told, err := strconv.Atoi(lineInMessage.FindStringSubmatch(message)[1])
	if err != nil || strings.Contains(message, "did not find expected") {
		told++ // The package's parser, unlike its scanner, counts lines from 0 and keeps quiet about 0.
	}
	line, column, at := 1, 1, 0
	for text := range bytes.Lines(content) {
		if at++; at > told {
			break
		}
		if len(bytes.TrimSpace(text)) > 0 {
			line, column = at, 1+len(text)-len(bytes.TrimLeft(text, " "))
		}
	}
	return line, column
}

// child makes the value of node at path, remembering its place for the rules that look at the finished model.
func (v value) child(path string, at, node *yaml.Node) value {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" {
		node = nil
	}
	c := value{r: v.r, file: v.file, path: path, at: at, node: node}
	v.r.remember(c)
	return c
}

// present says whether the author wrote a value other than null.
func (v value) present() bool { return v.node != nil }

// blank says whether there is nothing to read: no value, a null, or an empty text.
func (v value) blank() bool {
	return v.node == nil || v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!str" && v.node.Value == ""
}

// report records that the value breaks a rule.
// place is a Problem that says only where.
func (v value) place() Problem {
	return Problem{File: v.file, Line: v.at.Line, Column: v.at.Column, Path: v.path}
}

func (v value) report(rule, format string, args ...any) {
	v.r.report(v.place(), rule, format, args...)
}

// scalar returns the text of a scalar as its author wrote it, also where YAML sees a number, a boolean or a date.
func (v value) scalar() (string, bool) {
	if v.node == nil || v.node.Kind != yaml.ScalarNode {
		return "", false
	}
	switch v.node.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp":
		return v.node.Value, true
	}
	return "", false
}

// text reads an optional text; absent is "".
func (v value) text() string {
	if !v.present() {
		return ""
	}
	s, ok := v.scalar()
	if !ok {
		v.report(ruleType, "must be a text, not %s", v.what())
	}
	return s
}

// requiredText reads a text that must be there and not be empty.
func (v value) requiredText() string {
	if v.blank() {
		v.report(ruleRequired, "is required")
		return ""
	}
	return v.text()
}

// boolean reads an optional boolean in any of YAML's spellings, also quoted; absent is false.
func (v value) boolean() bool {
	if v.blank() {
		return false
	}
	s, ok := v.scalar()
	if ok {
		if b, ok := parseBoolean(s); ok {
			return b
		}
	}
	v.report(ruleType, "must be true or false, not %s", v.what())
	return false
}

// parseBoolean knows the spellings of YAML 1.1, which is what Ansible reads.
func parseBoolean(s string) (b, ok bool) {
	switch strings.ToLower(s) {
	case "true", "yes", "on":
		return true, true
	case "false", "no", "off":
		return false, true
	}
	return false, false
}

// list reads an optional list; absent is empty.
func (v value) list() []value {
	if v.blank() {
		return nil
	}
	if v.node.Kind != yaml.SequenceNode {
		v.report(ruleType, "must be a list, not %s", v.what())
		return nil
	}
	items := make([]value, len(v.node.Content))
	for i, node := range v.node.Content {
		items[i] = v.child(fmt.Sprintf("%s[%d]", v.path, i), node, node)
	}
	return items
}

// what describes the value for a message.
func (v value) what() string {
	switch {
	case v.node == nil:
		return "null"
	case v.node.Kind == yaml.MappingNode:
		return "a mapping"
	case v.node.Kind == yaml.SequenceNode:
		return "a list"
	}
	return quote(v.node.Value)
}

// mapping is a YAML mapping with text keys.
type mapping struct {
	value
	keys   []string
	fields map[string]value
}

// mapping reads a mapping. A key given twice is an error; "<<" merges as YAML 1.1 says. ok is false, and the reason
// reported, if the value is none.
func (v value) mapping() (m mapping, ok bool) {
	m = mapping{value: v, fields: map[string]value{}}
	if v.node == nil || v.node.Kind != yaml.MappingNode {
		v.report(ruleType, "must be a mapping of keys to values, not %s", v.what())
		return m, false
	}
	var merges []value
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key, node := v.node.Content[i], v.node.Content[i+1]
		if key.ShortTag() == "!!merge" {
			merges = append(merges, v.child(v.path, key, node))
			continue
		}
		keyValue := value{r: v.r, file: v.file, path: v.path, at: key, node: key}
		if key.Kind == yaml.AliasNode {
			keyValue.node = key.Alias
		}
		name, ok := keyValue.scalar()
		if !ok {
			keyValue.report(ruleType, "a key must be a text, not %s", keyValue.what())
			continue
		}
		if first, twice := m.fields[name]; twice {
			keyValue.report(ruleDuplicateKey, "key %s is given twice, first in line %d; keep one", quote(name), first.at.Line)
			continue
		}
		m.add(name, v.child(joinPath(v.path, name), valuePlace(key, node), node))
	}
	m.merge(merges)
	return m, true
}

// keyed is mapping for a value that may be something else, which is not reported.
func (v value) keyed() (mapping, bool) {
	if v.node == nil || v.node.Kind != yaml.MappingNode {
		return mapping{}, false
	}
	return v.mapping()
}

func (m *mapping) add(name string, field value) {
	m.keys = append(m.keys, name)
	m.fields[name] = field
}

func (m *mapping) merge(sources []value) {
	for _, source := range sources {
		if source.node != nil && source.node.Kind == yaml.SequenceNode {
			m.merge(source.list())
			continue
		}
		merged, ok := source.mapping()
		if !ok {
			continue
		}
		for _, name := range merged.keys {
			if _, set := m.fields[name]; !set {
				m.add(name, merged.fields[name])
			}
		}
	}
}

// valuePlace is where to report a field: at its value, or at its key when there is nothing to see of the value.
func valuePlace(key, node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.ScalarNode && node.Value == "" {
		return key
	}
	return node
}

// get returns a field; an absent one is reported at the mapping.
func (m mapping) get(name string) value {
	if field, ok := m.fields[name]; ok {
		return field
	}
	return value{r: m.r, file: m.file, path: joinPath(m.path, name), at: m.at}
}

// warnUnknown warns about the keys that nothing reads.
func (m mapping) warnUnknown(known ...string) {
	for _, key := range m.keys {
		if slices.Contains(known, key) {
			continue
		}
		if m.r.count[ruleUnknownKey] < maxProblems {
			if near := nearest(key, known); near != "" {
				m.fields[key].report(ruleUnknownKey, "unknown key, ignored; did you mean %s?", near)
				continue
			}
		}
		m.fields[key].report(ruleUnknownKey, "unknown key, ignored")
	}
}

// nearest is the known key that is likely meant by another one: at most a third of it differs. "" if there is none.
func nearest(key string, known []string) string {
	if len(key) > maxQuoted {
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

func joinPath(parent, key string) string {
	if len(key) > maxQuoted {
		key = key[:maxQuoted]
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

// maxQuoted keeps messages short, whatever an author's text is.
const maxQuoted = 80

// quote quotes an author's text for a message, shortened.
func quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.Quote(strings.ToValidUTF8(s[:maxQuoted], "")) + "..."
	}
	return strconv.Quote(s)
}
