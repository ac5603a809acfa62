package collection

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	rbacv1 "k8s.io/api/rbac/v1"
)

var ruleKeys = []string{"apiGroups", "resources", "verbs", "resourceNames", "nonResourceURLs"}

// readRules reads "Operator ClusterRoles Permission" or "Operator Roles Permission": a list whose items each hold a list
// of policy rules under "rules", as the specification says, or are policy rules themselves, as IBM's schema says.
func readRules(v value, cluster bool) []rbacv1.PolicyRule {
	if v.node != nil && v.node.Kind == yaml.MappingNode {
		return readRoleItem(v, cluster)
	}
	var out []rbacv1.PolicyRule
	for _, item := range v.list() {
		out = append(out, readRoleItem(item, cluster)...)
	}
	return out
}

func readRoleItem(v value, cluster bool) []rbacv1.PolicyRule {
	m, ok := v.mapping()
	if !ok {
		return nil
	}
	if _, nested := m.fields["rules"]; !nested {
		return readRule(m, cluster)
	}
	m.warnUnknown("rules")
	var out []rbacv1.PolicyRule
	for _, item := range m.get("rules").list() {
		if rule, ok := item.mapping(); ok {
			out = append(out, readRule(rule, cluster)...)
		}
	}
	return out
}

// readRule returns the rule, or nothing if it is wrong. An unknown key is an error here: to ignore a misspelt
// resourceNames would grant more than its author meant.
func readRule(m mapping, cluster bool) []rbacv1.PolicyRule {
	before := m.r.errors
	for _, key := range m.keys {
		if !slices.Contains(ruleKeys, key) {
			m.fields[key].report(rulePermissionKey, "unknown key of a policy rule")
		}
	}
	rule := rbacv1.PolicyRule{
		APIGroups:       readTexts(m.get("apiGroups"), true),
		Resources:       readTexts(m.get("resources"), false),
		Verbs:           readTexts(m.get("verbs"), false),
		ResourceNames:   readTexts(m.get("resourceNames"), false),
		NonResourceURLs: readTexts(m.get("nonResourceURLs"), false),
	}
	if m.r.errors > before {
		return nil
	}
	if !checkRule(m, rule, cluster) {
		return nil
	}
	for _, key := range []string{"apiGroups", "resources", "verbs", "nonResourceURLs"} {
		for _, item := range m.get(key).list() {
			if strings.Contains(item.text(), "*") {
				item.report(rulePermissionWildcard, "the wildcard %s grants more than anybody can foresee; list what is needed", quote(item.text()))
			}
		}
	}
	return []rbacv1.PolicyRule{rule}
}

// checkRule says whether the parts of a rule fit together, as an API server asks.
func checkRule(m mapping, rule rbacv1.PolicyRule, cluster bool) bool {
	ofResources := len(rule.APIGroups)+len(rule.Resources)+len(rule.ResourceNames) > 0
	switch {
	case len(rule.Verbs) == 0:
		m.report(rulePermission, "a policy rule needs verbs")
	case len(rule.NonResourceURLs) > 0 && !cluster:
		m.get("nonResourceURLs").report(rulePermission, "are possible in clusterRoles only")
	case len(rule.NonResourceURLs) > 0 && ofResources:
		m.report(rulePermission, "a policy rule is of resources or of nonResourceURLs, not of both; make two")
	case len(rule.NonResourceURLs) > 0:
		return true
	case len(rule.APIGroups) == 0:
		m.report(rulePermission, `a policy rule needs apiGroups ("" is the core group)`)
	case len(rule.Resources) == 0:
		m.report(rulePermission, "a policy rule needs resources")
	default:
		return true
	}
	return false
}

// readTexts reads an optional list of texts.
func readTexts(v value, emptyAllowed bool) []string {
	var out []string
	for _, item := range v.list() {
		switch {
		case item.present() && isScalar(item) && (emptyAllowed || !item.blank()):
			out = append(out, item.text())
		case item.blank():
			item.report(ruleType, "must not be empty")
		default:
			item.report(ruleType, "must be a text, not %s", item.what())
		}
	}
	return out
}
