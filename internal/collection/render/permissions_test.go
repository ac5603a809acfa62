package render

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

func rule(groups, resources, verbs string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: strings.Split(groups, ","), Resources: strings.Split(resources, ","), Verbs: strings.Split(verbs, ","),
		ResourceNames: names,
	}
}

func urlRule(urls, verbs string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{NonResourceURLs: strings.Split(urls, ","), Verbs: strings.Split(verbs, ",")}
}

func TestMissingPermissions(t *testing.T) {
	type rules = []rbacv1.PolicyRule
	for name, test := range map[string]struct {
		asked, held rules
		want        string
	}{
		"nothing asked":      {nil, rules{rule("", "pods", "get")}, ""},
		"all held":           {rules{rule("", "pods", "get,list")}, rules{rule("", "pods", "list"), rule("", "pods", "get")}, ""},
		"nothing held":       {rules{rule("", "pods", "list,get")}, nil, "  pods: get, list in namespace ns\n"},
		"some verbs held":    {rules{rule("apps", "deployments", "get,update,create")}, rules{rule("apps", "deployments", "get")}, "  apps/deployments: create, update in namespace ns\n"},
		"another group held": {rules{rule("apps", "deployments", "get")}, rules{rule("", "deployments", "get")}, "  apps/deployments: get in namespace ns\n"},
		"wildcards held":     {rules{rule("apps", "deployments/status", "get", "a")}, rules{rule("*", "*", "*")}, ""},
		"wildcards asked":    {rules{rule("apps", "*", "*")}, rules{rule("apps", "deployments", "*"), rule("apps", "*", "get")}, "  apps/*: * in namespace ns\n"},
		"a subresource is no part of its resource": {rules{rule("", "pods,pods/log", "get")}, rules{rule("", "pods", "get")}, "  pods/log: get in namespace ns\n"},
		"any subresource held":                     {rules{rule("", "pods/log", "get")}, rules{rule("", "*/log", "get")}, ""},
		"one name held, another asked":             {rules{rule("", "configmaps", "get", "a", "b")}, rules{rule("", "configmaps", "get", "a")}, "  configmaps \"b\": get in namespace ns\n"},
		"one name held, all asked":                 {rules{rule("", "configmaps", "get")}, rules{rule("", "configmaps", "get", "a")}, "  configmaps: get in namespace ns\n"},
		"all held, one name asked":                 {rules{rule("", "configmaps", "get", "a")}, rules{rule("", "configmaps", "get")}, ""},
		"asked twice":                              {rules{rule("", "pods", "get"), rule("", "pods", "get,get")}, nil, "  pods: get in namespace ns\n"},
		"a URL":                                    {rules{urlRule("/version,/healthz", "get")}, rules{urlRule("/version", "*")}, "  /healthz: get in namespace ns\n"},
		"URLs by prefix":                           {rules{urlRule("/apis/apps", "get")}, rules{urlRule("/apis/*", "get")}, ""},
		"escalate, though it is held":              {rules{rule("rbac.authorization.k8s.io", "roles", "escalate,get")}, rules{rule("*", "*", "*")}, "  rbac.authorization.k8s.io/roles: escalate in namespace ns\n"},
		"what no line may break out of":            {rules{rule("", "pods\nall is well", "get it")}, nil, "  \"pods\\nall is well\": \"get it\" in namespace ns\n"},
	} {
		t.Run(name, func(t *testing.T) {
			missing, err := MissingPermissions("ns", test.asked, test.held)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, listPermissions(missing)); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEscalatingPermissionsAreNeverGiven(t *testing.T) {
	const rbac = "rbac.authorization.k8s.io"
	for _, test := range []struct {
		rule rbacv1.PolicyRule
		want bool
	}{
		{rule(rbac, "clusterroles", "escalate"), true},
		{rule(rbac, "roles", "bind", "one"), true},
		{rule(rbac, "roles", "*"), true},
		{rule(rbac, "*", "bind"), true},
		{rule("*", "roles", "escalate"), true},
		{rule("*", "*", "*"), true},
		{rule("", "serviceaccounts", "impersonate", "one"), true},
		{rule("", "serviceaccounts", "*"), true},
		{rule("", "*", "*"), true},
		{rule("authentication.k8s.io", "userextras/scopes", "*"), true},
		{rule("authentication.k8s.io", "users", "impersonate:user-info"), true},
		{rule(rbac, "roles", "get"), false},
		{rule(rbac, "rolebindings", "*"), false},
		{rule("", "*", "get"), false},
		{rule("", "pods", "*"), false},
		{rule("apps", "*", "*"), false},
		{rule("", "serviceaccounts", "create"), false},
		{urlRule("*", "*"), false},
	} {
		missing, err := MissingPermissions("", []rbacv1.PolicyRule{test.rule}, []rbacv1.PolicyRule{rule("*", "*", "*"), urlRule("*", "*")})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(missing) > 0; got != test.want {
			t.Errorf("%v: never granted is %t, want %t", test.rule, got, test.want)
		}
	}
}

func TestMissingPermissionsAreBounded(t *testing.T) {
	many := make([]string, 100_000)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for name, asked := range map[string]rbacv1.PolicyRule{
		"resources": {APIGroups: many, Resources: many, ResourceNames: many, Verbs: many},
		"URLs":      {NonResourceURLs: many, Verbs: many},
	} {
		if _, err := MissingPermissions("ns", []rbacv1.PolicyRule{asked}, nil); err == nil || !strings.Contains(err.Error(), "10000") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	most := []rbacv1.PolicyRule{{APIGroups: many[:100], Resources: many[:100], Verbs: []string{"get"}}}
	missing, err := MissingPermissions("ns", most, nil)
	if err != nil || len(missing) != 10_000 {
		t.Fatalf("got %d, %v", len(missing), err)
	}
	if _, err := MissingPermissions("ns", append(most, rule("", "pods", "get")), nil); err == nil {
		t.Error("rules that are too many together are accepted")
	}
	text := DescribeMissing(testGrantee(), missing, nil)
	if len(text) > maxListBytes+maxGrantBytes+500 || !strings.Contains(text, " more\n") || strings.Contains(text, "apiVersion") {
		t.Errorf("%d bytes:\n%s", len(text), text)
	}
}
