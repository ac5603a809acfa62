//go:build e2e

package e2e

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// When playbooks run, and what resources tell of it. Specs that stop more than their own operator are in
// interruption_test.go.
var _ = Describe("Playbooks", Label("story"), Slow, Ordered, ContinueOnFailure, func() {
	p := newPlays("e2e-runs")
	s := &runSpecs{plays: p, neighbor: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "e2e-runs-neighbor", Annotations: map[string]string{"zoscb.ibm.com/allow-mapping-from": p.namespace},
	}}}

	BeforeAll(func(ctx context.Context) {
		p.begin(ctx)
		Remove(ctx, s.neighbor.DeepCopy())
		Eventually(ctx, Gone(ctx, s.neighbor)).Should(BeTrue())
		Create(ctx, s.neighbor.DeepCopy())
		s.zos1, s.zos2 = p.connectTo(ctx, "zos1"), p.connectTo(ctx, "zos2")
		p.importing(ctx, "1.0.0", map[string]any{"maxConcurrentReconciles": int64(4), "maxRetries": int64(2), "runTimeout": "2m"})
	})
	AfterEach(p.explain)
	AfterAll(func(ctx context.Context) {
		p.cleanUp(ctx)
		Remove(ctx, s.neighbor.DeepCopy())
	})

	It("run once for each of many resources", attack.Label, s.first) // Attacks are on what these two make.
	It("that exceed the limit of the collection are ended", s.timeout)
	It("that fail are tried again at recorded times", attack.Label, s.failures)
	Context("of resources that have not changed do not run again", s.unchanged)
	It("that failed wait for their time in the next pod, and rest after the last try", s.retries)
	It("run once for a changed spec, and again for the next one", s.changed)
	It("run in the middle of which requeue_after asked for another run are not started twice", s.requeued)
	It("of a deletion that end as the pod is told to end run once", s.deletedAtTheEnd)
	Context("under attack", s.attacks)
	Context("and the tool", s.toolSpecs)
})

// runSpecs are what the specs about runs share.
type runSpecs struct {
	*plays
	// neighbor is another namespace, which allows collections to be installed there.
	neighbor   *corev1.Namespace
	zos1, zos2 *system
	// nextRetry is when the first of the failing resources is tried for the third time.
	nextRetry time.Time
}

// first creates the resources that later specs expect to stay as they are: RUNS of them, or 20.
func (s *runSpecs) first(ctx context.Context) {
	count := int(setting("RUNS", 20))
	Create(ctx, s.endless()) // For the next spec: meanwhile its time runs out.
	for _, object := range s.playsNamed("calm", count, "zos1", nil) {
		Create(ctx, object)
	}
	Eventually(ctx, s.phases(ctx, "calm")).WithTimeout(2*time.Minute + time.Duration(count)*8*time.Second).
		Should(Equal(map[runstatus.Phase]int{runstatus.PhaseSucceeded: count}))
	lines := s.zos1.lines(ctx)
	Expect(lines).To(HaveLen(2*count), "the beginning and the end of each")
	Expect(lines).To(HaveEach(1))

	object := s.play("calm-00", "zos1", nil)
	Expect(Condition(ctx, object, runstatus.ConditionReady)(Default)).To(And(ConditionTrue(), WithReason("Succeeded"), HaveField("ObservedGeneration", int64(1))))
	Expect(Condition(ctx, object, runstatus.ConditionSuccessful)(Default)).To(ConditionTrue())
	expectHealth(ctx, object, "Healthy", "Current")
	run := lastRun(ctx, object)(Default)
	Expect(run).To(And(
		withOutcome(gate.OutcomeSucceeded), HaveField("Event", gate.EventCreate), HaveField("Attempt", 1), HaveField("Version", "1.0.0"),
		HaveField("Digest", DigestOf(s.archives["1.0.0.tar.gz"])), HaveField("Endpoint", "zos1"), HaveField("Host", s.zos1.host()+":22"),
		HaveField("User", "ibmuser"), HaveField("Failure", BeNil()), HaveField("CurrentTask", BeNil()),
	))
	Expect(run.Tasks).To(HaveValue(Equal(runstatus.TaskCounts{OK: 2, Changed: 2, Skipped: 3})))
}

func (s *runSpecs) failing() []*unstructured.Unstructured {
	return s.playsNamed("failing", 3, "zos2", map[string]any{"code": int64(12)})
}

// failures leaves three resources that are tried for the third and last time 30 seconds after the second time.
func (s *runSpecs) failures(ctx context.Context) {
	states := WatchStates(ctx, s.namespace, ListOf(s.failing()[0]))
	for _, object := range s.failing() {
		Create(ctx, object)
	}
	for _, object := range s.failing() {
		Eventually(ctx, func(g Gomega) {
			var failed *unstructured.Unstructured // Its last state after the second try.
			var run runstatus.Run
			for _, state := range states.Of(object.GetName()) {
				if last := statusOf(g, state).LastRun; last != nil && last.Attempt == 2 && last.Outcome == gate.OutcomeFailed {
					failed, run = state, *last
				}
			}
			g.Expect(failed).NotTo(BeNil(), func() string { return MustJSON(states.Of(object.GetName())) })
			g.Expect(run.NextRetry.Sub(run.Finished.Time)).To(Equal(30 * time.Second))
			g.Expect(run.Failure).To(HaveValue(And(
				HaveField("Task", "Refuse"), HaveField("File", "play.yml"), HaveField("Line", BeNumerically(">", 10)),
				HaveField("ReturnCode", HaveValue(Equal(12))), HaveField("Output", ContainSubstring("LAB0012E The region is in use.")),
			)))
			g.Expect(ConditionOf(g, failed, runstatus.ConditionFailure)).To(And(ConditionTrue(), WithMessage("non-zero return code 12: LAB0012E The region is in use. (play.yml:")))
			g.Expect(ConditionOf(g, failed, runstatus.ConditionReady)).To(And(ConditionFalse(), WithReason("Failed")))
			g.Expect(ConditionOf(g, failed, runstatus.ConditionStalled)).NotTo(ConditionTrue())
			expectHealthOf(g, failed, "Progressing", "InProgress")
			if s.nextRetry.IsZero() || run.NextRetry.Time.Before(s.nextRetry) {
				s.nextRetry = run.NextRetry.Time
			}
		}).Should(Succeed())
	}
}

func (s *runSpecs) retries(ctx context.Context) {
	for _, object := range s.failing() {
		Eventually(ctx, lastRun(ctx, object)).Should(And(withOutcome(gate.OutcomeFailed), HaveField("Attempt", 3)))
		Eventually(ctx, Condition(ctx, object, runstatus.ConditionStalled)).Should(ConditionTrue())
		expectHealth(ctx, object, "Degraded", "Failed")
		run := lastRun(ctx, object)(Default)
		Expect(run.Started.Time).To(BeTemporally(">=", s.nextRetry))
		Expect(run.NextRetry).To(BeNil())
	}
	logons := s.zos2.logons(ctx)
	Consistently(ctx, func() int { return s.zos2.logons(ctx) }).WithTimeout(5 * time.Second).Should(Equal(logons))
	lines := s.zos2.lines(ctx)
	for _, object := range s.failing() {
		Expect(lines).To(HaveKeyWithValue("begin "+object.GetName()+" first", 3))
		Expect(lines).NotTo(HaveKey("end " + object.GetName() + " first"))
	}
}

func (s *runSpecs) changed(ctx context.Context) {
	object, before := s.play("calm-01", "zos1", nil), s.zos1.lines(ctx)
	id := lastRun(ctx, object)(Default).ID
	Patch(ctx, object.DeepCopy(), `{"spec": {"note": "second"}}`)
	Eventually(ctx, lastRun(ctx, object)).Should(And(withOutcome(gate.OutcomeSucceeded), Not(HaveField("ID", id))))
	second := lastRun(ctx, object)(Default).ID
	// A change that no playbook sees is a skip. It follows the run, and precedes the next one.
	folder := "/tmp/ansible-operator/runner/" + SharedGroup + "/" + playsVersion + "/Play/" + s.namespace + "/calm-01/artifacts"
	skips := func() string {
		return s.inOperator(ctx, s.deployment(), "find "+folder+" -type l ! -name latest")
	}
	Eventually(ctx, skips).ShouldNot(BeEmpty(), "the record that a run writes asks for nothing")
	latest := skips()
	Patch(ctx, object.DeepCopy(), `{"metadata": {"annotations": {"colour": "green"}}}`)
	Eventually(ctx, skips).ShouldNot(BeElementOf(latest, ""), "a skip is a link to the last run")
	Expect(s.inOperator(ctx, s.deployment(), "cat "+folder+"/latest/stdout")).To(ContainSubstring("PLAY RECAP"))
	Expect(lastRun(ctx, object)(Default).ID).To(Equal(second))

	Patch(ctx, object.DeepCopy(), `{"spec": {"note": "third"}}`)
	Eventually(ctx, lastRun(ctx, object)).Should(And(withOutcome(gate.OutcomeSucceeded), Not(HaveField("ID", second))))
	Expect(s.inOperator(ctx, s.deployment(), "cat "+folder+"/latest/stdout")).To(ContainSubstring("PLAY RECAP"))
	for _, line := range []string{"begin calm-01 second", "end calm-01 second", "begin calm-01 third", "end calm-01 third"} {
		before[line] = 1
	}
	Expect(s.zos1.lines(ctx)).To(Equal(before))
	Expect(statusOf(Default, Live(ctx, Default, object)).History).To(HaveLen(3))
}

// requeued has a playbook ask for another run long before its own end, and the pod replaced before the other run is due.
func (s *runSpecs) requeued(ctx context.Context) {
	object := s.play("again", "zos2", map[string]any{"again": "2s", "hold": "go-again", "note": "once"})
	Create(ctx, object.DeepCopy())
	Eventually(ctx, s.zos2.waits(ctx, "in-again")).ShouldNot(BeEmpty())
	expectHealth(ctx, object, "Progressing", "InProgress")
	Consistently(ctx, func() int { return s.zos2.lines(ctx)["begin again once"] }).WithTimeout(6*time.Second).
		Should(Equal(1), "a second run would have begun after two seconds")
	// The period of the second run survives a restart.
	Patch(ctx, object.DeepCopy(), `{"spec": {"again": "25s", "note": "twice"}}`)
	s.zos2.shell(ctx, "touch /tmp/go-again /tmp/remove-go-again")
	Eventually(ctx, func() int { return s.zos2.lines(ctx)["end again twice"] }).Should(Equal(1))
	Eventually(ctx, lastRun(ctx, object)).Should(withOutcome(gate.OutcomeRequeued))
	due := lastRun(ctx, object)(Default).RunAgainAt
	Expect(due).NotTo(BeNil())
	Expect(s.phases(ctx, "again")(Default)).To(HaveKey(runstatus.PhaseWaiting))

	old := s.pod(ctx, Default).UID
	s.killPod(ctx)
	Eventually(ctx, s.ready(ctx, old)).ShouldNot(BeZero())
	Eventually(ctx, func() int { return s.zos2.lines(ctx)["begin again twice"] }).Should(Equal(2))
	Eventually(ctx, lastRun(ctx, object)).Should(And(withOutcome(gate.OutcomeRequeued), HaveField("Reason", gate.ReasonDue)))
	Expect(lastRun(ctx, object)(Default).Started.Time).To(BeTemporally(">=", due.Time))
	Expect(s.zos2.lines(ctx)).To(HaveKeyWithValue("begin again once", 1))
	Remove(ctx, object.DeepCopy())
	Eventually(ctx, Gone(ctx, object)).Should(BeTrue())
}

// deletedAtTheEnd ends the pod when nothing is left of a delete playbook but its last task.
func (s *runSpecs) deletedAtTheEnd(ctx context.Context) {
	object := s.play("leaving", "zos2", map[string]any{"hold": "go-leaving"})
	s.zos2.shell(ctx, "touch /tmp/go-leaving")
	Create(ctx, object.DeepCopy())
	Eventually(ctx, lastRun(ctx, object)).Should(withOutcome(gate.OutcomeSucceeded))
	Remove(ctx, object.DeepCopy())
	Eventually(ctx, s.zos2.waits(ctx, "out-leaving")).ShouldNot(BeEmpty())
	expectHealth(ctx, object, "Progressing", "Terminating")
	old := s.pod(ctx, Default).UID
	s.killPod(ctx)
	s.zos2.shell(ctx, "touch /tmp/remove-go-leaving")
	Eventually(ctx, s.ready(ctx, old)).ShouldNot(BeZero())
	Eventually(ctx, Gone(ctx, object)).Should(BeTrue())
	Expect(s.zos2.lines(ctx)).To(And(HaveKeyWithValue("begin-removal leaving", 1), HaveKeyWithValue("end-removal leaving", 1)))
}

func (s *runSpecs) endless() *unstructured.Unstructured {
	return s.play("endless", "zos2", map[string]any{"hold": "never"})
}

func (s *runSpecs) timeout(ctx context.Context) {
	var ended runstatus.RunSummary
	Eventually(ctx, func(g Gomega) {
		history := statusOf(g, Live(ctx, g, s.endless())).History
		i := slices.IndexFunc(history, func(run runstatus.RunSummary) bool { return run.Outcome == gate.OutcomeTimedOut })
		g.Expect(i).To(BeNumerically(">=", 0))
		ended = history[i]
	}).Should(Succeed())
	Expect(ended.Finished.Sub(ended.Started.Time)).To(BeNumerically(">=", 2*time.Minute-time.Second))
	Expect(ended.Message).To(ContainSubstring("runTimeout"))
	Expect(s.zos2.lines(ctx)).NotTo(HaveKey("end endless first"))
	s.zos2.shell(ctx, "touch /tmp/never /tmp/remove-never")
	Remove(ctx, s.endless())
	Eventually(ctx, Gone(ctx, s.endless())).Should(BeTrue())
	s.zos2.shell(ctx, "rm /tmp/never")
}
