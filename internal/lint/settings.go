package lint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"go.yaml.in/yaml/v3"

	"github.com/collection-operator/collection-operator/internal/archive"
	"github.com/collection-operator/collection-operator/internal/findings"
)

// SettingsFile lies beside the operator-config and says which findings to show. IBM's editor extension reads it too.
const SettingsFile = ".oc-lint"

var rules findings.Rules

var ruleSettings = rules.Warning("oc-lint", "", "A file .oc-lint can be read, and has only keys and rules that exist; else these are ignored. Clusters do not read it.")

// Bounds on the settings.
const (
	maxSettingsBytes = 64 << 10
	maxSettingsItems = 1000
	maxPattern       = 200
)

// Settings say which problems to show. They change nothing about what a cluster does with the collection.
type Settings struct {
	exclude    []string
	noDefaults bool
	skip, only []string
}

// ReadSettings reads the settings of a collection; none show everything. What is wrong with them are the problems, and
// is left out. The error means that fsys could not be read.
func ReadSettings(fsys fs.FS) (Settings, findings.Problems, error) {
	content, err := readSettingsFile(fsys)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Settings{}, nil, nil
	case errors.Is(err, archive.ErrNotKept) || errors.Is(err, errTooLarge):
		p := problem(nil, "", "is larger than %d KiB, and ignored", maxSettingsBytes>>10)
		return Settings{}, findings.Problems{p}, nil
	case err != nil:
		return Settings{}, nil, fmt.Errorf("read the collection: %w", err)
	}
	settings, problems := parseSettings(content)
	return settings, problems, nil
}

var errTooLarge = errors.New("the file is too large")

func readSettingsFile(fsys fs.FS) ([]byte, error) {
	f, err := fsys.Open(SettingsFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxSettingsBytes+1))
	if err == nil && len(content) > maxSettingsBytes {
		err = errTooLarge
	}
	return content, err
}

// settingsReader is one reading of settings under way.
type settingsReader struct {
	problems findings.Problems
	items    int
}

func parseSettings(content []byte) (Settings, findings.Problems) {
	r := &settingsReader{}
	var doc yaml.Node
	err := yaml.NewDecoder(bytes.NewReader(content)).Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		return Settings{}, nil
	case err != nil:
		line, column, message := findings.SyntaxError(content, err)
		r.report(&yaml.Node{Line: line, Column: column}, "", "cannot be read as YAML, and is ignored: %s", message)
		return Settings{}, r.problems
	}
	settings := r.settings(doc.Content[0])
	return settings, r.problems
}

func (r *settingsReader) settings(root *yaml.Node) Settings {
	var s Settings
	if isNull(root) {
		return s
	}
	if root.Kind != yaml.MappingNode {
		r.report(root, "", "must be a mapping of keys to values")
		return s
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(root.Content) && len(r.problems) < maxSettingsItems; i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if seen[key.Value] {
			r.report(key, "", "key %s is given twice; the last one counts", findings.Quote(key.Value))
		}
		seen[key.Value] = true
		switch key.Value {
		case "exclude_paths":
			s.exclude = r.patterns(key.Value, value)
		case "use_default_rules":
			s.noDefaults = r.isFalse(key.Value, value)
		case "skip_list":
			s.skip = r.rules(key.Value, value)
		case "enable_list":
			s.only = r.rules(key.Value, value)
		default:
			r.report(key, "", "unknown key %s, ignored; there are exclude_paths, use_default_rules, skip_list and enable_list", findings.Quote(key.Value))
		}
	}
	return s
}

func (r *settingsReader) patterns(key string, v *yaml.Node) []string {
	var patterns []string
	for _, item := range r.list(key, v) {
		pattern := path.Clean(item.Value)
		// Matching takes time exponential in the number of braces.
		if len(pattern) > maxPattern || strings.Contains(pattern, "{") || !doublestar.ValidatePattern(pattern) {
			r.report(item, key, "%s is not a pattern for paths: it may hold *, **, ? and [], no braces, and %d characters", findings.Quote(item.Value), maxPattern)
			continue
		}
		patterns = append(patterns, pattern)
	}
	return patterns
}

func (r *settingsReader) rules(key string, v *yaml.Node) []string {
	var names []string
	for _, item := range r.list(key, v) {
		if !isRule(item.Value) {
			r.report(item, key, "there is no rule %s", findings.Quote(item.Value))
			continue
		}
		names = append(names, item.Value)
	}
	return names
}

// extensionRules are rules of IBM's editor extension. Naming one here is never a mistake.
var extensionRules = []string{
	"missing-galaxy", "match-domain", "match-name", "match-version", "ansible-config", "playbook-path", "hosts-all",
	"missing-playbook", "finalizer-path", "missing-finalizer",
}

func isRule(name string) bool {
	return slices.Contains(extensionRules, name) || slices.ContainsFunc(Rules(), func(r findings.Rule) bool { return r.Name == name })
}

func (r *settingsReader) isFalse(key string, v *yaml.Node) bool {
	var b bool
	if isNull(v) {
		return false
	}
	if v.Kind != yaml.ScalarNode || v.Decode(&b) != nil {
		r.report(v, key, "must be true or false")
		return false
	}
	return !b
}

// list returns the texts of a list, or of a single text in its place.
func (r *settingsReader) list(key string, v *yaml.Node) []*yaml.Node {
	items := v.Content
	switch {
	case isNull(v):
		return nil
	case v.Kind == yaml.ScalarNode:
		items = []*yaml.Node{v}
	case v.Kind != yaml.SequenceNode:
		r.report(v, key, "must be a list")
		return nil
	}
	var texts []*yaml.Node
	for _, item := range items {
		if r.items++; r.items > maxSettingsItems {
			r.report(item, key, "there are more than %d items; this one and all that follow are ignored", maxSettingsItems)
			return texts
		}
		if item.Kind != yaml.ScalarNode || isNull(item) || item.Value == "" {
			r.report(item, key, "must be a text")
			continue
		}
		texts = append(texts, item)
	}
	return texts
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func (r *settingsReader) report(at *yaml.Node, field, format string, args ...any) {
	r.problems = append(r.problems, problem(at, field, format, args...))
}

func problem(at *yaml.Node, field, format string, args ...any) findings.Problem {
	place := findings.Problem{File: SettingsFile, Path: field}
	if at != nil {
		place.Line, place.Column = at.Line, at.Column
	}
	return ruleSettings.At(place, format, args...)
}

// Apply divides problems into those to show and those that the settings hide.
func (s Settings) Apply(problems findings.Problems) (shown, hidden findings.Problems) {
	for _, p := range problems {
		if s.hides(p) {
			hidden = append(hidden, p)
		} else {
			shown = append(shown, p)
		}
	}
	return shown, hidden
}

func (s Settings) hides(p findings.Problem) bool {
	if slices.Contains(s.skip, p.Rule) || s.noDefaults && !slices.Contains(s.only, p.Rule) {
		return true
	}
	return slices.ContainsFunc(s.exclude, func(pattern string) bool { return excludes(pattern, p.File) })
}

// excludes reports whether a pattern matches a file or a folder above it.
func excludes(pattern, file string) bool {
	for name := file; name != "." && name != "/"; name = path.Dir(name) {
		if doublestar.MatchUnvalidated(pattern, name) {
			return true
		}
	}
	return false
}
