package render

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
	"sigs.k8s.io/yaml"
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
	text := DescribeMissing(testCollection("1.0.0"), missing)
	if len(text) > maxListBytes+maxGrantBytes+500 || !strings.Contains(text, " more\n") || strings.Contains(text, "apiVersion") {
		t.Errorf("%d bytes:\n%s", len(text), text)
	}
}

func TestDescribeMissing(t *testing.T) {
	missing := []Permission{
		{Namespace: "b", Group: "apps", Resource: "deployments", Verb: "update"},
		{Namespace: "a", Group: "apps", Resource: "deployments", Verb: "update"},
		{Namespace: "b", Group: "apps", Resource: "deployments", Verb: "create"},
		{Namespace: "a", Group: "apps", Resource: "deployments", Verb: "create"},
		{Namespace: "a", Group: "apps", Resource: "statefulsets", Verb: "create"},
		{Namespace: "a", Group: "apps", Resource: "statefulsets", Verb: "update"},
		{Resource: "configmaps", Name: "two", Verb: "get"},
		{Resource: "configmaps", Name: "one", Verb: "get"},
		{Resource: "nodes", Verb: "list"},
		{Namespace: "a", Resource: "nodes", Verb: "list"},
		{URL: "/version", Verb: "get"},
	}
	c := testCollection("1.0.0")
	got := DescribeMissing(c, missing)
	want := `the collection asks for permissions that are not granted to collections:
  /version: get in the whole cluster
  apps/deployments: create, update in namespaces a, b
  apps/statefulsets: create, update in namespace a
  configmaps "one": get in the whole cluster
  configmaps "two": get in the whole cluster
  nodes: list in the whole cluster and in namespace a
To grant them to every collection that asks for them, apply this:
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: collection-operator-grant:` + c.Domain + `:` + c.Name + `:16815847
  labels:
    zoscb.ibm.com/aggregate-to-grants: "true"
rules:
  - nonResourceURLs: ["/version"]
    verbs: ["get"]
  - apiGroups: [""]
    resources: ["configmaps"]
    resourceNames: ["one", "two"]
    verbs: ["get"]
  - apiGroups: [""]
    resources: ["nodes"]
    verbs: ["list"]
  - apiGroups: ["apps"]
    resources: ["deployments", "statefulsets"]
    verbs: ["create", "update"]`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	missing = append(missing, missing...)
	slices.Reverse(missing)
	if again := DescribeMissing(c, missing); again != got {
		t.Errorf("another order, and each twice, makes another message:\n%s", again)
	}

	text := DescribeMissing(c, append(missing[:11], Permission{Group: "rbac.authorization.k8s.io", Resource: "roles", Verb: "escalate"}))
	if !strings.Contains(text, "never granted") || !strings.Contains(text, "nodes: list") || strings.Contains(text, "apiVersion") {
		t.Errorf("a manifest that cannot help:\n%s", text)
	}
}

// TestGrantManifestHoldsJustWhatIsMissing parses manifests with arbitrary strings of a collection.
func TestGrantManifestHoldsJustWhatIsMissing(t *testing.T) {
	for name, asked := range map[string][]rbacv1.PolicyRule{
		"one":                    {rule("", "pods", "get")},
		"wildcards":              {rule("*", "pods,*/log", "*"), rule("apps", "*", "get")},
		"all and one name":       {rule("", "configmaps", "get"), rule("", "configmaps", "get,list", "a"), rule("", "secrets", "get", "a")},
		"URLs":                   {urlRule("/version,/apis/*", "get,head"), urlRule("/healthz", "get"), rule("", "nodes", "get")},
		"names of two resources": {rule("", "a,b", "get", "x", "y"), rule("", "a", "get", "z"), rule("", "b", "list", "x")},
		"strings that break out": {rule("a,\nrules:", "\": [], \u2028", "a] b", "[c", "c d", "c", "d"), rule("%q", "'#", "- x", "true")},
	} {
		t.Run(name, func(t *testing.T) {
			missing, err := MissingPermissions("ns", asked, nil)
			if err != nil {
				t.Fatal(err)
			}
			manifest := GrantManifest(testCollection("1.0.0"), missing)
			var role rbacv1.ClusterRole
			if err := yaml.UnmarshalStrict([]byte(manifest), &role); err != nil {
				t.Fatalf("%v:\n%s", err, manifest)
			}
			if role.Kind != "ClusterRole" || role.Labels[LabelGrants] != "true" {
				t.Errorf("no grant:\n%s", manifest)
			}
			if ok, left := validation.Covers(role.Rules, asked); !ok {
				t.Errorf("not granted: %v in\n%s", left, manifest)
			}
			if ok, more := validation.Covers(asked, role.Rules); !ok {
				t.Errorf("granted beyond what is missing: %v in\n%s", more, manifest)
			}
		})
	}
}

// TestGrantNamesDiffer keeps one grant from replacing another.
func TestGrantNamesDiffer(t *testing.T) {
	a, b := testCollection("1.0.0"), testCollection("1.0.0")
	a.Domain, a.Name = "x", "y-z"
	b.Domain, b.Name = "x-y", "z"
	one, two := []Permission{{Resource: "pods", Verb: "get"}}, []Permission{{Resource: "pods", Verb: "list"}}
	seen := map[string]bool{}
	for _, manifest := range []string{GrantManifest(a, one), GrantManifest(b, one), GrantManifest(a, two), GrantManifest(b, two)} {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(manifest), &role); err != nil || seen[role.Name] {
			t.Errorf("%v: %s again", err, role.Name)
		}
		seen[role.Name] = true
	}
}
