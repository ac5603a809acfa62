package integration

import (
	"context"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/operator-framework/api/crds"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// ownCondition plays the part of OLM when it installs the manager from a bundle: it makes the OperatorCondition of the manager, with the
// permissions that OLM gives for it and no others.
func ownCondition(ctx context.Context) *operatorsv2.OperatorCondition {
	GinkgoHelper()
	definition := crds.OperatorCondition()
	Create(ctx, definition)
	DeferCleanup(func(ctx context.Context) {
		Remove(ctx, definition)
		Eventually(ctx, GoneInTheEnd(ctx, definition)).WithPolling(time.Second).Should(BeTrue())
	})
	Eventually(ctx, func(g Gomega) bool {
		Get(ctx, g, definition)
		return established(definition)
	}).Should(BeTrue())
	Eventually(ctx, func() error { // Its discovery follows.
		return K8s.List(ctx, &operatorsv2.OperatorConditionList{})
	}).Should(Succeed())
	own := metav1.ObjectMeta{Namespace: ManagerNamespace, Name: "collection-operator.v0.1.0"}
	condition := &operatorsv2.OperatorCondition{ObjectMeta: own}
	Create(ctx, condition,
		&rbacv1.Role{ObjectMeta: own, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"operators.coreos.com"}, Resources: []string{"operatorconditions"}, ResourceNames: []string{own.Name},
			Verbs: []string{"get", "update", "patch"},
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: own, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: own.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ManagerNamespace, Name: managerAccount}},
		})
	Eventually(ctx, func() error { return theManager.withToken().Get(ctx, client.ObjectKeyFromObject(condition), condition) }).Should(Succeed())
	return condition
}

// writesOf returns those of writesSince of a resource.
func (m *auditMark) writesOf(resource string) []string {
	GinkgoHelper()
	return slices.DeleteFunc(slices.Clone(m.writesSince()), func(write string) bool { return !strings.Contains(write, resource) })
}

// restartWithVariable gives the manager the variable with which OLM names its OperatorCondition, until the spec ends.
func restartWithVariable(ctx context.Context, name string) {
	GinkgoHelper()
	restart := func(ctx context.Context, wrapper ...string) {
		theManager.stop()
		theManager.wrapper = wrapper
		theManager.start(ctx)
	}
	restart(ctx, "env", "OPERATOR_CONDITION_NAME="+name)
	DeferCleanup(func(ctx context.Context) { restart(ctx) })
}

var _ = Describe("A manager that OLM installed", func() {
	It("lets OLM replace it, but not while it upgrades or removes an operator", func(ctx context.Context) {
		condition := ownCondition(ctx)
		restartWithVariable(ctx, condition.Name)
		own := upgradeable(ctx, condition)
		const idle = "no operator is being upgraded or removed"
		mayReplace := And(ConditionTrue(), WithReason(v2beta2.ReasonSucceeded), WithMessage(idle))
		Eventually(ctx, own).Should(mayReplace)

		By("upgrading")
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		next := *s
		next.version = "2.0.0"
		changeSpec(ctx, oc, next.pinned())
		Eventually(ctx, own).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonProgressing),
			WithMessage(`namespace "`+namespace+`" gets version 2.0.0 of OperatorCollection "`+namespace+`/oc"`)))
		makeReadyAgain(ctx, oc, s, next.version)
		Eventually(ctx, own).Should(mayReplace)

		By("removing the operator while a playbook runs")
		runs := next.instance(namespace, "runs")
		Create(ctx, runs)
		running := merge(`{"status":{"conditions":[{"type":"Running","status":"True","reason":"Running"}]}}`)
		Expect(K8s.Status().Patch(ctx, runs.DeepCopy(), running)).To(Succeed())
		Remove(ctx, soc)
		Eventually(ctx, own).Should(And(ConditionFalse(),
			WithMessage(`the operator of SubOperatorConfig "`+namespace+`/oc-soc" is removed from namespace "`+namespace+`"`)))
		Remove(ctx, runs)
		Eventually(ctx, own).Should(mayReplace)
		Patch(ctx, condition, `{"spec":{"overrides":[{"type":"Upgradeable","status":"True","reason":"Administrator","message":"replace it now"}]}}`)
	})

	It("works as before where OLM has no OperatorCondition for it", func(ctx context.Context) {
		mark, began := markAudit(), time.Now()
		restartWithVariable(ctx, "collection-operator.v0.1.0")
		installSample(ctx, newNamespace(ctx), newSample())
		Expect(mark.writesOf("operatorconditions")).To(BeEmpty())
		Expect(strings.Count(theManager.logSince(began), "is not told when it may replace the manager")).To(Equal(1))
	})
})
