package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("A SubOperatorConfig", func() {
	It("shapes the workload beyond what the collection says", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		spec := s.pinned()
		spec.Runtime = &v2beta2.RuntimeSpec{Image: "registry.invalid/mine:1", NodeSelector: map[string]string{"zone": "a"}}
		Create(ctx, newCollection(namespace, "oc", spec))
		soc := newSOC(namespace, "soc", "oc")
		soc.Spec.Runtime = &v2beta2.RuntimeSpec{NodeSelector: map[string]string{"zone": "b"}}
		Create(ctx, soc)
		Eventually(ctx, func(g Gomega) {
			d := deployment(namespace, s.operator())
			Get(ctx, g, d)
			pod := d.Spec.Template.Spec
			g.Expect(pod.NodeSelector).To(HaveKeyWithValue("zone", "b"))
			g.Expect(pod.Containers[0].Image).To(Equal("registry.invalid/mine:1"))
		}).Should(Succeed())
	})

	It("tells what its pod waits for", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := importSample(ctx, namespace, s)
		d := deployment(namespace, s.operator())
		Eventually(ctx, Gone(ctx, d)).Should(BeFalse())
		Get(ctx, Default, d)
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod", Labels: d.Spec.Template.Labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Image: "registry.invalid/x"}}},
		}
		Eventually(ctx, func() error { return K8s.Create(ctx, pod) }).Should(Succeed(), "once the namespace has a ServiceAccount")
		DeferCleanup(func(ctx context.Context) { Remove(ctx, pod) })
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "operator", Image: "registry.invalid/x", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "401"}},
		}}
		Expect(K8s.Status().Update(ctx, pod)).To(Succeed())
		ExpectFailure(ctx, defaultSOC(oc), v2beta2.ReasonWorkloadUnavailable, `container operator: ImagePullBackOff: the node cannot pull image "registry.invalid/x": 401; if`, false)
		ExpectFailure(ctx, oc, v2beta2.ReasonWorkloadUnavailable, "ImagePullBackOff", false)
		Get(ctx, Default, oc)
		Expect(oc.Status.Phase).To(Equal(v2beta2.PhaseSuccessful), "phase follows Imported")
	})
})
