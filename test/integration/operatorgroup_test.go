package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// subscriber gives a user in a namespace what OLM adds to the ClusterRole edit: Subscriptions, and no OperatorGroups.
func subscriber(ctx context.Context, namespace, user string) {
	GinkgoHelper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"operators.coreos.com"}, Resources: []string{"subscriptions"},
			Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
		}},
	}
	Create(ctx, role, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	awaitRight(ctx, user, namespace, "create", "subscriptions", "operators.coreos.com")
	Expect(may(ctx, user, namespace, "create", "operatorgroups", "operators.coreos.com")).To(BeFalse())
}

// noOperatorGroup expects that a namespace has no OperatorGroup, and that none is created.
func noOperatorGroup(ctx context.Context, namespace string) {
	GinkgoHelper()
	Consistently(ctx, func(g Gomega) {
		list := &operatorsv1.OperatorGroupList{}
		g.Expect(K8s.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		g.Expect(list.Items).To(BeEmpty())
	}).Should(Succeed())
}

// printedGroup is the OperatorGroup at the end of a message.
func printedGroup(message string) *operatorsv1.OperatorGroup {
	GinkgoHelper()
	at := strings.Index(message, "\napiVersion: ")
	Expect(at).To(BeNumerically(">", 0), message)
	group := &operatorsv1.OperatorGroup{}
	Expect(yaml.UnmarshalStrict([]byte(message[at:]), group)).To(Succeed(), message)
	return group
}

var _ = Describe("A namespace without an OperatorGroup", Ordered, func() {
	BeforeAll(func(ctx context.Context) { tileCatalog = withCatalog(ctx) })

	It("gets none from the manager, whoever subscribes there", attack.Label, func(ctx context.Context) {
		namespace, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		const editor = "an-editor-of-subscriptions"
		subscriber(ctx, other, editor)
		allowMapping(ctx, other, namespace)
		withoutDefault(ctx, namespace, s)
		subscription := newSubscription(other, s)
		Expect(as(editor).Create(ctx, subscription)).To(Succeed())
		soc := expectMade(ctx, subscription)
		ExpectFailure(ctx, soc, v2beta2.ReasonOperatorGroupMissing, "has no OperatorGroup", false)
		unrelated := newSubscription(other, s)
		unrelated.Name, unrelated.Spec.Package, unrelated.Spec.CatalogSource = "anything", "anything", "community-operators"
		Expect(as(editor).Create(ctx, unrelated)).To(Succeed())
		noOperatorGroup(ctx, other)
		attack.Repelled("Permissions", "have the manager create an OperatorGroup with a Subscription or a mapping, so that a namespace's editor can install any package",
			"no OperatorGroup is created", seen(ctx, soc))

		By("mapping it for others")
		direct := newSOC(namespace, "direct", "oc")
		direct.Spec.Mapping = mapTo(namespace)
		Create(ctx, direct)
		Eventually(ctx, recordedMethods(ctx, direct)).Should(ConsistOf(v2beta2.InstallDirect))
		noOperatorGroup(ctx, namespace)
	})

	It("gets collections Direct, and keeps them so", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		Expect(recordedMethods(ctx, defaultSOC(oc))(Default)).To(ConsistOf(v2beta2.InstallDirect))
		Create(ctx, &operatorsv1.OperatorGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "later"},
			Spec:       operatorsv1.OperatorGroupSpec{TargetNamespaces: []string{namespace}},
		})
		Consistently(ctx, recordedMethods(ctx, defaultSOC(oc))).Should(ConsistOf(v2beta2.InstallDirect))
		Expect(madeInOLM(ctx, namespace)).To(ConsistOf("OperatorGroup/later"))
		ExpectReady(ctx, oc)

		By("using it for a collection that comes later")
		beside := newSample()
		second := newCollection(namespace, "second", beside.pinned())
		Create(ctx, second)
		expectPublished(ctx, second, beside)
		runInOLM(ctx, expectSubscription(ctx, namespace, beside), beside)
		ExpectReady(ctx, defaultSOC(second))
		Remove(ctx, defaultSOC(second))
		collectGarbage(ctx, operatorCSV(namespace, beside), beside)
		Eventually(ctx, Gone(ctx, defaultSOC(second))).Should(BeTrue())
		Expect(madeInOLM(ctx, namespace)).To(ConsistOf("OperatorGroup/later"))
	})

	It("waits for one where OLM is asked for, and says which", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		soc := newSOC(namespace, "by-olm", "oc")
		soc.Spec.Install = v2beta2.InstallOLM
		Create(ctx, soc)
		importForOLM(ctx, namespace, s)
		ExpectFailure(ctx, soc, v2beta2.ReasonOperatorGroupMissing, "unless the OperatorGroup names a ServiceAccount", false)
		Expect(madeInOLM(ctx, namespace)).To(BeEmpty())
		group := printedGroup(Condition(ctx, soc, v2beta2.ConditionReady)(Default).Message)
		Expect(group.Spec.ServiceAccountName).NotTo(BeEmpty())

		By("going on within seconds")
		group.Spec.ServiceAccountName = ""
		Create(ctx, group)
		subscription := subscriptionOf(namespace, s)
		Eventually(ctx, Gone(ctx, subscription)).WithTimeout(soon).Should(BeFalse())
		runInOLM(ctx, expectSubscription(ctx, namespace, s), s)
		ExpectReady(ctx, soc)
		Expect(slices.Sorted(slices.Values(madeInOLM(ctx, namespace)))).To(Equal([]string{
			"ClusterServiceVersion/" + s.csvName(), "OperatorGroup/" + namespace, "Subscription/" + s.operator(),
		}))
		Remove(ctx, soc)
		collectGarbage(ctx, operatorCSV(namespace, s), s)
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
	})

	It("is not what it becomes for an installation with our OperatorGroup from before", func(ctx context.Context) {
		namespace, s, beside := newNamespace(ctx), newSample(), newSample()
		theManager.stop()
		usual := theManager.flags
		theManager.flags = append(slices.Clone(usual), createGroups)
		theManager.start(ctx)
		oc, subscription := installInOLM(ctx, namespace, s)
		soc := defaultSOC(oc)

		By("not letting the manager's account create one in a namespace of the cluster")
		ofCluster := &operatorsv1.OperatorGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "collection-operator"},
			Spec:       operatorsv1.OperatorGroupSpec{TargetNamespaces: []string{"kube-system"}},
		}
		Expect(theManager.withToken().Create(ctx, ofCluster, client.DryRunAll)).To(MatchError(ContainSubstring("namespaces of the cluster itself")))

		By("not letting it mount more into pods than it does itself")
		mounting := newSubscription(namespace, s)
		mounting.ObjectMeta = ofInstallation(namespace, "x-operator", namespace+"/oc-soc")
		mounting.Spec.Config = &operatorsv1alpha1.SubscriptionConfig{Volumes: []corev1.Volume{{
			Name: "node", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}},
		}}}
		Expect(theManager.withToken().Create(ctx, mounting, client.DryRunAll)).To(MatchError(ContainSubstring("must mount only ConfigMaps")))

		By("taking the permission to create OperatorGroups away")
		theManager.stop()
		theManager.flags = usual
		theManager.start(ctx)
		Patch(ctx, soc, `{"spec":{"installPlanApproval":"Manual"}}`)
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, subscription)
			g.Expect(subscription.Spec.InstallPlanApproval).To(Equal(operatorsv1alpha1.ApprovalManual))
		}).Should(Succeed())
		ExpectReady(ctx, soc)
		Expect(recordedMethods(ctx, soc)(Default)).To(ConsistOf(v2beta2.InstallOLM))
		second := newCollection(namespace, "second", beside.pinned())
		Create(ctx, second)
		runInOLM(ctx, expectSubscription(ctx, namespace, beside), beside)
		ExpectReady(ctx, defaultSOC(second))
		Expect(madeInOLM(ctx, namespace)).To(ContainElement("OperatorGroup/collection-operator"))

		By("keeping it while an operator needs it, and then not")
		Remove(ctx, defaultSOC(second))
		collectGarbage(ctx, operatorCSV(namespace, beside), beside)
		Eventually(ctx, Gone(ctx, defaultSOC(second))).Should(BeTrue())
		Expect(madeInOLM(ctx, namespace)).To(ContainElement("OperatorGroup/collection-operator"))

		By("not creating it again")
		group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "collection-operator"}}
		Remove(ctx, group)
		ExpectFailure(ctx, soc, v2beta2.ReasonOperatorGroupMissing, fmt.Sprintf("namespace %q has no OperatorGroup", namespace), false)
		Expect(Gone(ctx, subscription)(Default)).To(BeFalse(), "what runs is unaffected")
		Expect(Gone(ctx, operatorCSV(namespace, s))(Default)).To(BeFalse())
		noOperatorGroup(ctx, namespace)
		Remove(ctx, soc)
		collectGarbage(ctx, operatorCSV(namespace, s), s)
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
		Expect(madeInOLM(ctx, namespace)).To(BeEmpty())
	})
})
