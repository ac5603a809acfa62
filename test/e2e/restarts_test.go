//go:build e2e

package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/collection-operator/collection-operator/test/fixture"
)

// unchanged replaces the operator's pod in all ways that change nothing for a playbook.
func (s *runSpecs) unchanged() {
	It("after the pod was killed", func(ctx context.Context) {
		s.expectNoPlays(ctx, "pod killed", "calm", s.zos1, s.killPod)
	})

	It("after its node was drained", func(ctx context.Context) {
		s.expectNoPlays(ctx, "node drained", "calm", s.zos1, s.drain)
	})

	It("after the runtime image was replaced", func(ctx context.Context) {
		s.expectNoPlays(ctx, "new runtime image", "calm", s.zos1, func(ctx context.Context) {
			Patch(ctx, s.collection("1.0.0"), `{"spec": {"runtime": {"image": "localhost/collection-operator/runtime-next:dev"}}}`)
		})
		Expect(s.pod(ctx, Default).Spec.Containers).To(ContainElement(HaveField("Image", HaveSuffix("/runtime-next:dev"))))
	})
}

// drain evicts the operator's pod from its node, on which nothing is scheduled until the pod is gone.
func (p *plays) drain(ctx context.Context) {
	GinkgoHelper()
	pod := p.pod(ctx, Default)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName}}
	Patch(ctx, node.DeepCopy(), `{"spec": {"unschedulable": true}}`)
	uncordon := func(ctx context.Context) { Patch(ctx, node.DeepCopy(), `{"spec": {"unschedulable": null}}`) }
	DeferCleanup(uncordon)
	Expect(K8s.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}})).To(Succeed())
	Eventually(ctx, Gone(ctx, pod)).Should(BeTrue())
	Eventually(ctx, func(g Gomega) []corev1.PodCondition {
		return p.pod(ctx, g).Status.Conditions
	}).Should(ContainElement(HaveField("Reason", corev1.PodReasonUnschedulable)))
	uncordon(ctx)
}

// managerPods selects the pods of all managers. Only the leader's has component=manager.
var managerPods = client.MatchingLabels{"app.kubernetes.io/name": "collection-operator"}

// killManager ends the processes and pods of all managers without a graceful shutdown. An administrator who removes the lease of
// managers that are gone for sure need not wait until it expires.
func killManager(ctx context.Context) {
	GinkgoHelper()
	Expect(K8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(ManagerNamespace), managerPods,
		client.GracePeriodSeconds(0))).To(Succeed())
	removeManagerLease(ctx)
}
