package integration

import (
	"context"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// selectNamespaces limits the manager's permissions until the spec ends, as the component selected-namespaces does, with a
// RoleBinding in each namespace.
func selectNamespaces(ctx context.Context, selected ...string) {
	GinkgoHelper()
	component := filepath.Join(projectDir(), "config", "components", "selected-namespaces")
	applyFile(ctx, filepath.Join(component, "namespace_role.yaml"))
	for _, namespace := range selected {
		Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "collection-operator-manager"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "collection-operator-manager-namespace"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ManagerNamespace, Name: managerAccount}},
		})
	}
	narrow := &rbacv1.ClusterRole{}
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(Manifests(filepath.Join(component, "cluster_role.yaml"))[0].Object, narrow)).To(Succeed())
	setRules := func(ctx context.Context, rules []rbacv1.PolicyRule) (before []rbacv1.PolicyRule) {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: narrow.Name}}
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(role), role)).To(Succeed())
		before, role.Rules = role.Rules, rules
		Expect(K8s.Update(ctx, role)).To(Succeed())
		return before
	}
	before := setRules(ctx, narrow.Rules)
	DeferCleanup(func(ctx context.Context) {
		setRules(ctx, before)
		awaitRight(ctx, managerUser, "default", "list", "secrets", "")
	})
	Eventually(ctx, func() bool { return may(ctx, managerUser, "default", "get", "secrets", "") }).Should(BeFalse())
	for _, namespace := range selected {
		awaitRight(ctx, managerUser, namespace, "list", "secrets", "")
	}
}

var _ = Describe("A manager for selected namespaces", func() {
	It("installs there, reads no Secrets elsewhere, and says so", attack.Label, func(ctx context.Context) {
		selected, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		// The cleanup of a spec runs in reverse order: the manager gets its permissions back before it starts with its usual flags.
		theManager.restart(ctx, append([]string{"--namespaces=was-deleted," + selected}, usualFlags...)...)
		theManager.stop()
		selectNamespaces(ctx, selected)
		theManager.start(ctx)
		DeferCleanup(func(ctx context.Context) { removeCollections(ctx, selected) })

		Create(ctx, newEndpoint(selected, "lpar1", startSSHServer()))
		oc := newCollection(selected, "oc", s.pinned())
		Create(ctx, oc)
		makeAvailable(ctx, selected, s.operator())
		ExpectReady(ctx, oc)

		By("saying in other namespaces why nothing happens")
		elsewhere, endpoint := newCollection(other, "oc", s.pinned()), newEndpoint(other, "lpar1", startSSHServer())
		Create(ctx, elsewhere, endpoint)
		ExpectFailure(ctx, elsewhere, v2beta2.ReasonNamespaceNotSelected, "bind ClusterRole collection-operator-manager-namespace there", false)
		ExpectFailure(ctx, endpoint, v2beta2.ReasonNamespaceNotSelected, "add the namespace to the manager's flag --namespaces", false)
		allowMapping(ctx, other, selected)
		soc := defaultSOC(oc)
		Patch(ctx, soc, `{"spec":{"mapping":[{"namespace":"`+selected+`"},{"namespace":"`+other+`"}]}}`)
		ExpectFailure(ctx, soc, v2beta2.ReasonNamespaceNotSelected, `namespace "`+other+`"`, false)
		Expect(madeIn(ctx, other)).To(BeEmpty())

		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "theirs"}}
		Create(ctx, secret)
		refusal := theManager.withToken().Get(ctx, client.ObjectKeyFromObject(secret), secret)
		Expect(refusal).To(MatchError(ContainSubstring("forbidden")))
		attack.Repelled("The manager's token", "read a Secret of a namespace that is not selected, with the component selected-namespaces", "the API server refuses it", firstOf(refusal.Error()))
		Patch(ctx, soc, `{"spec":{"mapping":[{"namespace":"`+selected+`"}]}}`)
		ExpectReady(ctx, oc)
	})

	It("removes nothing from a namespace that an administrator has forgotten to select", func(ctx context.Context) {
		namespace, forgotten, s := newNamespace(ctx), newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		soc, running := defaultSOC(oc), deployment(forgotten, s.operator())
		allowMapping(ctx, forgotten, namespace)
		Patch(ctx, soc, `{"spec":{"mapping":[{"namespace":"`+namespace+`"},{"namespace":"`+forgotten+`"}]}}`)
		makeAvailable(ctx, forgotten, s.operator())
		ExpectReady(ctx, oc)
		Get(ctx, Default, running)

		theManager.restart(ctx, append([]string{"--namespaces=" + namespace}, usualFlags...)...)
		ExpectFailure(ctx, soc, v2beta2.ReasonNamespaceNotSelected, `namespace "`+forgotten+`"`, false)
		Patch(ctx, soc, `{"spec":{"mapping":[{"namespace":"`+namespace+`"}]}}`)
		Consistently(ctx, Gone(ctx, running)).Should(BeFalse())
		ExpectFailure(ctx, soc, v2beta2.ReasonNamespaceNotSelected, `namespace "`+forgotten+`"`, false)

		By("removing it when the namespace is selected again")
		theManager.restart(ctx, usualFlags...)
		Eventually(ctx, Gone(ctx, running)).Should(BeTrue())
		ExpectReady(ctx, oc)
	})
})
