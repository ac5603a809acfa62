package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runner"
	"github.com/collection-operator/collection-operator/test/apiserver"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// intervalsVariable of the environment has the intervals of the engine.
const intervalsVariable = "TEST_INTERVALS"

// intervals of the engine are short, so that specs do not wait for them. What it answers to ansible-operator is as usual.
func intervals() runner.Intervals {
	i := runner.DefaultIntervals()
	i.Visible, i.Poll, i.Observe, i.Progress = 0, 20*time.Millisecond, 20*time.Millisecond, 0
	i.PersistRetry, i.PersistMaxRetry = 10*time.Millisecond, 50*time.Millisecond
	return i
}

// Called as ansible-runner or as the engine, this program is the engine.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "ansible-runner":
		var intervals runner.Intervals
		if err := json.Unmarshal([]byte(os.Getenv(intervalsVariable)), &intervals); err != nil {
			panic(err)
		}
		os.Exit(runner.Main(context.Background(), intervals, os.Args[1:]))
	case "engine":
		if err := runner.Lock(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

// benchLabel is that of specs that measure: make bench-runs runs them alone.
const benchLabel = "bench"

var server *apiserver.Server

func TestSpecs(t *testing.T) {
	server = apiserver.Shared(t)
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(10 * time.Millisecond)
	SetDefaultConsistentlyDuration(200 * time.Millisecond)
	SetDefaultConsistentlyPollingInterval(10 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	suite, reporter := GinkgoConfiguration()
	if suite.LabelFilter == "" {
		suite.LabelFilter = "!" + benchLabel
	}
	RunSpecs(t, "The engine against a real API server", suite, reporter)
}

var _ = BeforeSuite(func(ctx context.Context) {
	ConnectTo(server.Config)
	var err error
	EngineBinary, err = os.Executable()
	Expect(err).NotTo(HaveOccurred())
	EngineEnvironment = []string{intervalsVariable + "=" + MustJSON(intervals())}
	MakeJobKind(ctx)
})

var _ = ReportAfterSuite("attacks", func(report Report) {
	if table := attack.Table(report); table != "" {
		fmt.Print("\nAttacks\n\n", table)
	}
})

func newNamespace(context.Context) string { return server.Namespace(GinkgoTB()) }

// operatorPod is a pod whose engine is this program.
type operatorPod struct{ *OperatorPod }

func newOperatorPod(ctx context.Context, namespace string) *operatorPod {
	GinkgoHelper()
	return &operatorPod{NewOperatorPod(ctx, namespace)}
}

func newPodOfOperator(ctx context.Context, namespace, operator, podName string) *operatorPod {
	GinkgoHelper()
	return &operatorPod{NewPodOfOperator(ctx, namespace, operator, podName)}
}

// hideWaits lets status not say why a run waits for a brief reason, or say so at once.
func (p *operatorPod) hideWaits(hide bool) {
	GinkgoHelper()
	i := intervals()
	if hide {
		i.Visible = time.Hour
	}
	p.Engine = []string{intervalsVariable + "=" + MustJSON(i)}
}

var ports int32 = 2000

// remoteEndpoint is a ZosEndpoint with an address of its own, at which nobody listens.
func remoteEndpoint(namespace, name string) *v2beta2.ZosEndpoint {
	ports++
	return NewEndpoint(namespace, name, "192.0.2.1", ports)
}

// untilGo is a run that ends well once the spec writes the file go.
const untilGo = `while [ ! -e $DIR/go ]; do sleep 0.02; done; ` + WellDone

// about matches an answer that counts from the end of a run, which was at most five seconds ago.
func about(after time.Duration) gomegatypes.GomegaMatcher {
	return WithTransform(time.ParseDuration, And(BeNumerically("<=", after), BeNumerically(">", after-5*time.Second)))
}

// expectRetry expects that a reconciliation fails, and that the resource is to be tried again a time after the end of the run, or that it
// is due then if the run has asked for that.
func (p *operatorPod) expectRetry(ctx context.Context, job *unstructured.Unstructured, after time.Duration) {
	GinkgoHelper()
	began := time.Now()
	answer, err := time.ParseDuration(p.Reconcile(ctx, job))
	Expect(err).NotTo(HaveOccurred())
	record := gateRecord(ctx, job)
	next := record.NextRetry
	if record.Outcome == gate.OutcomeRequeued {
		next = record.Due
	}
	Expect(next.Sub(record.Finished)).To(Equal(after))
	Expect(record.Finished).To(And(BeTemporally(">=", began.Truncate(time.Second)), BeTemporally("<=", time.Now())))
	Expect(answer).To(And(BeNumerically(">=", time.Until(next)), BeNumerically("<", next.Sub(began)+time.Second)))
}

// pass lets the time until the next attempt of a failed run pass.
func pass(ctx context.Context, job *unstructured.Unstructured) {
	GinkgoHelper()
	record := gateRecord(ctx, job)
	Expect(record.NextRetry).To(BeTemporally(">", time.Now()))
	record.NextRetry = time.Now().UTC().Truncate(time.Second)
	setGateRecord(ctx, job, *record)
}

// waitSince lets a run that waits have been waiting since a time.
func (p *operatorPod) waitSince(ctx context.Context, job *unstructured.Unstructured, since time.Time) {
	GinkgoHelper()
	Expect(K8s.Status().Patch(ctx, job.DeepCopy(), client.RawPatch(types.MergePatchType,
		[]byte(fmt.Sprintf(`{"status":{"waiting":{"since":%q}}}`, since.UTC().Format(time.RFC3339)))))).To(Succeed())
	p.Reconcile(ctx, job)
	_, waiting := waitingOf(ctx, job)
	Expect(waiting).To(HaveKeyWithValue("since", since.UTC().Format(time.RFC3339)))
}

// waitingOf returns phase and status.waiting, nil if the latter does not exist.
func waitingOf(ctx context.Context, job client.Object) (phase string, waiting map[string]any) {
	GinkgoHelper()
	live := Live(ctx, Default, job)
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
	Expect(Condition(ctx, job, "Ready")(Default)).To(And(ConditionFalse(), WithReason("Waiting"), WithMessage(message)))
}

// expectRun expects that a reconciliation runs the playbook, once.
func (p *operatorPod) expectRun(ctx context.Context, job client.Object) {
	GinkgoHelper()
	before := p.Plays()
	p.Reconcile(ctx, job)
	Expect(p.Plays()).To(Equal(before+1), p.Read("output"))
	_, waiting := waitingOf(ctx, job)
	Expect(waiting).To(BeNil())
}

// expectNoRun expects that reconciliations do not run the playbook, and that all but the first write nothing.
func (p *operatorPod) expectNoRun(ctx context.Context, job client.Object, e *v2beta2.ZosEndpoint) {
	GinkgoHelper()
	before := p.Plays()
	p.Reconcile(ctx, job)
	live, state := Live(ctx, Default, job), LiveState(ctx, Default, e)
	for range 2 {
		Expect(p.Reconcile(ctx, job)).NotTo(Equal("done"))
	}
	Expect(LiveState(ctx, Default, e).ResourceVersion).To(Equal(state.ResourceVersion))
	Expect(Live(ctx, Default, job).GetResourceVersion()).To(Equal(live.GetResourceVersion()))
	Expect(p.Plays()).To(Equal(before), p.Read("output"))
}

func gateLease(namespace string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: JobOperator}}
}

// gateEvents returns the Kubernetes Events of jobs as type, reason and message.
func gateEvents(ctx context.Context, namespace string) []string {
	GinkgoHelper()
	events := &corev1.EventList{}
	Expect(K8s.List(ctx, events, client.InNamespace(namespace))).To(Succeed())
	var texts []string
	for _, event := range events.Items {
		if event.InvolvedObject.Kind == JobKind {
			texts = append(texts, strings.Join([]string{event.Type, event.Reason, event.Message}, " "))
		}
	}
	return texts
}

var recordKey = gate.Key(strings.Repeat("k", gate.RecordKeyBytes))

// gateRecord returns the record of a resource.
func gateRecord(ctx context.Context, job *unstructured.Unstructured) *gate.Record {
	GinkgoHelper()
	live := Live(ctx, Default, job)
	record := recordKey.Verify(gateIdentity(live), live.GetAnnotations()[gate.AnnotationRecord])
	Expect(record).NotTo(BeNil())
	return record
}

// setGateRecord writes a record as the gate would.
func setGateRecord(ctx context.Context, job *unstructured.Unstructured, record gate.Record) {
	GinkgoHelper()
	annotate(ctx, job, gate.AnnotationRecord, recordKey.Sign(gateIdentity(job), record))
}

func gateIdentity(job *unstructured.Unstructured) gate.Identity {
	return gate.Identity{Group: JobGroup, Kind: JobKind, Namespace: job.GetNamespace(), Name: job.GetName()}
}

func annotate(ctx context.Context, job client.Object, name, value string) {
	GinkgoHelper()
	Patch(ctx, job, MustJSON(map[string]any{"metadata": map[string]any{"annotations": map[string]any{name: value}}}))
}
