package integration

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var grants int

// grant does what an administrator does so that collections may be given these permissions.
func grant(ctx context.Context, rules ...rbacv1.PolicyRule) {
	GinkgoHelper()
	grants++
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{
			Name:   fmt.Sprintf("integration-grant-%d", grants),
			Labels: map[string]string{"zoscb.ibm.com/aggregate-to-grants": "true"},
		},
		Rules: rules,
	}
	Create(ctx, role)
	DeferCleanup(func(ctx context.Context) { Remove(ctx, role) })
}

// soon is well before the manager looks again by itself at what it does not watch.
const soon = 30 * time.Second

// message of Ready, which must be False for lack of permissions.
func lacking(ctx context.Context, object client.Object) func(Gomega) string {
	return func(g Gomega) string {
		ready := Condition(ctx, object, v2beta2.ConditionReady)(g)
		g.Expect(ready).To(And(ConditionFalse(), WithReason(v2beta2.ReasonPermissionsNotGranted)))
		return ready.Message
	}
}

// applyManifestOf applies the manifest at the end of a message, as it is, and returns its ClusterRoles.
func applyManifestOf(ctx context.Context, message string) []*rbacv1.ClusterRole {
	GinkgoHelper()
	at := strings.Index(message, "\napiVersion: ")
	Expect(at).To(BeNumerically(">", 0), message)
	var roles []*rbacv1.ClusterRole
	for _, text := range strings.Split(message[at+1:], "\n---\n") {
		object := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal([]byte(text), &object.Object)).To(Succeed(), message)
		if object.GetKind() == "ClusterRole" {
			role := &rbacv1.ClusterRole{}
			Expect(yaml.UnmarshalStrict([]byte(text), role)).To(Succeed(), message)
			roles = append(roles, role)
		}
		Expect(K8s.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner("administrator"))).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Remove(ctx, object) })
	}
	return roles
}

// removeGrants withdraws grants.
func removeGrants(ctx context.Context, roles []*rbacv1.ClusterRole) {
	GinkgoHelper()
	for _, role := range roles {
		Remove(ctx, role)
	}
}

var _ = Describe("A collection's permissions", func() {
	It("are granted only as far as an administrator granted them, and the rest is named", attack.Label, func(ctx context.Context) {
		s := newSample()
		s.permissions = "clusterRoles:\n" +
			"  - {apiGroups: [''], resources: [nodes], verbs: [get, list]}\n" +
			"  - {apiGroups: [storage.k8s.io], resources: ['*'], verbs: [list]}\n" +
			"  - {nonResourceURLs: [/metrics, /version], verbs: [get]}\n" +
			"roles:\n" +
			"  - {apiGroups: [batch], resources: [jobs], resourceNames: [nightly], verbs: [create, delete]}"
		namespace := newNamespace(ctx)
		oc := importSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		Eventually(ctx, lacking(ctx, soc)).Should(And(
			ContainSubstring("\n  /metrics: get in the whole cluster\n"),
			ContainSubstring("\n  nodes: get, list in the whole cluster\n"),
			ContainSubstring("\n  storage.k8s.io/*: list in the whole cluster\n"),
			ContainSubstring("\n  batch/jobs \"nightly\": create, delete in namespace "+namespace+"\n"),
			ContainSubstring("\n  /version: get in the whole cluster\n"),
		))
		ExpectFailure(ctx, oc, v2beta2.ReasonPermissionsNotGranted, "nodes: get, list in the whole cluster", false)
		Expect(madeIn(ctx, namespace)).To(ConsistOf("SubOperatorConfig/oc-soc"), "nothing is half-installed")
		attack.Repelled("Permissions", "ask for permissions that nobody granted", "nothing is installed, and what is missing is named", seen(ctx, soc))

		By("naming what is left after a part was granted, within seconds")
		grant(ctx, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"*"}},
			rbacv1.PolicyRule{APIGroups: []string{"batch"}, Resources: []string{"*"}, Verbs: []string{"create"}})
		Eventually(ctx, lacking(ctx, soc)).WithTimeout(soon).Should(And(
			Not(ContainSubstring("nodes")), ContainSubstring("\n  batch/jobs \"nightly\": delete in namespace "+namespace+"\n")))
		Expect(madeIn(ctx, namespace)).To(ConsistOf("SubOperatorConfig/oc-soc"))

		By("healing by the manifest in the message, within seconds and by itself")
		given := applyManifestOf(ctx, lacking(ctx, soc)(Default))
		Expect(given).To(HaveLen(2), "one for the whole cluster, one for the namespace")
		Expect(given[0].Rules).To(ConsistOf(
			rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics", "/version"}, Verbs: []string{"get"}},
			rbacv1.PolicyRule{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"list"}},
		), "just what is missing")
		Expect(given[1].Rules).To(ConsistOf(
			rbacv1.PolicyRule{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, ResourceNames: []string{"nightly"}, Verbs: []string{"delete"}},
		), "just what is missing")
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).WithTimeout(soon).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.clusterRole(namespace)}}
		Get(ctx, Default, role)
		Expect(role.Rules).To(HaveLen(3))
		expectIdentity(role, s)
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: s.clusterRole(namespace)}}
		Get(ctx, Default, binding)

		By("saying so when a grant is withdrawn, while what is installed stays as it is")
		removeGrants(ctx, given)
		Eventually(ctx, lacking(ctx, soc)).WithTimeout(soon).Should(ContainSubstring("\n  /metrics: get in the whole cluster\n"))
		Expect(Gone(ctx, deployment(namespace, s.operator()))(Default)).To(BeFalse())
		Get(ctx, Default, binding)

		attack.Repelled("Permissions", "go on after a grant was withdrawn", "it is said; nothing new is given", seen(ctx, soc))

		By("bringing keys to it, and taking them away, nevertheless")
		endpoints := func(g Gomega) map[string][]byte {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator() + "-endpoints"}}
			Get(ctx, g, secret)
			delete(secret.Data, gate.RecordKeyFile)
			delete(secret.Data, gate.EndpointsNamespaceFile)
			delete(secret.Data, gate.KeptSecretsFile)
			return secret.Data
		}
		key := SecretValue("key for an operator whose grant is gone")
		credential := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "logon"}, Type: corev1.SecretTypeSSHAuth,
			StringData: map[string]string{"username": "IBMUSER", "ssh-privatekey": key},
		}
		endpoint := newEndpoint(namespace, "lpar1", startSSHServer())
		endpoint.Spec.CredentialName = credential.Name
		Create(ctx, credential, endpoint)
		Eventually(ctx, endpoints).WithTimeout(soon).Should(HaveKeyWithValue("lpar1_key", []byte(key)))
		Remove(ctx, credential)
		Eventually(ctx, endpoints).WithTimeout(soon).Should(And(HaveKey("lpar1_refusal"), Not(HaveKey("lpar1_key"))))
		Remove(ctx, endpoint)
		Eventually(ctx, endpoints).WithTimeout(soon).Should(BeEmpty())
		Eventually(ctx, lacking(ctx, soc)).WithTimeout(soon).Should(ContainSubstring("/metrics: get"))

		By("removing cluster-scoped objects, which no garbage collector removes, with the collection")
		removeCollections(ctx, namespace)
		Expect(Gone(ctx, role)(Default)).To(BeTrue())
		Expect(Gone(ctx, binding)(Default)).To(BeTrue())
	})

	It("are never a way to all others, whoever granted them", attack.Label, func(ctx context.Context) {
		s := newSample()
		s.permissions = "clusterRoles:\n" +
			"  - {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], verbs: [escalate, get]}\n" +
			"  - {apiGroups: [''], resources: [serviceaccounts], verbs: ['*']}\n" +
			"  - {apiGroups: [batch], resources: [cronjobs], verbs: [get]}"
		namespace := newNamespace(ctx)
		soc := defaultSOC(importSample(ctx, namespace, s))
		refused := And(
			ContainSubstring("never granted"),
			ContainSubstring("\n  rbac.authorization.k8s.io/clusterroles: escalate in the whole cluster\n"),
			ContainSubstring("\n  serviceaccounts: * in the whole cluster"),
			Not(ContainSubstring("apiVersion")),
		)
		Eventually(ctx, lacking(ctx, soc)).Should(And(refused, ContainSubstring("batch/cronjobs: get")))

		By("not even when an administrator did")
		grant(ctx, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
		Eventually(ctx, lacking(ctx, soc)).WithTimeout(soon).Should(And(refused, Not(ContainSubstring("cronjobs"))))
		Expect(madeIn(ctx, namespace)).To(ConsistOf("SubOperatorConfig/oc-soc"))
		attack.Repelled("Permissions", "ask for escalate on clusterroles and everything on serviceaccounts, with all granted", "these are never given", seen(ctx, soc))
	})

	It("are not those that the manager needs for itself", attack.Label, func(ctx context.Context) {
		s := newSample()
		s.permissions = "clusterRoles: [{apiGroups: [''], resources: [secrets], verbs: [list]}]\n" +
			"roles: [{apiGroups: [rbac.authorization.k8s.io], resources: [rolebindings], verbs: [create]}, " +
			"{apiGroups: [" + SharedGroup + "], resources: [" + s.plural() + "], verbs: [create]}]"
		Expect(may(ctx, managerUser, "", "list", "secrets", "")).To(BeTrue(), "the manager looks for credentials itself")
		Expect(may(ctx, managerUser, "", "create", "rolebindings", "rbac.authorization.k8s.io")).To(BeTrue())
		namespace := newNamespace(ctx)
		soc := defaultSOC(importSample(ctx, namespace, s))
		Eventually(ctx, lacking(ctx, soc)).Should(And(
			ContainSubstring("\n  secrets: list in the whole cluster\n"),
			ContainSubstring("\n  rbac.authorization.k8s.io/rolebindings: create in namespace "+namespace+"\n"),
			Not(ContainSubstring(s.plural())), // Its own kinds it gets anyway.
		))
		Expect(madeIn(ctx, namespace)).To(ConsistOf("SubOperatorConfig/oc-soc"))
		attack.Repelled("Permissions", "ask for what the manager itself may do: list Secrets, create RoleBindings", "only what was granted for collections is given", seen(ctx, soc))

		By("until somebody grants them")
		applyManifestOf(ctx, lacking(ctx, soc)(Default))
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).WithTimeout(soon).Should(BeFalse())
	})

	It("may be so many that they are not even compared", attack.Label, func(ctx context.Context) {
		many := make([]string, 200)
		for i := range many {
			many[i] = fmt.Sprintf("a%d", i)
		}
		list := "[" + strings.Join(many, ", ") + "]"
		s := newSample()
		s.permissions = "clusterRoles: [{apiGroups: " + list + ", resources: " + list + ", verbs: " + list + "}]"
		namespace := newNamespace(ctx)
		soc := defaultSOC(importSample(ctx, namespace, s))
		ExpectFailure(ctx, soc, v2beta2.ReasonObjectRefused, "more than 10000 single permissions", true)
		attack.Repelled("Permissions", "keep the manager busy with 8,000,000 single permissions", "they are not even compared", seen(ctx, soc))
		Expect(madeIn(ctx, namespace)).To(ConsistOf("SubOperatorConfig/oc-soc"))
	})
})

// may asks the API server whether a user may do something.
func may(ctx context.Context, user, namespace, verb, resource, group string) bool {
	GinkgoHelper()
	resource, subresource, _ := strings.Cut(resource, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, Groups: []string{"system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource,
		},
	}}
	Expect(K8s.Create(ctx, review)).To(Succeed())
	return review.Status.Allowed
}

// awaitRight waits until the API server, which learns of a binding a moment later, lets a user do something.
func awaitRight(ctx context.Context, user, namespace, verb, resource, group string) {
	GinkgoHelper()
	Eventually(ctx, func() bool { return may(ctx, user, namespace, verb, resource, group) }).
		Should(BeTrue(), "%s may %s %s", user, verb, resource)
}

var _ = Describe("The manager's own permissions", func() {
	It("hold none that would let it give what it does not hold, or be somebody else", attack.Label, func(ctx context.Context) {
		const rbac = "rbac.authorization.k8s.io"
		Expect(may(ctx, managerUser, "", "create", "clusterroles", rbac)).To(BeTrue(), "the question is put right")
		for _, resource := range []string{"roles", "clusterroles"} {
			for _, verb := range []string{"escalate", "bind", "*"} {
				Expect(may(ctx, managerUser, "", verb, resource, rbac)).To(BeFalse(), "%s %s", verb, resource)
			}
		}
		for _, resource := range []string{"users", "groups", "serviceaccounts"} {
			Expect(may(ctx, managerUser, "", "impersonate", resource, "")).To(BeFalse(), resource)
		}
		for _, resource := range []string{"pods", "pods/exec", "serviceaccounts/token"} {
			Expect(may(ctx, managerUser, "default", "create", resource, "")).To(BeFalse(), resource)
		}
		attack.Repelled("Permissions", "use the manager's token to escalate, bind, impersonate, exec into pods, or get others' tokens", "the API server allows none of it",
			"not allowed: escalate, bind and * on (cluster)roles; impersonate users, groups, serviceaccounts; create pods, pods/exec, serviceaccounts/token")
	})
})

var _ = Describe("The cluster's roles view, edit and admin", func() {
	It("hold the kinds of collections, but not the kinds that bring code and keys", attack.Label, func(ctx context.Context) {
		namespace, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		installSample(ctx, namespace, s)
		for _, role := range []string{"view", "edit", "admin"} {
			bind(ctx, namespace, role, "a-"+role)
		}
		for user, verb := range map[string]string{"a-view": "get", "a-edit": "create", "a-admin": "deletecollection"} {
			awaitRight(ctx, user, namespace, verb, s.plural(), SharedGroup)
		}
		for _, row := range []struct {
			verb  string
			users []string
		}{
			{"get", []string{"a-view", "a-edit", "a-admin"}},
			{"list", []string{"a-view", "a-edit", "a-admin"}},
			{"watch", []string{"a-view", "a-edit", "a-admin"}},
			{"create", []string{"a-edit", "a-admin"}},
			{"update", []string{"a-edit", "a-admin"}},
			{"patch", []string{"a-edit", "a-admin"}},
			{"delete", []string{"a-edit", "a-admin"}},
			{"deletecollection", []string{"a-admin"}},
		} {
			var allowed []string
			for _, user := range []string{"a-view", "a-edit", "a-admin"} {
				if may(ctx, user, namespace, row.verb, s.plural(), SharedGroup) {
					allowed = append(allowed, user)
				}
				Expect(may(ctx, user, other, row.verb, s.plural(), SharedGroup)).To(BeFalse(), "%s may %s elsewhere", user, row.verb)
				for _, resource := range []string{"operatorcollections", "suboperatorconfigs", "zosendpoints"} {
					Expect(may(ctx, user, namespace, row.verb, resource, "zoscb.ibm.com")).To(BeFalse(), "%s may %s %s", user, row.verb, resource)
				}
			}
			Expect(allowed).To(Equal(row.users), row.verb)
		}

		By("letting such a user work with a resource, and with nothing of this project besides")
		editor := as("a-edit")
		Expect(editor.Create(ctx, s.instance(namespace, "one"))).To(Succeed())
		Expect(editor.Delete(ctx, s.instance(namespace, "one"))).To(Succeed())
		refusal := editor.Create(ctx, newEndpoint(namespace, "theirs", nil))
		Expect(refusal).To(MatchError(ContainSubstring("forbidden")))
		attack.Repelled("Permissions", "create a ZosEndpoint, which can run code in the runtime's pod, with the cluster's role edit", "the API server refuses it", refusal.Error())
		Expect(as("a-view").Create(ctx, s.instance(namespace, "two"))).To(MatchError(ContainSubstring("forbidden")))
	})
})

// as is a client of a user.
func as(user string) client.Client { return As(user) }

// grantVersion lets collections read the API server's version.
func grantVersion(ctx context.Context) {
	GinkgoHelper()
	grant(ctx, rbacv1.PolicyRule{NonResourceURLs: []string{"/version"}, Verbs: []string{"get"}})
}
