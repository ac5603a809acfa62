package findings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds on the YAML of one collection (MaxNodes for all its files together), aliases followed. They are far above what
// a collection needs and keep a few hundred bytes of aliases from growing into gigabytes. A text counts as one more value
// for each bytesPerNode: what is made of a collection repeats the texts that aliases share.
const (
	MaxNodes     = 100_000
	maxDepth     = 64
	bytesPerNode = 100
)

// maxIndicators bounds the characters of a document of which each value needs at least one, line ends included. It is
// checked before parsing, which takes a hundred times the memory of the text.
const maxIndicators = 4 * MaxNodes

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
	*budget -= 1 + len(n.Value)/bytesPerNode
	switch {
	case *budget < 0:
		return BoundsError(fmt.Sprintf("line %d: the collection has more than %d YAML values, aliases followed; a text counts as one more for every %d bytes",
			n.Line, MaxNodes, bytesPerNode))
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

// ValuePlace is where to report a field: at its value, or at its key when there is nothing to see of the value.
func ValuePlace(key, node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.ScalarNode && node.Value == "" {
		return key
	}
	return node
}

func eachNode(n *yaml.Node, visit func(*yaml.Node)) {
	visit(n)
	for _, child := range n.Content {
		eachNode(child, visit)
	}
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
