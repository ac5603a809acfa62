package integration

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

const (
	abandonAnnotation  = "zoscb.ibm.com/abandon"
	runNowAnnotation   = "zoscb.ibm.com/run-now"
	operatorsFinalizer = "suboperator.zoscb.ibm.com/finalizer"
)

// The users of these specs: all may change the kinds of collections, and some of them update ZosEndpoints.
const (
	mayNone  = "an-editor"
	mayLPAR1 = "an-owner-of-lpar1"
	mayLPAR2 = "an-owner-of-lpar2"
	mayBoth  = "an-owner-of-both"
)

// letUpdate gives users the role edit, and some of them the permission to update ZosEndpoints, which need not exist.
func letUpdate(ctx context.Context, namespace string) {
	GinkgoHelper()
	users := map[string][]string{mayNone: nil, mayLPAR1: {"lpar1"}, mayLPAR2: {"lpar2"}, mayBoth: {"lpar1", "lpar2"}}
	for user, endpoints := range users {
		subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
		Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user + "-edits"}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		})
		if endpoints != nil {
			allow(ctx, namespace, user, rbacv1.PolicyRule{
				APIGroups: []string{"zoscb.ibm.com"}, Resources: []string{"zosendpoints"}, ResourceNames: endpoints, Verbs: []string{"update"},
			})
		}
	}
	for user, endpoints := range users {
		Eventually(ctx, func() bool {
			return may(ctx, user, namespace, "create", "things", SharedGroup) && (endpoints == nil || mayUpdate(ctx, user, namespace, endpoints[0]))
		}).Should(BeTrue())
	}
}

// mayUpdate says whether a user may update a ZosEndpoint.
func mayUpdate(ctx context.Context, user, namespace, endpoint string) bool {
	GinkgoHelper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, Groups: []string{"system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: "update", Group: "zoscb.ibm.com", Resource: "zosendpoints", Name: endpoint,
		},
	}}
	Expect(K8s.Create(ctx, review)).To(Succeed())
	return review.Status.Allowed
}

// tried is a request that some users may make.
type tried struct {
	what string
	// object is patched, or created if there is no patch.
	object  *unstructured.Unstructured
	patch   string
	allowed []string
	// attack is how an attack with the request is called, or empty.
	attack string
}

// expectFrom makes the request as each of the users, as a dry run.
func (t *tried) expectFrom(ctx context.Context, users ...string) {
	GinkgoHelper()
	for _, user := range users {
		err := as(user).Create(ctx, t.object.DeepCopy(), client.DryRunAll)
		if t.patch != "" {
			err = as(user).Patch(ctx, t.object.DeepCopy(), merge(t.patch), client.DryRunAll)
		}
		if slices.Contains(t.allowed, user) {
			Expect(err).NotTo(HaveOccurred(), "%s by %s", t.what, user)
			continue
		}
		Expect(err).To(MatchError(ContainSubstring("you need the permission to update zosendpoints.zoscb.ibm.com ")), "%s by %s", t.what, user)
		if t.attack != "" && user == users[0] {
			attack.Repelled("Permissions", t.attack, "the API server refuses it", firstOf(err.Error()))
		}
	}
}

func annotations(values string) string { return `{"metadata":{"annotations":{` + values + `}}}` }

const (
	toAbandon  = `"zoscb.ibm.com/abandon":"true"`
	toRunNow   = `"zoscb.ibm.com/run-now":"2026-11-22T09:00:00Z"`
	unfinished = `"metadata":{"finalizers":null}`
	toLPAR2    = `"spec":{"zosendpoint":"lpar2"}`
)

var _ = Describe("Custom resources of collections", func() {
	// on is an instance of the sample on an endpoint, with the finalizer.
	on := func(namespace string, s *sample, name, endpoint string) *unstructured.Unstructured {
		instance := s.instance(namespace, name)
		Expect(unstructured.SetNestedField(instance.Object, endpoint, "spec", "zosendpoint")).To(Succeed())
		instance.SetFinalizers([]string{operatorsFinalizer})
		DeferCleanup(func(ctx context.Context) { Patch(ctx, instance, `{`+unfinished+`}`) })
		return instance
	}

	It("are removed without a run, and run outside the run windows, only with the permission to update their ZosEndpoint", attack.Label, func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		importSample(ctx, namespace, s)
		makeAvailable(ctx, namespace, s.operator())
		letUpdate(ctx, namespace)
		operator := "system:serviceaccount:" + namespace + ":" + s.operator()
		users := []string{mayNone, mayLPAR1, mayLPAR2, mayBoth, operator}

		plain, moved, marked := on(namespace, s, "plain", "lpar1"), on(namespace, s, "moved", "lpar2"), on(namespace, s, "marked", "lpar1")
		marked.SetAnnotations(map[string]string{abandonAnnotation: "true", runNowAnnotation: "2026-11-22T08:00:00Z"})
		Create(ctx, plain, moved, marked)
		reportRun(ctx, moved, "Succeeded", runOf("1", "Succeeded", `"endpoint":"lpar1",`))
		another := func(endpoint, annotation string) *unstructured.Unstructured {
			instance := s.instance(namespace, "new")
			Expect(unstructured.SetNestedField(instance.Object, endpoint, "spec", "zosendpoint")).To(Succeed())
			instance.SetAnnotations(map[string]string{annotation: "true"})
			return instance
		}
		owners, ownersOfBoth, neighbors := []string{mayLPAR1, mayBoth, operator}, []string{mayBoth, operator}, []string{mayLPAR2, mayBoth, operator}
		for _, t := range []tried{
			{"set abandon", plain, annotations(toAbandon), owners, "have a resource removed without its deletion playbook, with the role edit"},
			{"set run-now", plain, annotations(toRunNow), owners, "run a playbook outside the run windows, with the role edit"},
			{"remove the finalizer", plain, `{` + unfinished + `}`, owners, "remove the finalizer of a resource with the role edit"},
			{"remove all finalizers but another", plain, `{"metadata":{"finalizers":["example.com/mine"]}}`, owners, ""},
			{"abandon and move", plain, `{"metadata":{"annotations":{` + toAbandon + `}},` + toLPAR2 + `}`, ownersOfBoth, "move a resource to an endpoint of one's own and abandon it, in one request"},
			{"remove the finalizer and move", plain, `{` + unfinished + `,` + toLPAR2 + `}`, ownersOfBoth, ""},
			{"set run-now and move", plain, `{"metadata":{"annotations":{` + toRunNow + `}},` + toLPAR2 + `}`, neighbors, ""},
			{"add a finalizer", plain, `{"metadata":{"finalizers":["` + operatorsFinalizer + `","example.com/mine"]}}`, users, ""},
			{"label", plain, `{"metadata":{"labels":{"mine":"yes"}}}`, users, ""},
			{"move", plain, `{` + toLPAR2 + `}`, users, ""},

			{"abandon after a move", moved, annotations(toAbandon), ownersOfBoth, "move a resource to an endpoint of one's own and abandon it before it runs there"},
			{"remove the finalizer after a move", moved, `{` + unfinished + `}`, ownersOfBoth, ""},
			{"set run-now after a move", moved, annotations(toRunNow), neighbors, ""},

			{"label what is to be abandoned", marked, `{"metadata":{"labels":{"mine":"yes"}}}`, users, ""},
			{"change the spec of what is to be abandoned", marked, `{"spec":{"size":7}}`, users, ""},
			{"remove the annotations", marked, annotations(`"zoscb.ibm.com/abandon":null,"zoscb.ibm.com/run-now":null`), users, ""},
			{"change run-now", marked, annotations(toRunNow), owners, ""},
			{"move what is to be abandoned", marked, `{` + toLPAR2 + `}`, ownersOfBoth, "have a permission for one endpoint, and use it on another"},
			{"move without the annotations", marked, `{"metadata":{"annotations":null},` + toLPAR2 + `}`, users, ""},

			{"create to be abandoned", another("lpar1", abandonAnnotation), "", owners, ""},
			{"create to run now", another("lpar2", runNowAnnotation), "", neighbors, ""},
		} {
			t.expectFrom(ctx, users...)
		}

		By("replacing a resource by a manifest without its finalizer")
		Get(ctx, Default, plain)
		replacement := plain.DeepCopy()
		replacement.SetFinalizers(nil)
		Expect(as(mayNone).Update(ctx, replacement.DeepCopy())).To(MatchError(ContainSubstring("or must keep the finalizer")))
		Expect(as(mayLPAR1).Update(ctx, replacement)).To(Succeed())
	})

	It("are left to operators if they have no valid endpoint", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		crd := foreignCRD(s)
		Create(ctx, crd)
		DeferCleanup(func(ctx context.Context) { Remove(ctx, crd) })
		const mayAll, operator = "an-owner-of-all", "an-operator"
		bind(ctx, namespace, "edit", mayAll)
		allow(ctx, namespace, mayAll, rbacv1.PolicyRule{APIGroups: []string{"zoscb.ibm.com"}, Resources: []string{"zosendpoints"}, Verbs: []string{"update"}})
		allow(ctx, namespace, operator, rbacv1.PolicyRule{
			APIGroups: []string{"zoscb.ibm.com", SharedGroup}, Resources: []string{"runs", s.plural()}, Verbs: []string{"record", "create", "patch"},
		})
		Eventually(ctx, func() bool {
			return mayUpdate(ctx, mayAll, namespace, "any") && may(ctx, mayAll, namespace, "create", s.plural(), SharedGroup) &&
				may(ctx, operator, namespace, "create", s.plural(), SharedGroup)
		}).Should(BeTrue())

		for i, spec := range []any{
			nil, "text", []any{}, map[string]any{}, map[string]any{"zosendpoint": ""}, map[string]any{"zosendpoint": int64(7)},
			map[string]any{"zosendpoint": []any{"lpar1"}}, map[string]any{"zosendpoint": map[string]any{"name": "lpar1"}},
		} {
			instance := Instance("v1", s.kind, namespace, fmt.Sprintf("odd%d", i), nil)
			instance.Object["spec"] = spec
			instance.SetFinalizers([]string{operatorsFinalizer})
			Eventually(ctx, func() error { return K8s.Create(ctx, instance.DeepCopy()) }).Should(Succeed())
			for _, patch := range []string{annotations(toAbandon), annotations(toRunNow), `{` + unfinished + `}`,
				`{"metadata":{"annotations":{` + toAbandon + `}},"spec":{"zosendpoint":"lpar1"}}`} {
				dryRun := func(user string) error {
					return as(user).Patch(ctx, instance.DeepCopy(), merge(patch), client.DryRunAll)
				}
				Expect(dryRun(operator)).To(Succeed(), "%v: %s", spec, patch)
				Expect(dryRun(mayAll)).To(MatchError(ContainSubstring("collection-operator-run-permissions")), "%v: %s", spec, patch)
			}
			Expect(as(mayAll).Patch(ctx, instance.DeepCopy(), merge(`{"metadata":{"labels":{"mine":"yes"}}}`))).To(Succeed(), "%v", spec)
			Patch(ctx, instance, `{`+unfinished+`}`)
		}
	})
})
