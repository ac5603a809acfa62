package runner_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// checkable is the body of a real runner that tells checks from runs. As ansible-runner, it uses the options of the call before
// if it is called without --cmdline. found is what the report of a check says.
func checkable(found string) string {
	return fmt.Sprintf(`options="$2/env/cmdline"
[ $# = 6 ] || echo "${7#--cmdline=}" >"$options"
if ! grep -qs -e --check "$options"; then %s; exit; fi
echo "check $7 $ZOSCB_SKIPPED_MODULES" >>$DIR/checks; cp "$2/env/extravars" $DIR/
echo "+a line of a file"; while [ -e $DIR/hold ]; do sleep 0.02; done
report '{"ended": "successful", "host": "lpar1", %s}'`, WellDone, found)
}

const (
	noDrift  = `"checked": 5, "changes": {"tasks": 0}`
	twoTasks = `"checked": 5, "changes": {"tasks": 2, "names": ["Write", "Own"], "diff": "+a line of a file"}`
)

func (p *operatorPod) checks() int { return strings.Count(p.Read("checks"), "\n") }

// newCheckedJob makes a pod whose kind supports check mode, and a resource whose first run was successful.
func newCheckedJob(ctx context.Context) (*operatorPod, *unstructured.Unstructured) {
	GinkgoHelper()
	namespace := newNamespace(ctx)
	pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1", "title": "a", "pyz": "b"})
	pod.Settings.Kinds[JobKind] = gate.KindSettings{Plural: "jobs", CheckMode: true, Variables: []gate.Variable{{Name: "title"}}}
	pod.WriteSettings()
	pod.RealRunner(checkable(noDrift))
	Expect(pod.Reconcile(ctx, job)).To(Equal("done"))
	Expect(pod.Plays()).To(Equal(1))
	return pod, job
}

// beDrifted matches a resource by its condition Drifted.
func beDrifted(status, reason, message string) gomegatypes.GomegaMatcher {
	condition := And(HaveKeyWithValue("type", "Drifted"), HaveKeyWithValue("status", status), HaveKeyWithValue("reason", reason),
		HaveKeyWithValue("message", HavePrefix(message)))
	return WithTransform(func(job *unstructured.Unstructured) []any {
		conditions, _, _ := unstructured.NestedSlice(job.Object, "status", "conditions")
		return conditions
	}, ContainElement(condition))
}

var _ = Describe("A drift check", func() {
	It("is made once when it is requested, and changes neither the run nor the phase", func(ctx context.Context) {
		pod, job := newCheckedJob(ctx)
		before := Live(ctx, Default, job)
		pod.RealRunner(checkable(twoTasks))
		pod.Write("hold", "")
		annotate(ctx, job, gate.AnnotationCheckRequestedAt, "1")
		asked := Live(ctx, Default, job)
		r := pod.Start(asked)
		Eventually(pod.checks).Should(Equal(1))
		Expect(Live(ctx, Default, job).GetResourceVersion()).To(Equal(asked.GetResourceVersion()), "nothing is written at the start")
		Expect(os.Remove(filepath.Join(pod.Dir, "hold"))).To(Succeed())
		Expect(r.Answer(ctx)).To(Equal("0s"))

		By("reporting what it found")
		live := Live(ctx, Default, job)
		Expect(live).To(beDrifted("True", "Drifted", "2 tasks would change the endpoint: Write, Own"))
		Expect(live.Object["status"]).To(And(
			HaveKeyWithValue("phase", "Succeeded"),
			HaveKeyWithValue("drift", And(HaveKey("checkedAt"), HaveKeyWithValue("checked", BeEquivalentTo(5)), Not(HaveKey("diff")))),
			HaveKeyWithValue("lastRun", before.Object["status"].(map[string]any)["lastRun"]),
			Not(HaveKey("provedAt")),
		))
		Expect(gateEvents(ctx, pod.Namespace)).To(ContainElement(HavePrefix("Warning Drifted 2 tasks would change the endpoint: Write, Own")))
		Expect(pod.Read("extravars")).NotTo(ContainSubstring("pyz"), "the playbook gets declared variables only")

		By("logging no output, and keeping none")
		Expect(pod.Read("output")).To(ContainSubstring("gate: drift check: 2 tasks would change the endpoint"))
		Expect(pod.Read("output")).NotTo(ContainSubstring("a line of a file"))
		Expect(filepath.EvalSymlinks(filepath.Join(pod.Dir, pod.Folder("one"), "artifacts/latest"))).To(HaveSuffix("/1001"))

		By("not repeating it")
		Expect(pod.Reconcile(ctx, job)).To(Equal("0s"))
		Expect(pod.checks()).To(Equal(1))
		Expect(Live(ctx, Default, job).GetResourceVersion()).To(Equal(live.GetResourceVersion()))
		Expect(os.ReadDir(filepath.Join(pod.Dir, "state/journal"))).To(BeEmpty())

		By("correcting the drift by a run")
		annotate(ctx, job, gate.AnnotationRequestedAt, "1")
		Expect(pod.Reconcile(ctx, job)).To(Equal("done"))
		Expect(pod.checks()).To(Equal(1))
		live = Live(ctx, Default, job)
		Expect(live).To(beDrifted("False", "NoDrift", "the playbook has run successfully since the last drift check"))
		Expect(live.Object["status"]).To(HaveKeyWithValue("drift", Not(HaveKey("checked"))))
	})

	It("shows what differs only if the kind declares it, and leaves out the modules that administrators name", func(ctx context.Context) {
		pod, job := newCheckedJob(ctx)
		pod.RealRunner(checkable(twoTasks))
		kind := pod.Settings.Kinds[JobKind]
		kind.ShowDiff = true
		pod.Settings.Kinds[JobKind], pod.Settings.DriftCheckSkipModules = kind, []string{"acme.zos.submit", "marker"}
		pod.WriteSettings()
		annotate(ctx, job, gate.AnnotationCheckRequestedAt, "1")
		pod.Reconcile(ctx, job)
		Expect(pod.Read("checks")).To(Equal("check --cmdline=--check --diff acme.zos.submit,marker\n"))
		drift := func() any { return Live(ctx, Default, job).Object["status"].(map[string]any)["drift"] }
		Expect(drift()).To(HaveKeyWithValue("diff", "+a line of a file"))

		By("removing it once a version of the collection does not")
		kind.ShowDiff = false
		pod.Settings.Kinds[JobKind] = kind
		pod.WriteSettings()
		pod.Reconcile(ctx, job)
		Expect(drift()).To(And(HaveKeyWithValue("checked", BeEquivalentTo(5)), Not(HaveKey("diff"))))
		Expect(Live(ctx, Default, job)).To(beDrifted("True", "Drifted", "2 tasks"))
		annotate(ctx, job, gate.AnnotationCheckRequestedAt, "2")
		pod.Reconcile(ctx, job)
		Expect(pod.Read("checks")).To(HaveSuffix("check --cmdline=--check acme.zos.submit,marker\n"))
		Expect(drift()).NotTo(HaveKey("diff"))
	})

	It("drops what an earlier version took for a proof", func(ctx context.Context) {
		pod, job := newCheckedJob(ctx)
		annotate(ctx, job, gate.AnnotationCheckRequestedAt, "1")
		pod.Reconcile(ctx, job)
		Expect(K8s.Status().Patch(ctx, job.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"provedAt":"2026-11-22T10:00:00Z"}}`)))).To(Succeed())
		Expect(Live(ctx, Default, job).Object["status"]).To(HaveKey("provedAt"))
		pod.Reconcile(ctx, job)
		live := Live(ctx, Default, job)
		Expect(live.Object["status"]).NotTo(HaveKey("provedAt"))
		Expect(live).NotTo(beDrifted("False", "NoDrift", ""))
		Expect(pod.Plays()).To(Equal(2), "the first run, and the check")
		pod.Reconcile(ctx, job)
		Expect(Live(ctx, Default, job).GetResourceVersion()).To(Equal(live.GetResourceVersion()))
	})

	It("is made when its period is over", func(ctx context.Context) {
		pod, job := newCheckedJob(ctx)
		pod.Settings.DriftCheckPeriodSeconds = 3600
		pod.WriteSettings()
		Expect(pod.Reconcile(ctx, job)).To(about(time.Hour))
		Expect(pod.checks()).To(BeZero())
		record := gateRecord(ctx, job)
		record.Finished = time.Now().UTC().Add(-time.Hour).Truncate(time.Second)
		setGateRecord(ctx, job, *record)
		Expect(pod.Reconcile(ctx, job)).To(about(time.Hour))
		Expect(pod.checks()).To(Equal(1))
		live := Live(ctx, Default, job)
		Expect(live).To(beDrifted("False", "NoDrift", "no difference found in 5 of 5 tasks"))
		Expect(gateRecord(ctx, job).Finished).To(BeTemporally("==", record.Finished), "the period of runs goes on")
		Expect(pod.Reconcile(ctx, job)).To(about(time.Hour))
		Expect(pod.checks()).To(Equal(1))
		Expect(pod.Plays()).To(Equal(2), "the first run, and the check")
		Expect(gateEvents(ctx, pod.Namespace)).To(BeEmpty())
	})

	It("is refused once for a kind that does not support it", func(ctx context.Context) {
		pod, job := newCheckedJob(ctx)
		pod.Settings.Kinds[JobKind] = gate.KindSettings{Plural: "jobs", Variables: []gate.Variable{{Name: "title"}}}
		pod.Settings.DriftCheckPeriodSeconds = 300
		pod.WriteSettings()
		annotate(ctx, job, gate.AnnotationCheckRequestedAt, "1")
		Expect(pod.Reconcile(ctx, job)).To(Equal("0s"))
		live := Live(ctx, Default, job)
		Expect(live).To(beDrifted("Unknown", "NotSupported", "version 1.0.0 of the collection does not declare supportsCheckMode for kind Job"))
		Expect(Field(ctx, job, "status", "phase")(Default)).To(Equal("Succeeded"))
		Expect(pod.Reconcile(ctx, job)).To(Equal("0s"))
		Expect(Live(ctx, Default, job).GetResourceVersion()).To(Equal(live.GetResourceVersion()))
		Expect(pod.Plays()).To(Equal(1))
	})

	It("of a resource that failed waits until it is successful", func(ctx context.Context) {
		pod, job := newCheckedJob(ctx)
		pod.Settings.MaxRetries = 0
		pod.WriteSettings()
		pod.RealRunner(`exit 1`)
		Patch(ctx, job, `{"spec":{"title":"b"}}`)
		annotate(ctx, job, gate.AnnotationCheckRequestedAt, "1")
		Expect(pod.Reconcile(ctx, job)).To(Equal("0s"))
		Expect(pod.Reconcile(ctx, job)).To(Equal("0s"))
		Expect(pod.Plays()).To(Equal(2))
		pod.RealRunner(checkable(noDrift))
		annotate(ctx, job, gate.AnnotationRequestedAt, "1")
		Expect(pod.Reconcile(ctx, job)).To(Equal("1s"))
		Expect(pod.checks()).To(BeZero())
		Expect(pod.Reconcile(ctx, job)).To(Equal("0s"))
		Expect(pod.checks()).To(Equal(1))
		Expect(Live(ctx, Default, job)).To(beDrifted("False", "NoDrift", ""))
	})

	It("of a resource that changes meanwhile does not count, and leads to a run", func(ctx context.Context) {
		pod, job := newCheckedJob(ctx)
		pod.RealRunner(checkable(twoTasks))
		pod.Write("hold", "")
		annotate(ctx, job, gate.AnnotationCheckRequestedAt, "1")
		r := pod.Start(Live(ctx, Default, job))
		Eventually(pod.checks).Should(Equal(1))
		Patch(ctx, job, `{"spec":{"title":"b"}}`)
		Expect(os.Remove(filepath.Join(pod.Dir, "hold"))).To(Succeed())
		r.Answer(ctx)
		Expect(Live(ctx, Default, job)).NotTo(beDrifted("True", "Drifted", ""))
		Expect(gateRecord(ctx, job).CheckAsked).To(BeEmpty())
		Expect(pod.Reconcile(ctx, job)).To(Equal("1s"))
		Expect(pod.Plays()).To(Equal(3))
		Expect(pod.checks()).To(Equal(1), "the resource runs before it is checked again")
		pod.Reconcile(ctx, job)
		Expect(pod.checks()).To(Equal(2))
		Expect(Live(ctx, Default, job)).To(beDrifted("True", "Drifted", ""))
	})

	It("that fails, or that cannot check each task, says so", func(ctx context.Context) {
		pod, job := newCheckedJob(ctx)
		for i, tc := range []struct{ script, reason, message string }{
			{checkable(noDrift + `, "unchecked": 3`), "Unchecked", "no difference found in 5 of 8 tasks; the others were not checked"},
			{checkable(`"unchecked": 3, "changes": {"tasks": 0}`), "Unchecked", "nothing is known: none of 3 tasks was checked"},
			{`echo "+a line of a file"; exit 3`, "CheckFailed", "the drift check failed: the run ended without a report: ansible-runner: exit status 3"},
			{`sleep 1000`, "CheckFailed", "the drift check failed: the run exceeded the time limit runtime.runTimeout"},
			{`report '{"ended": "failed", "failures": [{"message": "no data set"}]}'; exit 2`, "CheckFailed", "the drift check failed: no data set"},
		} {
			pod.Settings.RunTimeoutSeconds = 0
			if strings.HasPrefix(tc.script, "sleep") {
				pod.Settings.RunTimeoutSeconds = 1
			}
			pod.WriteSettings()
			pod.RealRunner(tc.script)
			annotate(ctx, job, gate.AnnotationCheckRequestedAt, fmt.Sprint(i))
			Expect(pod.Reconcile(ctx, job)).To(Equal("0s"))
			Expect(Live(ctx, Default, job)).To(beDrifted("Unknown", tc.reason, tc.message))
			Expect(pod.Read("output")).To(ContainSubstring("gate: drift check: unknown: " + tc.message))
			Expect(gateRecord(ctx, job).CheckAsked).To(Equal(fmt.Sprint(i)), "it is not repeated")
		}
		Expect(pod.Read("output")).NotTo(ContainSubstring("a line of a file"))
		Expect(Field(ctx, job, "status", "phase")(Default)).To(Equal("Succeeded"))
		Expect(gateEvents(ctx, pod.Namespace)).To(BeEmpty())
	})

	It("waits for its endpoint, and the resource stays ready", func(ctx context.Context) {
		pod, job := newCheckedJob(ctx)
		e := LocalEndpoint(pod.Namespace, "lpar1")
		Patch(ctx, e, `{"spec":{"hold":"IPL until noon"}}`)
		annotate(ctx, job, gate.AnnotationCheckRequestedAt, "1")
		annotate(ctx, job, endpoint.AnnotationRunNow, "1")
		before := Live(ctx, Default, job)
		pod.expectNoRun(ctx, job, e)
		Expect(Live(ctx, Default, job).GetResourceVersion()).To(Equal(before.GetResourceVersion()))
		Patch(ctx, e, MustJSON(map[string]any{"spec": map[string]any{"hold": "", "runWindows": closedWindow}}))
		pod.expectNoRun(ctx, job, e)
		Patch(ctx, e, `{"spec":{"runWindows":null,"maxConcurrentRuns":1}}`)
		pod.Write("hold", "")
		r := pod.Start(before)
		Eventually(pod.checks).Should(Equal(1))
		Expect(StateOf(ctx, e)(Default).Systems[AddressOf(e)].Running).To(ConsistOf(HaveField("Resource", "Job/"+pod.Namespace+"/one")))
		Expect(os.Remove(filepath.Join(pod.Dir, "hold"))).To(Succeed())
		Expect(r.Answer(ctx)).To(Equal("0s"))
		Expect(Live(ctx, Default, job)).To(beDrifted("False", "NoDrift", ""))
		Expect(StateOf(ctx, e)(Default).Systems[AddressOf(e)]).To(Or(BeNil(), HaveField("Running", BeEmpty())))
		Expect(gateRecord(ctx, job).RunNow).To(BeEmpty(), "the next run may start at once")
	})

	It("that loses its connection is made again when the outage is over", func(ctx context.Context) {
		pod, job := newCheckedJob(ctx)
		e := remoteEndpoint(pod.Namespace, "lpar2")
		pod.AddEndpoint(ctx, e)
		Patch(ctx, job, `{"spec":{"zosendpoint":"lpar2"}}`)
		Expect(pod.Reconcile(ctx, job)).To(Equal("done"))
		pod.RealRunner(LostRun)
		annotate(ctx, job, gate.AnnotationCheckRequestedAt, "1")
		Expect(pod.Reconcile(ctx, job)).To(Equal("5m0s"))
		Expect(Live(ctx, Default, job)).To(beDrifted("Unknown", "CheckFailed", "the drift check failed: no route to host"))
		Expect(Field(ctx, job, "status", "phase")(Default)).To(Equal("Succeeded"))
		Expect(StateOf(ctx, e)(Default).Systems[AddressOf(e)].Outage).NotTo(BeNil())
		pod.expectNoRun(ctx, job, e)
		pod.RealRunner(checkable(noDrift))
		ChangeState(ctx, e, func(s *endpoint.State, _ endpoint.Settings) { s.Recover(AddressOf(e), time.Now()) })
		Eventually(ctx, func() int {
			pod.Reconcile(ctx, job)
			return pod.checks()
		}).Should(Equal(1))
		Expect(Live(ctx, Default, job)).To(beDrifted("False", "NoDrift", ""))
	})

	It("that ends while the API server is away is recorded when it is back", func(ctx context.Context) {
		pod, job := newCheckedJob(ctx)
		pod.Write("hold", "")
		annotate(ctx, job, gate.AnnotationCheckRequestedAt, "1")
		r := pod.Start(Live(ctx, Default, job))
		Eventually(pod.checks).Should(Equal(1))
		pod.API.Stop()
		Expect(os.Remove(filepath.Join(pod.Dir, "hold"))).To(Succeed())
		Eventually(ctx, func() string { return pod.Read("output") }).Should(ContainSubstring("the endpoint learns later"))
		pod.API.Resume()
		Expect(r.Answer(ctx)).To(Equal("0s"))
		Expect(pod.checks()).To(Equal(1))
		Expect(Live(ctx, Default, job)).To(beDrifted("False", "NoDrift", ""))
	})
})
