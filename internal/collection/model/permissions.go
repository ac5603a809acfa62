package model

import (
	"strings"

	"go.yaml.in/yaml/v3"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

var ruleKeys = []string{"apiGroups", "resources", "verbs", "resourceNames", "nonResourceURLs"}

// readRules reads "Operator ClusterRoles Permission" or "Operator Roles Permission": a list whose items each hold a list
// of policy rules under "rules", as the specification says, or are policy rules themselves, as IBM's schema says.
func readRules(v findings.Value, cluster bool) []rbacv1.PolicyRule {
	if v.Node != nil && v.Node.Kind == yaml.MappingNode {
		return readRoleItem(v, cluster)
	}
	var out []rbacv1.PolicyRule
	for _, item := range v.List() {
		out = append(out, readRoleItem(item, cluster)...)
	}
	return out
}

func readRoleItem(v findings.Value, cluster bool) []rbacv1.PolicyRule {
	m, ok := v.Mapping()
	if !ok {
		return nil
	}
	if _, nested := m.Fields["rules"]; !nested && len(m.Keys) > 0 {
		return readRule(m, cluster)
	}
	m.WarnUnknown("rules")
	var out []rbacv1.PolicyRule
	for _, item := range m.Get("rules").List() {
		if rule, ok := item.Mapping(); ok {
			out = append(out, readRule(rule, cluster)...)
		}
	}
	return out
}

// readRule returns the rule, or nothing if it is wrong. An unknown key is an error here: to ignore a misspelt
// resourceNames would grant more than its author meant.
func readRule(m findings.Mapping, cluster bool) []rbacv1.PolicyRule {
	before := m.Errors()
	m.RefuseUnknown(rulePermissionKey, ruleKeys...)
	rule := rbacv1.PolicyRule{
		APIGroups:       m.Get("apiGroups").Texts(true),
		Resources:       m.Get("resources").Texts(false),
		Verbs:           m.Get("verbs").Texts(false),
		ResourceNames:   m.Get("resourceNames").Texts(false),
		NonResourceURLs: m.Get("nonResourceURLs").Texts(false),
	}
	if m.Errors() > before || !checkRule(m, rule, cluster) {
		return nil
	}
	for _, key := range []string{"apiGroups", "resources", "verbs", "nonResourceURLs"} {
		for _, item := range m.Get(key).List() {
			if strings.Contains(item.Text(), "*") {
				item.Report(rulePermissionWildcard, "the wildcard %s grants more than anybody can foresee; list what is needed", findings.Quote(item.Text()))
			}
		}
	}
	return []rbacv1.PolicyRule{rule}
}

// checkRule reports whether the parts of a rule fit together, as an API server asks.
func checkRule(m findings.Mapping, rule rbacv1.PolicyRule, cluster bool) bool {
	ofResources := len(rule.APIGroups)+len(rule.Resources)+len(rule.ResourceNames) > 0
	switch {
	case len(rule.Verbs) == 0:
		m.Report(rulePermission, "a policy rule needs verbs")
	case len(rule.NonResourceURLs) > 0 && !cluster:
		m.Get("nonResourceURLs").Report(rulePermission, "are possible in clusterRoles only")
	case len(rule.NonResourceURLs) > 0 && ofResources:
		m.Report(rulePermission, "a policy rule is of resources or of nonResourceURLs, not of both; make two")
	case len(rule.NonResourceURLs) > 0:
		return true
	case len(rule.APIGroups) == 0:
		m.Report(rulePermission, `a policy rule needs apiGroups ("" is the core group)`)
	case len(rule.Resources) == 0:
		m.Report(rulePermission, "a policy rule needs resources")
	default:
		return true
	}
	return false
}
