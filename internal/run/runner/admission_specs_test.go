package runner_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// closedWindow opens on 29 February only.
var closedWindow = []v2beta2.RunWindow{{Schedule: "0 0 29 2 *", Duration: metav1.Duration{Duration: time.Minute}}}

var _ = Describe("The gate in front of an endpoint", func() {
	It("starts nothing while the endpoint is on hold", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newOperatorPod(ctx, namespace)
		job, e := NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"}), LocalEndpoint(namespace, "lpar1")
		pod.RealRunner(WellDone)
		Patch(ctx, e, `{"spec":{"hold":"IPL until noon"}}`)
		pod.expectNoRun(ctx, job, e)
		expectWaiting(ctx, job, endpoint.ReasonHeld, "IPL until noon")
		ExpectHealth(ctx, "resource-held", job)

		By("not even what a user wants to run outside the windows")
		Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"1",%q:"1"}}}`, endpoint.AnnotationRunNow, gate.AnnotationRequestedAt))
		pod.expectNoRun(ctx, job, e)
		_, since := waitingOf(ctx, job)

		By("saying so in the status of a resource that is being deleted")
		Remove(ctx, job)
		pod.expectNoRun(ctx, job, e)
		phase, waiting := waitingOf(ctx, job)
		Expect(phase).To(Equal("Deleting"))
		Expect(waiting).To(And(HaveKeyWithValue("reason", "EndpointHeld"), HaveKeyWithValue("since", since["since"])))
		Patch(ctx, e, `{"spec":{"hold":""}}`)
		Expect(pod.Reconcile(ctx, job)).To(Equal("done"))
		Expect(pod.Plays()).To(Equal(1))
	})

	It("waits for a run window, unless a user opens it", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPodOfOperator(ctx, namespace, JobOperator, "operator-1")
		e := LocalEndpoint(namespace, "lpar1")
		e.Spec.RunWindows = closedWindow
		pod.AddEndpoint(ctx, e)
		pod.RealRunner(WellDone)
		one, two := NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"}), NewJob(ctx, namespace, "two", map[string]any{"zosendpoint": "lpar1"})
		pod.expectNoRun(ctx, one, e)
		pod.expectNoRun(ctx, two, e)
		expectWaiting(ctx, one, endpoint.ReasonOutsideWindow, "no run window of ZosEndpoint lpar1 is open before")
		ExpectHealth(ctx, "resource-window", one)
		_, waiting := waitingOf(ctx, one)
		Expect(waiting).To(HaveKeyWithValue("until", HaveSuffix("-02-29T00:00:00Z")))

		By("for one resource, once")
		Patch(ctx, one, fmt.Sprintf(`{"metadata":{"annotations":{%q:"1"}}}`, endpoint.AnnotationRunNow))
		pod.expectRun(ctx, one)
		Patch(ctx, one, `{"spec":{"title":"b"}}`)
		pod.expectNoRun(ctx, one, e)
		Patch(ctx, one, fmt.Sprintf(`{"metadata":{"annotations":{%q:"2"}}}`, gate.AnnotationRequestedAt))
		pod.expectNoRun(ctx, one, e)

		By("for what was waiting at that time, and nothing later")
		opened := time.Now().Add(-time.Minute).Truncate(time.Second)
		pod.waitSince(ctx, one, opened)
		pod.waitSince(ctx, two, opened.Add(-time.Second))
		Patch(ctx, e, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, endpoint.AnnotationRunNow, opened.UTC().Format(time.RFC3339)))
		pod.expectRun(ctx, one)
		pod.expectRun(ctx, two)
		three := NewJob(ctx, namespace, "three", map[string]any{"zosendpoint": "lpar1"})
		pod.expectNoRun(ctx, three, e)
		pod.waitSince(ctx, three, opened.Add(time.Second))
		pod.expectNoRun(ctx, three, e)

		By("because the window opens")
		Patch(ctx, e, `{"spec":{"runWindows":[{"schedule":"* * * * *","duration":"2m"}]}}`)
		pod.expectRun(ctx, three)
		Patch(ctx, e, `{"spec":{"runWindows":[{"schedule":"99 99 * * *","duration":"2m"}]}}`)
		Patch(ctx, three, `{"spec":{"title":"b"}}`)
		pod.expectNoRun(ctx, three, e)
		expectWaiting(ctx, three, "EndpointInvalid", "spec.runWindows[0]")
	})

	It("opens no window for a resource of another namespace than its endpoint", func(ctx context.Context) {
		namespace, central := newNamespace(ctx), newNamespace(ctx)
		pod := newPodOfOperator(ctx, namespace, JobOperator, "operator-1")
		e := LocalEndpoint(central, "lpar1")
		e.Spec.RunWindows = closedWindow
		pod.AddEndpoint(ctx, e)
		pod.RealRunner(WellDone)
		job := NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"1"}}}`, endpoint.AnnotationRunNow))
		pod.expectNoRun(ctx, job, e)
	})

	It("limits the runs of two operators, in turns", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		e := LocalEndpoint(namespace, "lpar1")
		e.Spec.MaxConcurrentRuns = ptr.To[int32](1)
		first := newPodOfOperator(ctx, namespace, JobOperator, "operator-1")
		second := newPodOfOperator(ctx, namespace, "other-operator", "operator-2")
		for _, pod := range []*operatorPod{first, second} {
			pod.AddEndpoint(ctx, e)
			pod.RealRunner(untilGo)
		}
		jobs := map[string]*unstructured.Unstructured{}
		for _, name := range []string{"one", "two", "three"} {
			jobs[name] = NewJob(ctx, namespace, name, map[string]any{"zosendpoint": "lpar1"})
		}
		one := first.Start(Live(ctx, Default, jobs["one"]))
		Eventually(first.Plays).Should(Equal(1))
		Expect(RunningOn(ctx, e)).To(ConsistOf(And(
			HaveField("Operator", namespace+"/"+JobOperator), HaveField("Resource", "Job/"+namespace+"/one"), HaveField("Run", "1001"))))

		By("waiting without a write at first")
		two := Live(ctx, Default, jobs["two"])
		second.hideWaits(true)
		Expect(second.Reconcile(ctx, two)).To(Equal("1s"))
		Expect(Live(ctx, Default, two).GetResourceVersion()).To(Equal(two.GetResourceVersion()))
		second.hideWaits(false)
		second.Reconcile(ctx, two)
		expectWaiting(ctx, two, endpoint.ReasonBusy, "spec.maxConcurrentRuns of ZosEndpoint lpar1")
		second.expectNoRun(ctx, two, e)

		By("giving the place to the operator that waits")
		first.Write("go", "")
		Expect(one.Answer(ctx)).To(Equal("5m0s"))
		Expect(RunningOn(ctx, e)).To(BeEmpty())
		Expect(first.Reconcile(ctx, jobs["three"])).To(Equal("1s"))
		Expect(first.Plays()).To(Equal(1))
		second.Write("go", "")
		second.expectRun(ctx, two)
		first.expectRun(ctx, jobs["three"])
	})

	It("starts the run that has been waiting for longest", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPodOfOperator(ctx, namespace, JobOperator, "operator-1")
		e := remoteEndpoint(namespace, "lpar1")
		e.Spec.MaxConcurrentRuns = ptr.To[int32](1)
		pod.AddEndpoint(ctx, e)
		pod.RealRunner(LoggedOn)
		one, two := NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"}), NewJob(ctx, namespace, "two", map[string]any{"zosendpoint": "lpar1"})
		Patch(ctx, e, `{"spec":{"settle":"1h"}}`)
		ChangeState(ctx, e, func(s *endpoint.State, settings endpoint.Settings) {
			s.Observe(settings, endpoint.Request{Now: time.Now()}, endpoint.ConnectionUnreachable, "gone")
			s.Recover(AddressOf(e), time.Now())
		})
		Expect(pod.Reconcile(ctx, one)).To(Equal("5s"))
		expectWaiting(ctx, one, endpoint.ReasonSettling, "spec.settle")
		pod.waitSince(ctx, one, time.Now().Add(-time.Minute))
		Patch(ctx, e, `{"spec":{"settle":"0s"}}`)
		Expect(pod.Reconcile(ctx, two)).To(Equal("2s"))
		Expect(pod.Plays()).To(BeZero())
		pod.expectRun(ctx, one)
		pod.expectRun(ctx, two)
	})

	It("opens a window for one resource while others that have been waiting for longer stay, also with a limit", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPodOfOperator(ctx, namespace, JobOperator, "operator-1")
		e := LocalEndpoint(namespace, "lpar1")
		e.Spec.MaxConcurrentRuns, e.Spec.RunWindows = ptr.To[int32](1), closedWindow
		pod.AddEndpoint(ctx, e)
		pod.RealRunner(WellDone)
		jobs := make([]*unstructured.Unstructured, 3)
		for i := range jobs {
			jobs[i] = NewJob(ctx, namespace, fmt.Sprintf("job%d", i), map[string]any{"zosendpoint": "lpar1"})
			Expect(pod.Reconcile(ctx, jobs[i])).To(Equal(fmt.Sprintf("%ds", 15+3*i)))
			pod.waitSince(ctx, jobs[i], time.Now().Add(time.Duration(i-10)*time.Minute))
		}
		Patch(ctx, jobs[2], fmt.Sprintf(`{"metadata":{"annotations":{%q:"1"}}}`, endpoint.AnnotationRunNow))
		pod.expectRun(ctx, jobs[2])
		pod.expectNoRun(ctx, jobs[0], e)
	})

	It("gives the place of a run to others whose gate was killed", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPodOfOperator(ctx, namespace, JobOperator, "operator-1")
		e := LocalEndpoint(namespace, "lpar1")
		e.Spec.MaxConcurrentRuns = ptr.To[int32](1)
		pod.AddEndpoint(ctx, e)
		one, two := NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"}), NewJob(ctx, namespace, "two", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(`echo $$ >$DIR/pid; sleep 1000`)
		killed := pod.Start(Live(ctx, Default, one))
		Eventually(func() string { return pod.Read("pid") }).ShouldNot(BeEmpty())
		Expect(killed.Command.Process.Kill()).To(Succeed())
		Eventually(killed.Ended).Should(BeClosed())
		pod.RealRunner(WellDone)
		Expect(pod.Reconcile(ctx, two)).To(Equal("1s"), "the playbook has not ended")
		runner, err := strconv.Atoi(strings.TrimSpace(pod.Read("pid")))
		Expect(err).NotTo(HaveOccurred())
		Expect(syscall.Kill(-runner, syscall.SIGKILL)).To(Succeed())
		Eventually(ctx, func() int {
			pod.Reconcile(ctx, two)
			return pod.Plays()
		}).Should(Equal(2))
		Expect(RunningOn(ctx, e)).To(BeEmpty())
	})

	It("gives a place back once the API server is back", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPodOfOperator(ctx, namespace, JobOperator, "operator-1")
		e := LocalEndpoint(namespace, "lpar1")
		e.Spec.MaxConcurrentRuns = ptr.To[int32](1)
		pod.AddEndpoint(ctx, e)
		pod.RealRunner(untilGo)
		running := pod.Start(Live(ctx, Default, NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})))
		Eventually(pod.Plays).Should(Equal(1))
		pod.API.Stop()
		pod.Write("go", "")
		Eventually(func() string { return pod.Read("output") }).Should(ContainSubstring("the outcome is written later"))
		Expect(RunningOn(ctx, e)).To(HaveLen(1))
		pod.API.Resume()
		Expect(running.Answer(ctx)).To(Equal("5m0s"))
		Expect(RunningOn(ctx, e)).To(BeEmpty())
	})

	It("remembers a refusal that its gate did not live to see", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPodOfOperator(ctx, namespace, JobOperator, "operator-1")
		e := remoteEndpoint(namespace, "lpar1")
		pod.AddEndpoint(ctx, e)
		job := NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(`while [ ! -e $DIR/go ]; do sleep 0.02; done; ` + RefusedRun)
		killed := pod.Start(Live(ctx, Default, job))
		Eventually(pod.Plays).Should(Equal(1))
		Expect(killed.Command.Process.Kill()).To(Succeed())
		Eventually(killed.Ended).Should(BeClosed())
		pod.Write("endpoints/lpar1_credential", "another one, which nobody has tried")
		pod.Write("go", "")
		Eventually(ctx, func() string {
			pod.Reconcile(ctx, job)
			return Field(ctx, job, "status", "lastRun", "outcome")(Default)
		}).ShouldNot(BeEmpty())
		Expect(pod.Plays()).To(Equal(2), "the other password")
		Expect(StateOf(ctx, e)(Default).Logons["ibmuser"].Refused).To(HaveLen(2))
		pod.expectNoRun(ctx, job, e)
	})

	It("logs on with a refused credential once, in all systems of a security domain", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPodOfOperator(ctx, namespace, JobOperator, "operator-1")
		endpoints := make([]*v2beta2.ZosEndpoint, 2)
		for i := range endpoints {
			endpoints[i] = remoteEndpoint(namespace, fmt.Sprintf("lpar%d", i+1))
			endpoints[i].Spec.SecurityDomain = "plex"
			pod.AddEndpoint(ctx, endpoints[i])
		}
		one, two := NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"}), NewJob(ctx, namespace, "two", map[string]any{"zosendpoint": "lpar2"})

		By("remembering it while the run goes on")
		pod.RealRunner(`report '{"connection": "Refused", "failures": [{"message": "Permission denied"}]}'; while [ ! -e $DIR/go ]; do sleep 0.02; done; ` + RefusedRun)
		running := pod.Start(Live(ctx, Default, one))
		Eventually(ctx, func(g Gomega) map[string]*endpoint.Logon { return StateOf(ctx, endpoints[0])(g).Logons }).
			Should(HaveKeyWithValue("ibmuser", HaveField("Refused", HaveLen(1))))
		pod.expectNoRun(ctx, two, endpoints[1])
		expectWaiting(ctx, two, endpoint.ReasonCredentialRefused, "Permission denied")
		ExpectHealth(ctx, "resource-refused", two)
		pod.Write("go", "")
		Expect(running.Answer(ctx)).To(Equal("1s"))
		Expect(Field(ctx, one, "status", "lastRun", "outcome")(Default)).To(Equal("Refused"))
		Expect(MustJSON(StateOf(ctx, endpoints[0])(Default))).NotTo(ContainSubstring("the password"))

		By("after changes, requests and a new pod")
		pod.expectNoRun(ctx, one, endpoints[0])
		Expect(Condition(ctx, one, "Stalled")(Default)).To(ConditionTrue())
		Patch(ctx, one, fmt.Sprintf(`{"spec":{"title":"b"},"metadata":{"annotations":{%q:"1"}}}`, gate.AnnotationRequestedAt))
		pod.expectNoRun(ctx, one, endpoints[0])
		pod.Restart(ctx, "operator-2")
		pod.expectNoRun(ctx, one, endpoints[0])
		pod.expectNoRun(ctx, two, endpoints[1])
		Expect(pod.Plays()).To(Equal(1))

		By("until the credential changes")
		pod.RealRunner(LoggedOn)
		for _, e := range endpoints {
			pod.Write("endpoints/"+e.Name+"_credential", "second")
		}
		pod.expectRun(ctx, one)
		pod.expectRun(ctx, two)
		Expect(StateOf(ctx, endpoints[0])(Default).Logons["ibmuser"].Trying).To(BeNil())
	})

	It("lets one run try a credential that nobody has used", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPodOfOperator(ctx, namespace, JobOperator, "operator-1")
		e := remoteEndpoint(namespace, "lpar1")
		pod.AddEndpoint(ctx, e)
		one, two := NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"}), NewJob(ctx, namespace, "two", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(`while [ ! -e $DIR/accept ]; do sleep 0.02; done; report '{"connection": "Accepted"}'; while [ ! -e $DIR/go ]; do sleep 0.02; done; ` + LoggedOn)
		running := pod.Start(Live(ctx, Default, one))
		Eventually(pod.Plays).Should(Equal(1))
		Expect(pod.Reconcile(ctx, two)).To(Equal("2s"))
		pod.Write("accept", "")
		Eventually(ctx, func(g Gomega) map[string]*endpoint.Logon { return StateOf(ctx, e)(g).Logons }).
			Should(HaveKeyWithValue("ibmuser", HaveField("Accepted", Not(BeEmpty()))))
		pod.RealRunner(LoggedOn)
		pod.expectRun(ctx, two)
		Expect(running.Ended).NotTo(BeClosed())
		pod.Write("go", "")
		running.Answer(ctx)
	})

	It("ends waiting when the outage ends", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPodOfOperator(ctx, namespace, JobOperator, "operator-1")
		e := remoteEndpoint(namespace, "lpar1")
		pod.AddEndpoint(ctx, e)
		one, two := NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"}), NewJob(ctx, namespace, "two", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(LoggedOn)
		pod.expectRun(ctx, one)
		pod.RealRunner(LostRun)
		Patch(ctx, one, `{"spec":{"title":"b"}}`)
		Expect(pod.Reconcile(ctx, one)).To(Equal("1s"))
		live := Live(ctx, Default, one)
		Expect(live.Object["status"]).To(HaveKeyWithValue("lastRun", And(
			HaveKeyWithValue("outcome", "Unreachable"), HaveKeyWithValue("attempt", BeEquivalentTo(1)), Not(HaveKey("nextRetry")))))
		Expect(Condition(ctx, one, "Stalled")(Default)).To(ConditionAbsent())
		pod.expectNoRun(ctx, one, e)
		pod.expectNoRun(ctx, two, e)
		expectWaiting(ctx, one, endpoint.ReasonUnreachable, "cannot be reached since")
		ExpectHealth(ctx, "resource-unreachable", one)

		By("deletions too, and at once")
		Remove(ctx, one)
		pod.expectNoRun(ctx, one, e)
		Patch(ctx, e, `{"spec":{"settle":"1h"}}`)
		ChangeState(ctx, e, func(s *endpoint.State, _ endpoint.Settings) { s.Recover(AddressOf(e), time.Now()) })
		pod.RealRunner(LoggedOn)
		pod.expectNoRun(ctx, two, e)
		expectWaiting(ctx, two, endpoint.ReasonSettling, "spec.settle")
		Patch(ctx, e, `{"spec":{"settle":"0s"}}`)
		pod.expectRun(ctx, two)
		Expect(pod.Reconcile(ctx, one)).To(Equal("done"))
	})

	It("connects once to a system that the manager cannot reach", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPodOfOperator(ctx, namespace, JobOperator, "operator-1")
		e := remoteEndpoint(namespace, "lpar1")
		pod.AddEndpoint(ctx, e)
		reachable := func(status metav1.ConditionStatus, reason string) {
			GinkgoHelper()
			Expect(K8s.Status().Patch(ctx, e.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(MustJSON(map[string]any{
				"status": map[string]any{"conditions": []metav1.Condition{{
					Type: v2beta2.ConditionReachable, Status: status, Reason: reason, Message: "no SSH server answers", LastTransitionTime: metav1.Now(),
				}}},
			}))))).To(Succeed())
		}
		reachable(metav1.ConditionFalse, v2beta2.ReasonHostUnreachable)
		pod.RealRunner(LostRun)
		jobs := make([]*unstructured.Unstructured, 10)
		for i := range jobs {
			jobs[i] = NewJob(ctx, namespace, fmt.Sprintf("job%d", i), map[string]any{"zosendpoint": "lpar1"})
			pod.Reconcile(ctx, jobs[i])
		}
		for _, job := range jobs {
			pod.Reconcile(ctx, job)
			expectWaiting(ctx, job, endpoint.ReasonUnreachable, "ZosEndpoint lpar1")
		}
		Expect(pod.Plays()).To(Equal(1))
		reachable(metav1.ConditionTrue, "Reachable")
		ChangeState(ctx, e, func(s *endpoint.State, _ endpoint.Settings) { s.Recover(AddressOf(e), time.Now()) })
		pod.RealRunner(LoggedOn)
		for _, job := range jobs {
			pod.expectRun(ctx, job)
		}
	})

	It("removes an abandoned resource without a run", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, e := newOperatorPod(ctx, namespace), LocalEndpoint(namespace, "lpar1")
		pod.RealRunner(WellDone)
		one, two := NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"}), NewJob(ctx, namespace, "two", map[string]any{"zosendpoint": "lpar1"})
		for _, job := range []*unstructured.Unstructured{one, two} {
			pod.expectRun(ctx, job)
			Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, gate.AnnotationAbandon))
		}
		Expect(pod.Reconcile(ctx, one)).To(Equal("5m0s"), "it is not being deleted")
		Patch(ctx, e, `{"spec":{"hold":"gone"}}`)
		Remove(ctx, one)
		Expect(pod.Reconcile(ctx, one)).To(Equal("done"))
		Expect(pod.Reconcile(ctx, one)).To(Equal("done"), "if the finalizer could not be removed at first")
		Expect(StateOf(ctx, e)(Default).Abandoned).To(ConsistOf(And(
			HaveField("Operator", namespace+"/"+JobOperator), HaveField("Group", Not(BeEmpty())), HaveField("Kind", JobKind), HaveField("Name", "one"), HaveField("Endpoint", "lpar1"))))
		Expect(gateEvents(ctx, namespace)).To(ConsistOf(
			"Warning Abandoned removed without a run: what the resource describes may be left on endpoint lpar1"))

		By("also when its endpoint does not exist any more")
		Remove(ctx, e)
		Remove(ctx, two)
		Expect(pod.Reconcile(ctx, two)).To(Equal("done"))
		Expect(gateEvents(ctx, namespace)).To(HaveLen(2))
		Expect(pod.Plays()).To(Equal(2))
	})

	It("starts nothing without the endpoint or its state", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, e := newOperatorPod(ctx, namespace), LocalEndpoint(namespace, "lpar1")
		job := NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(WellDone)
		secret := LiveState(ctx, Default, e)
		pod.hideWaits(true)
		for _, broken := range []struct{ data, problem string }{
			{`{"state.json":"eA=="}`, "state.json: "}, {`{"state.json":null}`, "state.json: "},
		} {
			Patch(ctx, secret, `{"data":`+broken.data+`}`)
			Expect(pod.Reconcile(ctx, job)).To(Equal("10s"))
			Expect(Live(ctx, Default, job).Object).NotTo(HaveKey("status"), "the manager may be about to create it")
			Expect(pod.Read("output")).To(ContainSubstring(
				"state of the endpoint, Secret %s in namespace %s: %s", secret.Name, namespace, broken.problem))
		}
		pod.hideWaits(false)
		pod.Reconcile(ctx, job)
		expectWaiting(ctx, job, "EndpointStateUnavailable", fmt.Sprintf("Secret %s in namespace %s", secret.Name, namespace))
		Remove(ctx, secret)
		Remove(ctx, e)
		Eventually(ctx, Gone(ctx, e)).Should(BeTrue())
		pod.Reconcile(ctx, job)
		expectWaiting(ctx, job, "EndpointNotFound", "ZosEndpoint lpar1 does not exist in namespace "+namespace)
		Expect(pod.Plays()).To(BeZero())

		By("but one that the installation does not have: the engine lets the playbook fail, even if it has the endpoint by then")
		pod.RealRunner(`echo "$ZOSCB_WITHOUT_PLACE" >"$DIR/without-place"; ` + WellDone)
		other := NewJob(ctx, namespace, "two", map[string]any{"zosendpoint": "lpar2"})
		pod.expectRun(ctx, other)
		Expect(pod.Read("without-place")).To(Equal("true\n"))

		By("which a run with a place may use")
		pod.AddEndpoint(ctx, LocalEndpoint(namespace, "lpar2"))
		Patch(ctx, other, `{"spec":{"title":"b"}}`)
		pod.expectRun(ctx, other)
		Expect(pod.Read("without-place")).To(Equal("\n"))
	})
})
