package playbook

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/collection-operator/collection-operator/internal/author/playbook/jinja"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// Bounds on looking into the playbooks of one collection: their YAML values and distinct names in all files, the files
// that all runs together lead to, and the names that these runs are told of. What exceeds them counts as unknown.
const (
	maxPlaybookNodes = 1_000_000
	maxPlaybookNames = 100_000
	maxVisits        = 20_000
	maxRunNames      = 1_000_000
)

// library reads the files of playbooks and roles, each once.
type library struct {
	fsys                                           fs.FS
	nodesLeft, namesLeft, visitsLeft, runNamesLeft int
	scripts                                        map[scriptKey]*script
	// large are the files that were too large to look into, in the order in which they were met.
	large []string
	// own is the name that roles and playbooks of the collection have before their own, such as "acme.demo.".
	own string
	// unfindable are such beginnings of names by which Ansible finds nothing, because they have or had hyphens.
	unfindable []string
	// names are the files of playbooks, roles and templates.
	names []string
	// listed are the files below a folder.
	listed map[string][]string
	// inTemplates is nil until it is asked for.
	inTemplates *variables
}

type scriptKey struct {
	kind scriptKind
	name string
}

// newLibrary makes a library of the playbooks and roles of a collection. names are all their files.
func newLibrary(fsys fs.FS, names []string, c *model.Collection) *library {
	b := &library{
		fsys: fsys, names: names, listed: map[string][]string{}, nodesLeft: maxPlaybookNodes, namesLeft: maxPlaybookNames, visitsLeft: maxVisits, runNamesLeft: maxRunNames,
		scripts: map[scriptKey]*script{}, own: c.Galaxy.Namespace + "." + c.Galaxy.Name + ".",
	}
	if strings.Contains(b.own, "-") {
		b.unfindable = []string{b.own}
		if legal := strings.ReplaceAll(b.own, "-", "_"); !mayInstall(c, strings.TrimSuffix(legal, ".")) {
			b.unfindable = append(b.unfindable, legal)
		}
	}
	return b
}

// mayInstall reports whether the requirements of a collection may install another one of a name: only the names of those from Galaxy are
// known.
func mayInstall(c *model.Collection, name string) bool {
	_, needed := c.Galaxy.Dependencies[name]
	return needed || slices.ContainsFunc(c.Dependencies.Collections, func(r model.Requirement) bool { return r.Type != model.FromGalaxy || r.Name == name })
}

// script returns a file that exists.
func (b *library) script(kind scriptKind, name string) *script {
	key := scriptKey{kind, name}
	if s, known := b.scripts[key]; known {
		return s
	}
	s := &script{file: name}
	b.scripts[key] = s
	content, ok := b.content(name)
	if !ok || strings.HasPrefix(string(content), "$ANSIBLE_VAULT") {
		s.unknown = true
		return s
	}
	r := scriptReader{taskReader{nameReader: nameReader{script: s, namesLeft: &b.namesLeft, unfindable: b.unfindable}}}
	if kind == asTemplate {
		r.take(jinja.ReadTemplate(string(content)), nil)
		return s
	}
	root, err := b.parse(content)
	var bounds findings.BoundsError
	switch {
	case errors.As(err, &bounds):
		b.large = append(b.large, name)
		s.unknown = true
	case err != nil:
		line, column, message := findings.SyntaxError(content, err)
		s.broken = findings.Problem{File: name, Line: line, Column: column, Message: "cannot be read as YAML: " + message}
		s.broken.Fix = findings.QuoteFix(content, line)
	default:
		if node := unquotedTemplate(root); node != nil {
			r.markBroken(node, "a value that begins with {{ needs quotes around all of it; without them it is a mapping")
			s.broken.Fix = findings.QuoteFix(content, node.Line)
		}
		r.read(kind, root)
	}
	return s
}

// parse reads YAML as Ansible's parser takes it, which is more in a few points.
func (b *library) parse(content []byte) (*yaml.Node, error) {
	left := min(findings.MaxNodes, b.nodesLeft)
	allowed := left
	root, err := findings.ParseYAML(content, &left)
	if err != nil {
		content = tolerable.ReplaceAll(bytes.Replace(content, []byte("%YAML 1.2"), []byte("%YAML 1.1"), 1), []byte("$1${2}_"))
		if tolerated, again := findings.ParseYAML(content, &left); again == nil {
			root, err = tolerated, nil
		}
	}
	b.nodesLeft -= allowed - max(left, 0)
	return root, err
}

// tolerable is what our YAML parser refuses and Ansible's takes, besides the mark of YAML 1.2: a question mark in a plain
// text between brackets, and an escaped slash.
var tolerable = regexp.MustCompile(`([^\s,\[{])\?|(\\)/`)

// content returns a file as far as an archive of the collection would keep it. A file that cannot be read is one whose
// content is not known.
func (b *library) content(name string) ([]byte, bool) {
	info, err := fs.Stat(b.fsys, name)
	if err != nil || !isPlaybookFile(name) {
		return nil, false
	}
	if info.Size() > maxPlaybookBytes {
		b.large = append(b.large, name)
		return nil, false
	}
	f, err := b.fsys.Open(name)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxPlaybookBytes))
	return content, err == nil
}

// find returns the first of some paths at which there is a file.
func (b *library) find(names ...string) (string, bool) {
	return b.first(fs.FileMode.IsRegular, names)
}

func (b *library) findFolder(names ...string) (string, bool) {
	return b.first(fs.FileMode.IsDir, names)
}

func (b *library) first(is func(fs.FileMode) bool, names []string) (string, bool) {
	for _, name := range names {
		if !fs.ValidPath(name) {
			continue
		}
		if info, err := fs.Stat(b.fsys, name); err == nil && is(info.Mode()) {
			return name, true
		}
	}
	return "", false
}

// files returns the files below a folder, sorted; none if there is no such folder.
func (b *library) files(folder string) []string {
	names, known := b.listed[folder]
	if known {
		return names
	}
	_ = fs.WalkDir(b.fsys, folder, func(name string, d fs.DirEntry, err error) error {
		b.visitsLeft--
		switch {
		case b.visitsLeft < 0:
			return fs.SkipAll
		case err != nil:
			return fs.SkipDir
		case d.Type().IsRegular():
			names = append(names, name)
		}
		return nil
	})
	b.listed[folder] = names
	return names
}

// templates returns what the templates of the collection may use.
func (b *library) templates() *variables {
	if b.inTemplates != nil {
		return b.inTemplates
	}
	b.inTemplates = &variables{}
	if plugin := b.plugin(); plugin != "" {
		b.inTemplates.mayUseMore(findings.Quote(plugin) + " may read any variable")
	}
	for _, name := range b.names {
		if path.Ext(name) != jinja.Suffix && !slices.Contains(strings.Split(name, "/"), "templates") {
			continue
		}
		s := b.script(asTemplate, name)
		merge(&b.inTemplates.mentioned, s.mentioned)
		b.inTemplates.mayUseMore(s.unseen)
		if s.unknown {
			b.inTemplates.mayUseMore(findings.Quote(name) + " cannot be read")
		}
	}
	return b.inTemplates
}

// noVariables are the folders of plugins that get only what a task passes to them.
var noVariables = []string{"plugins/modules", "plugins/module_utils", "plugins/plugin_utils", "plugins/doc_fragments"}

// plugin returns the first plugin of the collection that Ansible gives all variables to, or "".
func (b *library) plugin() string {
	for _, pattern := range []string{"plugins/*/*.py", "*_plugins/*.py", "*/*_plugins/*.py", "roles/*/*_plugins/*.py"} {
		names, _ := fs.Glob(b.fsys, pattern)
		for _, name := range names {
			if path.Base(name) != "__init__.py" && !slices.Contains(noVariables, path.Dir(name)) {
				return name
			}
		}
	}
	return ""
}

func merge(into *map[string]bool, from map[string]bool) {
	if *into == nil {
		*into = map[string]bool{}
	}
	maps.Copy(*into, from)
}
