package playbook

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/collection-operator/collection-operator/internal/author/playbook/jinja"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

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
	for _, use := range s.interactive {
		r.once(use.place, ruleInteractiveTask, "%s", withoutTerminal[use.name])
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
		case jinja.IsTemplate(host):
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

// withoutTerminal says what becomes of the uses of a terminal.
var withoutTerminal = map[string]string{
	"pause":    "waits for an answer, and fails, because playbooks have no terminal; give it seconds or minutes, or remove it",
	"debugger": "starts Ansible's debugger, and the run fails there, because playbooks have no terminal; remove it",
	"strategy": "starts Ansible's debugger at a task that fails, and playbooks have no terminal; remove it",
}

// checkObjects warns of objects that the operator may not work on: it has permissions for the collection's own kinds, and for
// what roles and clusterRoles ask for.
func (r *runRules) checkObjects(s *script) {
	for _, use := range s.objects {
		r.permissionsLeft -= len(use.verbs) * (1 + len(r.collection.Roles) + len(r.collection.ClusterRoles))
		if r.permissionsLeft < 0 {
			return
		}
		resource, _ := meta.UnsafeGuessKindToResource(use.kind)
		missing := slices.DeleteFunc(slices.Clone(use.verbs), func(verb string) bool { return r.allowed(use.kind, resource.Resource, verb) })
		if len(missing) == 0 {
			continue
		}
		r.once(use.place, ruleMissingPermission, "the operator may not %s %s: add to roles (or, for other namespaces and for kinds without one, to clusterRoles) - rules: [{apiGroups: [%q], resources: [%s], verbs: [%s]}]",
			strings.Join(missing, " and "), resource.Resource, use.kind.Group, resource.Resource, strings.Join(missing, ", "))
	}
}

// allowed reports whether the operator may do something with a resource. Unsure is allowed.
func (r *runRules) allowed(kind schema.GroupVersionKind, resource, verb string) bool {
	if _, own := r.collection.Resource(kind.Kind); own && strings.HasSuffix(kind.Group, model.Group) {
		return true
	}
	core := kind.Group == ""
	switch {
	case core && resource == "pods" && verb == "get", core && resource == "secrets" && verb == "get" && r.collection.UsesPasswords():
		return true
	case (core || kind.Group == "events.k8s.io") && resource == "events" && (verb == "create" || verb == "patch"):
		return true
	}
	grants := func(rule rbacv1.PolicyRule) bool {
		return has(rule.APIGroups, kind.Group) && has(rule.Resources, resource) && has(rule.Verbs, verb)
	}
	return slices.ContainsFunc(r.collection.Roles, grants) || slices.ContainsFunc(r.collection.ClusterRoles, grants)
}

func has(granted []string, value string) bool {
	return slices.Contains(granted, value) || slices.Contains(granted, "*")
}

func (r *runRules) checkWholeResources(s *script) {
	for _, use := range s.wholeResources {
		r.once(use.place, ruleWholeResource, "%s is empty: the texts of a whole resource would be evaluated as templates; use its variables by their own names, ansible_operator_meta, or %s",
			use.name, fmt.Sprintf("%s_spec", use.name))
	}
}

// checkOwnNames reports the use of the collection's own content by a name that Ansible cannot find.
func (r *runRules) checkOwnNames(s *script) {
	for _, use := range s.ownNames {
		r.once(use.place, ruleOwnName, "Ansible finds nothing by the name %s, because the collection's namespace or name has a hyphen; rename it in galaxy.yml, or use the role, playbook or module without the collection's name, from a folder beside the playbook or in a role",
			findings.Quote(use.name))
	}
}
