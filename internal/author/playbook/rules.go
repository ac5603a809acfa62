// Package playbook checks the playbooks, roles and templates of a collection without running them. What Ansible may
// understand and this package does not is not reported. It is for authors: the manager reads no playbooks.
package playbook

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

const pythonInterpreter = "ansible_python_interpreter"

// connectionVars say how a host is reached. The manager gives them to each endpoint; what a play sets beats that.
var connectionVars = []string{
	"ansible_connection", "ansible_host", "ansible_ssh_host", "ansible_port", "ansible_ssh_port", "ansible_user", "ansible_ssh_user",
	"ansible_password", "ansible_ssh_pass", "ansible_ssh_password", "ansible_private_key_file", "ansible_ssh_private_key_file",
	"ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args", "ansible_ssh_executable", "ansible_pipelining",
	"ansible_ssh_pipelining", "ansible_remote_tmp",
}

var rules findings.Rules

// Rules returns the rules that [Check] checks.
func Rules() findings.Rules { return rules }

var (
	rulePlaybookSyntax      = rules.Error("playbook-syntax", findings.SectionResources, "Playbooks are lists of plays, and what they lead to is YAML that can be read.")
	rulePlaybookImport      = rules.Error("playbook-import", "", "A playbook that another one imports is a file of the collection.")
	rulePlaybookSize        = rules.Info("playbook-size", "", "Playbooks, roles and templates are small enough to be looked into: at most 256 KiB each and 8 MiB together; else no other rule looks at them.")
	ruleHostsAll            = rules.Error("hosts-all", findings.SectionResources, "Every play has hosts: all; plays for localhost are allowed.")
	ruleHostsGroup          = rules.Warning("hosts-group", findings.SectionResources, "No play has the group inventoryName as its hosts: other brokers may not know it.")
	ruleHostsTemplate       = rules.Warning("hosts-template", findings.SectionResources, "The hosts of a play are no template: a play without matching hosts does nothing, and succeeds.")
	rulePromptedVar         = rules.Warning("prompted-var", "", "A variable of vars_prompt is required or has a default in the operator-config: nobody is there to be asked.")
	ruleConditionalTemplate = rules.Warning("conditional-template", "", "when, failed_when, changed_when, until and that hold no variable of the kind in {{ }} that is or has a text: Ansible refuses them.")
	rulePythonInterpreter   = rules.Warning("python-interpreter", "", "Neither a play's vars nor a vars file sets ansible_python_interpreter: it would beat every endpoint's and apply to localhost, too.")
	ruleConnectionVar       = rules.Warning("connection-var", "", "Neither a play nor a vars file sets how the endpoint is connected to, such as ansible_host, ansible_user or connection: local.")
	ruleOwnName             = rules.Error("own-name", "", "Playbooks use the collection's own modules, roles and playbooks by full name only if Ansible finds them: Galaxy's namespace and name have no hyphens.")
	ruleMissingPermission   = rules.Warning("missing-permission", findings.SectionPermission, "Tasks of kubernetes.core work on the collection's own kinds, or on what roles or clusterRoles ask for.")
	ruleWholeResource       = rules.Warning("whole-resource", findings.SectionProvided, "No playbook uses _<group>_<kind>, which is empty: the texts of a whole resource would be evaluated as templates.")
	ruleRunsInChecks        = rules.Info("runs-in-checks", "", "Playbooks of kinds with supportsCheckMode have no check_mode: false, unless for tasks that only read: these run for real in each drift check.")
	ruleOptionalVar         = rules.Info("optional-var", findings.SectionVariables, "A variable that is neither required nor has a default is used with default() or after a test with is defined.")
	ruleUnusedVar           = rules.Error("unused-var", findings.SectionVariables, "Every variable of a kind is used in its playbooks, roles or templates, where all that they use can be seen.")
	ruleUnseenVar           = rules.Warning("unseen-var", findings.SectionVariables, "Every variable and field of a kind is found in its playbooks, roles or templates: where these lead to what cannot be read, or use an object as a whole, an unused one cannot be told for certain.")
	ruleUndeclaredVar       = rules.Info("undeclared-var", findings.SectionVariables, "Every variable that a playbook needs is declared or gets a value in the collection; else each endpoint has to set it.")
)

// maxEffort keeps thousands of kinds with one large playbook from taking hours.
const maxEffort = 2_000_000

// maxPermissions does the same for tasks on objects in Kubernetes and a collection with many permissions.
const maxPermissions = 5_000_000

// Check looks into the playbooks of every kind, and all that they lead to. What the model has no playbook for, because its
// path is wrong, is skipped.
func Check(fsys fs.FS, c *model.Collection) findings.Problems {
	r := &runRules{
		Reporter: findings.NewReporter(), collection: c, effortLeft: maxEffort, reaches: map[string]*reach{},
		checked: map[*script]bool{}, permissionsLeft: maxPermissions, reported: map[findings.Problem]bool{}, missing: map[absence][]string{},
	}
	names, fit := playbookFiles(fsys)
	if !fit {
		r.ReportFile("", rulePlaybookSize, "the playbooks, roles and templates are together larger than %d MiB and were not looked into", maxPlaybooksBytes>>20)
		return r.Problems
	}
	r.library = newLibrary(fsys, names, c)
	for _, resource := range c.Resources {
		r.runs(resource.Playbook, resource.Finalizer)
	}
	for _, resource := range c.Resources {
		r.checkRuns(r.runs(resource.Playbook, resource.Finalizer))
		r.checkResource(resource, r.runs(resource.Playbook, resource.Finalizer))
	}
	r.reportMissing()
	r.reportLarge()
	r.Problems.Sort()
	return r.Problems
}

// runs looks into playbooks that exist, each once.
func (r *runRules) runs(playbooks ...string) []*reach {
	var runs []*reach
	for _, playbook := range playbooks {
		if info, err := fs.Stat(r.fsys, playbook); playbook == "" || err != nil || !info.Mode().IsRegular() {
			continue
		}
		run, known := r.reaches[playbook]
		if !known {
			run = r.reach(playbook)
			r.reaches[playbook] = run
			r.mayAddHosts = r.mayAddHosts || run.mayAddHosts()
		}
		runs = append(runs, run)
	}
	return runs
}

// reportLarge hints at the files that were not looked into, at the first of them.
func (r *runRules) reportLarge() {
	if len(r.large) == 0 {
		return
	}
	more := ""
	if n := len(r.large) - 1; n > 0 {
		more = fmt.Sprintf(", as are %d more files", n)
	}
	r.ReportFile(slices.Min(r.large), rulePlaybookSize, "is too large to be looked into (more than %d KiB, or too much YAML)%s", maxPlaybookBytes>>10, more)
}

// runRules are the rules about playbooks and roles.
type runRules struct {
	*findings.Reporter
	*library
	collection *model.Collection
	// reaches are the runs that were looked into, by playbook.
	reaches map[string]*reach
	// mayAddHosts says that a run adds hosts, or may.
	mayAddHosts bool
	// effortLeft is how many more comparisons of a kind with its playbooks are made.
	effortLeft int
	// checked are the files that were looked into, whatever runs they belong to.
	checked map[*script]bool
	// permissionsLeft is how many more comparisons of a task with a permission are made.
	permissionsLeft int
	// reported keeps a problem of a file that many kinds use from being reported for each.
	reported map[findings.Problem]bool
	// missing are the kinds by variable that they lack.
	missing map[absence][]string
}

// absence is a variable without a value, at the first place that needs it.
type absence struct {
	rule  findings.Rule
	name  string
	place findings.Problem
}

// once reports a problem unless it was reported before.
func (r *runRules) once(place findings.Problem, rule findings.Rule, format string, args ...any) {
	if !r.Keeps(rule) {
		return
	}
	if key := rule.At(place, format, args...); !r.reported[key] {
		r.reported[key] = true
		r.Report(place, rule, format, args...)
	}
}

// checkRuns applies the rules for which it does not matter which kind uses a playbook, once for each.
func (r *runRules) checkRuns(runs []*reach) {
	for _, run := range runs {
		if !run.checked {
			run.checked = true
			r.checkRun(run)
		}
	}
}

func (r *runRules) checkRun(run *reach) {
	for _, lost := range run.lost {
		r.once(lost.place, rulePlaybookImport, "the collection holds no playbook %s; paths are relative to the playbook that imports it", findings.Quote(lost.name))
	}
	for _, s := range run.scripts {
		if run.exposed[s] {
			r.checkSettings(s)
		}
		if !r.checked[s] {
			r.checked[s] = true
			r.checkScript(s)
		}
	}
}

// checkScript applies the rules for which it does not matter which run a file belongs to.
func (r *runRules) checkScript(s *script) {
	if message := s.broken.Message; message != "" {
		place := s.broken
		place.Message = ""
		r.once(place, rulePlaybookSyntax, "%s", message)
	}
	for _, p := range s.plays {
		r.checkHosts(p, !r.mayAddHosts && s.meantForEndpoint())
	}
	r.checkOwnNames(s)
	r.checkObjects(s)
	r.checkWholeResources(s)
}

// withAll is the place of the play's hosts, to be fixed with hosts: all if they are one name.
func (p play) withAll() findings.Problem {
	place := p.place
	if p.single && len(p.hosts) == 1 {
		place.Fix = findings.Fix{Line: place.Line, Column: place.Column, Old: p.hosts[0], New: "all"}
	}
	return place
}

// mayAddHosts reports whether a task of the run adds hosts, or not all of the run can be read.
func (r *reach) mayAddHosts() bool {
	return r.addsHosts || r.unseen != "" || len(r.lost) > 0
}

// meantForEndpoint reports whether the hosts of all plays that are not for the operator's pod alone are the same name: if no task adds
// hosts, they can then only mean the endpoint.
func (s *script) meantForEndpoint() bool {
	name := ""
	for _, p := range s.plays {
		switch {
		case p.localOnly():
		case len(p.hosts) != 1 || name != "" && p.hosts[0] != name:
			return false
		default:
			name = p.hosts[0]
		}
	}
	return true
}

// checkHosts checks the hosts of a play. sure says that another name than all can only mean the endpoint.
func (r *runRules) checkHosts(p play, sure bool) {
	group := r.collection.InventoryName
	switch {
	case p.strange:
		return
	case p.missing:
		r.once(p.place, ruleHostsAll, "the play has no hosts; write hosts: all")
		return
	}
	if slices.Contains(p.hosts, "all") && slices.ContainsFunc(p.hosts, isLocalhost) {
		r.once(p.place, ruleHostsAll, "all and localhost run every task in the operator's pod, too; write hosts: all, and a play of its own with hosts: localhost")
	}
	place := p.place
	if sure {
		place = p.withAll()
	}
	for _, host := range p.hosts {
		switch {
		case host == "all" || isLocalhost(host):
		case isTemplate(host):
			r.once(p.place, ruleHostsTemplate, "%s is known only in a run; write hosts: all, which is the endpoint of the resource", findings.Quote(host))
		case host == group:
			r.once(place, ruleHostsGroup, "%s is the collection's inventoryName and works here; the specification asks for hosts: all", findings.Quote(host))
		case strings.ContainsAny(host, "*?[!&:~"):
			r.once(p.place, ruleHostsAll, "%s is a pattern, and may choose other hosts than the endpoint of the resource, or none; write hosts: all", findings.Quote(host))
		default:
			r.once(place, ruleHostsAll, "%s is not the endpoint of the resource: unless an earlier play adds such a host, this one does nothing, and succeeds; write hosts: all", findings.Quote(host))
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
func (r *runRules) checkResource(resource model.Resource, runs []*reach) {
	declared, hinted := map[string]model.Var{}, map[string]bool{}
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
	if resource.SupportsCheckMode {
		r.checkModes(r.runs(resource.Playbook))
	}
	// The migration playbook gets the variables of every kind.
	if migration := r.runs(r.collection.MigrationPlaybook); len(runs) > 0 {
		r.checkUnused(resource, slices.Concat(runs, migration))
	}
}

// checkModes hints at tasks that drift checks run. Their modules may be those that drift checks never run otherwise.
func (r *runRules) checkModes(runs []*reach) {
	for _, run := range runs {
		for _, s := range run.scripts {
			for _, place := range s.uncheckable {
				r.once(place, ruleRunsInChecks, "runs for real in each drift check, whatever module it has; keep it only for what changes nothing, with changed_when: false")
			}
		}
	}
}

func (r *runRules) checkPrompts(resource model.Resource, s *script, declared map[string]model.Var) {
	for _, p := range s.prompts {
		switch v, ok := declared[p.name]; {
		case !ok:
			r.once(p.place, rulePromptedVar, "%s would be asked for and nobody can answer: it will be None; declare it in the vars of kind %s", findings.Quote(p.name), resource.Kind)
		case !alwaysSet(v):
			r.once(p.place, rulePromptedVar, "%s would be asked for when it is not set, and nobody can answer: it will be None; make it required for kind %s, or give it a default", findings.Quote(p.name), resource.Kind)
		}
	}
}

func (r *runRules) checkConditions(s *script, declared map[string]model.Var) {
	for _, condition := range s.conditions {
		names := slices.DeleteFunc(slices.Clone(condition.names), func(name string) bool { return !holdsText(declared[name]) })
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

// holdsText reports whether a declared variable is or has a text. Ansible refuses no others in a condition.
func holdsText(v model.Var) bool {
	return v.Type == model.String || v.Type == model.Password || v.Type == model.Object
}

// becomesText reports whether a variable is turned into a text when it stands between quotes.
func becomesText(v model.Var) bool {
	return v.Array || v.Type == model.Number || v.Type == model.Integer || v.Type == model.Boolean
}

// alwaysSet reports whether every run gets the variable.
func alwaysSet(v model.Var) bool { return v.Required || v.Default != nil || v.CompletesItself() }

// checkNeeds notes the variables that a run needs and may not have, unless they are hinted at before.
func (r *runRules) checkNeeds(resource model.Resource, run *reach, declared map[string]model.Var, hinted map[string]bool) {
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
	return slices.Contains(provided, name) || strings.HasPrefix(name, "_") || model.IsReservedVar(name)
}

// reportMissing reports each variable once for all kinds that lack it at the same place.
func (r *runRules) reportMissing() {
	keys := slices.SortedFunc(maps.Keys(r.missing), func(a, b absence) int {
		return cmp.Or(cmp.Compare(a.place.File, b.place.File), cmp.Compare(a.place.Line, b.place.Line), cmp.Compare(a.name, b.name))
	})
	for _, key := range keys {
		of := "kind " + r.missing[key][0]
		if kinds := r.missing[key]; len(kinds) > 1 {
			of = "kinds " + strings.Join(kinds, ", ")
		}
		switch key.rule {
		case ruleOptionalVar:
			r.Report(key.place, ruleOptionalVar, "%s is optional in %s and has no default: without it the run fails here; write %s | default(...), test it with \"is defined\", or give it a default in the operator-config",
				key.name, of, key.name)
		case ruleUndeclaredVar:
			r.Report(key.place, ruleUndeclaredVar, "%s is needed here for %s and gets no value in the collection; declare it in vars, give it a default in the role, or have every endpoint set it",
				key.name, of)
		}
	}
}

// checkUnused reports the variables, and fields of objects, that no file mentions which the runs of the kind may use: as errors
// where all that they use can be seen, else as warnings that say why it is not certain.
func (r *runRules) checkUnused(resource model.Resource, runs []*reach) {
	templates := r.templates()
	unseen, works := templates.unseen, false
	for _, run := range runs {
		unseen, works = cmp.Or(unseen, run.unseen), works || run.works
	}
	if !works {
		unseen = cmp.Or(unseen, "they have no tasks yet")
	}
	used := func(name string) bool {
		return templates.mentioned[name] || slices.ContainsFunc(runs, func(run *reach) bool { return run.mentioned[name] })
	}
	for _, v := range resource.Vars {
		switch {
		case v.Name == "":
		case used(v.Name):
			r.checkUnusedFields(resource, v, used)
		case unseen == "":
			r.Report(v.Place, ruleUnusedVar, "%s is used in none of the playbooks, roles and templates of kind %s; use it there, or remove it here", v.Name, resource.Kind)
		default:
			r.Report(v.Place, ruleUnseenVar, "%s is not found in the playbooks, roles and templates of kind %s; whether it is used is not certain, because %s", v.Name, resource.Kind, unseen)
		}
	}
}

// checkUnusedFields reports the fields of a used object that no file mentions.
func (r *runRules) checkUnusedFields(resource model.Resource, v model.Var, used func(name string) bool) {
	for _, field := range v.Fields {
		if field.Name != "" && !used(field.Name) {
			r.Report(field.Place, ruleUnseenVar, "%s is not found in the playbooks, roles and templates of kind %s; whether it is used is not certain, because %s may be used as a whole", field.Name, resource.Kind, v.Name)
		}
	}
}
