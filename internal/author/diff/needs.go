package diff

import (
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/collection-operator/collection-operator/internal/collection/explain"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

func (c *comparison) permissions() {
	was, is := c.was.Collection, c.is.Collection
	c.rules("in the namespace", was.Roles, is.Roles)
	c.rules("in the whole cluster", was.ClusterRoles, is.ClusterRoles)
	const getSecrets = "get secrets of API group core"
	secrets := Change{Area: Permission, Subject: "in the namespace", Note: "operators have it if a field of their kinds names a Secret"}
	switch {
	case was.UsesPasswords() == is.UsesPasswords():
		return
	case is.UsesPasswords():
		secrets.Type, secrets.New = Added, getSecrets
	default:
		secrets.Type, secrets.Old = Removed, getSecrets
	}
	c.add(secrets)
}

// rules compares lists of rules, as sets of rules whose items are sets.
func (c *comparison) rules(where string, was, is []rbacv1.PolicyRule) {
	before, after := ruleSet(was), ruleSet(is)
	for _, text := range only(before, after) {
		c.add(Change{Area: Permission, Type: Removed, Subject: where, Old: text})
	}
	for _, text := range only(after, before) {
		change := Change{Area: Permission, Type: Added, Subject: where, New: text}
		if !slices.ContainsFunc(was, func(rule rbacv1.PolicyRule) bool { return within(after[text], rule) }) {
			change.Note = "an administrator must grant it to the collection, unless that is done"
		}
		c.add(change)
	}
}

func ruleSet(rules []rbacv1.PolicyRule) map[string]rbacv1.PolicyRule {
	set := map[string]rbacv1.PolicyRule{}
	for _, rule := range rules {
		set[explain.Permission(rbacv1.PolicyRule{
			APIGroups: itemSet(rule.APIGroups), Resources: itemSet(rule.Resources), ResourceNames: itemSet(rule.ResourceNames),
			NonResourceURLs: itemSet(rule.NonResourceURLs), Verbs: itemSet(rule.Verbs),
		})] = rule
	}
	return set
}

func itemSet(items []string) []string { return slices.Compact(slices.Sorted(slices.Values(items))) }

// within says whether a rule plainly allows nothing that another does not allow.
func within(rule, other rbacv1.PolicyRule) bool {
	subset := func(items, of []string) bool {
		return slices.Contains(of, "*") || !slices.ContainsFunc(items, func(item string) bool { return !slices.Contains(of, item) })
	}
	return subset(rule.Verbs, other.Verbs) && subset(rule.APIGroups, other.APIGroups) && subset(rule.Resources, other.Resources) &&
		subset(rule.NonResourceURLs, other.NonResourceURLs) &&
		(len(other.ResourceNames) == 0 || len(rule.ResourceNames) > 0 && subset(rule.ResourceNames, other.ResourceNames))
}

// only are the names of what one set has and another lacks, sorted.
func only(set, other map[string]rbacv1.PolicyRule) []string {
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if _, has := other[name]; !has {
			missing = append(missing, name)
		}
	}
	return missing
}

func (c *comparison) dependencies() {
	was, is := c.was.Collection, c.is.Collection
	c.property(Dependency, "ansible-core", "", was.Galaxy.RequiresAnsible, is.Galaxy.RequiresAnsible)
	old, now := versionsOf(was.Dependencies.Collections), versionsOf(is.Dependencies.Collections)
	c.requirements("collection", old, now)
	c.requirements("Python", pythonLines(was.Dependencies.Python), pythonLines(is.Dependencies.Python))
}

func pythonLines(files []model.PythonRequirements) map[string]string {
	lines := map[string]string{}
	for _, file := range files {
		for _, line := range slices.Concat(file.Options, file.Requirements) {
			lines[file.File+": "+line] = ""
		}
	}
	return lines
}

// requirements compares version ranges by name.
func (c *comparison) requirements(what string, was, is map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if version, exists := is[name]; exists {
			c.property(Dependency, what+" "+name, "", was[name], version)
		} else {
			c.add(Change{Area: Dependency, Type: Removed, Subject: what + " " + name, Old: was[name]})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if _, existed := was[name]; !existed {
			c.add(Change{Area: Dependency, Type: Added, Subject: what + " " + name, New: is[name]})
		}
	}
}

// versionsOf are the ranges and sources by name of collection. One may be required several times.
func versionsOf(requirements []model.Requirement) map[string]string {
	byName := map[string][]string{}
	for _, r := range requirements {
		byName[r.Name] = append(byName[r.Name], strings.Join(strings.Fields(r.Version+" "+r.Source), " from "))
	}
	versions := map[string]string{}
	for name, all := range byName {
		versions[name] = strings.Join(itemSet(all), " and ")
	}
	return versions
}
