package integration

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
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
	create(ctx, role)
	DeferCleanup(func(ctx context.Context) { remove(ctx, role) }, NodeTimeout(time.Minute))
}

var _ = Describe("A collection's permissions", func() {
	It("are granted only as far as an administrator granted them, and the rest is named", func(ctx context.Context) {
		s := newSample()
		s.permissions = "clusterRoles: [{apiGroups: [''], resources: [nodes], verbs: [get, list]}]\n" +
			"roles: [{apiGroups: [batch], resources: [jobs], verbs: [create]}]"
		rules := []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list"}},
			{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"create"}},
		}
		namespace := newNamespace(ctx)
		oc := importSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		expectFailure(ctx, soc, v2beta2.ReasonPermissionsNotGranted, `"nodes"`, false)
		Expect(conditionOf(ctx, soc, v2beta2.ConditionReady)(NewWithT(GinkgoT()))).To(And(
			saying(`"jobs"`), saying("zoscb.ibm.com/aggregate-to-grants")))
		expectFailure(ctx, oc, v2beta2.ReasonPermissionsNotGranted, `"nodes"`, false)
		Expect(madeIn(ctx, namespace)).To(ConsistOf("SubOperatorConfig/oc-soc"), "nothing is half-installed")

		By("healing once the grant exists, by itself")
		grant(ctx, rules...)
		Eventually(isGone(ctx, deployment(namespace, s.operator()))).WithContext(ctx).WithTimeout(75 * time.Second).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		expectReady(ctx, oc)
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.clusterRole(namespace)}}
		get(ctx, NewWithT(GinkgoT()), role)
		Expect(role.Rules).To(Equal(rules[:1]))
		expectIdentity(role, s)
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: s.clusterRole(namespace)}}
		get(ctx, NewWithT(GinkgoT()), binding)

		By("removing cluster-scoped objects, which no garbage collector removes, with the collection")
		removeCollections(ctx, namespace)
		Expect(isGone(ctx, role)(NewWithT(GinkgoT()))).To(BeTrue())
		Expect(isGone(ctx, binding)(NewWithT(GinkgoT()))).To(BeTrue())
	}, NodeTimeout(4*time.Minute))
})

// grantVersion lets collections read the API server's version.
func grantVersion(ctx context.Context) {
	GinkgoHelper()
	grant(ctx, rbacv1.PolicyRule{NonResourceURLs: []string{"/version"}, Verbs: []string{"get"}})
}
