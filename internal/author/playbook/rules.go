// Package playbook checks the playbooks, roles and templates of a collection without running them. What Ansible may
// understand and this package does not is not reported. It is for authors: the manager reads no playbooks.
package playbook

import (
	"io/fs"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

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
	rulePromptedVar         = rules.Warning("prompted-var", "", "A variable of vars_prompt is required, or has a default there or in the operator-config: playbooks have no terminal, and a run that asks fails.")
	ruleInteractiveTask     = rules.Warning("interactive-task", "", "No task waits for somebody at a terminal: pause has seconds or minutes, and there is neither debugger nor strategy: debug.")
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
