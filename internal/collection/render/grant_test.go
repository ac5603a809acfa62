package render

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

func testGrantee() Grantee {
	return Grantee{
		ID: model.ID{Domain: "acme", Name: "things"}, Namespace: "zos", Digest: "sha256:0123",
		Manager: rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "system", Name: "manager"},
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
	got := DescribeMissing(testGrantee(), missing, []string{"one note", "another"})
	want := `the collection asks for permissions that are not granted to it:
  /version: get in the whole cluster
  apps/deployments: create, update in namespaces a, b
  apps/statefulsets: create, update in namespace a
  configmaps "one": get in the whole cluster
  configmaps "two": get in the whole cluster
  nodes: list in the whole cluster and in namespace a
one note
another
To grant them to collection acme/things of namespace zos, apply this:
apiVersion: rbac.authorization.k8s.io/v1
`
	head, _, _ := strings.Cut(got, "kind: ClusterRole\n")
	if diff := cmp.Diff(want, head); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	missing = append(missing, missing...)
	slices.Reverse(missing)
	if again := DescribeMissing(testGrantee(), missing, []string{"one note", "another"}); again != got {
		t.Errorf("another order, and each twice, makes another message:\n%s", again)
	}
	text := DescribeMissing(testGrantee(), missing[:1], []string{"1", "2", "3", "4", "5"})
	if !strings.Contains(text, "\n3\nand 2 more ClusterRoles") {
		t.Errorf("the notes are not bounded:\n%s", text)
	}
	text = DescribeMissing(testGrantee(), append(missing[:11], Permission{Group: "rbac.authorization.k8s.io", Resource: "roles", Verb: "escalate"}), nil)
	if !strings.Contains(text, "never granted") || !strings.Contains(text, "nodes: list") || strings.Contains(text, "apiVersion") {
		t.Errorf("a manifest that cannot help:\n%s", text)
	}
}

func TestGrantManifest(t *testing.T) {
	missing := []Permission{{Resource: "nodes", Verb: "list"}, {Namespace: "a", Group: "apps", Resource: "deployments", Verb: "create"}}
	pinned := testGrantee()
	pinned.PinDigest = true
	got := GrantManifest(testGrantee(), missing[:1]) + "---\n" + GrantManifest(pinned, missing[1:])
	want := `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: collection-operator-grant:acme:things:HASH
  labels:
    zoscb.ibm.com/grant: "true"
  annotations:
    zoscb.ibm.com/grant-collection: "acme/things"
    zoscb.ibm.com/grant-namespace: "zos"
rules:
  - apiGroups: [""]
    resources: ["nodes"]
    verbs: ["list"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: collection-operator-grant:acme:things:HASH
  labels:
    zoscb.ibm.com/grant: "true"
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: collection-operator-grant:acme:things:HASH
subjects:
  - {"kind":"ServiceAccount","name":"manager","namespace":"system"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: collection-operator-grant:acme:things:HASH
  labels:
    zoscb.ibm.com/grant: "true"
  annotations:
    zoscb.ibm.com/grant-collection: "acme/things"
    zoscb.ibm.com/grant-namespace: "zos"
    zoscb.ibm.com/grant-in: "a"
    zoscb.ibm.com/grant-digest: "sha256:0123"
rules:
  - apiGroups: ["apps"]
    resources: ["deployments"]
    verbs: ["create"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: collection-operator-grant:acme:things:HASH
  namespace: a
  labels:
    zoscb.ibm.com/grant: "true"
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: collection-operator-grant:acme:things:HASH
subjects:
  - {"kind":"ServiceAccount","name":"manager","namespace":"system"}
`
	for _, line := range strings.Split(got, "\n") {
		if _, hash, found := strings.Cut(line, "acme:things:"); found {
			got = strings.ReplaceAll(got, hash, "HASH")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	both := GrantManifest(testGrantee(), missing)
	if GrantManifest(testGrantee(), missing[:1])+"---\n"+GrantManifest(testGrantee(), missing[1:]) != both {
		t.Errorf("permissions of a namespace and of the cluster are not apart:\n%s", both)
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
		"strings that break out": {rule("a,\nrules:", "\": [], \u2028", "a] b", "[c", "c d", "c", "d", "\n---\n"), rule("%q", "'#", "- x", "true")},
	} {
		t.Run(name, func(t *testing.T) {
			missing, err := MissingPermissions("ns", asked, nil)
			if err != nil {
				t.Fatal(err)
			}
			manifests := strings.Split(GrantManifest(testGrantee(), missing), "\n---\n")
			var role rbacv1.ClusterRole
			if err := yaml.UnmarshalStrict([]byte(manifests[0]), &role); err != nil || len(manifests) != 2 {
				t.Fatalf("%v:\n%s", err, manifests)
			}
			if role.Kind != "ClusterRole" || role.Labels[LabelGrant] != "true" {
				t.Errorf("no grant:\n%s", manifests[0])
			}
			if ok, left := validation.Covers(role.Rules, asked); !ok {
				t.Errorf("not granted: %v in\n%s", left, manifests[0])
			}
			if ok, more := validation.Covers(asked, role.Rules); !ok {
				t.Errorf("granted beyond what is missing: %v in\n%s", more, manifests[0])
			}
			var binding rbacv1.RoleBinding
			if err := yaml.UnmarshalStrict([]byte(manifests[1]), &binding); err != nil || binding.RoleRef.Name != role.Name || binding.Namespace != "ns" {
				t.Errorf("%v:\n%s", err, manifests[1])
			}
		})
	}
}

// TestGrantNamesDiffer keeps one grant from replacing another.
func TestGrantNamesDiffer(t *testing.T) {
	grantees := []Grantee{testGrantee(), testGrantee(), testGrantee(), testGrantee()}
	grantees[0].ID = model.ID{Domain: "x", Name: "y-z"}
	grantees[1].ID = model.ID{Domain: "x-y", Name: "z"}
	grantees[2].Namespace = "other"
	grantees[3].PinDigest = true
	seen := map[string]bool{}
	for _, grantee := range grantees {
		for _, missing := range []Permission{{Resource: "pods", Verb: "get"}, {Resource: "pods", Verb: "list"}, {Namespace: "a", Resource: "pods", Verb: "get"}} {
			role, _, _ := strings.Cut(GrantManifest(grantee, []Permission{missing}), "---")
			var parsed rbacv1.ClusterRole
			if err := yaml.Unmarshal([]byte(role), &parsed); err != nil || seen[parsed.Name] {
				t.Errorf("%v: %s again", err, parsed.Name)
			}
			seen[parsed.Name] = true
		}
	}
}

func TestDescribeShared(t *testing.T) {
	got := DescribeShared(testGrantee(), []Permission{{Resource: "nodes", Verb: "list"}, {Namespace: "a", Resource: "pods", Verb: "get"}, {Resource: "nodes", Verb: "get"}})
	want := "grants for all collections, ClusterRoles labelled zoscb.ibm.com/aggregate-to-grants=true, give nodes: get, list in the whole cluster; " +
		"pods: get in namespace a: grant them to collection acme/things of namespace zos alone"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
