//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("Two managers", Serial, Label("serial"), Ordered, ContinueOnFailure, func() {
	e := &environment{namespace: "e2e-two", domain: domain}
	second := &v2beta2.OperatorCollection{ObjectMeta: e.meta("second.example.1.0.0")}
	soc := &v2beta2.SubOperatorConfig{ObjectMeta: e.meta(second.Name + "-soc")}

	BeforeAll(func(ctx context.Context) {
		buildArchives()
		e.start(ctx, archives)
		second.Spec = e.spec("second.tar.gz", archives["second.tar.gz"])
		Eventually(ctx, managersReady(ctx)).Should(HaveLen(2), "the cluster has two managers: see config/manager")
	})
	AfterEach(e.explain)
	AfterAll(e.cleanUp)

	It("finish an install during which the leader's pod is deleted", func(ctx context.Context) {
		leader := leaderPod(ctx)
		allow := RefuseRealWrites(ctx, e.namespace, "deployments")
		Create(ctx, second.DeepCopy())
		ExpectFailure(ctx, soc, v2beta2.ReasonObjectRefused, "Deployment", false)
		Expect(K8s.Delete(ctx, leader)).To(Succeed())
		allow(ctx)
		printed, err := Output(ctx, kubectlPath(), "wait", "-n", e.namespace, "--for=condition=Ready", "--timeout=4m", "operatorcollection/"+second.Name)
		Expect(err).NotTo(HaveOccurred(), printed)
		Expect(leaderPod(ctx).UID).NotTo(Equal(leader.UID))
		Eventually(ctx, managersReady(ctx)).WithTimeout(InstallTimeout).Should(HaveLen(2))
	})

	It("serve an operator's archive while one of them is away, whichever it is", func(ctx context.Context) {
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ManagerNamespace, Name: ManagerName}}
		both := func(ctx context.Context) {
			Patch(ctx, set.DeepCopy(), `{"spec":{"replicas":2,"ordinals":null}}`)
			Eventually(ctx, managersReady(ctx)).WithTimeout(InstallTimeout).Should(HaveLen(2))
		}
		DeferCleanup(both)
		for stays := range 2 {
			Patch(ctx, set.DeepCopy(), fmt.Sprintf(`{"spec":{"replicas":1,"ordinals":{"start":%d}}}`, stays))
			Eventually(ctx, managersReady(ctx)).Should(ConsistOf(fmt.Sprintf("%s-%d", ManagerName, stays)))
			operators := readyPods(ctx, e.namespace, client.MatchingLabels{"operator-name": "second"})
			before := operators(Default)
			kubectl(ctx, "delete", "pods", "-n", e.namespace, "-l", "operator-name=second", "--wait=false")
			Eventually(ctx, operators).Should(And(HaveLen(1), Not(Equal(before))))
			both(ctx)
		}
	})

	It("take over changed settings without a restart of their pods", func(ctx context.Context) {
		before := managerProcesses(ctx)(Default)
		Expect(before).To(HaveLen(2))
		settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ManagerNamespace, Name: "collection-operator-settings"}}
		set := func(ctx context.Context, timeout string) map[string]string {
			Patch(ctx, settings, `{"data":{"fetch-timeout":`+timeout+`}}`)
			status := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ManagerNamespace, Name: "collection-operator-settings-status"}}
			Eventually(ctx, func(g Gomega) {
				Get(ctx, g, status)
				g.Expect(status.Data).To(And(HaveKeyWithValue("observedResourceVersion", settings.ResourceVersion), HaveKeyWithValue("waiting", "false")))
			}).Should(Succeed())
			return status.Data
		}
		DeferCleanup(func(ctx context.Context) { set(ctx, "null") })
		Expect(set(ctx, `"4m"`)).To(And(HaveKeyWithValue("valid", "true"), HaveKeyWithValue("inUse", ContainSubstring(`"fetch-timeout":"4m"`))))
		Eventually(ctx, managersReady(ctx)).Should(HaveLen(2))
		Expect(managerProcesses(ctx)(Default)).To(Equal(before))
	})
})

// managerProcesses are the UIDs of the managers' pods, with how often their containers were restarted.
func managerProcesses(ctx context.Context) func(Gomega) map[string]int32 {
	return func(g Gomega) map[string]int32 {
		var pods corev1.PodList
		g.Expect(K8s.List(ctx, &pods, client.InNamespace(ManagerNamespace), managerPods)).To(Succeed())
		restarts := map[string]int32{}
		for _, pod := range pods.Items {
			for _, container := range pod.Status.ContainerStatuses {
				restarts[string(pod.UID)+" "+container.Name] = container.RestartCount
			}
		}
		return restarts
	}
}

// readyPods are the names of the pods that are ready and stay.
func readyPods(ctx context.Context, namespace string, labels client.MatchingLabels) func(Gomega) []string {
	return func(g Gomega) []string {
		var pods corev1.PodList
		g.Expect(K8s.List(ctx, &pods, client.InNamespace(namespace), labels)).To(Succeed())
		var ready []string
		for _, pod := range pods.Items {
			if pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}) {
				ready = append(ready, pod.Name)
			}
		}
		return ready
	}
}

func managersReady(ctx context.Context) func(Gomega) []string {
	return readyPods(ctx, ManagerNamespace, managerPods)
}

// leaderPod waits for the one pod with the label that authors' tools look for.
func leaderPod(ctx context.Context) *corev1.Pod {
	GinkgoHelper()
	var pods corev1.PodList
	Eventually(ctx, func(g Gomega) {
		g.Expect(K8s.List(ctx, &pods, client.InNamespace(ManagerNamespace), client.MatchingLabels{"component": "manager"})).To(Succeed())
		g.Expect(pods.Items).To(HaveLen(1))
		g.Expect(pods.Items[0].DeletionTimestamp).To(BeNil())
	}).WithTimeout(InstallTimeout).Should(Succeed())
	return &pods.Items[0]
}
