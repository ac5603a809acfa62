// Package explain describes what a collection becomes in a cluster.
//
// It is pure: the same collection results in the same text.
package explain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

// Report describes a collection whose kinds are served in an API group: its identity, its kinds with their fields and
// playbooks, the permissions and dependencies that it requests, and its problems. No line is longer than Width.
// Texts of the collection's author cannot contain terminal control sequences.
func Report(c *model.Collection, group string) string {
	p := &Page{}
	identity(p, c, group)
	for _, r := range c.Resources {
		kind(p, r, group)
	}
	permissions(p, c)
	dependencies(p, c)
	problems(p, c)
	return p.String()
}

func identity(p *Page, c *model.Collection, group string) {
	p.Title(c.DisplayName)
	row := func(key, text string) { p.Row(2, 16, key, text) }
	row("Collection", fmt.Sprintf("%s of domain %s, version %s", c.Name, c.Domain, c.Version))
	row("For Ansible", fmt.Sprintf("%s.%s %s", c.Galaxy.Namespace, c.Galaxy.Name, c.Galaxy.Version))
	if c.Provider != "" {
		row("Provider", c.Provider)
	}
	row("API version", group+"/"+c.APIVersion())
	row("Operator", "Deployment, ServiceAccount and Role "+c.OperatorName()+" in every namespace that it is mapped to")
	if c.InventoryName != "" {
		row("Inventory", "the endpoint is in the group "+c.InventoryName)
	}
	if c.MigrationPlaybook != "" {
		row("Migration", migration(c))
	}
	if c.Replaces != (model.ID{}) {
		row("Replaces", c.Replaces.String()+": takes its kinds and custom resources over in the namespace that it belongs to")
	}
}

func migration(c *model.Collection) string {
	text := "runs " + c.MigrationPlaybook + " once for each custom resource that an older version managed, before anything else runs for it"
	if c.MigrationReversible {
		return text + "; an older version can be returned to"
	}
	return text + "; an older version cannot be returned to"
}

func kind(p *Page, r model.Resource, group string) {
	p.Title("Kind " + r.Kind + ": " + r.DisplayName)
	if r.Description != "" {
		p.Text(2, r.Description)
		p.Blank()
	}
	row := func(key, text string) { p.Row(2, 16, key, text) }
	row("Resource", r.Plural()+"."+group)
	row("On a change", "runs "+r.Playbook+" against the endpoint, also when it is created")
	if r.Finalizer != "" {
		row("On deletion", "runs "+r.Finalizer+", and is gone when that succeeded")
	} else {
		row("On deletion", "runs nothing and is gone at once: what is on z/OS stays there")
	}
	if r.SupportsCheckMode {
		text := "can be checked: " + r.Playbook + " also runs in Ansible's check mode"
		if r.ShowDiff {
			text += "; what differs, such as parts of files, is in the status"
		}
		row("Drift", text)
	}
	if r.Hidden {
		row("In the console", "not offered under Installed Operators")
	}
	p.Blank()
	p.Text(2, "Fields of spec:")
	p.Blank()
	endpoint := model.Var{Name: render.EndpointField, DisplayName: "z/OS endpoint", Type: model.String, Required: true,
		Description: "Name of the ZosEndpoint to run against."}
	fields(p, 4, append([]model.Var{endpoint}, r.Vars...))
}

// maxNameColumn is the maximum width of the column for field names. A longer name has its own line.
const maxNameColumn = 24

func fields(p *Page, indent int, vars []model.Var) {
	column := 0
	for _, v := range vars {
		column = max(column, min(len(v.Name)+2, maxNameColumn))
	}
	for _, v := range vars {
		p.Row(indent, column, v.Name, constraints(v))
		var texts []string
		if v.DisplayName != v.Name {
			texts = append(texts, v.DisplayName)
		}
		if v.Description != "" {
			texts = append(texts, v.Description)
		}
		p.Row(indent, column, "", strings.Join(texts, ": "))
		fields(p, indent+2, v.Fields)
	}
}

// constraints returns the type and the constraints of a field.
func constraints(v model.Var) string {
	what := string(v.Type)
	switch {
	case v.Type == model.Password:
		what = "password (name of a Secret)"
	case v.KindReference != "":
		what += " (name of a " + v.KindReference + ")"
	}
	if v.Array {
		what = "list of " + what
	}
	parts := []string{what}
	if v.Required {
		parts = append(parts, "required")
	}
	if v.Default != nil {
		parts = append(parts, "default "+JSON(v.Default))
	}
	if len(v.Options) > 0 {
		parts = append(parts, "one of "+strings.Join(v.Options, ", "))
	}
	return strings.Join(parts, ", ")
}

func permissions(p *Page, c *model.Collection) {
	p.Title("Permissions")
	p.Text(2, "Every operator may, in its own namespace, manage its kinds, hold a lease, get pods and write events.")
	if c.UsesPasswords() {
		p.Text(2, "This one may also get Secrets there, since fields of its kinds name some.")
	}
	if len(c.Roles)+len(c.ClusterRoles) == 0 {
		p.Text(2, "The collection asks for nothing more.")
		return
	}
	rules(p, "It asks for these in its namespace:", c.Roles)
	rules(p, "It asks for these in the whole cluster:", c.ClusterRoles)
	p.Blank()
	p.Text(2, "The manager passes on only what was granted to the collection. An administrator grants these rules with the manifest that the "+
		"SubOperatorConfig has in its status: a ClusterRole with the label zoscb.ibm.com/grant=true, and a binding.")
}

func rules(p *Page, heading string, rules []rbacv1.PolicyRule) {
	if len(rules) == 0 {
		return
	}
	p.Blank()
	p.Text(2, heading)
	for _, rule := range rules {
		p.Row(4, 2, "-", Permission(rule))
		p.Text(6, ruleText(rule))
	}
}

// plain matches strings that need no quotes in YAML.
var plain = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9./-]*$`)

// ruleText returns the rule as YAML on one line.
func ruleText(rule rbacv1.PolicyRule) string {
	var fields []string
	for _, field := range []struct {
		name  string
		items []string
	}{
		{"apiGroups", rule.APIGroups}, {"resources", rule.Resources}, {"resourceNames", rule.ResourceNames},
		{"nonResourceURLs", rule.NonResourceURLs}, {"verbs", rule.Verbs},
	} {
		if len(field.items) == 0 {
			continue
		}
		items := slices.Clone(field.items)
		for i, item := range items {
			if !plain.MatchString(item) {
				items[i] = JSON(item)
			}
		}
		fields = append(fields, field.name+": ["+strings.Join(items, ", ")+"]")
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// Permission describes a rule in words.
func Permission(rule rbacv1.PolicyRule) string {
	verbs := findings.Enumerate(rule.Verbs)
	if slices.Contains(rule.Verbs, rbacv1.VerbAll) {
		verbs = "do anything with"
	}
	if len(rule.NonResourceURLs) > 0 {
		return verbs + " the API server's " + findings.Enumerate(rule.NonResourceURLs)
	}
	resources := findings.Enumerate(rule.Resources)
	if slices.Contains(rule.Resources, rbacv1.ResourceAll) {
		resources = "all resources"
	}
	if len(rule.ResourceNames) > 0 {
		resources += " named " + findings.Enumerate(rule.ResourceNames)
	}
	groups := make([]string, len(rule.APIGroups))
	for i, group := range rule.APIGroups {
		groups[i] = cmp.Or(group, "core")
	}
	where := "API group " + findings.Enumerate(groups)
	if slices.Contains(rule.APIGroups, rbacv1.APIGroupAll) {
		where = "all API groups"
	}
	return verbs + " " + resources + " of " + where
}

func dependencies(p *Page, c *model.Collection) {
	p.Title("Dependencies")
	if c.Galaxy.RequiresAnsible == "" && c.Dependencies.Empty() {
		p.Text(2, "None.")
		return
	}
	if c.Galaxy.RequiresAnsible != "" {
		p.Text(2, "ansible-core "+c.Galaxy.RequiresAnsible+", which the runtime image must have.")
	}
	if c.Dependencies.Empty() {
		return
	}
	p.Text(2, "Installed before the operator starts:")
	for _, r := range c.Dependencies.Collections {
		text := "collection " + r.Name
		if r.Version != "" {
			text += " " + r.Version
		}
		if r.Source != "" {
			text += " from " + r.Source
		}
		p.Row(4, 2, "-", fmt.Sprintf("%s (%s, in %s)", text, r.Type, r.File))
	}
	for _, f := range c.Dependencies.Python {
		p.Row(4, 2, "-", fmt.Sprintf("Python packages %s (in %s)", strings.Join(f.Requirements, ", "), f.File))
	}
}

func problems(p *Page, c *model.Collection) {
	p.Title("Problems")
	if len(c.Problems) == 0 {
		p.Text(2, "None were found.")
		return
	}
	p.Text(2, c.Problems.Count()+", as `kubectl collection lint` reports them without the author's .oc-lint:")
	p.Blank()
	p.Findings(4, "-", c.Problems.Listed(c.Name))
}

// JSON returns a value as JSON on one line.
func JSON(v any) string {
	text, err := render.JSON(v, "")
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
