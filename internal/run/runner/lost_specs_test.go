package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// forever is a run that does not end by itself, and whose process is in $DIR/NAME.pid.
const forever = `echo $$ >"$DIR/$(basename "$2").pid"; sleep 1000`

// startForever starts a run of a resource that does not end by itself.
func (p *operatorPod) startForever(ctx context.Context, job *unstructured.Unstructured) *Call {
	GinkgoHelper()
	plays := p.Plays()
	call := p.Start(Live(ctx, Default, job))
	Eventually(p.Plays).Should(Equal(plays + 1))
	Eventually(func() string { return p.Read(job.GetName() + ".pid") }).Should(HaveSuffix("\n"))
	return call
}

// killContainer ends all processes of runs as the end of their container does. The files stay.
func (p *operatorPod) killContainer(calls ...*Call) {
	GinkgoHelper()
	for _, call := range calls {
		Expect(call.Command.Process.Kill()).To(Succeed())
	}
	files, err := filepath.Glob(filepath.Join(p.Dir, "*.pid"))
	Expect(err).NotTo(HaveOccurred())
	for _, file := range files {
		runner, err := strconv.Atoi(strings.TrimSpace(p.Read(filepath.Base(file))))
		Expect(err).NotTo(HaveOccurred())
		_ = syscall.Kill(-runner, syscall.SIGKILL)
		Expect(os.Remove(file)).To(Succeed())
	}
	for _, call := range calls {
		Eventually(call.Ended).Should(BeClosed())
	}
}

// reportKill lets the pod's status say why its container ended.
func (p *operatorPod) reportKill(ctx context.Context, reason string) {
	GinkgoHelper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.PodName}}
	Get(ctx, Default, pod)
	now := metav1.Now()
	ended := func(container string, exitCode int32, reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: container, Image: container, ImageID: "x",
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exitCode, Reason: reason, StartedAt: now, FinishedAt: now}},
		}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{ended("a-sidecar", 1, "Error"), ended("operator", 137, reason)}
	Expect(K8s.Status().Update(ctx, pod)).To(Succeed())
}

func lostMessage(ctx context.Context, job *unstructured.Unstructured) any {
	return Field(ctx, job, "status", "lastRun", "failure", "message")(Default)
}

var _ = Describe("A run that ends without a report", func() {
	It("says why the container ended, if that is known", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(forever)
		pod.killContainer(pod.startForever(ctx, job))
		pod.Reconcile(ctx, job)
		Expect(lostMessage(ctx, job)).To(Equal("the run ended without a report"))
		pass(ctx, job)
		pod.killContainer(pod.startForever(ctx, job))
		pod.reportKill(ctx, "OOMKilled")
		pod.Reconcile(ctx, job)
		Expect(lostMessage(ctx, job)).To(Equal("the operator's container ended during the run: OOMKilled"))
	})

	It("rests after the third time, and those that ran beside it end well", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		other := NewJob(ctx, namespace, "two", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(forever)
		for range 2 {
			pod.killContainer(pod.startForever(ctx, job), pod.startForever(ctx, other))
			for _, job := range []*unstructured.Unstructured{job, other} {
				pod.Reconcile(ctx, job)
				Expect(Field(ctx, job, "status", "lastRun", "outcome")(Default)).To(Equal("Interrupted"))
				pass(ctx, job)
			}
		}

		By("starting one after the other")
		plays := pod.Plays()
		call := pod.startForever(ctx, job)
		Expect(pod.Reconcile(ctx, other)).To(Equal("10s"))
		expectWaiting(ctx, other, "RunsAlone", "the last runs of Job/one ended without a report, so it is running alone")
		Expect(pod.Plays()).To(Equal(plays + 1))
		unsuspected := NewJob(ctx, namespace, "three", map[string]any{"zosendpoint": "lpar1"})
		Expect(pod.Reconcile(ctx, unsuspected)).To(Equal("10s"))
		expectWaiting(ctx, unsuspected, "RunsAlone", "the last runs of Job/one ended without a report, so it is running alone")

		By("for ten minutes at most")
		pod.RealRunner(WellDone)
		tickets, now := podfiles.NewTickets(filepath.Join(pod.Dir, "state"), time.Minute, time.Hour), time.Now()
		Expect(tickets.Write("alone", unsuspected.GetUID(), podfiles.Ticket{Since: now.Add(-10 * time.Minute), Next: now})).To(Succeed())
		pod.expectRun(ctx, unsuspected)
		pod.killContainer(call)
		pod.expectRun(ctx, other)

		By("resting")
		pod.Reconcile(ctx, job)
		message := "the run ended without a report; 3 runs in a row ended like this, it is not tried again until the resource is changed or a run is requested: " +
			"kubectl collection rerun Job/one"
		Expect(Condition(ctx, job, "Stalled")(Default)).To(And(ConditionTrue(), WithMessage(message)))
		Expect(gateRecord(ctx, job).NextRetry).To(BeZero())
		plays = pod.Plays()
		Expect(pod.Reconcile(ctx, job)).To(Equal("5m0s"))
		Expect(pod.Plays()).To(Equal(plays))
		annotate(ctx, job, gate.AnnotationRequestedAt, "now")
		pod.expectRun(ctx, job)
		Expect(gateRecord(ctx, job).Lost).To(BeZero())
	})

	It("does not rest because of another one", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, innocent := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		cause := NewJob(ctx, namespace, "two", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(forever)
		pod.killContainer(pod.startForever(ctx, innocent))
		pod.Reconcile(ctx, innocent)
		pass(ctx, innocent)
		pod.killContainer(pod.startForever(ctx, innocent), pod.startForever(ctx, cause))
		for _, job := range []*unstructured.Unstructured{innocent, cause} {
			pod.Reconcile(ctx, job)
			pass(ctx, job)
		}
		call := pod.startForever(ctx, cause)
		Expect(pod.Reconcile(ctx, innocent)).To(Equal("10s"))
		expectWaiting(ctx, innocent, "RunsAlone", "the last runs of the resource ended without a report: the playbook starts when no other one is running")
		pod.killContainer(call)
		pod.RealRunner(WellDone)
		pod.expectRun(ctx, innocent)
		pod.Reconcile(ctx, cause)
		Expect(gateRecord(ctx, cause).Lost).To(Equal(2))
	})

	It("rests if it takes the third pod with it", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		for i := range gate.MaxLost {
			pod.RealRunner(forever)
			pod.killContainer(pod.startForever(ctx, job))
			pod.Restart(ctx, "operator-"+strconv.Itoa(i+2))
			pod.Reconcile(ctx, job)
			Expect(lostMessage(ctx, job)).To(Equal("the run ended without a report"))
			if i+1 < gate.MaxLost {
				pass(ctx, job)
			}
		}
		Expect(Condition(ctx, job, "Stalled")(Default)).To(ConditionTrue())
		plays := pod.Plays()
		pod.Reconcile(ctx, job)
		Expect(pod.Plays()).To(Equal(plays))
	})

	It("and whose journal is damaged claims no cause", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(forever)
		pod.killContainer(pod.startForever(ctx, job))
		pod.Write("state/journal/"+string(job.GetUID())+".json", "{")
		pod.Reconcile(ctx, job)
		Expect(lostMessage(ctx, job)).To(Equal("the run ended without a report"))
		pod.RealRunner(WellDone)
		pass(ctx, job)
		pod.expectRun(ctx, job)
	})

	It("of a drift check is a failed check, which is not due again at once", func(ctx context.Context) {
		pod, job := newCheckedJob(ctx)
		pod.Settings.DriftCheckPeriodSeconds = 3600
		pod.WriteSettings()
		annotate(ctx, job, gate.AnnotationCheckRequestedAt, "1")
		pod.RealRunner(forever)
		pod.killContainer(pod.startForever(ctx, job))
		output := filepath.Join(pod.Dir, pod.Folder("one"), "artifacts/1002")
		Expect(output).To(BeADirectory())
		pod.RealRunner(checkable(noDrift))
		plays := pod.Plays()
		Expect(pod.Reconcile(ctx, job)).To(about(time.Hour))
		Expect(pod.Plays()).To(Equal(plays))
		Expect(Live(ctx, Default, job)).To(beDrifted("Unknown", "CheckFailed", "the drift check failed: the run ended without a report"))
		Expect(gateRecord(ctx, job).CheckAsked).To(Equal("1"))
		Expect(output).NotTo(BeADirectory())
		Expect(Condition(ctx, job, "Ready")(Default)).To(ConditionTrue())
	})

	It("to the gate, which ended before it, ended when it wrote its report", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(WellDone + "; " + forever)
		pod.killContainer(pod.startForever(ctx, job))
		at := time.Now().Add(-time.Hour).Truncate(time.Second)
		Expect(os.Chtimes(filepath.Join(pod.Dir, pod.Folder("one"), "report.json"), at, at)).To(Succeed())
		pod.Reconcile(ctx, job)
		Expect(gateRecord(ctx, job).Outcome).To(Equal(gate.OutcomeSucceeded))
		Expect(gateRecord(ctx, job).Finished).To(BeTemporally("==", at))
	})
})
