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
			r.once(p.place, rulePromptedVar, "%s would be asked for, and the run fails, because playbooks have no terminal; declare it in the vars of kind %s", findings.Quote(p.name), resource.Kind)
		case !alwaysSet(v):
			r.once(p.place, rulePromptedVar, "%s would be asked for when it is not set, and the run fails, because playbooks have no terminal; make it required for kind %s, or give it a default", findings.Quote(p.name), resource.Kind)
		}
	}
}

func (r *runRules) checkConditions(s *script, declared map[string]model.Var) {
	for _, condition := range s.conditions {
		names := slices.DeleteFunc(slices.Clone(condition.Names), func(name string) bool { return !holdsText(declared[name]) })
		if len(names) == 0 {
			continue
		}
		advice := "write the condition without braces"
		if line := condition.Corrected(func(name string) bool { return becomesText(declared[name]) }); line != "" {
			advice = "write " + line
		}
		r.once(condition.Place, ruleConditionalTemplate, "holds %s in {{ }}, and Ansible refuses a condition that is put together from the text of a resource's field; %s", strings.Join(names, " and "), advice)
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
