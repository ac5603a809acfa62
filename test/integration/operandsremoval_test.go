package integration

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operandsv1alpha1 "github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("Operand requests that give packages back", Ordered, func() {
	BeforeAll(withPackages)

	// expectWaiting expects that the deletion of a request waits for its own resource, and that the operator is there.
	expectWaiting := func(ctx context.Context, t *ci, request *operandsv1alpha1.OperandRequest) {
		GinkgoHelper()
		Eventually(ctx, Condition(ctx, request, v2beta2.ConditionReady)).Should(And(
			ConditionFalse(), WithReason(operandsv1alpha1.ReasonRemovalWaiting), WithMessage(`"`+request.Namespace+`/own"`)))
		for _, object := range []client.Object{t.subscription, t.csv("1.0.0")} {
			Expect(Live(ctx, Default, object).GetDeletionTimestamp()).To(BeNil())
		}
	}
	// heldOwn creates the resource that a request specifies, which the operator has to finalize.
	heldOwn := func(ctx context.Context, request *operandsv1alpha1.OperandRequest) client.Object {
		GinkgoHelper()
		own := jenkins(request.Namespace, "own")
		Eventually(ctx, Gone(ctx, own)).Should(BeFalse())
		ExpectReady(ctx, request)
		Patch(ctx, own, fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, InstanceFinalizer))
		return own
	}
	expectGone := func(ctx context.Context, t *ci) {
		GinkgoHelper()
		for _, object := range []client.Object{t.subscription, t.csv("1.0.0"), t.group} {
			Expect(Gone(ctx, object)(Default)).To(BeTrue())
		}
	}

	It("remove an operator that was handed over after the resources that need it", func(ctx context.Context) {
		startOperands(ctx)
		t := newCI(ctx)
		other := newNamespace(ctx)
		grantJenkins(ctx, other)
		allowMapping(ctx, t.namespace, other)
		registry := &operandsv1alpha1.OperandRegistry{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "tools"}}
		Expect(yaml.UnmarshalStrict([]byte("{operators: [{name: ci, packageName: jenkins-operator, channel: alpha, namespace: "+t.namespace+"}]}"), &registry.Spec)).To(Succeed())
		Create(ctx, registry)
		first := t.request(ctx, t.namespace, "first", "{name: jenkins}")
		t.installs(ctx, "1.0.0", operatorsv1alpha1.CSVPhaseSucceeded)
		ExpectReady(ctx, first)
		second := (&tools{namespace: other}).request(ctx, other, "second", "{name: ci, kind: Jenkins, apiVersion: jenkins.example/v1, instanceName: own}")
		own := heldOwn(ctx, second)
		Remove(ctx, first)
		Eventually(ctx, Gone(ctx, first)).Should(BeTrue())
		Get(ctx, Default, second)
		Expect(second.Status.Inventory).To(ContainElement(And(HaveField("Kind", "Subscription"), HaveField("Operand", "jenkins"))))
		Remove(ctx, second)
		expectWaiting(ctx, t, second)
		Patch(ctx, own, `{"metadata":{"finalizers":null}}`)
		Eventually(ctx, Gone(ctx, second)).Should(BeTrue())
		expectGone(ctx, t)
	})

	It("name all permissions that are missing to see who uses an operator", func(ctx context.Context) {
		global, folders, jobs := openCRD("jenkins.example", "worlds", "World"), openCRD("jenkins.example", "folders", "Folder"), openCRD("jenkins.example", "jobs", "Job")
		global.Spec.Scope = apiextensionsv1.ClusterScoped
		for _, crd := range []*apiextensionsv1.CustomResourceDefinition{global, folders, jobs} {
			Create(ctx, crd)
			DeferCleanup(func(ctx context.Context) { Remove(ctx, crd) })
			Eventually(ctx, func(g Gomega) {
				Get(ctx, g, crd)
				g.Expect(established(crd)).To(BeTrue())
			}).Should(Succeed())
		}
		startOperands(ctx)
		t := newCI(ctx)
		request := t.request(ctx, t.namespace, "request", "{name: jenkins}")
		t.installs(ctx, "1.0.0", operatorsv1alpha1.CSVPhaseSucceeded)
		ExpectReady(ctx, request)
		Patch(ctx, t.csv("1.0.0"), `{"spec":{"customresourcedefinitions":{"owned":[{"name":"worlds.jenkins.example","version":"v1","kind":"World"},
			{"name":"folders.jenkins.example","version":"v1","kind":"Folder"},{"name":"jobs.jenkins.example","version":"v1","kind":"Job"}]}}}`)
		Remove(ctx, request)
		Eventually(ctx, Condition(ctx, request, v2beta2.ConditionReady)).Should(And(ConditionFalse(), WithReason(operandsv1alpha1.ReasonNotGranted),
			WithMessage("kubectl create role collection-operator-operands-list-folders -n "+t.namespace+" --verb=list,watch --resource=folders.jenkins.example,jobs.jenkins.example && ")))
		meta := metav1.ObjectMeta{Namespace: t.namespace, Name: operandsAccount + "-list-folders"}
		Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"jenkins.example"}, Resources: []string{"folders", "jobs"}, Verbs: []string{"list", "watch"},
		}}}, &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ManagerNamespace, Name: operandsAccount}},
		})
		awaitRight(ctx, operandsUser, t.namespace, "list", "jobs", "jenkins.example")
		Patch(ctx, t.registry, `{"spec":{"touched":"now"}}`)
		Eventually(ctx, Gone(ctx, request)).Should(BeTrue())
		expectGone(ctx, t)
	})
})
