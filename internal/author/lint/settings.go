package lint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/collection-operator/collection-operator/internal/author/galaxy"
	"github.com/collection-operator/collection-operator/internal/author/playbook"
	"github.com/collection-operator/collection-operator/internal/author/scenario"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// SettingsFile lies beside the operator-config and says which findings to show. IBM's editor extension reads it too.
const SettingsFile = ".oc-lint"

var rules findings.Rules

// Rules returns every rule, sorted by name.
func Rules() findings.Rules {
	return slices.Concat(findings.AllRules(), model.Rules(), crd.Rules(), playbook.Rules(), galaxy.Rules(), scenario.Rules(), rules).Sorted()
}

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
	case err != nil && !errors.Is(err, archive.ErrNotKept):
		return Settings{}, nil, fmt.Errorf("read the collection: %w", err)
	case err != nil || len(content) > maxSettingsBytes:
		return Settings{}, findings.Problems{ruleSettings.At(findings.Problem{File: SettingsFile}, "is larger than %d KiB, and ignored", maxSettingsBytes>>10)}, nil
	}
	r := findings.NewReporter()
	settings := readSettings(r, content)
	for i, p := range r.Problems {
		p.Path, _, _ = strings.Cut(p.Path, "[")
		r.Problems[i] = ruleSettings.At(p, "%s", p.Message) // None of them is more than a warning here.
	}
	return settings, r.Problems, nil
}

func readSettingsFile(fsys fs.FS) ([]byte, error) {
	f, err := fsys.Open(SettingsFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSettingsBytes+1))
}

func readSettings(r *findings.Reporter, content []byte) Settings {
	doc, ok := r.ParseDocument(SettingsFile, content)
	if !ok || !doc.Present() {
		return Settings{}
	}
	root, ok := doc.Mapping()
	if !ok {
		return Settings{}
	}
	root.WarnUnknown("exclude_paths", "use_default_rules", "skip_list", "enable_list")
	before, defaults := doc.Errors(), root.Get("use_default_rules")
	noDefaults := defaults.Present() && !defaults.Boolean() && doc.Errors() == before
	return Settings{
		exclude:    readPatterns(root.Get("exclude_paths")),
		noDefaults: noDefaults,
		skip:       readRules(root.Get("skip_list")),
		only:       readRules(root.Get("enable_list")),
	}
}

func readPatterns(v findings.Value) []string {
	var patterns []string
	for _, item := range readList(v) {
		pattern := path.Clean(item.Text())
		// Matching takes time exponential in the number of braces.
		if len(pattern) > maxPattern || strings.Contains(pattern, "{") || !doublestar.ValidatePattern(pattern) {
			item.Report(ruleSettings, "%s is not a pattern for paths: it may hold *, **, ? and [], no braces, and %d characters", findings.Quote(item.Text()), maxPattern)
			continue
		}
		patterns = append(patterns, pattern)
	}
	return patterns
}

func readRules(v findings.Value) []string {
	known := Rules()
	var names []string
	for _, item := range readList(v) {
		name := item.Text()
		if !slices.Contains(extensionRules, name) && !slices.ContainsFunc(known, func(r findings.Rule) bool { return r.Name == name }) {
			item.Report(ruleSettings, "there is no rule %s", findings.Quote(name))
			continue
		}
		names = append(names, name)
	}
	return names
}

// extensionRules are rules of IBM's editor extension. Naming one here is never a mistake.
var extensionRules = []string{
	"missing-galaxy", "match-domain", "match-name", "match-version", "ansible-config", "playbook-path", "hosts-all",
	"missing-playbook", "finalizer-path", "missing-finalizer",
}

// readList returns the texts of a list, or a single text in its place.
func readList(v findings.Value) []findings.Value {
	items := []findings.Value{v}
	if v.Blank() {
		return nil
	} else if !v.IsScalar() {
		items = v.List()
	}
	if len(items) > maxSettingsItems {
		items[maxSettingsItems].Report(ruleSettings, "there are more than %d items; this one and all that follow are ignored", maxSettingsItems)
		items = items[:maxSettingsItems]
	}
	var texts []findings.Value
	for _, item := range items {
		if item.RequiredText() != "" {
			texts = append(texts, item)
		}
	}
	return texts
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
