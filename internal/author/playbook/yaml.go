package playbook

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/collection-operator/collection-operator/internal/author/playbook/jinja"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// entry is one key of a mapping with its value, aliases resolved.
type entry struct {
	key            string
	keyNode, value *yaml.Node
}

// place is the node that stands for the entry in a message.
func (e entry) place() *yaml.Node { return findings.ValuePlace(e.keyNode, e.value) }

// entriesOf returns the entries of a mapping as Ansible reads it: "<<" merges, of a key given twice the last counts,
// and a key that is no text is skipped. Anything else than a mapping has none.
func entriesOf(node *yaml.Node) []entry {
	node = resolved(node)
	if node.Kind != yaml.MappingNode {
		return nil
	}
	var entries, merged []entry
	index := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := resolved(node.Content[i]), resolved(node.Content[i+1])
		if key.ShortTag() == "!!merge" {
			for _, source := range elementsOf(value) {
				merged = append(merged, entriesOf(source)...)
			}
			continue
		}
		if key.Kind != yaml.ScalarNode {
			continue
		}
		e := entry{key: key.Value, keyNode: node.Content[i], value: value}
		if first, twice := index[e.key]; twice {
			entries[first] = e
			continue
		}
		index[e.key] = len(entries)
		entries = append(entries, e)
	}
	for _, e := range merged {
		if _, set := index[e.key]; !set {
			index[e.key] = len(entries)
			entries = append(entries, e)
		}
	}
	return entries
}

// unquotedTemplate is the first mapping that has a mapping as a key: what YAML makes of {{ without quotes. nil if there is none. Aliases
// need not be followed.
func unquotedTemplate(node *yaml.Node) *yaml.Node {
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && node.Style&yaml.FlowStyle != 0 && i%2 == 0 && child.Kind == yaml.MappingNode {
			return node
		}
		if found := unquotedTemplate(child); found != nil {
			return found
		}
	}
	return nil
}

// elementsOf returns the elements of a list, aliases resolved. A single value counts as a list of one, null as none.
func elementsOf(node *yaml.Node) []*yaml.Node {
	node = resolved(node)
	if node.Kind != yaml.SequenceNode {
		if isNull(node) {
			return nil
		}
		return []*yaml.Node{node}
	}
	out := make([]*yaml.Node, len(node.Content))
	for i, item := range node.Content {
		out[i] = resolved(item)
	}
	return out
}

// argument returns the text of one argument of a module, "" if there is none.
func argument(args *yaml.Node, key string) string {
	for _, e := range entriesOf(args) {
		if text, ok := textOf(e.value); ok && e.key == key {
			return text
		}
	}
	return ""
}

// resolved follows an alias. The bounds on documents exclude circles.
func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

// textOf returns a scalar as it is written. What is encrypted (!vault) or not evaluated (!unsafe) is no text to look
// into, as is any other tag of an author's.
func textOf(node *yaml.Node) (string, bool) {
	if node.Kind != yaml.ScalarNode || isNull(node) || strings.HasPrefix(node.Tag, "!") && !strings.HasPrefix(node.Tag, "!!") {
		return "", false
	}
	return node.Value, true
}

// The beginnings of paths whose folder is known without a run, as literal writes them.
const (
	inPlaybookFolder = "{{ playbook_dir }}/"
	inRoleFolder     = "{{ role_path }}/"
)

var ownFolder = regexp.MustCompile(`^\{\{\s*(playbook_dir|role_path)\s*\}\}/`)

// literal returns a text that names a file or role, or "" if it is known only in a run.
func literal(node *yaml.Node) string {
	text, _ := textOf(resolved(node))
	text = strings.TrimSpace(text)
	folder := ""
	if match := ownFolder.FindStringSubmatch(text); match != nil {
		folder, text = "{{ "+match[1]+" }}/", text[len(match[0]):]
	}
	if text == "" || jinja.IsTemplate(text) {
		return ""
	}
	return folder + text
}

// shortName is the last part of a fully qualified name.
func shortName(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// valueOf returns the value of an argument, or nil.
func valueOf(args *yaml.Node, key string) *yaml.Node {
	for _, e := range entriesOf(args) {
		if e.key == key {
			return e.value
		}
	}
	return nil
}

func hasArgument(args *yaml.Node, key string) bool { return valueOf(args, key) != nil }
