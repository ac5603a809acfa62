package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
)

const (
	// maxPermissions is the maximum number of single permissions that a collection may request. The API server breaks down
	// rules in the same way.
	maxPermissions = 10_000

	// maxListBytes limits a list of permissions in a message.
	maxListBytes = 2 << 10
)

// Permission is one verb on one resource, or on one URL.
type Permission struct {
	// Namespace of the permission, or empty for the whole cluster.
	Namespace string
	Group     string
	Resource  string
	// Name limits it to one object unless it is empty.
	Name string
	// URL is set instead of Group, Resource and Name.
	URL  string
	Verb string
}

// MissingPermissions returns the requested permissions in a namespace, or in the whole cluster if namespace is empty, that
// must not be granted: those that held does not cover, and those that are never granted. held are the rules in the same
// scope. It fails if the rules stand for too many permissions.
func MissingPermissions(namespace string, asked, held []rbacv1.PolicyRule) ([]Permission, error) {
	if countPermissions(asked) > maxPermissions {
		return nil, fmt.Errorf("the collection asks for more than %d single permissions: shorten its roles and clusterRoles", maxPermissions)
	}
	var missing []Permission
	for _, rule := range asked {
		for _, single := range validation.BreakdownRule(rule) {
			permission := permissionOf(namespace, single)
			if covered, _ := validation.Covers(held, []rbacv1.PolicyRule{single}); !covered || permission.escalates() {
				missing = append(missing, permission)
			}
		}
	}
	slices.SortFunc(missing, comparePermissions)
	return slices.Compact(missing), nil
}

// countPermissions returns the number of single permissions that rules stand for. It stops counting above maxPermissions.
func countPermissions(rules []rbacv1.PolicyRule) int {
	total := 0
	for _, rule := range rules {
		ofResources := len(rule.APIGroups)
		for _, factor := range []int{len(rule.Resources), max(len(rule.ResourceNames), 1), len(rule.Verbs)} {
			ofResources = min(ofResources*factor, maxPermissions+1)
		}
		total = min(total+ofResources+len(rule.NonResourceURLs)*len(rule.Verbs), maxPermissions+1)
	}
	return total
}

// permissionOf converts a rule that validation.BreakdownRule returned.
func permissionOf(namespace string, single rbacv1.PolicyRule) Permission {
	only := func(values []string) string { return strings.Join(values, "") } // There is at most one.
	return Permission{
		Namespace: namespace, Group: only(single.APIGroups), Resource: only(single.Resources), Name: only(single.ResourceNames),
		URL: only(single.NonResourceURLs), Verb: only(single.Verbs),
	}
}

// escalates reports whether a permission allows to obtain all others. The manager must not hold it either: with escalate or
// bind, the API server would no longer check the rules that the manager grants.
func (p Permission) escalates() bool {
	is := func(value string, others ...string) bool { return value == "*" || slices.Contains(others, value) }
	switch {
	case p.URL != "":
		return false
	case strings.HasPrefix(p.Verb, "impersonate"):
		return true
	case is(p.Group, rbacv1.GroupName) && is(p.Resource, "roles", "clusterroles"):
		return is(p.Verb, "escalate", "bind")
	case is(p.Group, "") && is(p.Resource, "serviceaccounts", "users", "groups"):
		return p.Verb == "*"
	}
	return is(p.Group, "authentication.k8s.io") && p.Verb == "*"
}

// listPermissions returns one line for each resource, with the missing verbs and their namespaces.
func listPermissions(permissions []Permission) string {
	verbs := map[Permission][]string{}
	for _, p := range permissions {
		target := p
		target.Verb = ""
		verbs[target] = append(verbs[target], quoteUnlessPlain(p.Verb))
	}
	namespaces := map[string][]string{}
	for _, target := range slices.SortedFunc(maps.Keys(verbs), comparePermissions) {
		line := target.target() + ": " + strings.Join(slices.Sorted(slices.Values(verbs[target])), ", ")
		namespaces[line] = append(namespaces[line], target.Namespace)
	}
	var text strings.Builder
	left := len(namespaces)
	for _, line := range slices.Sorted(maps.Keys(namespaces)) {
		line = "  " + line + " " + inNamespaces(namespaces[line]) + "\n"
		if text.Len()+len(line) > maxListBytes {
			fmt.Fprintf(&text, "  and %d more\n", left)
			break
		}
		text.WriteString(line)
		left--
	}
	return text.String()
}

func (p Permission) target() string {
	switch {
	case p.URL != "":
		return quoteUnlessPlain(p.URL)
	case p.Name != "":
		return p.resource() + " " + fmt.Sprintf("%.100q", p.Name)
	}
	return p.resource()
}

func (p Permission) resource() string {
	if p.Group == "" {
		return quoteUnlessPlain(p.Resource)
	}
	return quoteUnlessPlain(p.Group + "/" + p.Resource)
}

// quoteUnlessPlain quotes and truncates texts of a collection for a message.
func quoteUnlessPlain(text string) string {
	quoted := fmt.Sprintf("%.200q", text)
	if quoted == `"`+text+`"` && !strings.Contains(text, " ") {
		return text
	}
	return quoted
}

// inNamespaces describes sorted namespaces. The empty one stands for the whole cluster.
func inNamespaces(namespaces []string) string {
	if namespaces[0] == "" {
		if len(namespaces) == 1 {
			return "in the whole cluster"
		}
		return "in the whole cluster and " + inNamespaces(namespaces[1:])
	}
	const most = 3
	switch more := len(namespaces) - most; {
	case more > 0:
		return fmt.Sprintf("in namespaces %s and %d more", strings.Join(namespaces[:most], ", "), more)
	case len(namespaces) > 1:
		return "in namespaces " + strings.Join(namespaces, ", ")
	}
	return "in namespace " + namespaces[0]
}

// flow returns a list of strings as JSON, which is valid YAML.
func flow(values []string) string {
	texts := make([]string, 0, len(values))
	for _, value := range values {
		text, _ := json.Marshal(value) // Strings can always be encoded.
		texts = append(texts, string(text))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// rulesOf merges permissions, independent of their namespaces, into few equivalent rules.
func rulesOf(permissions []Permission) []rbacv1.PolicyRule {
	singles := slices.Clone(permissions)
	for i := range singles {
		singles[i].Namespace = ""
	}
	slices.SortFunc(singles, comparePermissions)
	var rules []rbacv1.PolicyRule
	for _, p := range slices.Compact(singles) {
		rule := rbacv1.PolicyRule{Verbs: []string{p.Verb}}
		if p.URL != "" {
			rule.NonResourceURLs = []string{p.URL}
		} else {
			rule.APIGroups, rule.Resources = []string{p.Group}, []string{p.Resource}
		}
		if p.Name != "" {
			rule.ResourceNames = []string{p.Name}
		}
		rules = append(rules, rule)
	}
	for _, list := range []func(*rbacv1.PolicyRule) *[]string{
		func(r *rbacv1.PolicyRule) *[]string { return &r.Verbs },
		func(r *rbacv1.PolicyRule) *[]string { return &r.ResourceNames },
		func(r *rbacv1.PolicyRule) *[]string { return &r.Resources },
		func(r *rbacv1.PolicyRule) *[]string { return &r.NonResourceURLs },
	} {
		rules = joinRules(rules, list)
	}
	return rules
}

// joinRules merges rules that only differ in one list. An empty list is not merged with others: empty resourceNames mean all
// objects.
func joinRules(rules []rbacv1.PolicyRule, list func(*rbacv1.PolicyRule) *[]string) []rbacv1.PolicyRule {
	var joined []rbacv1.PolicyRule
	index := map[string]int{}
	for _, rule := range rules {
		values := *list(&rule)
		rest := rule
		*list(&rest) = nil
		key := fmt.Sprintf("%t %q", len(values) == 0,
			[][]string{rest.APIGroups, rest.Resources, rest.ResourceNames, rest.NonResourceURLs, rest.Verbs})
		if i, exists := index[key]; exists {
			into := list(&joined[i])
			*into = append(*into, values...)
			continue
		}
		index[key] = len(joined)
		joined = append(joined, rule)
	}
	return joined
}

func comparePermissions(a, b Permission) int {
	return cmp.Or(
		cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.URL, b.URL), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Verb, b.Verb),
	)
}
