package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// quiet is how long the manager has to make no request.
const quiet = 2 * time.Second

// requestsAbout returns the manager's requests in some namespaces, reads among them, since it was called. Events are left out: the API server
// may get them late.
func requestsAbout(namespaces ...string) func() []string {
	GinkgoHelper()
	log, requests := OpenAuditLog(controlPlane.AuditLog), []string{}
	return func() []string {
		GinkgoHelper()
		for _, event := range log.Requests() {
			about := slices.ContainsFunc(namespaces, func(namespace string) bool { return event.ObjectRef.Namespace == namespace })
			if about && event.User.Username == managerUser && event.ObjectRef.Resource != "events" {
				requests = append(requests, event.Verb+" "+event.RequestURI)
			}
		}
		return requests
	}
}

// expectSilence waits until the manager makes no request about namespaces any more.
func expectSilence(ctx context.Context, namespaces ...string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		g.Consistently(requestsAbout(namespaces...)).WithTimeout(quiet).Should(BeEmpty())
	}).Should(Succeed())
}

var _ = Describe("What has not changed", func() {
	It("costs no request, neither while a pod is waited for nor afterwards", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := importSample(ctx, namespace, s)
		soc, operator := defaultSOC(oc), deployment(namespace, s.operator())
		ExpectFailure(ctx, soc, v2beta2.ReasonProgressing, "waiting for its pod to be created", false)
		Eventually(ctx, Gone(ctx, operator)).Should(BeFalse(), "the status foresees it")
		expectSilence(ctx, namespace)

		By("a Deployment that is not available")
		requests := requestsAbout(namespace)
		Get(ctx, Default, operator)
		operator.Annotations["deployment.kubernetes.io/revision"] = "1" // As its controller does.
		operator.Status.ObservedGeneration, operator.Status.Replicas, operator.Status.UnavailableReplicas = operator.Generation, 1, 1
		Expect(K8s.Status().Update(ctx, operator)).To(Succeed())
		Consistently(requests).WithTimeout(quiet).Should(BeEmpty())

		By("a pod that is refused")
		const refused = `pods "x" is forbidden: exceeded quota: small`
		operator.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: refused}}
		Expect(K8s.Status().Update(ctx, operator)).To(Succeed())
		ExpectFailure(ctx, soc, v2beta2.ReasonWorkloadUnavailable, "its pod is refused: "+refused, false)
		ExpectFailure(ctx, oc, v2beta2.ReasonWorkloadUnavailable, "its pod is refused: "+refused, false)
		operator.Status.Conditions = nil
		Expect(K8s.Status().Update(ctx, operator)).To(Succeed())
		ExpectFailure(ctx, soc, v2beta2.ReasonProgressing, "waiting for its pod to be created", false)

		By("a pod that cannot be scheduled")
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod", Labels: podTemplateOf(ctx, namespace, s)(Default).Labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Image: "registry.invalid/x"}}},
		}
		Eventually(ctx, func() error { return K8s.Create(ctx, pod) }).Should(Succeed(), "once the namespace has a ServiceAccount")
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available"}}
		Expect(K8s.Status().Update(ctx, pod)).To(Succeed())
		ExpectFailure(ctx, soc, v2beta2.ReasonWorkloadUnavailable, "pod cannot be scheduled: 0/1 nodes are available", false)
		expectSilence(ctx, namespace)
		requests = requestsAbout(namespace)
		pod.Status.Conditions[0].LastProbeTime, pod.Status.HostIP = metav1.Now(), "192.0.2.1"
		Expect(K8s.Status().Update(ctx, pod)).To(Succeed())
		Consistently(requests).WithTimeout(quiet).Should(BeEmpty())

		By("an operator that runs")
		requests = requestsAbout(namespace)
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, soc)
		reads := slices.DeleteFunc(requests(), func(request string) bool {
			return !strings.Contains(request, "/"+s.operator()) || !strings.Contains(request, "/deployments/")
		})
		Expect(reads).To(ConsistOf("get /apis/apps/v1/namespaces/"+namespace+"/deployments/"+s.operator()), "Ready is confirmed once, by a live read")
		ExpectReady(ctx, oc)
		expectSilence(ctx, namespace)
		requests = requestsAbout(namespace)
		makeAvailable(ctx, namespace, s.operator())
		Patch(ctx, pod, `{"metadata":{"labels":{"team":"blue"}}}`)
		Consistently(requests).WithTimeout(quiet).Should(BeEmpty())
	})

	It("costs no request where another namespace of the same SubOperatorConfig has changed", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := importSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		mapped := []string{namespace}
		for range 3 {
			other := newNamespace(ctx)
			mapped = append(mapped, other)
			Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}},
				fmt.Sprintf(`{"metadata":{"annotations":{"zoscb.ibm.com/allow-mapping-from":%q}}}`, namespace))
		}
		list := make([]string, 0, len(mapped))
		for _, each := range mapped {
			list = append(list, fmt.Sprintf(`{"namespace":%q}`, each))
		}
		Patch(ctx, soc, `{"spec":{"mapping":[`+strings.Join(list, ",")+`]}}`)
		for _, each := range mapped {
			makeAvailable(ctx, each, s.operator())
		}
		ExpectReady(ctx, soc)
		expectSilence(ctx, mapped...)

		changed, requests := requestsAbout(mapped[1]), requestsAbout(mapped[2:]...)
		Patch(ctx, deployment(mapped[1], s.operator()), `{"spec":{"replicas":3}}`)
		Eventually(ctx, func(g Gomega) {
			operator := deployment(mapped[1], s.operator())
			Get(ctx, g, operator)
			g.Expect(operator.Spec.Replicas).To(HaveValue(BeEquivalentTo(1)))
		}).Should(Succeed())
		Eventually(ctx, changed).Should(HaveLen(3), "it is read, validated and written")
		Consistently(requests).WithTimeout(quiet).Should(BeEmpty())
	})
})
