package playbook

import (
	"cmp"
	"path"
	"strings"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

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

// mayAddHosts reports whether a task of the run adds hosts, or not all of the run can be read.
func (r *reach) mayAddHosts() bool {
	return r.addsHosts || r.unseen != "" || len(r.lost) > 0
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
