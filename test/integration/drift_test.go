package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("Drift", func() {
	It("of what the manager applied is repaired, while what others add survives", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		meta := func(suffix string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: namespace, Name: s.operator() + suffix}
		}

		By("making deleted objects again")
		for _, object := range []client.Object{
			&corev1.ConfigMap{ObjectMeta: meta("-runtime")}, &corev1.Secret{ObjectMeta: meta("-endpoints")},
			&corev1.ServiceAccount{ObjectMeta: meta("")}, &rbacv1.Role{ObjectMeta: meta("")},
			&rbacv1.RoleBinding{ObjectMeta: meta("")}, customResourceDefinition(s.crdName()),
		} {
			uid := Live(ctx, Default, object).GetUID()
			Remove(ctx, object)
			Eventually(ctx, func(g Gomega) { g.Expect(Live(ctx, g, object).GetUID()).NotTo(Equal(uid)) }).Should(Succeed(), "%T", object)
		}
		ExpectReady(ctx, oc)

		By("changing edited objects back")
		operator := deployment(namespace, s.operator())
		Patch(ctx, operator, `{"metadata":{"labels":{"team":"blue","operator-name":"other"}},"spec":{"replicas":3}}`)
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, operator)
			g.Expect(operator.Spec.Replicas).To(HaveValue(BeEquivalentTo(1)))
			g.Expect(operator.Labels).To(And(HaveKeyWithValue("operator-name", s.name), HaveKeyWithValue("team", "blue")))
		}).Should(Succeed())
		role := &rbacv1.Role{ObjectMeta: meta("")}
		Get(ctx, Default, role)
		rules := role.Rules
		Patch(ctx, role, `{"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`)
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, role)
			g.Expect(role.Rules).To(Equal(rules))
		}).Should(Succeed())
		config := &corev1.ConfigMap{ObjectMeta: meta("-runtime")}
		Patch(ctx, config, `{"data":{"digest":"sha256:bad","more":"mine"}}`)
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, config)
			g.Expect(config.Data).To(HaveKeyWithValue("digest", oc.Spec.Digest))
		}).Should(Succeed())

		By("repairing the CRD, with what a user added to its metadata")
		crd := customResourceDefinition(s.crdName())
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, crd)
			crd.Labels["team"] = "blue"
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "changed"
			g.Expect(K8s.Update(ctx, crd)).To(Succeed())
		}).Should(Succeed())
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, crd)
			g.Expect(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description).NotTo(Equal("changed"))
			g.Expect(crd.Labels).To(HaveKeyWithValue("team", "blue"))
		}).Should(Succeed())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
	})
})
