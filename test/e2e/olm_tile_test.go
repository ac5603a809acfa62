//go:build e2e

package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// tileNamespace is where somebody installs the collection from its tile.
const tileNamespace = "e2e-olm-tile"

// olmTile is what a person does who finds the collection in OperatorHub and clicks Install.
func olmTile(e *olmEnvironment) {
	soc := &v2beta2.SubOperatorConfig{}
	byHand := subscription(tileNamespace)

	It("says what is missing when its namespace has not agreed", func(ctx context.Context) {
		Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tileNamespace}},
			&operatorsv1.OperatorGroup{
				ObjectMeta: metav1.ObjectMeta{Name: "by-hand", Namespace: tileNamespace},
				Spec:       operatorsv1.OperatorGroupSpec{TargetNamespaces: []string{tileNamespace}},
			})
		byHand.Spec = &operatorsv1alpha1.SubscriptionSpec{
			CatalogSource: catalogName, CatalogSourceNamespace: olmNamespace, Package: pagesPackage, Channel: "stable",
		}
		Create(ctx, byHand)
		Eventually(ctx, eventsOn(ctx, byHand)).Should(ContainElement(And(
			HavePrefix(v2beta2.ReasonMappingNotAllowed+": "), ContainSubstring("allow-mapping-from"))))
		Expect(tileConfigs(ctx, e)(Default)).To(BeEmpty())
	})

	It("gets a SubOperatorConfig once it has", func(ctx context.Context) {
		Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tileNamespace}},
			`{"metadata":{"annotations":{"zoscb.ibm.com/allow-mapping-from":"`+e.namespace+`"}}}`)
		Eventually(ctx, tileConfigs(ctx, e)).Should(HaveLen(1))
		*soc = tileConfigs(ctx, e)(Default)[0]
		succeeded(ctx, clusterServiceVersion(tileNamespace, "1.2.0"))
		Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).Should(ConditionTrue())
		live := subscription(tileNamespace)
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(live), live)).To(Succeed())
		Expect(live.Spec.Channel).To(Equal("stable"), "the Subscription stays as it was made")
	})

	It("runs a playbook over SSH with the endpoints that the collection's namespace lends", func(ctx context.Context) {
		Patch(ctx, soc.DeepCopy(), MustJSON(map[string]any{"spec": map[string]any{"mapping": []any{
			map[string]any{"namespace": tileNamespace, "zosendpoints": []any{map[string]any{"name": "zos1"}}},
		}}}))
		page := e.page(tileNamespace, "tile", "from the tile")
		Create(ctx, page)
		e.expectPage(ctx, "tile", "1.2.0 from the tile")
		expectSuccess(ctx, page)
		Remove(ctx, page.DeepCopy())
		Eventually(ctx, Gone(ctx, page)).Should(BeTrue())
		Expect(e.zos.shell(ctx, "ls /tmp/page-tile 2>/dev/null || true")).To(BeEmpty())
	})

	It("is gone when the Subscription is deleted", func(ctx context.Context) {
		Remove(ctx, subscription(tileNamespace))
		for _, object := range []client.Object{
			soc, clusterServiceVersion(tileNamespace, "1.2.0"),
			&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: pagesPackage, Namespace: tileNamespace}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: pagesPackage + "-runtime", Namespace: tileNamespace}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: pagesPackage + "-endpoints", Namespace: tileNamespace}},
		} {
			Eventually(ctx, Gone(ctx, object)).Should(BeTrue(), "%T %s", object, object.GetName())
		}
		Expect(Gone(ctx, &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Name: "by-hand", Namespace: tileNamespace}})(Default)).To(BeFalse())
	})
}

// tileConfigs are the SubOperatorConfigs that map the tile's namespace.
func tileConfigs(ctx context.Context, e *olmEnvironment) func(Gomega) []v2beta2.SubOperatorConfig {
	return func(g Gomega) []v2beta2.SubOperatorConfig {
		var list v2beta2.SubOperatorConfigList
		g.Expect(K8s.List(ctx, &list, client.InNamespace(e.namespace))).To(Succeed())
		var found []v2beta2.SubOperatorConfig
		for _, soc := range list.Items {
			for _, mapping := range soc.Spec.Mapping {
				if mapping.Namespace == tileNamespace {
					found = append(found, soc)
				}
			}
		}
		return found
	}
}

// removeTile removes what a person made, also in a run that was killed.
func (e *olmEnvironment) removeTile(ctx context.Context) {
	GinkgoHelper()
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tileNamespace}}
	if Gone(ctx, space)(Default) {
		return
	}
	Remove(ctx, subscription(tileNamespace))
	kubectl(ctx, "delete", "clusterserviceversions", "-n", tileNamespace, "--all", "--timeout=1m")
	page := e.page(tileNamespace, "tile", "")
	if K8s.Get(ctx, client.ObjectKeyFromObject(page), page) == nil {
		PatchIfFound(ctx, page, `{"metadata":{"finalizers":null}}`)
	}
	Remove(ctx, space)
	Eventually(ctx, Gone(ctx, space)).Should(BeTrue())
}
