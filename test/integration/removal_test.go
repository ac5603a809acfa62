package integration

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
)

var _ = Describe("Removing", func() {
	It("with Finalize touches no custom resource of another tenant", attack.Label, func(ctx context.Context) {
		mine, theirs, s := newNamespace(ctx), newNamespace(ctx), newSample()
		oc := installSample(ctx, mine, s)
		other := installSample(ctx, theirs, s)
		thing, foreign, unserved := s.instance(mine, "one"), s.instance(theirs, "two"), s.instance("default", "three")
		thing.SetFinalizers([]string{instanceFinalizer})
		foreign.SetFinalizers([]string{instanceFinalizer})
		create(ctx, thing, foreign, unserved)
		patch(ctx, oc, `{"spec":{"deletionPolicy":"Finalize"}}`)
		remove(ctx, oc)
		expectFailure(ctx, oc, v2beta2.ReasonFinalizingInstances, mine+"/one", false)
		Expect(conditionOf(ctx, oc, v2beta2.ConditionReady)(NewWithT(GinkgoT()))).NotTo(Or(saying("/two"), saying("/three")))
		patch(ctx, thing, `{"metadata":{"finalizers":null}}`)
		Eventually(isGone(ctx, oc)).WithContext(ctx).Should(BeTrue())
		Expect(madeIn(ctx, mine)).To(BeEmpty())
		for _, object := range []interface {
			GetDeletionTimestamp() *metav1.Time
		}{
			live(ctx, NewWithT(GinkgoT()), foreign), live(ctx, NewWithT(GinkgoT()), unserved),
			live(ctx, NewWithT(GinkgoT()), customResourceDefinition(s.crdName())), live(ctx, NewWithT(GinkgoT()), other),
		} {
			Expect(object.GetDeletionTimestamp()).To(BeNil())
		}
		expectReady(ctx, other)
		attack.Repelled("Tenancy", "delete a collection that another namespace has too, and all custom resources with it",
			"the other's custom resources, CRDs and operator stay", s.kind+" "+theirs+"/two and default/three stay; there: "+seen(ctx, other))
		patch(ctx, foreign, `{"metadata":{"finalizers":null}}`)
		remove(ctx, unserved)
	}, NodeTimeout(2*time.Minute))

	It("with Block waits for the custom resources that it serves, with Orphan for none", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		thing, unserved := s.instance(namespace, "one"), s.instance("default", "two")
		create(ctx, thing, unserved)
		remove(ctx, oc)
		expectFailure(ctx, oc, v2beta2.ReasonInstancesExist, namespace+"/one", false)
		Expect(conditionOf(ctx, oc, v2beta2.ConditionReady)(NewWithT(GinkgoT()))).NotTo(saying("/two"))
		Consistently(isGone(ctx, deployment(namespace, s.operator()))).WithContext(ctx).Should(BeFalse())
		By("changing the policy while it waits")
		patch(ctx, oc, `{"spec":{"deletionPolicy":"Orphan"}}`)
		Eventually(isGone(ctx, oc)).WithContext(ctx).Should(BeTrue())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
		Expect(live(ctx, NewWithT(GinkgoT()), thing).GetDeletionTimestamp()).To(BeNil())
		get(ctx, NewWithT(GinkgoT()), customResourceDefinition(s.crdName()))

		By("taking over what was orphaned when it is imported again")
		again := installSample(ctx, namespace, s)
		remove(ctx, unserved)
		remove(ctx, again)
		expectFailure(ctx, again, v2beta2.ReasonInstancesExist, namespace+"/one", false)
		remove(ctx, thing)
		Eventually(isGone(ctx, again)).WithContext(ctx).Should(BeTrue())
		expectNothingLeft(ctx, namespace, s)
	}, NodeTimeout(3*time.Minute))

	It("a SubOperatorConfig alone keeps custom resources and CRDs, and says how many lost their operator", func(ctx context.Context) {
		namespace, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		allowMapping(ctx, other, namespace)
		soc := newSOC(namespace, "soc", "oc", mapTo(namespace, other)...)
		create(ctx, soc)
		oc := importSample(ctx, namespace, s)
		for _, n := range []string{namespace, other} {
			Eventually(isGone(ctx, deployment(n, s.operator()))).WithContext(ctx).Should(BeFalse())
			makeAvailable(ctx, n, s.operator())
		}
		expectReady(ctx, oc)
		create(ctx, s.instance(namespace, "one"), s.instance(namespace, "two"), s.instance(other, "three"))
		remove(ctx, soc)
		Eventually(isGone(ctx, soc)).WithContext(ctx).Should(BeTrue())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
		Expect(madeIn(ctx, other)).To(BeEmpty())
		Eventually(notes(ctx, soc, v2beta2.ReasonInstancesExist)).WithContext(ctx).Should(ConsistOf(
			HavePrefix(`2 custom resources stay in namespace "`+namespace+`"`), HavePrefix(`1 custom resources stay in namespace "`+other+`"`)))
		for name, in := range map[string]string{"one": namespace, "two": namespace, "three": other} {
			Expect(live(ctx, NewWithT(GinkgoT()), s.instance(in, name)).GetDeletionTimestamp()).To(BeNil())
		}
		expectFailure(ctx, oc, v2beta2.ReasonNotInstalled, "", false)

		By("serving them again with a new one")
		create(ctx, newSOC(namespace, "again", "oc", mapTo(namespace, other)...))
		for _, n := range []string{namespace, other} {
			Eventually(isGone(ctx, deployment(n, s.operator()))).WithContext(ctx).Should(BeFalse())
			makeAvailable(ctx, n, s.operator())
		}
		expectReady(ctx, oc)
	}, NodeTimeout(3*time.Minute))

	It("an OperatorCollection by force leaves custom resources and CRDs to the one that is created again", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc, thing := defaultSOC(oc), s.instance(namespace, "one")
		create(ctx, thing)
		uid := live(ctx, NewWithT(GinkgoT()), customResourceDefinition(s.crdName())).GetUID()
		patch(ctx, oc, `{"metadata":{"finalizers":null}}`)
		began := time.Now()
		remove(ctx, oc)
		// The manager may put its finalizer back between the two, as it may under a user.
		Eventually(func(g Gomega) bool {
			if gone := isGone(ctx, oc)(g); gone {
				return true
			}
			g.Expect(tryPatch(ctx, oc, `{"metadata":{"finalizers":null}}`)).To(Or(Succeed(), MatchError(ContainSubstring("not found"))))
			return false
		}).WithContext(ctx).Should(BeTrue())
		Eventually(isGone(ctx, soc)).WithContext(ctx).WithTimeout(140 * time.Second).Should(BeTrue())
		AddReportEntry("a SubOperatorConfig whose OperatorCollection was forced away went after", time.Since(began).Round(time.Second).String())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
		Expect(live(ctx, NewWithT(GinkgoT()), thing).GetDeletionTimestamp()).To(BeNil())
		Expect(live(ctx, NewWithT(GinkgoT()), customResourceDefinition(s.crdName())).GetUID()).To(Equal(uid))

		By("which takes them over")
		again := installSample(ctx, namespace, s)
		Expect(live(ctx, NewWithT(GinkgoT()), customResourceDefinition(s.crdName())).GetUID()).To(Equal(uid))
		patch(ctx, thing, `{"spec":{"size":8}}`)
		remove(ctx, again)
		expectFailure(ctx, again, v2beta2.ReasonInstancesExist, namespace+"/one", false)
		remove(ctx, thing)
		Eventually(isGone(ctx, again)).WithContext(ctx).Should(BeTrue())
		expectNothingLeft(ctx, namespace, s)
	}, NodeTimeout(4*time.Minute))
})

var _ = Describe("A namespace that is deleted as a whole", func() {
	It("ends, with everything in it", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		s.permissions = "clusterRoles: [{nonResourceURLs: [/version], verbs: [get]}]"
		grantVersion(ctx)
		oc := importSample(ctx, namespace, s)
		Eventually(isGone(ctx, deployment(namespace, s.operator()))).WithContext(ctx).WithTimeout(75 * time.Second).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		expectReady(ctx, oc)
		create(ctx, s.instance(namespace, "one"))
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		remove(ctx, object)
		Eventually(isGone(ctx, object)).WithContext(ctx).Should(BeTrue())
		Eventually(isGone(ctx, customResourceDefinition(s.crdName()))).WithContext(ctx).Should(BeTrue())
		for _, kind := range []string{"ClusterRole", "ClusterRoleBinding"} {
			Expect(clusterRoleIsGone(ctx, kind, s.clusterRole(namespace))).To(BeTrue(), kind)
		}
	}, NodeTimeout(3*time.Minute))

	It("says why it does not while a custom resource waits for its finalizer playbook, and ends without it", func(ctx context.Context) {
		namespace, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		allowMapping(ctx, other, namespace)
		create(ctx, newSOC(namespace, "soc", "oc", mapTo(namespace, other)...))
		oc := importSample(ctx, namespace, s)
		for _, n := range []string{namespace, other} {
			Eventually(isGone(ctx, deployment(n, s.operator()))).WithContext(ctx).Should(BeFalse())
			makeAvailable(ctx, n, s.operator())
		}
		expectReady(ctx, oc)
		thing, elsewhere := s.instance(namespace, "one"), s.instance(other, "two")
		thing.SetFinalizers([]string{instanceFinalizer})
		create(ctx, thing, elsewhere)
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		remove(ctx, object)
		Eventually(conditionOf(ctx, oc, v2beta2.ConditionReady)).WithContext(ctx).Should(And(
			beFalse(), because(v2beta2.ReasonInstancesExist), saying(s.kind+" "+namespace+"/one"), saying(instanceFinalizer), saying("is being deleted")))
		Expect(conditionOf(ctx, oc, v2beta2.ConditionReady)(NewWithT(GinkgoT()))).NotTo(saying("/two"))

		By("speaking of the other namespaces, whose operator still runs, when that is done")
		patch(ctx, thing, `{"metadata":{"finalizers":null}}`)
		Eventually(conditionOf(ctx, oc, v2beta2.ConditionReady)).WithContext(ctx).Should(And(
			because(v2beta2.ReasonInstancesExist), saying(other+"/two"), saying("spec.deletionPolicy")))
		Expect(isGone(ctx, deployment(other, s.operator()))(NewWithT(GinkgoT()))).To(BeFalse())
		remove(ctx, elsewhere)
		Eventually(isGone(ctx, object)).WithContext(ctx).Should(BeTrue())
		Eventually(isGone(ctx, customResourceDefinition(s.crdName()))).WithContext(ctx).Should(BeTrue())
		Expect(madeIn(ctx, other)).To(BeEmpty())
	}, NodeTimeout(3*time.Minute))
})

func clusterRoleIsGone(ctx context.Context, kind, name string) bool {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("rbac.authorization.k8s.io/v1")
	object.SetKind(kind)
	object.SetName(name)
	return isGone(ctx, object)(NewWithT(GinkgoT()))
}
