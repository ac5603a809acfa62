package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// replacementOf is a collection that has the kind of another one, and replaces it.
func replacementOf(s *sample) *sample {
	next := newSample()
	next.kind, next.version = s.kind, "2.0.0"
	next.variables = "{name: colour, displayName: Colour, type: string}"
	next.permissions = "replaces: " + domain + "/" + s.name
	return next
}

// replacedResource is a custom resource of a collection that another one replaces, as it was before.
type replacedResource struct {
	*unstructured.Unstructured
	uid  types.UID
	spec any
}

// installWithResource installs a collection and creates a custom resource with the finalizer of operators.
func installWithResource(ctx context.Context, namespace string, s *sample) (*v2beta2.OperatorCollection, *replacedResource) {
	GinkgoHelper()
	oc := installSample(ctx, namespace, s)
	thing := s.instance(namespace, "one")
	thing.SetFinalizers([]string{"suboperator.zoscb.ibm.com/finalizer"})
	Create(ctx, thing)
	DeferCleanup(func(ctx context.Context) {
		_ = TryPatch(ctx, thing, `{"metadata":{"finalizers":null}}`)
	})
	return oc, &replacedResource{thing, thing.GetUID(), thing.Object["spec"]}
}

// expectKept checks that the resource is the one that was there before.
func (r *replacedResource) expectKept(ctx context.Context) {
	GinkgoHelper()
	live := Live(ctx, Default, r.Unstructured)
	Expect(live.GetUID()).To(Equal(r.uid))
	Expect(live.GetDeletionTimestamp()).To(BeNil())
	Expect(live.Object["spec"]).To(Equal(r.spec))
}

// recordKey returns the key that records of runs are signed with, once it exists.
func recordKey(ctx context.Context, namespace string, s *sample) func(Gomega) []byte {
	return func(g Gomega) []byte {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator() + "-endpoints"}}
		Get(ctx, g, secret)
		g.Expect(secret.Data).To(HaveKeyWithValue("record.key", HaveLen(32)))
		return secret.Data["record.key"]
	}
}

// takeover is what the audit log says of a replacement.
type takeover struct {
	log      *AuditLog
	from, to *sample
	key      []byte
}

// watchTakeover begins before a collection takes the place of another one.
func watchTakeover(ctx context.Context, namespace string, from, to *sample) *takeover {
	GinkgoHelper()
	return &takeover{log: OpenAuditLog(controlPlane.AuditLog), from: from, to: to, key: recordKey(ctx, namespace, from)(Default)}
}

// expectDone checks that the CRD passed to the other collection, whose operator followed the former one with its key, and that
// nothing was deleted on the way.
func (t *takeover) expectDone(ctx context.Context, namespace, holder string) {
	GinkgoHelper()
	crd := customResourceDefinition(t.to.crdName())
	Eventually(ctx, func(g Gomega) { // An OperatorCollection may be Ready before the CRD names it.
		crd = customResourceDefinition(crd.Name)
		Get(ctx, g, crd)
		g.Expect(crd.Labels).To(HaveKeyWithValue("operator-name", t.to.name))
		g.Expect(crd.Annotations).To(And(HaveKeyWithValue(claimAnnotation, namespace),
			HaveKeyWithValue("zoscb.ibm.com/held-by", namespace+"/"+holder), Not(HaveKey("zoscb.ibm.com/unused"))))
	}).Should(Succeed())
	var names []string
	for _, version := range crd.Spec.Versions {
		names = append(names, version.Name)
		Expect(version.Schema.OpenAPIV3Schema.Properties["spec"].Properties).To(And(HaveKey("size"), HaveKey("colour")))
	}
	Expect(names).To(Equal([]string{t.to.apiVersion(), t.from.apiVersion()}))
	Expect(recordKey(ctx, namespace, t.to)(Default)).To(Equal(t.key), "records of runs keep counting")
	Expect(madeIn(ctx, namespace)).NotTo(ContainElement(ContainSubstring(t.from.operator())))

	var operators []string
	for _, event := range t.log.Next() {
		isWrite := slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, event.Verb) && !event.DryRun()
		switch {
		case !isWrite:
		case event.ObjectRef.Resource == t.from.plural() && event.ObjectRef.Namespace == namespace, event.ObjectRef.Resource == "customresourcedefinitions" && event.ObjectRef.Name == t.from.crdName():
			Expect(event.Verb).NotTo(HavePrefix("delete"), event.RequestURI)
		case event.ObjectRef.Resource == "deployments" && event.ObjectRef.Subresource == "" && event.ObjectRef.Namespace == namespace:
			operators = append(operators, event.Verb+" "+event.ObjectRef.Name)
		}
	}
	Expect(operators).To(ContainElement("delete " + t.from.operator()))
	first := slices.IndexFunc(operators, func(o string) bool { return strings.HasSuffix(o, " "+t.to.operator()) })
	Expect(first).To(BeNumerically(">", 0), "%v", operators)
	Expect(operators[first:]).NotTo(ContainElement(HaveSuffix(" "+t.from.operator())), "never two operators")
}

var _ = Describe("A collection that replaces another one", func() {
	It("takes its kinds and resources over when the OperatorCollection is changed", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc, thing := installWithResource(ctx, namespace, s)
		next := replacementOf(s)
		over := watchTakeover(ctx, namespace, s, next)
		changeSpec(ctx, oc, next.pinned())
		makeAvailable(ctx, namespace, next.operator())
		ExpectReady(ctx, oc)
		thing.expectKept(ctx)
		over.expectDone(ctx, namespace, "oc")
		Expect(notes(ctx, defaultSOC(oc), v2beta2.ReasonInstancesExist)(Default)).To(BeEmpty())
	})

	It("ends the wait of an OperatorCollection that was deleted before", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc, thing := installWithResource(ctx, namespace, s)
		next := replacementOf(s)
		over := watchTakeover(ctx, namespace, s, next)
		Remove(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonInstancesExist, "/one", false)

		heir := newCollection(namespace, "heir", next.pinned())
		Create(ctx, heir)
		Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
		makeAvailable(ctx, namespace, next.operator())
		ExpectReady(ctx, heir)
		thing.expectKept(ctx)
		over.expectDone(ctx, namespace, "heir")
	})

	It("waits for a play that runs, also over a restart of the manager", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc, thing := installWithResource(ctx, namespace, s)
		setRunning(ctx, thing.Unstructured, "True")
		next := replacementOf(s)
		over := watchTakeover(ctx, namespace, s, next)
		changeSpec(ctx, oc, next.pinned())
		ExpectFailure(ctx, defaultSOC(oc), v2beta2.ReasonTerminating, namespace+"/one", false)
		crd := customResourceDefinition(s.crdName())
		Get(ctx, Default, crd)
		Expect(crd.Labels).To(HaveKeyWithValue("operator-name", s.name), "its operator is still there")
		Get(ctx, Default, deployment(namespace, s.operator()))
		theManager.kill()
		theManager.start(ctx)
		Consistently(ctx, Gone(ctx, deployment(namespace, s.operator()))).Should(BeFalse())

		setRunning(ctx, thing.Unstructured, "False")
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).Should(BeTrue())
		theManager.kill()
		theManager.start(ctx)
		makeAvailable(ctx, namespace, next.operator())
		ExpectReady(ctx, oc)
		thing.expectKept(ctx)
		over.expectDone(ctx, namespace, "oc")
		Expect(Field(ctx, thing.Unstructured, "status", "phase")(Default)).NotTo(Equal("NoOperator"))
	})

	It("says that it takes over no kind of another API group", func(ctx context.Context) {
		s := newSample()
		next := replacementOf(s)
		grant(ctx, rbacv1.PolicyRule{APIGroups: []string{next.name + "." + domain + "." + SharedGroup}, Resources: []string{"*"}, Verbs: []string{"*"}})
		namespace := newNamespace(ctx)
		oc, thing := installWithResource(ctx, namespace, s)
		spec := next.pinned()
		spec.APIGroup = v2beta2.APIGroupPerCollection
		heir := newCollection(namespace, "heir", spec)
		Create(ctx, heir)
		Eventually(ctx, Condition(ctx, heir, v2beta2.ConditionImported)).Should(ConditionTrue())
		Get(ctx, Default, heir)
		Expect(heir.Status.Warnings).To(ContainElement(And(ContainSubstring("does not take over kind "+s.kind), ContainSubstring("spec.apiGroup"))))
		ExpectReady(ctx, oc)
		thing.expectKept(ctx)
	})

	It("takes over nothing in another namespace", attack.Label, func(ctx context.Context) {
		namespace, stranger, s := newNamespace(ctx), newNamespace(ctx), newSample()
		oc, thing := installWithResource(ctx, namespace, s)
		crd := customResourceDefinition(s.crdName())
		Get(ctx, Default, crd)
		version := crd.ResourceVersion
		thief := newCollection(stranger, "oc", replacementOf(s).pinned())
		Create(ctx, thief)
		ExpectFailure(ctx, thief, v2beta2.ReasonCollectionClaimed, fmt.Sprintf("%q", namespace), false)
		attack.Repelled("Tenancy", "replace the collection of another namespace", "its CRD is not touched", seen(ctx, thief))

		By("waiting for a deletion like any other, whoever claims to replace the collection")
		Remove(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonInstancesExist, "/one", false)
		Consistently(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).Should(WithReason(v2beta2.ReasonInstancesExist))
		thing.expectKept(ctx)
		Get(ctx, Default, crd)
		Expect(crd.ResourceVersion).To(Equal(version))
	})
})
