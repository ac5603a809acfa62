package integration

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/endpoint"
	"github.com/collection-operator/collection-operator/internal/gate"
	"github.com/collection-operator/collection-operator/internal/render"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// What a run does that cannot log on, cannot connect, or logs on.
const (
	refusedRun = `report '{"ended": "failed", "connection": "Refused", "failures": [{"message": "Permission denied"}]}'`
	lostRun    = `report '{"ended": "failed", "connection": "Unreachable", "failures": [{"message": "no route to host"}]}'`
	loggedOn   = `report '{"ended": "successful", "connection": "Accepted", "host": "lpar1", "tasks": {"ok": 1, "changed": 0, "failed": 0, "unreachable": 0, "skipped": 0}}'`
)

// localEndpoint is a ZosEndpoint that is neither probed nor logged on to.
func localEndpoint(namespace, name string) *v2beta2.ZosEndpoint {
	e := newEndpoint(namespace, name, nil)
	e.Spec.EndpointType = v2beta2.EndpointLocal
	return e
}

// addEndpoint creates a ZosEndpoint and its state, unless they exist, and gives the pod the files of the endpoint: its variables, and
// for a remote one a user and a password, and what identifies them.
func (p *operatorPod) addEndpoint(ctx context.Context, e *v2beta2.ZosEndpoint) {
	GinkgoHelper()
	createOnce(ctx, e)
	createOnce(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, Name: endpoint.StateName(e),
			Labels: map[string]string{endpoint.LabelState: "true", render.LabelManagedBy: render.ManagedBy},
		},
		Data: map[string][]byte{endpoint.StateFile: []byte("{}")},
	})
	variables := map[string]any{"ansible_connection": "local"}
	if e.Spec.EndpointType != v2beta2.EndpointLocal {
		variables = map[string]any{"ansible_host": e.Spec.Host, "ansible_port": e.Spec.EffectivePort(), "ansible_user": "ibmuser"}
		p.write("endpoints/"+e.Name+"_password", "the password")
		p.write("endpoints/"+e.Name+"_credential", "first")
	}
	p.write("endpoints/"+e.Name+"_vars.yaml", MustJSON(variables))
	p.write("endpoints/"+gate.EndpointsNamespaceFile, e.Namespace)
}

// createOnce creates an object unless it exists.
func createOnce(ctx context.Context, object client.Object) {
	GinkgoHelper()
	object = object.DeepCopyObject().(client.Object)
	object.SetResourceVersion("")
	if err := K8s.Create(ctx, object); !apierrors.IsAlreadyExists(err) {
		Expect(err).NotTo(HaveOccurred())
	}
}

func liveState(ctx context.Context, g Gomega, e *v2beta2.ZosEndpoint) *corev1.Secret {
	secret := stateSecret(e)
	Get(ctx, g, secret)
	return secret
}

// addressOf returns the address that runs against an endpoint are counted by.
func addressOf(e *v2beta2.ZosEndpoint) string {
	GinkgoHelper()
	settings, err := endpoint.SettingsOf(e)
	Expect(err).NotTo(HaveOccurred())
	return settings.Address
}

// runningOn returns the runs that have a place on an endpoint's system.
func runningOn(ctx context.Context, e *v2beta2.ZosEndpoint) []endpoint.Holder {
	GinkgoHelper()
	if system := stateOf(ctx, e)(NewWithT(GinkgoT())).Systems[addressOf(e)]; system != nil {
		return system.Running
	}
	return nil
}

// restart replaces the pod by a new one without its files.
func (p *operatorPod) restart(ctx context.Context, podName string) {
	GinkgoHelper()
	for _, volume := range []string{"state", "runs"} {
		Expect(os.RemoveAll(filepath.Join(p.dir, volume))).To(Succeed())
	}
	old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.podName}}
	Expect(K8s.Delete(ctx, old, client.GracePeriodSeconds(0))).To(Succeed())
	Eventually(Gone(ctx, old)).WithContext(ctx).Should(BeTrue())
	pod := newPod(ctx, p.namespace, podName)
	p.podName, p.podUID = pod.Name, string(pod.UID)
}

// waitingOf returns phase, and reason and message of status.waiting, or nil for the latter.
func waitingOf(ctx context.Context, job client.Object) (phase string, waiting map[string]any) {
	GinkgoHelper()
	live := Live(ctx, NewWithT(GinkgoT()), job)
	phase, _, _ = unstructured.NestedString(live.Object, "status", "phase")
	waiting, _, _ = unstructured.NestedMap(live.Object, "status", "waiting")
	return phase, waiting
}

// expectWaiting expects that status says why a run waits.
func expectWaiting(ctx context.Context, job client.Object, reason endpoint.Reason, message string) {
	GinkgoHelper()
	phase, waiting := waitingOf(ctx, job)
	Expect(phase).To(Equal("Waiting"))
	Expect(waiting).To(And(HaveKeyWithValue("reason", string(reason)), HaveKeyWithValue("message", ContainSubstring(message)), HaveKey("since")))
	Expect(Condition(ctx, job, "Ready")(NewWithT(GinkgoT()))).To(And(ConditionFalse(), WithReason("Waiting"), WithMessage(message)))
}

// expectRun expects that a reconciliation runs the playbook, once.
func (p *operatorPod) expectRun(ctx context.Context, job client.Object) {
	GinkgoHelper()
	before := p.plays()
	p.reconcile(ctx, job)
	Expect(p.plays()).To(Equal(before+1), p.read("output"))
	_, waiting := waitingOf(ctx, job)
	Expect(waiting).To(BeNil())
}

// expectNoRun expects that reconciliations do not run the playbook, and that all but the first write nothing.
func (p *operatorPod) expectNoRun(ctx context.Context, job client.Object, e *v2beta2.ZosEndpoint) {
	GinkgoHelper()
	before := p.plays()
	p.reconcile(ctx, job)
	live := Live(ctx, NewWithT(GinkgoT()), job)
	for range 3 {
		Expect(p.reconcile(ctx, job)).NotTo(Equal("done"))
	}
	Eventually(func(g Gomega) {
		state := liveState(ctx, g, e)
		p.reconcile(ctx, job)
		g.Expect(liveState(ctx, g, e).ResourceVersion).To(Equal(state.ResourceVersion))
	}).WithContext(ctx).Should(Succeed(), "unless the manager writes it just then")
	Expect(Live(ctx, NewWithT(GinkgoT()), job).GetResourceVersion()).To(Equal(live.GetResourceVersion()))
	Expect(p.plays()).To(Equal(before), p.read("output"))
}
