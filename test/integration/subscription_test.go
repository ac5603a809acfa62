package integration

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// madeForAnnotation names the Subscription that a SubOperatorConfig was made for.
const madeForAnnotation = "zoscb.ibm.com/made-for-subscription"

// tileCatalog is the catalog that the Subscriptions of the present specs point to.
var tileCatalog *testCatalog

// createGroups allows the manager to create OperatorGroups.
const createGroups = "--create-operator-groups"

// restartWithOLM gives the cluster the API of OLM, of which only the CRDs are there, and a manager that uses it until the
// specs end, also in namespaces without an OperatorGroup.
func restartWithOLM(ctx context.Context) {
	GinkgoHelper()
	tileCatalog = withCatalog(ctx, createGroups)
}

// newSubscription is what the console creates when somebody installs the sample from its tile.
func newSubscription(namespace string, s *sample) *operatorsv1alpha1.Subscription {
	return &operatorsv1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator()},
		Spec: &operatorsv1alpha1.SubscriptionSpec{
			CatalogSource: "collection-operator-catalog", CatalogSourceNamespace: tileCatalog.namespace,
			Package: s.operator(), Channel: "stable", StartingCSV: s.operator() + ".v" + s.version,
		},
	}
}

// subOperatorConfigsFor are those that were made for a Subscription.
func subOperatorConfigsFor(ctx context.Context, subscription client.Object) func(Gomega) []v2beta2.SubOperatorConfig {
	return func(g Gomega) []v2beta2.SubOperatorConfig {
		list := &v2beta2.SubOperatorConfigList{}
		g.Expect(K8s.List(ctx, list)).To(Succeed())
		var found []v2beta2.SubOperatorConfig
		for _, soc := range list.Items {
			if soc.Annotations[madeForAnnotation] == fmt.Sprintf("%s/%s/%s", subscription.GetNamespace(), subscription.GetName(), subscription.GetUID()) {
				found = append(found, soc)
			}
		}
		return found
	}
}

// expectMade waits for the one SubOperatorConfig that was made for a Subscription.
func expectMade(ctx context.Context, subscription client.Object) *v2beta2.SubOperatorConfig {
	GinkgoHelper()
	Eventually(ctx, subOperatorConfigsFor(ctx, subscription)).Should(HaveLen(1))
	soc := subOperatorConfigsFor(ctx, subscription)(Default)[0]
	Expect(soc.Spec.Install).To(Equal(v2beta2.InstallOLM))
	Eventually(ctx, notes(ctx, subscription, v2beta2.ReasonSucceeded)).
		Should(ContainElement(ContainSubstring("SubOperatorConfig %q in namespace %q", soc.Name, soc.Namespace)))
	return &soc
}

// withoutDefault imports a sample whose default SubOperatorConfig somebody has deleted.
func withoutDefault(ctx context.Context, namespace string, s *sample) *v2beta2.OperatorCollection {
	GinkgoHelper()
	oc := importSample(ctx, namespace, s)
	Eventually(ctx, Gone(ctx, defaultSOC(oc))).Should(BeFalse())
	Remove(ctx, defaultSOC(oc))
	Eventually(ctx, Gone(ctx, defaultSOC(oc))).Should(BeTrue())
	return oc
}

var _ = Describe("A Subscription that a person made", Ordered, func() {
	BeforeAll(restartWithOLM)

	It("gets a SubOperatorConfig, which goes with it", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := withoutDefault(ctx, namespace, s)
		subscription := newSubscription(namespace, s)
		Create(ctx, subscription)
		soc := expectMade(ctx, subscription)
		Expect(client.ObjectKeyFromObject(soc)).To(Equal(client.ObjectKey{Namespace: namespace, Name: "oc-" + namespace}))
		Expect(soc.Spec.OperatorCollection).To(Equal(oc.Name))
		Expect(soc.Spec.Mapping).To(Equal(mapTo(namespace)), "all endpoints")
		expectIdentity(soc, s)

		By("deleting the Subscription, without the ClusterServiceVersion that came of it")
		installCSV(ctx, namespace, s, "")
		csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: subscription.Spec.StartingCSV}}
		Consistently(ctx, Gone(ctx, csv)).Should(BeFalse())
		Eventually(ctx, recordedMethods(ctx, soc)).Should(ConsistOf(v2beta2.InstallOLM))
		Remove(ctx, subscription)
		Eventually(ctx, Gone(ctx, csv)).Should(BeTrue())
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
		Consistently(ctx, Gone(ctx, soc)).Should(BeTrue())
		Expect(Gone(ctx, customResourceDefinition(s.crdName()))(Default)).To(BeFalse(), "the CRDs stay")
	})

	It("that was deleted while the manager was away leaves no SubOperatorConfig, unless that has a purpose of its own", func(ctx context.Context) {
		first, second, third, s := newNamespace(ctx), newNamespace(ctx), newNamespace(ctx), newSample()
		withoutDefault(ctx, first, s)
		allowMapping(ctx, second, first)
		allowMapping(ctx, third, first)
		gone, taken, extended := newSubscription(first, s), newSubscription(second, s), newSubscription(third, s)
		Create(ctx, gone, taken, extended)
		abandoned, direct, elsewhere := expectMade(ctx, gone), expectMade(ctx, taken), expectMade(ctx, extended)
		Patch(ctx, direct, `{"spec":{"install":"Direct"}}`)
		setMapping(ctx, elsewhere, third, "it-not-there")
		theManager.stop()
		for _, subscription := range []client.Object{gone, taken, extended} {
			Remove(ctx, subscription)
		}
		theManager.start(ctx)
		Eventually(ctx, Gone(ctx, abandoned)).Should(BeTrue())
		Consistently(ctx, Gone(ctx, direct)).Should(BeFalse())
		Consistently(ctx, Gone(ctx, elsewhere)).Should(BeFalse())
	})
})
