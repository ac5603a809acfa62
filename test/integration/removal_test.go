package integration

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("Removing", func() {
	It("with Finalize touches no custom resource of another tenant", attack.Label, func(ctx context.Context) {
		mine, theirs, s := newNamespace(ctx), newNamespace(ctx), newSample()
		oc := installSample(ctx, mine, s)
		other := installSample(ctx, theirs, s)
		thing, foreign, unserved := s.instance(mine, "one"), s.instance(theirs, "two"), s.instance("default", "three")
		thing.SetFinalizers([]string{InstanceFinalizer})
		foreign.SetFinalizers([]string{InstanceFinalizer})
		Create(ctx, thing, foreign, unserved)
		Patch(ctx, oc, `{"spec":{"deletionPolicy":"Finalize"}}`)
		Remove(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonFinalizingInstances, mine+"/one", false)
		Expect(Condition(ctx, oc, v2beta2.ConditionReady)(Default)).NotTo(Or(WithMessage("/two"), WithMessage("/three")))
		Patch(ctx, thing, `{"metadata":{"finalizers":null}}`)
		Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
		Expect(madeIn(ctx, mine)).To(BeEmpty())
		for _, object := range []interface {
			GetDeletionTimestamp() *metav1.Time
		}{
			Live(ctx, Default, foreign), Live(ctx, Default, unserved),
			Live(ctx, Default, customResourceDefinition(s.crdName())), Live(ctx, Default, other),
		} {
			Expect(object.GetDeletionTimestamp()).To(BeNil())
		}
		ExpectReady(ctx, other)
		attack.Repelled("Tenancy", "delete a collection that another namespace has too, and all custom resources with it",
			"the other's custom resources, CRDs and operator stay", s.kind+" "+theirs+"/two and default/three stay; there: "+seen(ctx, other))
		Patch(ctx, foreign, `{"metadata":{"finalizers":null}}`)
		Remove(ctx, unserved)
	})

	It("a SubOperatorConfig by force leaves its operator to the next one of its name, which removes it", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		made, uid := madeIn(ctx, namespace), Live(ctx, Default, deployment(namespace, s.operator())).GetUID()
		removeByForce(ctx, soc)
		Expect(append(madeIn(ctx, namespace), "SubOperatorConfig/"+soc.Name)).To(ConsistOf(made), "nobody knows of them")
		again := newSOC(namespace, soc.Name, "oc", mapTo(namespace)...)
		Create(ctx, again)
		ExpectReady(ctx, again)
		Expect(Live(ctx, Default, deployment(namespace, s.operator())).GetUID()).To(Equal(uid))
		Remove(ctx, again)
		Eventually(ctx, Gone(ctx, again)).Should(BeTrue())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
	})

	It("an OperatorCollection by force leaves custom resources and CRDs to the one that is created again", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc, thing := defaultSOC(oc), s.instance(namespace, "one")
		Create(ctx, thing)
		uid := Live(ctx, Default, customResourceDefinition(s.crdName())).GetUID()
		began := time.Now()
		removeByForce(ctx, oc)
		Eventually(ctx, Gone(ctx, soc)).WithTimeout(ClientTimeout).Should(BeTrue())
		AddReportEntry("a SubOperatorConfig whose OperatorCollection was forced away went after", time.Since(began).Round(time.Second).String())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
		Expect(Live(ctx, Default, thing).GetDeletionTimestamp()).To(BeNil())
		Expect(Live(ctx, Default, customResourceDefinition(s.crdName())).GetUID()).To(Equal(uid))

		By("which takes them over")
		again := installSample(ctx, namespace, s)
		Expect(Live(ctx, Default, customResourceDefinition(s.crdName())).GetUID()).To(Equal(uid))
		Patch(ctx, thing, `{"spec":{"size":8}}`)
		Remove(ctx, again)
		ExpectFailure(ctx, again, v2beta2.ReasonInstancesExist, namespace+"/one", false)
		Remove(ctx, thing)
		Eventually(ctx, Gone(ctx, again)).Should(BeTrue())
		expectNothingLeft(ctx, namespace, s)
	})
})

// removeByForce removes an object and its finalizers, as a user does who does not want to wait.
func removeByForce(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Patch(ctx, object, `{"metadata":{"finalizers":null}}`)
	Remove(ctx, object)
	// The manager may put its finalizer back between the two, as it may under a user.
	Eventually(ctx, func(g Gomega) bool {
		if gone := Gone(ctx, object)(g); gone {
			return true
		}
		g.Expect(TryPatch(ctx, object, `{"metadata":{"finalizers":null}}`)).To(Or(Succeed(), MatchError(ContainSubstring("not found"))))
		return false
	}).Should(BeTrue())
}

var _ = Describe("A namespace that is deleted as a whole", func() {
	It("says why it does not while a custom resource waits for its finalizer playbook, and ends without it, with everything in it", func(ctx context.Context) {
		namespace, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		s.permissions = "clusterRoles: [{nonResourceURLs: [/version], verbs: [get]}]"
		grantVersion(ctx)
		allowMapping(ctx, other, namespace)
		Create(ctx, newSOC(namespace, "soc", "oc", mapTo(namespace, other)...))
		oc := importSample(ctx, namespace, s)
		for _, n := range []string{namespace, other} {
			Eventually(ctx, Gone(ctx, deployment(n, s.operator()))).WithTimeout(InstallTimeout).Should(BeFalse())
			makeAvailable(ctx, n, s.operator())
		}
		ExpectReady(ctx, oc)
		thing, elsewhere := s.instance(namespace, "one"), s.instance(other, "two")
		thing.SetFinalizers([]string{InstanceFinalizer})
		Create(ctx, thing, elsewhere)
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		Remove(ctx, object)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).Should(And(
			ConditionFalse(), WithReason(v2beta2.ReasonInstancesExist), WithMessage(s.kind+" "+namespace+"/one"), WithMessage(InstanceFinalizer), WithMessage("is being deleted")))
		Expect(Condition(ctx, oc, v2beta2.ConditionReady)(Default)).NotTo(WithMessage("/two"))

		By("speaking of the other namespaces, whose operator still runs, when that is done")
		Patch(ctx, thing, `{"metadata":{"finalizers":null}}`)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).Should(And(
			WithReason(v2beta2.ReasonInstancesExist), WithMessage(other+"/two"), WithMessage("spec.deletionPolicy")))
		Expect(Gone(ctx, deployment(other, s.operator()))(Default)).To(BeFalse())
		Remove(ctx, elsewhere)
		Eventually(ctx, Gone(ctx, object)).Should(BeTrue())
		Eventually(ctx, Gone(ctx, customResourceDefinition(s.crdName()))).Should(BeTrue())
		Expect(madeIn(ctx, other)).To(BeEmpty())
		for _, n := range []string{namespace, other} {
			for _, kind := range []string{"ClusterRole", "ClusterRoleBinding"} {
				Expect(clusterRoleIsGone(ctx, kind, s.clusterRole(n))).To(BeTrue(), "%s of %s", kind, n)
			}
		}
	})

	It("names the custom resources of a mapped namespace that is being deleted", func(ctx context.Context) {
		namespace, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		allowMapping(ctx, other, namespace)
		Create(ctx, newSOC(namespace, "soc", "oc", mapTo(namespace, other)...))
		oc := importSample(ctx, namespace, s)
		for _, n := range []string{namespace, other} {
			makeAvailable(ctx, n, s.operator())
		}
		ExpectReady(ctx, oc)
		thing := s.instance(other, "one")
		thing.SetFinalizers([]string{InstanceFinalizer})
		Create(ctx, thing)
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}}
		Remove(ctx, object)
		ExpectFailure(ctx, newSOC(namespace, "soc", "oc"), v2beta2.ReasonMappingNotAllowed, "is being deleted", false)
		Remove(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonInstancesExist, s.kind+" "+other+"/one", false)

		Patch(ctx, thing, `{"metadata":{"finalizers":null}}`)
		Eventually(ctx, Gone(ctx, object)).Should(BeTrue())
		Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
	})
})

func clusterRoleIsGone(ctx context.Context, kind, name string) bool {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("rbac.authorization.k8s.io/v1")
	object.SetKind(kind)
	object.SetName(name)
	return Gone(ctx, object)(Default)
}
