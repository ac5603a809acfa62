package runner_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/collection-operator/collection-operator/test/fixture"
)

// moveToNode replaces the pod of a gate by one on a node that does not exist: it stays when it is deleted, until its grace period
// is over and a kubelet says so.
func (p *operatorPod) moveToNode(ctx context.Context, name string) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name},
		Spec: corev1.PodSpec{
			NodeName: "nowhere", TerminationGracePeriodSeconds: ptr.To[int64](60), AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{Name: "operator", Image: "operator"}},
		},
	}
	Create(ctx, pod)
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(K8s.Delete(ctx, pod, client.GracePeriodSeconds(0)))).To(Succeed())
	})
	p.PodName, p.PodUID = pod.Name, string(pod.UID)
	Patch(ctx, gateLease(p.Namespace),
		fmt.Sprintf(`{"spec":{"holderIdentity":%q}}`, p.PodName+"_"+p.PodUID))
	return pod
}

var _ = Describe("The gate in a pod that is terminating", func() {
	It("lets a run end, and starts no other", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		other := NewJob(ctx, namespace, "two", map[string]any{"zosendpoint": "lpar1"})
		place := pod.moveToNode(ctx, "operator-2")
		pod.RealRunner(`while [ ! -e $DIR/go ]; do sleep 0.02; done; ` + WellDone)
		r := pod.Start(Live(ctx, Default, job))
		Eventually(pod.Plays).Should(Equal(1))
		Expect(K8s.Delete(ctx, place)).To(Succeed())
		Expect(pod.Reconcile(ctx, other)).To(Equal("10s"))
		Expect(pod.Read("output")).To(ContainSubstring("no run is started: pod operator-2 is terminating: the next pod starts it"))
		Eventually(ctx, func() string { return pod.Read("output") }).Should(ContainSubstring("the pod is terminating: the run has 40s to end"))
		Expect(r.Ended).NotTo(BeClosed())
		pod.Write("go", "")
		Expect(r.Answer(ctx)).To(Equal("5m0s"))
		Expect(Field(ctx, job, "status", "phase")(Default)).To(Equal("Succeeded"))
		Expect(pod.Reconcile(ctx, other)).To(Equal("10s"))
		Expect(pod.Plays()).To(Equal(1))
		Expect(Live(ctx, Default, other).Object).NotTo(HaveKey("status"))
	})

	It("ends a run before the pod ends, tells it, and the next pod runs it again", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		place := pod.moveToNode(ctx, "operator-2")
		pod.RealRunner(`trap '' TERM; report '{"currentTask": {"name": "Copy", "since": "2026-01-02T03:04:05Z"}}'; sleep 1000 & wait; wait`)
		r := pod.Start(Live(ctx, Default, job))
		Eventually(pod.Plays).Should(Equal(1))
		Expect(K8s.Delete(ctx, place, client.GracePeriodSeconds(21))).To(Succeed())
		r.Answer(ctx)
		message := `the run was ended in task "Copy" because pod operator-2 was deleted and ends 21 seconds later (runtime.terminationSeconds); it starts again in the next pod`
		live := Live(ctx, Default, job)
		Expect(live.Object["status"]).To(HaveKeyWithValue("lastRun", And(HaveKeyWithValue("outcome", "Interrupted"),
			HaveKeyWithValue("failure", And(HaveKeyWithValue("message", message), HaveKeyWithValue("task", "Copy"))))))
		Expect(gateEvents(ctx, namespace)).To(ConsistOf(ContainSubstring("Warning RunFailed run 1001: Interrupted: " + message)))
		Expect(pod.Reconcile(ctx, job)).NotTo(BeEmpty())
		Expect(pod.Plays()).To(Equal(1))

		By("starting it in the next pod")
		pod.moveToNode(ctx, "operator-3")
		pod.RealRunner(WellDone)
		pass(ctx, job)
		pod.expectRun(ctx, job)
		Expect(Live(ctx, Default, job).Object["status"]).To(HaveKeyWithValue("lastRun", HaveKeyWithValue("attempt", BeEquivalentTo(1))), "it used up no retry")
		Expect(Field(ctx, job, "status", "phase")(Default)).To(Equal("Succeeded"))
	})
})
