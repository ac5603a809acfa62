//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// tileNamespace is where somebody installs the collection from its tile.
const tileNamespace = "e2e-olm-tile"

// olmTile is what a person does who finds the collection in OperatorHub and clicks Install.
func olmTile(l *olmLab) {
	soc := &v2beta2.SubOperatorConfig{}
	byHand := subscription(tileNamespace)

	It("says what is missing when its namespace has not agreed", func(ctx context.Context) {
		create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tileNamespace}},
			&operatorsv1.OperatorGroup{
				ObjectMeta: metav1.ObjectMeta{Name: "by-hand", Namespace: tileNamespace},
				Spec:       operatorsv1.OperatorGroupSpec{TargetNamespaces: []string{tileNamespace}},
			})
		byHand.Spec = &operatorsv1alpha1.SubscriptionSpec{
			CatalogSource: catalogName, CatalogSourceNamespace: olmNamespace, Package: pagesPackage, Channel: "stable",
		}
		create(ctx, byHand)
		Eventually(eventsOn(ctx, byHand)).WithContext(ctx).Should(ContainElement(And(
			HavePrefix(v2beta2.ReasonMappingNotAllowed+": "), ContainSubstring("allow-mapping-from"))))
		Expect(tileConfigs(ctx, l)(Default)).To(BeEmpty())
	}, NodeTimeout(3*time.Minute))

	It("gets a SubOperatorConfig once it has", func(ctx context.Context) {
		patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tileNamespace}},
			`{"metadata":{"annotations":{"zoscb.ibm.com/allow-mapping-from":"`+l.namespace+`"}}}`)
		Eventually(tileConfigs(ctx, l)).WithContext(ctx).Should(HaveLen(1))
		*soc = tileConfigs(ctx, l)(Default)[0]
		succeeded(ctx, clusterServiceVersion(tileNamespace, "1.2.0"))
		Eventually(condition(ctx, soc, v2beta2.ConditionReady)).WithContext(ctx).Should(beTrue())
		live := subscription(tileNamespace)
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(live), live)).To(Succeed())
		Expect(live.Spec.Channel).To(Equal("stable"), "the Subscription stays as it was made")
	}, NodeTimeout(5*time.Minute))

	It("runs a playbook over SSH with the endpoints that the collection's namespace lends", func(ctx context.Context) {
		patch(ctx, soc.DeepCopy(), mustJSON(map[string]any{"spec": map[string]any{"mapping": []any{
			map[string]any{"namespace": tileNamespace, "zosendpoints": []any{map[string]any{"name": "zos1"}}},
		}}}))
		page := l.page(tileNamespace, "tile", "from the tile")
		create(ctx, page)
		l.expectPage(ctx, "tile", "1.2.0 from the tile")
		expectSuccess(ctx, page)
		remove(ctx, page.DeepCopy())
		Eventually(gone(ctx, page)).WithContext(ctx).Should(BeTrue())
		Expect(l.zos.shell(ctx, "ls /tmp/page-tile 2>/dev/null || true")).To(BeEmpty())
	}, NodeTimeout(5*time.Minute))

	It("is gone when the Subscription is deleted", func(ctx context.Context) {
		remove(ctx, subscription(tileNamespace))
		for _, object := range []client.Object{
			soc, clusterServiceVersion(tileNamespace, "1.2.0"),
			&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: pagesPackage, Namespace: tileNamespace}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: pagesPackage + "-runtime", Namespace: tileNamespace}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: pagesPackage + "-endpoints", Namespace: tileNamespace}},
		} {
			Eventually(gone(ctx, object)).WithContext(ctx).Should(BeTrue(), "%T %s", object, object.GetName())
		}
		Expect(gone(ctx, &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Name: "by-hand", Namespace: tileNamespace}})(Default)).To(BeFalse())
	}, NodeTimeout(5*time.Minute))
}

// tileConfigs are the SubOperatorConfigs that map the tile's namespace.
func tileConfigs(ctx context.Context, l *olmLab) func(Gomega) []v2beta2.SubOperatorConfig {
	return func(g Gomega) []v2beta2.SubOperatorConfig {
		var list v2beta2.SubOperatorConfigList
		g.Expect(k8s.List(ctx, &list, client.InNamespace(l.namespace))).To(Succeed())
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
func (l *olmLab) removeTile(ctx context.Context) {
	GinkgoHelper()
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tileNamespace}}
	if gone(ctx, space)(Default) {
		return
	}
	remove(ctx, subscription(tileNamespace))
	kubectl(ctx, "delete", "clusterserviceversions", "-n", tileNamespace, "--all", "--timeout=1m")
	page := l.page(tileNamespace, "tile", "")
	if k8s.Get(ctx, client.ObjectKeyFromObject(page), page) == nil {
		patch(ctx, page, `{"metadata":{"finalizers":null}}`)
	}
	remove(ctx, space)
	Eventually(gone(ctx, space)).WithContext(ctx).Should(BeTrue())
}
