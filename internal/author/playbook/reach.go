package playbook

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

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

// scriptKind says what a file is read as.
type scriptKind int

const (
	asPlaybook scriptKind = iota
	asTasks
	asVars
	asDefaults
	asMeta
	asTemplate
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
	r := scriptReader{nameReader: nameReader{script: s, namesLeft: &b.namesLeft, unfindable: b.unfindable}}
	if kind == asTemplate {
		r.take(readTemplate(string(content)), nil)
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

func (r *scriptReader) read(kind scriptKind, root *yaml.Node) {
	switch kind {
	case asPlaybook:
		r.playbook(root)
	case asTasks:
		r.tasks(root)
	case asVars:
		r.varsFile(root)
		r.connection(root)
	case asDefaults:
		r.varsFile(root)
	case asMeta:
		r.meta(root)
	}
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

// reach is all that one playbook leads to.
type reach struct {
	*library
	visited map[visit]bool
	// scripts are the files that surely belong to the run, in the order in which they are met.
	scripts []*script
	// exposed are those that are used for other hosts than the operator's pod.
	exposed map[*script]bool
	// effort is how much there is to check for each kind that uses the playbook.
	effort int
	// lost are the imports of playbooks that are not there.
	lost []lead
	// addsHosts says that a file which may belong to the run adds hosts.
	addsHosts bool
	// checked says that the rules for runs were applied.
	checked bool
	variables
}

// visit is one file and the place from which what it names is searched.
type visit struct {
	kind scriptKind
	name string
	// folder is that of the playbook, role that of the role or "".
	folder, role string
	local        bool
}

// reach reads a playbook that exists and everything it leads to.
func (b *library) reach(playbook string) *reach {
	r := &reach{library: b, visited: map[visit]bool{}, exposed: map[*script]bool{}}
	r.playbook(playbook)
	r.effort = len(r.needed) + len(r.scripts)
	for _, s := range r.scripts {
		r.effort += len(s.prompts) + len(s.conditions)
	}
	return r
}

func (r *reach) playbook(name string) {
	folder := path.Dir(name)
	if r.visit(visit{kind: asPlaybook, name: name, folder: folder}) {
		r.inventoryVars(folder)
	}
}

// inventoryVars reads the variables of groups and hosts beside a playbook. Ansible reads files without ending, too.
func (r *reach) inventoryVars(folder string) {
	for _, kind := range []string{"group_vars", "host_vars"} {
		for _, name := range r.files(path.Join(folder, kind)) {
			if isYAML(name) {
				r.visit(visit{kind: asDefaults, name: name, folder: folder})
			} else {
				r.definesAll = true
				r.mayUseMore(findings.Quote(name) + " is not looked into")
			}
		}
	}
}

// visit takes a file into the run and follows it. It reports whether the file was not there before.
func (r *reach) visit(v visit) bool {
	if r.visited[v] {
		return false
	}
	r.visited[v] = true
	if r.visitsLeft--; r.visitsLeft < 0 {
		r.mayUseMore(tooMuch)
		r.definesAll = true
		return false
	}
	s := r.script(v.kind, v.name)
	r.scripts = append(r.scripts, s)
	if !v.local {
		r.exposed[s] = true
	}
	r.add(s, true)
	for _, l := range s.leads {
		l.local = l.local || v.local
		r.follow(v, l)
	}
	return true
}

// add merges what a file says about variables. Of a file that may not belong to the run only the uses count.
func (r *reach) add(s *script, sure bool) {
	r.runNamesLeft -= len(s.mentioned) + len(s.needed) + len(s.tested) + len(s.defined)
	if r.runNamesLeft < 0 {
		r.mayUseMore(tooMuch)
		r.definesAll = true
		return
	}
	unseen := s.unknown || s.broken.Message != ""
	if unseen {
		r.mayUseMore(findings.Quote(s.file) + " cannot be read")
	}
	r.mayUseMore(s.unseen)
	r.addsHosts = r.addsHosts || s.addsHosts
	merge(&r.mentioned, s.mentioned)
	if !sure {
		return
	}
	r.definesAll = r.definesAll || s.definesAll || unseen
	r.works = r.works || s.works
	merge(&r.tested, s.tested)
	merge(&r.defined, s.defined)
	if r.needed == nil {
		r.needed = map[string]findings.Problem{}
	}
	for name, place := range s.needed {
		if _, known := r.needed[name]; !known {
			r.needed[name] = place
		}
	}
}

func merge(into *map[string]bool, from map[string]bool) {
	if *into == nil {
		*into = map[string]bool{}
	}
	maps.Copy(*into, from)
}

// follow visits what a file leads to. A lead that cannot be followed may define and use any variable.
func (r *reach) follow(v visit, l lead) {
	found := false
	switch {
	case l.name == "":
	case l.kind == toPlaybook:
		found = r.followPlaybook(v, l)
	case l.kind == toRole:
		found = r.followRole(v, l)
	case l.kind == toTasks:
		found = r.followFile(v, l, asTasks, "tasks")
	case l.kind == toVars:
		found = r.followFile(v, l, asVars, "vars")
	}
	if !found {
		r.mayUseMore(l.notFollowed())
		r.definesAll = true
	}
}

// notFollowed says why the lead does not lead to a file that can be read.
func (l lead) notFollowed() string {
	at := fmt.Sprintf("%s, line %d, ", l.place.File, l.place.Line)
	if l.name == "" {
		return at + "leads to a file that is known only in a run"
	}
	return at + "leads to " + findings.Quote(l.name) + ", which is not in the collection"
}

func (r *reach) followPlaybook(v visit, l lead) bool {
	candidates := []string{path.Join(path.Dir(v.name), l.name)}
	if rest, ok := strings.CutPrefix(l.name, inPlaybookFolder); ok {
		candidates = []string{path.Join(v.folder, rest)}
	} else if short, ok := strings.CutPrefix(l.name, r.own); ok {
		candidates = append(candidates, "playbooks/"+short+".yml", "playbooks/"+short+".yaml")
	}
	name, ok := r.find(candidates...)
	if !ok {
		if isYAML(l.name) && !path.IsAbs(l.name) {
			r.lost = append(r.lost, l)
		}
		return false
	}
	r.playbook(name)
	return true
}

// followFile searches a file of tasks or variables in the order in which Ansible does.
func (r *reach) followFile(v visit, l lead, kind scriptKind, folder string) bool {
	var candidates []string
	if rest, ok := strings.CutPrefix(l.name, inPlaybookFolder); ok {
		candidates = []string{path.Join(v.folder, rest)}
	} else if rest, ok := strings.CutPrefix(l.name, inRoleFolder); ok {
		candidates = []string{path.Join(v.role, rest)}
	} else {
		if v.role != "" {
			candidates = append(candidates, path.Join(v.role, folder, l.name), path.Join(v.role, l.name))
		}
		candidates = append(candidates, path.Join(path.Dir(v.name), folder, l.name), path.Join(path.Dir(v.name), l.name),
			path.Join(v.folder, folder, l.name), path.Join(v.folder, l.name))
	}
	name, ok := r.find(candidates...)
	if ok {
		r.visit(visit{kind: kind, name: name, folder: v.folder, role: v.role, local: l.local})
	}
	return ok
}

// followRole searches a role beside the playbook, beside the role that asks for it, and at the root.
func (r *reach) followRole(v visit, l lead) bool {
	candidates := []string{path.Join(v.folder, "roles", l.name), path.Join(v.folder, l.name), path.Join("roles", l.name)}
	if v.role != "" {
		candidates = append(candidates, path.Join(path.Dir(v.role), l.name))
	}
	if rest, ok := strings.CutPrefix(l.name, inPlaybookFolder); ok {
		candidates = []string{path.Join(v.folder, rest)}
	} else if short, ok := strings.CutPrefix(l.name, r.own); ok {
		candidates = []string{"roles/" + strings.ReplaceAll(short, ".", "/")}
	}
	folder, ok := r.findFolder(candidates...)
	if !ok || folder == "." {
		return false
	}
	at := visit{folder: v.folder, role: folder, local: l.local}
	for _, part := range []struct {
		kind         scriptKind
		folder, from string
	}{
		{asMeta, "meta", ""},
		{asDefaults, "defaults", l.defaultsFrom},
		{asVars, "vars", l.varsFrom},
		{asTasks, "tasks", l.tasksFrom},
		{asTasks, "handlers", l.handlersFrom},
	} {
		r.rolePart(at, part.kind, part.folder, part.from)
	}
	r.mayUse(folder)
	return true
}

// rolePart visits the file of one part of a role: main, or the one that is asked for. Variables may fill a folder.
func (r *reach) rolePart(at visit, kind scriptKind, part, from string) {
	if from == unknownPart {
		return
	}
	base := path.Join(at.role, part, cmp.Or(from, "main"))
	at.kind = kind
	if name, ok := r.find(base+".yml", base+".yaml", base); ok {
		at.name = name
		r.visit(at)
		return
	}
	if from != "" {
		r.mayUseMore(findings.Quote(base) + " is not in the collection")
		r.definesAll = true
		return
	}
	if _, ok := r.findFolder(base); ok {
		for _, name := range r.files(base) {
			at.name = name
			r.visit(at)
		}
	}
}

// mayUse takes the uses of variables in all files of a role: which of them run may depend on the run.
func (r *reach) mayUse(role string) {
	if r.visited[visit{role: role}] {
		return
	}
	r.visited[visit{role: role}] = true
	for _, name := range r.files(role) {
		part, _, _ := strings.Cut(strings.TrimPrefix(name, role+"/"), "/")
		switch {
		case !isYAML(name):
		case part == "tasks" || part == "handlers":
			r.add(r.script(asTasks, name), false)
		case part == "defaults" || part == "vars":
			r.add(r.script(asDefaults, name), false)
		}
	}
	if r.visitsLeft < 0 {
		r.mayUseMore(tooMuch)
	}
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
		if path.Ext(name) != templateSuffix && !slices.Contains(strings.Split(name, "/"), "templates") {
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
