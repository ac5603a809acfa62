package integration

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// ownAsFormerly gives an installation the owner references that earlier versions of the manager applied.
func ownAsFormerly(ctx context.Context, oc *v2beta2.OperatorCollection, soc *v2beta2.SubOperatorConfig) {
	GinkgoHelper()
	for _, object := range installed(ctx, soc) {
		if object.GetNamespace() != soc.Namespace || object.GetAnnotations()["zoscb.ibm.com/suboperatorconfig"] == "" {
			continue
		}
		object.SetManagedFields(nil)
		unstructured.RemoveNestedField(object.Object, "status")
		Expect(controllerutil.SetOwnerReference(soc, object, K8s.Scheme())).To(Succeed())
		Expect(K8s.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("collection-operator"), client.ForceOwnership)).To(Succeed())
	}
	before := soc.DeepCopy()
	Expect(controllerutil.SetOwnerReference(oc, soc, K8s.Scheme())).To(Succeed())
	Expect(K8s.Patch(ctx, soc, client.MergeFrom(before), client.FieldOwner("collection-operator"))).To(Succeed())
}

// generations are those of the objects of an installation: a restart of pods would change that of the Deployment.
func generations(ctx context.Context, soc *v2beta2.SubOperatorConfig) map[string]int64 {
	GinkgoHelper()
	found := map[string]int64{}
	for _, object := range installed(ctx, soc) {
		found[object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName()] = object.GetGeneration()
	}
	return found
}

// expectNoOwners waits until no object of an installation has an owner that a user may delete.
func expectNoOwners(ctx context.Context, soc *v2beta2.SubOperatorConfig) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		for _, object := range installed(ctx, soc) {
			g.Expect(object.GetOwnerReferences()).To(BeEmpty(), "%s %s", object.GetKind(), object.GetName())
		}
		g.Expect(soc.OwnerReferences).NotTo(ContainElement(HaveField("Kind", "OperatorCollection")))
	}).Should(Succeed())
}

var _ = Describe("Owner references that an earlier version of the manager applied", func() {
	DescribeTable("are removed, and no pod restarts", func(ctx context.Context, change func(context.Context, *v2beta2.OperatorCollection, *v2beta2.SubOperatorConfig)) {
		namespace, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		oc, soc := installIn(ctx, namespace, other, s)
		resource := newUnfinished(ctx, namespace, s)
		DeferCleanup(func(ctx context.Context) { Patch(ctx, resource, `{"metadata":{"finalizers":null}}`) })
		theManager.stop()
		DeferCleanup(theManager.start)
		ownAsFormerly(ctx, oc, soc)
		place := Live(ctx, Default, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		others := metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: namespace, UID: place.GetUID()}
		owned := soc.DeepCopy()
		owned.OwnerReferences = append(owned.OwnerReferences, others)
		Expect(K8s.Patch(ctx, owned, client.MergeFrom(soc))).To(Succeed())
		change(ctx, oc, soc)
		before := generations(ctx, soc)

		theManager.start(ctx)
		expectNoOwners(ctx, soc)
		Expect(soc.OwnerReferences).To(ConsistOf(others), "what somebody else has set stays")
		expectRest(ctx)
		Expect(generations(ctx, soc)).To(Equal(before))
		Patch(ctx, soc, `{"metadata":{"ownerReferences":null}}`)
	},
		Entry("from an operator that runs", func(context.Context, *v2beta2.OperatorCollection, *v2beta2.SubOperatorConfig) {}),
		Entry("from one whose OperatorCollection is suspended", func(ctx context.Context, oc *v2beta2.OperatorCollection, _ *v2beta2.SubOperatorConfig) {
			Patch(ctx, oc, `{"spec":{"suspend":true}}`)
		}),
		Entry("from one whose SubOperatorConfig has none any more, after a deletion that orphans", func(ctx context.Context, _ *v2beta2.OperatorCollection, soc *v2beta2.SubOperatorConfig) {
			Get(ctx, Default, soc)
			left := soc.DeepCopy()
			left.OwnerReferences = slices.DeleteFunc(left.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.Kind == "OperatorCollection" })
			Expect(K8s.Patch(ctx, left, client.MergeFrom(soc))).To(Succeed())
			Expect(K8s.Status().Patch(ctx, left, merge(`{"status":{"operatorCollectionUID":null}}`))).To(Succeed())
		}),
		Entry("from one whose OperatorCollection is being deleted", func(ctx context.Context, oc *v2beta2.OperatorCollection, _ *v2beta2.SubOperatorConfig) {
			Remove(ctx, oc)
		}),
		Entry("from one whose SubOperatorConfig is being deleted, too", func(ctx context.Context, oc *v2beta2.OperatorCollection, soc *v2beta2.SubOperatorConfig) {
			Remove(ctx, oc)
			Remove(ctx, soc)
		}),
	)
})
