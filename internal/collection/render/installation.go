package render

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// Installation renders the operator of a collection for one namespace, in the order in which the objects must be applied.
// The Secret with the endpoints, without which the pod does not start, is rendered by EndpointsSecret. The error names what
// cannot be rendered.
func Installation(c *model.Collection, o InstallationOptions) ([]Object, error) {
	if err := CheckMounts(&o.Runtime); err != nil {
		return nil, err
	}
	o.Architectures = slices.Compact(slices.Sorted(slices.Values(o.Architectures)))
	config, err := configMap(c, o)
	if err != nil {
		return nil, err
	}
	operator, err := deployment(c, o, config)
	if err != nil {
		return nil, err
	}
	objects := []Object{serviceAccount(c, o), role(c, o), roleBinding(c, o)}
	if len(c.ClusterRoles) > 0 {
		objects = append(objects, clusterRole(c, o), clusterRoleBinding(c, o))
	}
	if usesDependencySecret(c, o) {
		objects = append(objects, dependenciesSecret(c, o))
	}
	return append(objects, networkPolicy(c, o), config, operator), nil
}

func serviceAccount(c *model.Collection, o InstallationOptions) *corev1.ServiceAccount {
	account := &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: objectMeta(c, o.Namespace, c.OperatorName()),
	}
	account.Annotations = maps.Clone(o.Runtime.ServiceAccountAnnotations)
	return account
}

func role(c *model.Collection, o InstallationOptions) *rbacv1.Role {
	return &rbacv1.Role{
		TypeMeta:   rbacTypeMeta("Role"),
		ObjectMeta: objectMeta(c, o.Namespace, c.OperatorName()),
		Rules:      append(BaseRules(c, o.Group, o.PersonalCredentials), copyRules(c.Roles)...),
	}
}

// Resource and verb, in group zoscb.ibm.com, of the permission to write the status and the record of custom resources. The
// resource does not exist, so permissions for all resources of a collection's group do not include it. The policies
// collection-operator-run-status, collection-operator-run-annotations and collection-operator-run-permissions check it.
const (
	runsResource = "runs"
	runsVerb     = "record"
)

// BaseRules returns the permissions that every operator has in its namespace: to manage its own kinds and write their
// status, to hold the lock of its pod, to write events, and to read Secrets if its kinds refer to any, or if personal is true,
// since resources then name those with the credentials.
func BaseRules(c *model.Collection, group string, personal bool) []rbacv1.PolicyRule {
	groups := []string{group}
	rules := []rbacv1.PolicyRule{
		{APIGroups: groups, Resources: sortedPlurals(c, ""),
			Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"}},
		{APIGroups: groups, Resources: sortedPlurals(c, "/status"), Verbs: []string{"get", "update", "patch"}},
		{APIGroups: groups, Resources: sortedPlurals(c, "/finalizers"), Verbs: []string{"update"}},
		{APIGroups: []string{v2beta2.GroupVersion.Group}, Resources: []string{runsResource}, Verbs: []string{runsVerb}},
		// The lock, and the pods that hold it. A rule for create cannot be limited to a name.
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			ResourceNames: []string{c.OperatorName()}, Verbs: []string{"get", "update"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
	if c.UsesPasswords() || personal {
		rules = append(rules, readSecrets)
	}
	return rules
}

// readSecrets lets an operator read Secrets by name. The names are in custom resources, so they are not known in advance.
var readSecrets = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}

// personalRole lets an operator that OLM installs read the credentials of users. OLM writes its other roles.
func personalRole(c *model.Collection, o InstallationOptions) *rbacv1.Role {
	return &rbacv1.Role{
		TypeMeta:   rbacTypeMeta("Role"),
		ObjectMeta: objectMeta(c, o.Namespace, c.OperatorName()),
		Rules:      []rbacv1.PolicyRule{readSecrets},
	}
}

func copyRules(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	copied := make([]rbacv1.PolicyRule, len(rules))
	for i := range rules {
		rules[i].DeepCopyInto(&copied[i])
	}
	return copied
}

func roleBinding(c *model.Collection, o InstallationOptions) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   rbacTypeMeta("RoleBinding"),
		ObjectMeta: objectMeta(c, o.Namespace, c.OperatorName()),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: c.OperatorName()},
		Subjects:   subjects(c, o),
	}
}

func clusterRole(c *model.Collection, o InstallationOptions) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta:   rbacTypeMeta("ClusterRole"),
		ObjectMeta: objectMeta(c, "", ClusterRoleName(c, o.Namespace)),
		Rules:      copyRules(c.ClusterRoles),
	}
}

func clusterRoleBinding(c *model.Collection, o InstallationOptions) *rbacv1.ClusterRoleBinding {
	name := ClusterRoleName(c, o.Namespace)
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   rbacTypeMeta("ClusterRoleBinding"),
		ObjectMeta: objectMeta(c, "", name),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   subjects(c, o),
	}
}

func subjects(c *model.Collection, o InstallationOptions) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: o.Namespace, Name: c.OperatorName()}}
}

func rbacTypeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}
