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
		Expect(Condition(ctx, oc, v2beta2.ConditionReady)(NewWithT(GinkgoT()))).NotTo(Or(WithMessage("/two"), WithMessage("/three")))
		Patch(ctx, thing, `{"metadata":{"finalizers":null}}`)
		Eventually(Gone(ctx, oc)).WithContext(ctx).Should(BeTrue())
		Expect(madeIn(ctx, mine)).To(BeEmpty())
		for _, object := range []interface {
			GetDeletionTimestamp() *metav1.Time
		}{
			Live(ctx, NewWithT(GinkgoT()), foreign), Live(ctx, NewWithT(GinkgoT()), unserved),
			Live(ctx, NewWithT(GinkgoT()), customResourceDefinition(s.crdName())), Live(ctx, NewWithT(GinkgoT()), other),
		} {
			Expect(object.GetDeletionTimestamp()).To(BeNil())
		}
		ExpectReady(ctx, other)
		attack.Repelled("Tenancy", "delete a collection that another namespace has too, and all custom resources with it",
			"the other's custom resources, CRDs and operator stay", s.kind+" "+theirs+"/two and default/three stay; there: "+seen(ctx, other))
		Patch(ctx, foreign, `{"metadata":{"finalizers":null}}`)
		Remove(ctx, unserved)
	}, NodeTimeout(2*time.Minute))

	It("with Block waits for the custom resources that it serves, with Orphan for none", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		thing, unserved := s.instance(namespace, "one"), s.instance("default", "two")
		Create(ctx, thing, unserved)
		Remove(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonInstancesExist, namespace+"/one", false)
		Expect(Condition(ctx, oc, v2beta2.ConditionReady)(NewWithT(GinkgoT()))).NotTo(WithMessage("/two"))
		Consistently(Gone(ctx, deployment(namespace, s.operator()))).WithContext(ctx).Should(BeFalse())
		By("changing the policy while it waits")
		Patch(ctx, oc, `{"spec":{"deletionPolicy":"Orphan"}}`)
		Eventually(Gone(ctx, oc)).WithContext(ctx).Should(BeTrue())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
		Expect(Live(ctx, NewWithT(GinkgoT()), thing).GetDeletionTimestamp()).To(BeNil())
		Get(ctx, NewWithT(GinkgoT()), customResourceDefinition(s.crdName()))

		By("taking over what was orphaned when it is imported again")
		again := installSample(ctx, namespace, s)
		Remove(ctx, unserved)
		Remove(ctx, again)
		ExpectFailure(ctx, again, v2beta2.ReasonInstancesExist, namespace+"/one", false)
		Remove(ctx, thing)
		Eventually(Gone(ctx, again)).WithContext(ctx).Should(BeTrue())
		expectNothingLeft(ctx, namespace, s)
	}, NodeTimeout(3*time.Minute))

	It("a SubOperatorConfig alone keeps custom resources and CRDs, and says how many lost their operator", func(ctx context.Context) {
		namespace, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		allowMapping(ctx, other, namespace)
		soc := newSOC(namespace, "soc", "oc", mapTo(namespace, other)...)
		Create(ctx, soc)
		oc := importSample(ctx, namespace, s)
		for _, n := range []string{namespace, other} {
			Eventually(Gone(ctx, deployment(n, s.operator()))).WithContext(ctx).Should(BeFalse())
			makeAvailable(ctx, n, s.operator())
		}
		ExpectReady(ctx, oc)
		Create(ctx, s.instance(namespace, "one"), s.instance(namespace, "two"), s.instance(other, "three"))
		Remove(ctx, soc)
		Eventually(Gone(ctx, soc)).WithContext(ctx).Should(BeTrue())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
		Expect(madeIn(ctx, other)).To(BeEmpty())
		Eventually(notes(ctx, soc, v2beta2.ReasonInstancesExist)).WithContext(ctx).Should(ConsistOf(
			HavePrefix(`2 custom resources stay in namespace "`+namespace+`"`), HavePrefix(`1 custom resources stay in namespace "`+other+`"`)))
		for name, in := range map[string]string{"one": namespace, "two": namespace, "three": other} {
			Expect(Live(ctx, NewWithT(GinkgoT()), s.instance(in, name)).GetDeletionTimestamp()).To(BeNil())
		}
		ExpectFailure(ctx, oc, v2beta2.ReasonNotInstalled, "", false)

		By("serving them again with a new one")
		Create(ctx, newSOC(namespace, "again", "oc", mapTo(namespace, other)...))
		for _, n := range []string{namespace, other} {
			Eventually(Gone(ctx, deployment(n, s.operator()))).WithContext(ctx).Should(BeFalse())
			makeAvailable(ctx, n, s.operator())
		}
		ExpectReady(ctx, oc)
	}, NodeTimeout(3*time.Minute))

	It("a SubOperatorConfig by force leaves its operator to the next one of its name, which removes it", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		made, uid := madeIn(ctx, namespace), Live(ctx, NewWithT(GinkgoT()), deployment(namespace, s.operator())).GetUID()
		removeByForce(ctx, soc)
		Expect(append(madeIn(ctx, namespace), "SubOperatorConfig/"+soc.Name)).To(ConsistOf(made), "nobody knows of them")
		again := newSOC(namespace, soc.Name, "oc", mapTo(namespace)...)
		Create(ctx, again)
		ExpectReady(ctx, again)
		Expect(Live(ctx, NewWithT(GinkgoT()), deployment(namespace, s.operator())).GetUID()).To(Equal(uid))
		Remove(ctx, again)
		Eventually(Gone(ctx, again)).WithContext(ctx).Should(BeTrue())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
	}, NodeTimeout(2*time.Minute))

	It("an OperatorCollection by force leaves custom resources and CRDs to the one that is created again", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc, thing := defaultSOC(oc), s.instance(namespace, "one")
		Create(ctx, thing)
		uid := Live(ctx, NewWithT(GinkgoT()), customResourceDefinition(s.crdName())).GetUID()
		began := time.Now()
		removeByForce(ctx, oc)
		Eventually(Gone(ctx, soc)).WithContext(ctx).WithTimeout(140 * time.Second).Should(BeTrue())
		AddReportEntry("a SubOperatorConfig whose OperatorCollection was forced away went after", time.Since(began).Round(time.Second).String())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
		Expect(Live(ctx, NewWithT(GinkgoT()), thing).GetDeletionTimestamp()).To(BeNil())
		Expect(Live(ctx, NewWithT(GinkgoT()), customResourceDefinition(s.crdName())).GetUID()).To(Equal(uid))

		By("which takes them over")
		again := installSample(ctx, namespace, s)
		Expect(Live(ctx, NewWithT(GinkgoT()), customResourceDefinition(s.crdName())).GetUID()).To(Equal(uid))
		Patch(ctx, thing, `{"spec":{"size":8}}`)
		Remove(ctx, again)
		ExpectFailure(ctx, again, v2beta2.ReasonInstancesExist, namespace+"/one", false)
		Remove(ctx, thing)
		Eventually(Gone(ctx, again)).WithContext(ctx).Should(BeTrue())
		expectNothingLeft(ctx, namespace, s)
	}, NodeTimeout(4*time.Minute))
})

// removeByForce removes an object and its finalizers, as a user does who does not want to wait.
func removeByForce(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Patch(ctx, object, `{"metadata":{"finalizers":null}}`)
	Remove(ctx, object)
	// The manager may put its finalizer back between the two, as it may under a user.
	Eventually(func(g Gomega) bool {
		if gone := Gone(ctx, object)(g); gone {
			return true
		}
		g.Expect(TryPatch(ctx, object, `{"metadata":{"finalizers":null}}`)).To(Or(Succeed(), MatchError(ContainSubstring("not found"))))
		return false
	}).WithContext(ctx).Should(BeTrue())
}

var _ = Describe("A namespace that is deleted as a whole", func() {
	It("ends, with everything in it", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		s.permissions = "clusterRoles: [{nonResourceURLs: [/version], verbs: [get]}]"
		grantVersion(ctx)
		oc := importSample(ctx, namespace, s)
		Eventually(Gone(ctx, deployment(namespace, s.operator()))).WithContext(ctx).WithTimeout(75 * time.Second).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		Create(ctx, s.instance(namespace, "one"))
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		Remove(ctx, object)
		Eventually(Gone(ctx, object)).WithContext(ctx).WithTimeout(2 * time.Minute).Should(BeTrue())
		Eventually(Gone(ctx, customResourceDefinition(s.crdName()))).WithContext(ctx).Should(BeTrue())
		for _, kind := range []string{"ClusterRole", "ClusterRoleBinding"} {
			Expect(clusterRoleIsGone(ctx, kind, s.clusterRole(namespace))).To(BeTrue(), kind)
		}
	}, NodeTimeout(3*time.Minute))

	It("says why it does not while a custom resource waits for its finalizer playbook, and ends without it", func(ctx context.Context) {
		namespace, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		allowMapping(ctx, other, namespace)
		Create(ctx, newSOC(namespace, "soc", "oc", mapTo(namespace, other)...))
		oc := importSample(ctx, namespace, s)
		for _, n := range []string{namespace, other} {
			Eventually(Gone(ctx, deployment(n, s.operator()))).WithContext(ctx).Should(BeFalse())
			makeAvailable(ctx, n, s.operator())
		}
		ExpectReady(ctx, oc)
		thing, elsewhere := s.instance(namespace, "one"), s.instance(other, "two")
		thing.SetFinalizers([]string{InstanceFinalizer})
		Create(ctx, thing, elsewhere)
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		Remove(ctx, object)
		Eventually(Condition(ctx, oc, v2beta2.ConditionReady)).WithContext(ctx).Should(And(
			ConditionFalse(), WithReason(v2beta2.ReasonInstancesExist), WithMessage(s.kind+" "+namespace+"/one"), WithMessage(InstanceFinalizer), WithMessage("is being deleted")))
		Expect(Condition(ctx, oc, v2beta2.ConditionReady)(NewWithT(GinkgoT()))).NotTo(WithMessage("/two"))

		By("speaking of the other namespaces, whose operator still runs, when that is done")
		Patch(ctx, thing, `{"metadata":{"finalizers":null}}`)
		Eventually(Condition(ctx, oc, v2beta2.ConditionReady)).WithContext(ctx).Should(And(
			WithReason(v2beta2.ReasonInstancesExist), WithMessage(other+"/two"), WithMessage("spec.deletionPolicy")))
		Expect(Gone(ctx, deployment(other, s.operator()))(NewWithT(GinkgoT()))).To(BeFalse())
		Remove(ctx, elsewhere)
		Eventually(Gone(ctx, object)).WithContext(ctx).WithTimeout(2 * time.Minute).Should(BeTrue())
		Eventually(Gone(ctx, customResourceDefinition(s.crdName()))).WithContext(ctx).Should(BeTrue())
		Expect(madeIn(ctx, other)).To(BeEmpty())
	}, NodeTimeout(3*time.Minute))

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
		Eventually(Gone(ctx, object)).WithContext(ctx).WithTimeout(2 * time.Minute).Should(BeTrue())
		Eventually(Gone(ctx, oc)).WithContext(ctx).Should(BeTrue())
	}, NodeTimeout(3*time.Minute))
})

func clusterRoleIsGone(ctx context.Context, kind, name string) bool {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("rbac.authorization.k8s.io/v1")
	object.SetKind(kind)
	object.SetName(name)
	return Gone(ctx, object)(NewWithT(GinkgoT()))
}
