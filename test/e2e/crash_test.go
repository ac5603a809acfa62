//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

func crashStories() {
	It("finishes an installation in whose middle the manager was killed", func(ctx context.Context) {
		second := operatorCollection("second.example.1.0.0", pinned("second.tar.gz"))
		second.Spec.DeletionPolicy = v2beta2.DeletionFinalize
		soc := &v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Name: second.Name + "-soc", Namespace: namespace}}
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "example-second-operator", Namespace: namespace}}
		create(ctx, second)
		// The inventory is written before the first object of the installation.
		Eventually(func(g Gomega) []any {
			inventory, _, err := unstructured.NestedSlice(read(ctx, g, soc).Object, "status", "inventory")
			g.Expect(err).NotTo(HaveOccurred())
			return inventory
		}).WithContext(ctx).WithPolling(20 * time.Millisecond).ShouldNot(BeEmpty())
		Expect(k8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(managerNamespace), client.MatchingLabels{"component": "manager"},
			client.GracePeriodSeconds(0))).To(Succeed())
		Expect(condition(ctx, second, v2beta2.ConditionReady)(Default)).NotTo(beTrue(), "the kill came too late")

		printed, err := kubectlWait(ctx, "operatorcollection/"+second.Name, "3m")
		Expect(err).NotTo(HaveOccurred(), printed)
		live := &appsv1.Deployment{}
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(deployment), live)).To(Succeed())
		Expect(live.Status.ReadyReplicas).To(BeEquivalentTo(1))

		remove(ctx, second)
		for _, object := range []client.Object{second, soc, deployment} {
			Eventually(gone(ctx, object)).WithContext(ctx).Should(BeTrue())
		}
	}, NodeTimeout(8*time.Minute))
}
