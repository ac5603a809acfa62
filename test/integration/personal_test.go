package integration

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// The users of these specs: all may change the resources, and each may read one Secret.
const (
	alice = "alice"
	bob   = "bob"
	// carol may read bob's Secret, and update the endpoint.
	carol = "carol"
	// syncer is the account of a GitOps tool.
	syncer = "system:serviceaccount:gitops:syncer"
)

// grantTo gives a user, or a ServiceAccount, permissions in a namespace.
func grantTo(ctx context.Context, namespace, name, user string, rules ...rbacv1.PolicyRule) {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
}

// operatorOf is the ServiceAccount of the operator of the gate's specs.
func operatorOf(namespace string) string {
	return "system:serviceaccount:" + namespace + ":" + JobOperator
}

// letUse lets alice and bob change the resources of a group, and each read the Secret of their name. The operator may do both, and the
// account of a GitOps tool as well.
func letUse(ctx context.Context, namespace, group string) {
	GinkgoHelper()
	change := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"jobs", "jobs/status"}, Verbs: []string{"*"}}
	read := func(names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: names, Verbs: []string{"get"}}
	}
	record := rbacv1.PolicyRule{APIGroups: []string{"zoscb.ibm.com"}, Resources: []string{"runs"}, Verbs: []string{"record"}}
	grantTo(ctx, namespace, alice, alice, change, read("alice"))
	grantTo(ctx, namespace, bob, bob, change, read("bob"))
	grantTo(ctx, namespace, carol, carol, change, read("bob"), rbacv1.PolicyRule{
		APIGroups: []string{"zoscb.ibm.com"}, Resources: []string{"zosendpoints"}, ResourceNames: []string{"lpar1"}, Verbs: []string{"update"},
	})
	grantTo(ctx, namespace, "syncer", syncer, change, read())
	grantTo(ctx, namespace, JobOperator, operatorOf(namespace), change, read(), record)
	for _, user := range []string{alice, bob, syncer, carol, operatorOf(namespace)} {
		awaitRight(ctx, user, namespace, "create", "jobs", group)
	}
}

// withCredential returns a copy of a resource whose runs use a Secret.
func withCredential(job *unstructured.Unstructured, secret string) *unstructured.Unstructured {
	job = job.DeepCopy()
	job.SetAnnotations(map[string]string{endpoint.AnnotationCredential: secret})
	return job
}

func toUse(secret string) string { return annotations(`"zoscb.ibm.com/credential":"` + secret + `"`) }

// use is a request of the table. A resource is created if there is no patch.
type use struct {
	what    string
	object  *unstructured.Unstructured
	patch   string
	allowed []string
	// refused users get the message, by default that of those who may not get the Secret.
	message string
	// attack is how an attack with the request is called, or empty.
	attack string
}

const mayNotGet = "you need the permission to get secrets "

// uses are the requests of alice, bob, a GitOps tool and an operator, for resources of alice and of nobody.
func uses(blank, ofAlice, ofNobody *unstructured.Unstructured) []use {
	none, everybody := []string(nil), []string{alice, bob, syncer, carol, "operator"}
	const rerun = `"zoscb.ibm.com/reconcile-requested-at":"2026-11-22T09:00:00Z"`
	return []use{
		{what: "create without", object: blank, allowed: everybody},
		{what: "create with hers", object: withCredential(blank, "alice"), allowed: []string{alice, syncer}, attack: "create a resource with another user's Secret"},
		{what: "create with his", object: withCredential(blank, "bob"), allowed: []string{bob, syncer, carol}},
		{what: "create with one that does not exist", object: withCredential(blank, "none"), allowed: []string{syncer}},
		{what: "create with another namespace's", object: withCredential(blank, "../other/alice"), message: "must be the name of a Secret", allowed: none},
		{what: "set to hers", object: ofNobody, patch: toUse("alice"), allowed: []string{alice, syncer}, attack: "set the annotation to another user's Secret"},
		{what: "set to hers, and remove a label", object: ofNobody, patch: `{"metadata":{"labels":null,"annotations":{"zoscb.ibm.com/credential":"alice"}}}`,
			allowed: []string{alice, syncer}},
		{what: "set to his", object: ofAlice, patch: toUse("bob"), allowed: []string{syncer, carol}},
		{what: "set one without to his", object: ofNobody, patch: toUse("bob"), allowed: []string{bob, syncer, carol}},
		{what: "remove", object: ofAlice, patch: annotations(`"zoscb.ibm.com/credential":null`), allowed: []string{alice, syncer, carol}},
		{what: "remove, and change the spec", object: ofAlice,
			patch:   `{"spec":{"title":"x"},"metadata":{"annotations":{"zoscb.ibm.com/credential":null}}}`,
			allowed: []string{alice, syncer, carol}, attack: "change the spec, and leave it to the other user's tools to name the Secret again"},
		{what: "change what was applied", object: ofAlice, patch: annotations(`"kubectl.kubernetes.io/last-applied-configuration":"{}"`), allowed: []string{alice, syncer},
			attack: "change which defaults count as set by the user"},
		{what: "change a variable", object: ofAlice, patch: `{"spec":{"title":"x"}}`, allowed: []string{alice, syncer},
			attack: "change what runs with another user's Secret"},
		{what: "change the endpoint", object: ofAlice, patch: `{"spec":{"zosendpoint":"bobs-own"}}`, allowed: []string{alice, syncer},
			attack: "send another user's credential to another system"},
		{what: "remove a variable", object: ofAlice, patch: `{"spec":{"title":null}}`, allowed: []string{alice, syncer}},
		{what: "accept defaults", object: ofAlice, patch: annotations(`"zoscb.ibm.com/accept-defaults":"1.0.0"`), allowed: []string{alice, syncer}},
		{what: "change the variables of one without", object: ofNobody, patch: `{"spec":{"title":"x"}}`, allowed: everybody},
		{what: "request a run", object: ofAlice, patch: annotations(rerun), allowed: everybody},
		{what: "label", object: ofAlice, patch: `{"metadata":{"labels":{"a":"b"}}}`, allowed: everybody},
	}
}

// expectFrom makes the request as each of the users, as a dry run.
func (u *use) expectFrom(ctx context.Context, namespace string) {
	GinkgoHelper()
	for _, who := range []string{alice, bob, syncer, carol, "operator"} {
		user, message := who, mayNotGet
		if who == "operator" {
			user, message = operatorOf(namespace), "an operator must not choose or use the credential of a user"
		}
		if u.message != "" {
			message = u.message
		}
		err := as(user).Create(ctx, u.object.DeepCopy(), client.DryRunAll)
		if u.patch != "" {
			err = as(user).Patch(ctx, u.object.DeepCopy(), merge(u.patch), client.DryRunAll)
		}
		if strings.Contains(" "+strings.Join(u.allowed, " ")+" ", " "+who+" ") {
			Expect(err).NotTo(HaveOccurred(), "%s by %s", u.what, who)
			continue
		}
		Expect(err).To(MatchError(ContainSubstring(message)), "%s by %s", u.what, who)
		if u.attack != "" && (who == bob || who == "operator") {
			attack.Repelled("Secrets and hosts", u.attack+", as "+map[string]string{bob: "a user who may not read it", "operator": "a playbook"}[who],
				"the API server refuses it", firstOf(err.Error()))
		}
	}
}

var _ = Describe("A personal credential", func() {
	DescribeTable("is used only by resources of users who may read it",
		func(ctx context.Context, group string) {
			namespace := newNamespace(ctx)
			MakeJobKindIn(ctx, group)
			letUse(ctx, namespace, group)
			spec := map[string]any{"zosendpoint": "lpar1", "title": "a"}
			ofAlice, ofNobody := withCredential(JobIn(group, namespace, "of-alice", spec), "alice"), JobIn(group, namespace, "of-nobody", spec)
			ofNobody.SetLabels(map[string]string{"a": "b"})
			Eventually(ctx, func() error { // The discovery of the kind follows its CRD.
				return as(alice).Create(ctx, ofAlice.DeepCopy())
			}).Should(Succeed(), "the Secret need not exist")
			Expect(as(bob).Create(ctx, ofNobody.DeepCopy())).To(Succeed())
			for _, u := range uses(JobIn(group, namespace, "new", spec), ofAlice, ofNobody) {
				u.expectFrom(ctx, namespace)
			}

			By("not by way of status, which operators write")
			operator := as(operatorOf(namespace))
			Expect(operator.Status().Patch(ctx, ofNobody.DeepCopy(), merge(`{"status":{"phase":"Running"},`+toUse("alice")[1:]))).To(Succeed())
			Expect(operator.Status().Patch(ctx, ofAlice.DeepCopy(), merge(`{"status":{"phase":"Running"},"spec":{"title":"x"}}`))).To(Succeed())
			g := Default
			Expect(Live(ctx, g, ofNobody).GetAnnotations()).NotTo(HaveKey(endpoint.AnnotationCredential))
			Expect(Live(ctx, g, ofAlice).Object["spec"]).To(HaveKeyWithValue("title", "a"))

			By("not by deleting a resource and creating another one of its name")
			Expect(as(bob).Delete(ctx, ofAlice.DeepCopy())).To(Succeed())
			err := as(bob).Create(ctx, ofAlice.DeepCopy())
			Expect(err).To(MatchError(ContainSubstring(mayNotGet)))
			attack.Repelled("Secrets and hosts", "create a resource of the name of one with another user's Secret", "the API server refuses it", firstOf(err.Error()))
			Expect(as(alice).Create(ctx, ofAlice.DeepCopy())).To(Succeed())

			By("while a resource is being deleted as well")
			Patch(ctx, ofAlice.DeepCopy(), fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, operatorsFinalizer))
			DeferCleanup(func(ctx context.Context) { Patch(ctx, ofAlice.DeepCopy(), `{`+unfinished+`}`) })
			Expect(as(bob).Delete(ctx, ofAlice.DeepCopy())).To(Succeed())
			Expect(as(bob).Patch(ctx, ofAlice.DeepCopy(), merge(`{"spec":{"zosendpoint":"bobs-own"}}`))).To(MatchError(ContainSubstring(mayNotGet)))
		},
		Entry("in the API group of all collections", attack.Label, SharedGroup),
		Entry("in the API group of one collection", attack.Label, "personal.example."+SharedGroup),
	)
})
