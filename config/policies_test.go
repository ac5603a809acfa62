package config

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// rulesOf returns the rules of the roles in files.
func rulesOf(t *testing.T, paths ...string) []rbacv1.PolicyRule {
	t.Helper()
	var rules []rbacv1.PolicyRule
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
		for {
			role := &rbacv1.ClusterRole{}
			if err := decoder.Decode(role); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(path, err)
			}
			if strings.HasSuffix(role.Kind, "Role") {
				rules = append(rules, role.Rules...)
			}
		}
	}
	return rules
}

func TestEachPolicyHasItsBinding(t *testing.T) {
	policies, err := Policies()
	if err != nil || len(policies) == 0 || len(policies)%2 != 0 {
		t.Fatal(len(policies), err)
	}
	for i := 0; i < len(policies); i += 2 {
		if policies[i].GetName() != policies[i+1].GetName() || policies[i].GetKind()+"Binding" != policies[i+1].GetKind() {
			t.Errorf("%s %s is followed by %s %s", policies[i].GetKind(), policies[i].GetName(), policies[i+1].GetKind(), policies[i+1].GetName())
		}
	}
}

// A policy does not see who is meant by a token, or what a command in a pod does: RBAC must not allow these.
func TestTheManagerIsNeverGivenWaysToAllOtherPermissions(t *testing.T) {
	rules := rulesOf(t, "rbac/role.yaml", "rbac/leader_election_role.yaml", "rbac/replicas_role.yaml", "components/olm/role.yaml", "components/selected-namespaces/cluster_role.yaml",
		"components/selected-namespaces/namespace_role.yaml")
	if len(rules) < 20 {
		t.Fatalf("only %d rules", len(rules))
	}
	verbs := []string{"*", "escalate", "bind", "impersonate", "deletecollection", "approve", "sign"}
	groups := []string{"*", "admissionregistration.k8s.io", "apiregistration.k8s.io", "certificates.k8s.io"}
	resources := []string{"serviceaccounts/token", "pods/exec", "pods/attach", "pods/portforward", "pods/ephemeralcontainers", "nodes", "nodes/proxy", "users", "groups"}
	for _, rule := range rules {
		for _, single := range validation.BreakdownRule(rule) {
			group, resource, verb := single.APIGroups[0], single.Resources[0], single.Verbs[0]
			if slices.Contains(verbs, verb) || slices.Contains(groups, group) || slices.Contains(resources, resource) ||
				resource == "*" && group != "suboperator.zoscb.ibm.com" || resource == "pods" && verb == "create" {
				t.Errorf("the manager may %s %s in group %q", verb, resource, group)
			}
		}
	}
}

// The component selected-namespaces only moves permissions.
func TestSelectedNamespacesHaveTheSamePermissions(t *testing.T) {
	all := rulesOf(t, "rbac/role.yaml")
	split := rulesOf(t, "components/selected-namespaces/cluster_role.yaml", "components/selected-namespaces/namespace_role.yaml")
	if _, missing := validation.Covers(split, all); len(missing) > 0 {
		t.Error("the component lacks", cmp.Diff(nil, missing))
	}
	if _, more := validation.Covers(all, split); len(more) > 0 {
		t.Error("the component has in addition", cmp.Diff(nil, more))
	}
	cluster := rulesOf(t, "components/selected-namespaces/cluster_role.yaml")
	for _, resource := range []string{"secrets", "configmaps", "serviceaccounts", "pods"} {
		rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get"}}
		if covered, _ := validation.Covers(cluster, []rbacv1.PolicyRule{rule}); covered {
			t.Errorf("the manager may read %s in the whole cluster", resource)
		}
	}
}
