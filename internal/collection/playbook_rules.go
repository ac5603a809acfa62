package collection

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

const pythonInterpreter = "ansible_python_interpreter"

// connectionVars say how a host is reached. The manager gives them to each endpoint; what a play sets beats that.
var connectionVars = []string{
	"ansible_connection", "ansible_host", "ansible_ssh_host", "ansible_port", "ansible_ssh_port", "ansible_user", "ansible_ssh_user",
	"ansible_password", "ansible_ssh_pass", "ansible_ssh_password", "ansible_private_key_file", "ansible_ssh_private_key_file",
	"ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args", "ansible_ssh_executable", "ansible_pipelining",
	"ansible_ssh_pipelining", "ansible_remote_tmp",
}

// maxEffort keeps thousands of kinds with one large playbook from taking hours.
const maxEffort = 2_000_000

// checkRuns looks into the playbooks of every kind and all they lead to.
func (l *loader) checkRuns(c *Collection) error {
	names, fit := playbookFiles(l.fsys)
	if !fit {
		l.reportFile("", rulePlaybookSize, "the playbooks, roles and templates are together larger than %d MiB and were not looked into", maxPlaybooksBytes>>20)
		return nil
	}
	r := runRules{
		loader: l, library: newLibrary(l.fsys, names, c), collection: c, effortLeft: maxEffort,
		reported: map[Problem]bool{}, missing: map[absence][]string{},
	}
	reaches := map[string]*reach{}
	for i, resource := range c.Resources {
		var runs []*reach
		for _, playbook := range []string{resource.Playbook, resource.Finalizer} {
			if info, err := fs.Stat(l.fsys, playbook); playbook == "" || err != nil || !info.Mode().IsRegular() {
				continue
			}
			run, known := reaches[playbook]
			if !known {
				run = r.reach(playbook)
				reaches[playbook] = run
				r.checkRun(run)
			}
			runs = append(runs, run)
		}
		r.checkResource(i, resource, runs)
	}
	r.reportMissing()
	if len(r.large) > 0 {
		more := ""
		if n := len(r.large) - 1; n > 0 {
			more = fmt.Sprintf(", as are %d more files", n)
		}
		l.reportFile(slices.Min(r.large), rulePlaybookSize, "is too large to be looked into (more than %d KiB, or too much YAML)%s", maxPlaybookBytes>>10, more)
	}
	return nil
}

// runRules are the rules about playbooks and roles.
type runRules struct {
	*loader
	*library
	collection *Collection
	// effortLeft is how many more comparisons of a kind with its playbooks are made.
	effortLeft int
	// reported keeps a problem of a file that many kinds use from being reported for each.
	reported map[Problem]bool
	// missing are the kinds by variable that they lack.
	missing map[absence][]string
}

// absence is a variable without a value, at the first place that needs it.
type absence struct {
	rule, name string
	place      Problem
}

// once reports a problem unless it was reported before.
func (r *runRules) once(place Problem, rule, format string, args ...any) {
	if r.count[rule] >= maxProblems {
		return
	}
	key := place
	key.Rule, key.Message = rule, fmt.Sprintf(format, args...)
	if r.reported[key] {
		return
	}
	r.reported[key] = true
	r.report(place, rule, format, args...)
}

// checkRun applies the rules for which it does not matter which kind uses a playbook.
func (r *runRules) checkRun(run *reach) {
	for _, lost := range run.lost {
		r.once(lost.place, rulePlaybookImport, "the collection holds no playbook %s; paths are relative to the playbook that imports it", quote(lost.name))
	}
	for _, s := range run.scripts {
		if message := s.broken.Message; message != "" {
			place := s.broken
			place.Message = ""
			r.once(place, rulePlaybookSyntax, "%s", message)
		}
		for _, p := range s.plays {
			r.checkHosts(p)
		}
		if run.exposed[s] {
			r.checkSettings(s)
		}
	}
}

func (r *runRules) checkHosts(p play) {
	group := r.collection.InventoryName
	switch {
	case p.strange:
		return
	case p.missing:
		r.once(p.place, ruleHostsAll, "the play has no hosts; write hosts: all")
		return
	}
	for _, host := range p.hosts {
		switch {
		case host == "all" || isLocalhost(host):
		case isTemplate(host):
			r.once(p.place, ruleHostsTemplate, "%s is known only in a run; write hosts: all, which is the endpoint of the resource", quote(host))
		case host == group:
			r.once(p.place, ruleHostsGroup, "%s is the collection's inventoryName and works here; the specification asks for hosts: all", quote(host))
		case strings.ContainsAny(host, "*?[!&:~"):
			r.once(p.place, ruleHostsAll, "%s is a pattern, and may choose other hosts than the endpoint of the resource, or none; write hosts: all", quote(host))
		default:
			r.once(p.place, ruleHostsAll, "%s is not the endpoint of the resource: unless an earlier play adds such a host, this one does nothing, and succeeds; write hosts: all", quote(host))
		}
	}
}

func (r *runRules) checkSettings(s *script) {
	for _, set := range s.settings {
		switch set.name {
		case pythonInterpreter:
			r.once(set.place, rulePythonInterpreter, "beats the interpreter of every endpoint and breaks delegate_to: localhost; remove it here and set it in the variables of each ZosEndpoint")
		case "connection":
			r.once(set.place, ruleConnectionVar, "runs the tasks in the operator's pod, not on the endpoint; remove it, and use delegate_to: localhost for the tasks that belong there")
		default:
			r.once(set.place, ruleConnectionVar, "beats what the operator sets for each endpoint; remove it here, and set what differs in the variables of the ZosEndpoint")
		}
	}
}

// checkResource applies the rules about the variables of one kind. runs are those of its playbook and finalizer.
func (r *runRules) checkResource(i int, resource Resource, runs []*reach) {
	declared, hinted := map[string]Var{}, map[string]bool{}
	for _, v := range resource.Vars {
		declared[v.Name] = v
	}
	for _, run := range runs {
		if r.effortLeft -= run.effort; r.effortLeft < 0 {
			return
		}
		for _, s := range run.scripts {
			r.checkPrompts(resource, s, declared)
			r.checkConditions(s, declared)
		}
		r.checkNeeds(resource, run, declared, hinted)
	}
	if len(runs) > 0 {
		r.checkUnused(i, resource, runs)
	}
}

func (r *runRules) checkPrompts(resource Resource, s *script, declared map[string]Var) {
	for _, p := range s.prompts {
		switch v, ok := declared[p.name]; {
		case !ok:
			r.once(p.place, rulePromptedVar, "%s would be asked for and nobody can answer: it will be None; declare it in the vars of kind %s", quote(p.name), resource.Kind)
		case !alwaysSet(v):
			r.once(p.place, rulePromptedVar, "%s would be asked for when it is not set, and nobody can answer: it will be None; make it required for kind %s, or give it a default", quote(p.name), resource.Kind)
		}
	}
}

func (r *runRules) checkConditions(s *script, declared map[string]Var) {
	for _, condition := range s.conditions {
		var names []string
		for _, name := range condition.names {
			if _, ok := declared[name]; ok {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			continue
		}
		advice := "write the condition without braces"
		if line := condition.corrected(func(name string) bool { return becomesText(declared[name]) }); line != "" {
			advice = "write " + line
		}
		r.once(condition.place, ruleConditionalTemplate, "holds %s in {{ }}, and Ansible refuses a condition that is put together from the text of a resource's field; %s", strings.Join(names, " and "), advice)
	}
}

// becomesText says whether a variable is turned into a text when it stands between quotes.
func becomesText(v Var) bool {
	return v.Array || v.Type == Number || v.Type == Integer || v.Type == Boolean
}

// alwaysSet says whether every run gets the variable: a boolean has the default false.
func alwaysSet(v Var) bool {
	return v.Required || v.Default != nil || v.Type == Boolean && !v.Array
}

// checkNeeds notes the variables that a run needs and may not have, unless they are hinted at before.
func (r *runRules) checkNeeds(resource Resource, run *reach, declared map[string]Var, hinted map[string]bool) {
	if run.definesAll {
		return
	}
	for name, place := range run.needed {
		v, isDeclared := declared[name]
		key := absence{ruleUndeclaredVar, name, place}
		if isDeclared {
			key.rule = ruleOptionalVar
		}
		if run.tested[name] || run.defined[name] || isDeclared && alwaysSet(v) || isProvided(name) || hinted[name] {
			continue
		}
		hinted[name] = true
		r.missing[key] = append(r.missing[key], resource.Kind)
	}
}

// provided are the variables and functions that Ansible and the manager give to every run, besides those with a prefix.
var provided = []string{
	"environment", "group_names", "groups", "hostvars", "inventory_dir", "inventory_file", "inventory_hostname",
	"inventory_hostname_short", "item", "omit", "play_hosts", "playbook_dir", "role_name", "role_names", "role_path", "vars", "zosendpoint",
	"loop", "self", "caller", "varargs", "kwargs", "range", "dict", "lipsum", "cycler", "joiner", "namespace", "lookup", "query", "q",
	"now", "undef", "template_host", "template_path", "template_fullpath", "template_run_date", "template_uid", "template_mtime", "template_destpath",
}

func isProvided(name string) bool {
	for _, prefix := range []string{"ansible_", "k8s_", "zoscb_", "_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains(provided, name)
}

// reportMissing reports each variable once for all kinds that lack it at the same place.
func (r *runRules) reportMissing() {
	keys := slices.SortedFunc(maps.Keys(r.missing), func(a, b absence) int {
		return cmp.Or(cmp.Compare(a.place.File, b.place.File), cmp.Compare(a.place.Line, b.place.Line), cmp.Compare(a.name, b.name))
	})
	for _, key := range keys {
		kinds := r.missing[key]
		of := "kind " + kinds[0]
		if len(kinds) > 1 {
			of = "kinds " + strings.Join(kinds, ", ")
		}
		switch key.rule {
		case ruleOptionalVar:
			r.report(key.place, ruleOptionalVar, "%s is optional in %s and has no default: without it the run fails here; write %s | default(...), test it with \"is defined\", or give it a default in the operator-config",
				key.name, of, key.name)
		case ruleUndeclaredVar:
			r.report(key.place, ruleUndeclaredVar, "%s is needed here for %s and gets no value in the collection; declare it in vars, give it a default in the role, or have every endpoint set it",
				key.name, of)
		}
	}
}

// checkUnused hints at variables that no file mentions which the runs of the kind may use. Of runs that do nothing yet
// it says nothing.
func (r *runRules) checkUnused(i int, resource Resource, runs []*reach) {
	templates := r.templates()
	all, works := templates.usesAll, false
	for _, run := range runs {
		all, works = all || run.usesAll, works || run.works
	}
	if all || !works {
		return
	}
	for j, v := range resource.Vars {
		used := templates.mentioned[v.Name] || slices.ContainsFunc(runs, func(run *reach) bool { return run.mentioned[v.Name] })
		if v.Name != "" && !used {
			r.at(r.configFile, fmt.Sprintf("resources[%d].vars[%d].name", i, j)).report(ruleUnusedVar,
				"%s is used in none of the playbooks, roles and templates of kind %s", v.Name, resource.Kind)
		}
	}
}
