package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/gate"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("The gate before ansible-runner", Ordered, func() {
	BeforeAll(makeGateKind)

	It("runs a new resource once, and afterwards writes nothing", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), newJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1", "title": "a", "pyz": "b"})
		pod.realRunner(`cp "$2/env/extravars" "$2/env/settings" "$DIR/"; echo "TASK [copy]"; ` + wellDone)
		Expect(pod.reconcile(ctx, job)).To(Equal("5m0s"), "a Secret may change without an event")
		Expect(pod.plays()).To(Equal(1))

		By("handing over only what is declared")
		vars := map[string]any{}
		Expect(json.Unmarshal([]byte(pod.read("extravars")), &vars)).To(Succeed())
		Expect(vars).To(And(HaveKey("title"), HaveKey("zosendpoint"), HaveKey("ansible_operator_meta"), Not(HaveKey("pyz"))))
		Expect(pod.read("settings")).To(Equal("{}"))

		By("telling what the run did")
		live := Live(ctx, NewWithT(GinkgoT()), job)
		Expect(live.Object["status"]).To(And(
			HaveKeyWithValue("phase", "Succeeded"),
			HaveKeyWithValue("lastRun", And(HaveKeyWithValue("id", "1001"), HaveKeyWithValue("outcome", "Succeeded"))),
		))
		Expect(pod.read("output")).To(ContainSubstring(fmt.Sprintf(`"kind":"Job","namespace":%q,"name":"one","run":"1001","line":"TASK [copy]"`, namespace)))
		expectHealth(ctx, "resource-succeeded", job)

		By("skipping without a write")
		var times, processor []time.Duration
		for range 20 {
			r := pod.start(live)
			Expect(r.answer(ctx)).To(Equal("5m0s"))
			times = append(times, r.took)
			processor = append(processor, r.command.ProcessState.UserTime()+r.command.ProcessState.SystemTime())
		}
		slices.Sort(times)
		slices.Sort(processor)
		AddReportEntry("a skip takes", fmt.Sprintf("median %s, longest %s; processor time %s", times[10], times[19], processor[10]), ReportEntryVisibilityAlways)
		Expect(pod.plays()).To(Equal(1))
		Expect(Live(ctx, NewWithT(GinkgoT()), job).GetResourceVersion()).To(Equal(live.GetResourceVersion()))
		Expect(filepath.EvalSymlinks(filepath.Join(pod.dir, pod.folder("one"), "artifacts/latest"))).To(HaveSuffix("/1001"))

		By("running it again when it changes")
		Patch(ctx, job, `{"spec":{"title":"c"}}`)
		pod.reconcile(ctx, job)
		Expect(pod.plays()).To(Equal(2))
	}, NodeTimeout(2*time.Minute))

	It("answers a stale cache without a run", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), newJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1", "title": "a"})
		cached := Live(ctx, NewWithT(GinkgoT()), job)
		Patch(ctx, job, `{"spec":{"title":"b"}}`)
		pod.realRunner(wellDone)
		Expect(pod.start(cached).answer(ctx)).To(Equal("1s"))
		gone := cached.DeepCopy()
		gone.SetName("gone")
		Expect(pod.start(gone).answer(ctx)).To(Equal("10s"))
		Expect(pod.plays()).To(BeZero())
	}, NodeTimeout(time.Minute))

	It("starts no run while another pod holds the lock, or while it cannot be read", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), newJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		cached := Live(ctx, NewWithT(GinkgoT()), job)
		pod.realRunner(wellDone)
		pod.api.stop()
		Expect(pod.start(cached).answer(ctx)).To(Equal("10s"))
		pod.api.resume()
		other := newPod(ctx, namespace, "operator-2")
		Patch(ctx, gateLease(namespace), fmt.Sprintf(`{"spec":{"holderIdentity":"operator-2_%s"}}`, other.UID))
		Expect(pod.reconcile(ctx, job)).To(Equal("10s"))
		Expect(pod.read("output")).To(ContainSubstring("pod operator-2 holds Lease gate-operator and has not ended"))
		Expect(pod.plays()).To(BeZero())
		Expect(Live(ctx, NewWithT(GinkgoT()), job).Object).NotTo(HaveKey("status"))

		By("nor while the manager is about to remove the operator, which does not concern another pod")
		identity := pod.podName + "_" + pod.podUID
		closing := func(holder string, until time.Time) {
			Patch(ctx, gateLease(namespace), fmt.Sprintf(`{"metadata":{"annotations":{%q:"%s %s"}},"spec":{"holderIdentity":%q}}`,
				noNewRuns, holder, until.UTC().Format(time.RFC3339), identity))
		}
		closing(identity, time.Now().Add(time.Minute))
		Expect(pod.reconcile(ctx, job)).To(Equal("10s"))
		Expect(pod.read("output")).To(ContainSubstring("another version takes its place"))
		Expect(pod.plays()).To(BeZero())
		closing("operator-2_"+string(other.UID), time.Now().Add(time.Minute))
		pod.reconcile(ctx, job)
		Expect(pod.plays()).To(Equal(1))
	}, NodeTimeout(time.Minute))

	It("makes the Lease again when somebody has deleted it", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), newJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.realRunner(wellDone)
		Remove(ctx, gateLease(namespace))
		Expect(pod.reconcile(ctx, job)).To(Equal("5m0s"))
		Expect(pod.plays()).To(Equal(1))
		lease := gateLease(namespace)
		Get(ctx, NewWithT(GinkgoT()), lease)
		Expect(lease.Spec.HolderIdentity).To(HaveValue(Equal(pod.podName + "_" + pod.podUID)))
	}, NodeTimeout(time.Minute))

	It("records an outcome once the API server is back", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), newJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.realRunner(`while [ ! -e $DIR/go ]; do sleep 0.1; done; ` + wellDone)
		r := pod.start(Live(ctx, NewWithT(GinkgoT()), job))
		Eventually(pod.plays).Should(Equal(1))
		pod.api.stop()
		pod.write("go", "")
		Eventually(func() string { return pod.read("output") }).Should(ContainSubstring("the outcome is written later"))
		Expect(Field(ctx, job, "status", "phase")(NewWithT(GinkgoT()))).To(Equal("Running"))
		expectHealth(ctx, "resource-running", job)
		Expect(r.ended).NotTo(BeClosed())
		pod.api.resume()
		Expect(r.answer(ctx)).To(Equal("5m0s"))
		Expect(Field(ctx, job, "status", "phase")(NewWithT(GinkgoT()))).To(Equal("Succeeded"))
		Expect(pod.reconcile(ctx, job)).To(Equal("5m0s"))
		Expect(pod.plays()).To(Equal(1))
	}, NodeTimeout(2*time.Minute))

	It("does not run a delete play again whose gate was killed at its end", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), newJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.realRunner(wellDone)
		pod.reconcile(ctx, job)
		Remove(ctx, job)
		pod.realRunner(`while [ ! -e $DIR/go ]; do sleep 0.1; done; ` + wellDone)
		r := pod.start(Live(ctx, NewWithT(GinkgoT()), job))
		Eventually(pod.plays).Should(Equal(2))
		pod.api.stop()
		pod.write("go", "")
		Eventually(func() string { return pod.read("output") }).Should(ContainSubstring("the outcome is written later"))
		Expect(r.command.Process.Kill()).To(Succeed())
		Eventually(r.ended).Should(BeClosed())
		pod.api.resume()
		Expect(pod.reconcile(ctx, job)).To(Equal("done"), "the finalizer goes")
		Expect(pod.reconcile(ctx, job)).To(Equal("done"), "if it could not be removed at first")
		Expect(pod.plays()).To(Equal(2))
		Expect(os.ReadDir(filepath.Join(pod.dir, "state/journal"))).To(BeEmpty())
	}, NodeTimeout(2*time.Minute))

	It("keeps the outcome of a run whose gate was killed before", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), newJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.realRunner(`while [ ! -e $DIR/go ]; do sleep 0.1; done; ` + wellDone)
		r := pod.start(Live(ctx, NewWithT(GinkgoT()), job))
		Eventually(pod.plays).Should(Equal(1))
		Expect(r.command.Process.Kill()).To(Succeed())
		Eventually(r.ended).Should(BeClosed())
		Expect(pod.reconcile(ctx, job)).To(Equal("10s"), "the real runner has not ended")
		pod.write("go", "")
		Eventually(func() string { return pod.reconcile(ctx, job) }).WithContext(ctx).Should(Equal("5m0s"))
		Expect(pod.plays()).To(Equal(1))
		Expect(Field(ctx, job, "status", "phase")(NewWithT(GinkgoT()))).To(Equal("Succeeded"))
	}, NodeTimeout(time.Minute))

	It("tries a run again that ended with its pod", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), newJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.realRunner(`echo $$ >$DIR/pid; sleep 1000`)
		r := pod.start(Live(ctx, NewWithT(GinkgoT()), job))
		Eventually(func() string { return pod.read("pid") }).ShouldNot(BeEmpty())
		Expect(r.command.Process.Kill()).To(Succeed())
		runner, err := strconv.Atoi(strings.TrimSpace(pod.read("pid")))
		Expect(err).NotTo(HaveOccurred())
		Expect(syscall.Kill(-runner, syscall.SIGKILL)).To(Succeed())
		Eventually(r.ended).Should(BeClosed())
		for _, volume := range []string{"state", "runs"} {
			Expect(os.RemoveAll(filepath.Join(pod.dir, volume))).To(Succeed())
		}
		pod.realRunner(wellDone)
		pod.reconcile(ctx, job)
		Expect(pod.plays()).To(Equal(1), "before the retry is due")
		Expect(Field(ctx, job, "status", "lastRun", "outcome")(NewWithT(GinkgoT()))).To(Equal("Interrupted"))
		Eventually(func() int {
			pod.reconcile(ctx, job)
			return pod.plays()
		}).WithContext(ctx).WithPolling(time.Second).Should(Equal(2))
		Expect(Field(ctx, job, "status", "phase")(NewWithT(GinkgoT()))).To(Equal("Succeeded"))
	}, NodeTimeout(2*time.Minute))

	It("ends a run that is cancelled, and lets the resource rest", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), newJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.realRunner(`trap 'report "{\"ended\": \"canceled\"}"; kill $!; exit 1' TERM; report '{"currentTask": {"name": "Copy", "since": "2026-01-02T03:04:05Z"}}'; sleep 1000 & wait`)
		r := pod.start(Live(ctx, NewWithT(GinkgoT()), job))
		Eventually(Field(ctx, job, "status", "lastRun", "currentTask", "name")).WithContext(ctx).Should(Equal("Copy"))
		Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"another"}}}`, gate.AnnotationCancel))
		Consistently(r.ended).WithTimeout(6 * time.Second).ShouldNot(BeClosed())
		Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"1001"}}}`, gate.AnnotationCancel))
		Expect(r.answer(ctx)).To(Equal("5m0s"))
		Expect(Field(ctx, job, "status", "lastRun", "outcome")(NewWithT(GinkgoT()))).To(Equal("Cancelled"))
		expectHealth(ctx, "resource-cancelled", job)
		Expect(pod.reconcile(ctx, job)).To(Equal("5m0s"))
		Expect(pod.plays()).To(Equal(1))
	}, NodeTimeout(2*time.Minute))

	It("runs a resource that names a resource which cannot exist", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		hostile := "{{ lookup('pipe', 'id') }}/../../secrets"
		pod, job := newOperatorPod(ctx, namespace), newJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1", "follows": hostile})
		pod.realRunner(wellDone)
		Expect(pod.reconcile(ctx, job)).To(Equal("5m0s"))
		Expect(pod.plays()).To(Equal(1))
	}, NodeTimeout(time.Minute))

	It("starts no second run beside one that has not ended", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), newJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.realRunner(`while [ ! -e $DIR/go ]; do sleep 0.1; done; ` + wellDone)
		r := pod.start(Live(ctx, NewWithT(GinkgoT()), job))
		Eventually(pod.plays).Should(Equal(1))
		Expect(pod.reconcile(ctx, job)).To(Equal("10s"))
		pod.write("go", "")
		Expect(r.answer(ctx)).To(Equal("5m0s"))
		Expect(pod.plays()).To(Equal(1))
	}, NodeTimeout(time.Minute))

	It("reports failures, retries when they are due, and runs when it is asked", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), newJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.settings.RunTimeoutSeconds = 1
		pod.writeSettings()
		pod.realRunner(`sleep 1000`)
		Expect(pod.reconcile(ctx, job)).To(about(10 * time.Second))
		Expect(Field(ctx, job, "status", "lastRun", "outcome")(NewWithT(GinkgoT()))).To(Equal("TimedOut"))
		expectHealth(ctx, "resource-retry", job)
		Expect(gateEvents(ctx, namespace)).To(ConsistOf(ContainSubstring("Warning RunFailed run 1001: TimedOut: the run was ended because it took longer than runTimeout (1s)")))
		pod.settings.RunTimeoutSeconds = 0
		pod.writeSettings()
		pod.realRunner(wellDone)
		pod.reconcile(ctx, job)
		Expect(pod.plays()).To(Equal(1), "before the retry is due")
		Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"2026-11-22T10:00:00Z"}}}`, gate.AnnotationRequestedAt))
		Expect(pod.reconcile(ctx, job)).To(Equal("5m0s"))
		Expect(pod.plays()).To(Equal(2))
		Expect(gateEvents(ctx, namespace)).To(ContainElement(ContainSubstring("Normal RunRequested")))
		Expect(pod.reconcile(ctx, job)).To(Equal("5m0s"))
		Expect(pod.plays()).To(Equal(2))
		Patch(ctx, job, `{"spec":{"title":"b"}}`)
		expectHealth(ctx, "resource-changed", job)
	}, NodeTimeout(time.Minute))

	// Specification: Operator Resources, finalizer MAY: is a playbook that runs when a resource is deleted
	It("keeps the finalizer while a delete play fails or asks to run again", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), newJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		Remove(ctx, job)
		pod.realRunner(`exit 1`)
		Expect(pod.reconcile(ctx, job)).To(about(10 * time.Second))
		Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"1"}}}`, gate.AnnotationRequestedAt))
		pod.realRunner(`report '{"ended": "successful", "requeueAfter": "1m"}'`)
		Expect(pod.reconcile(ctx, job)).To(about(time.Minute))
		expectHealth(ctx, "resource-deleting", job)
		Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"2"}}}`, gate.AnnotationRequestedAt))
		pod.realRunner(wellDone)
		Expect(pod.reconcile(ctx, job)).To(Equal("done"))
	}, NodeTimeout(time.Minute))

	It("runs a playbook whose status the author's schema refuses", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), newJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		schemaOfStatus := func(ctx context.Context, properties string) {
			crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "jobs." + gateGroup}}
			Expect(K8s.Patch(ctx, crd, client.RawPatch(types.JSONPatchType, []byte(fmt.Sprintf(
				`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/status/properties","value":%s}]`, properties))))).To(Succeed())
		}
		schemaOfStatus(ctx, `{"phase":{"type":"string","enum":["Theirs"]}}`)
		DeferCleanup(schemaOfStatus, `{}`)
		Eventually(func() error {
			return K8s.Status().Patch(ctx, job.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`)), client.DryRunAll)
		}).WithContext(ctx).Should(MatchError(apierrors.IsInvalid, "IsInvalid"))
		pod.realRunner(wellDone)
		Expect(pod.reconcile(ctx, job)).To(Equal("5m0s"))
		Expect(pod.plays()).To(Equal(1))
		Expect(pod.reconcile(ctx, job)).To(Equal("5m0s"))
		Expect(pod.plays()).To(Equal(1), "the record is enough")
	}, NodeTimeout(time.Minute))

	It("ignores a forged record", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), newJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		other := newJob(ctx, namespace, "two", map[string]any{"zosendpoint": "lpar1"})
		pod.realRunner(wellDone)
		pod.reconcile(ctx, job)
		record := Live(ctx, NewWithT(GinkgoT()), job).GetAnnotations()[gate.AnnotationRecord]
		Expect(record).NotTo(BeEmpty())
		Patch(ctx, other, MustJSON(map[string]any{"metadata": map[string]any{"annotations": map[string]any{gate.AnnotationRecord: record}}}))
		pod.reconcile(ctx, other)
		Expect(pod.plays()).To(Equal(2))
	}, NodeTimeout(time.Minute))

	It("ignores an older record of the same resource", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), newJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1", "title": "a"})
		pod.realRunner(wellDone)
		pod.reconcile(ctx, job)
		older := Live(ctx, NewWithT(GinkgoT()), job)
		second := time.Now().Unix()
		Eventually(func() int64 { return time.Now().Unix() }).Should(BeNumerically(">", second), "times in status have seconds")
		Patch(ctx, job, `{"spec":{"title":"b"}}`)
		pod.reconcile(ctx, job)
		Expect(pod.plays()).To(Equal(2))
		Patch(ctx, job, MustJSON(map[string]any{
			"spec":     map[string]any{"title": "a"},
			"metadata": map[string]any{"annotations": map[string]any{gate.AnnotationRecord: older.GetAnnotations()[gate.AnnotationRecord]}},
		}))
		pod.reconcile(ctx, job)
		Expect(pod.plays()).To(Equal(3), "title a is not what the last run wrote")
	}, NodeTimeout(time.Minute))

	It("runs a resource that was deleted and created again from its manifest", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), newJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.realRunner(wellDone)
		pod.reconcile(ctx, job)
		exported := Live(ctx, NewWithT(GinkgoT()), job)
		Remove(ctx, job)
		Expect(pod.reconcile(ctx, job)).To(Equal("done"))
		Patch(ctx, job, `{"metadata":{"finalizers":null}}`)
		Eventually(Gone(ctx, job)).WithContext(ctx).Should(BeTrue())
		again := newJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		Patch(ctx, again, MustJSON(map[string]any{"metadata": map[string]any{"annotations": exported.GetAnnotations()}}))
		pod.reconcile(ctx, again)
		Expect(pod.plays()).To(Equal(3))

		By("but not one that was restored with its installation")
		Expect(K8s.Delete(ctx, gateLease(namespace))).To(Succeed())
		restored := Live(ctx, NewWithT(GinkgoT()), again)
		Patch(ctx, again, `{"metadata":{"finalizers":null}}`)
		Remove(ctx, again)
		Eventually(Gone(ctx, again)).WithContext(ctx).Should(BeTrue())
		again = newJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		Patch(ctx, again, MustJSON(map[string]any{"metadata": map[string]any{"annotations": restored.GetAnnotations()}}))
		pod.reconcile(ctx, again)
		Expect(pod.plays()).To(Equal(3))
		Expect(Field(ctx, again, "status", "phase")(NewWithT(GinkgoT()))).To(Equal("Succeeded"))
	}, NodeTimeout(time.Minute))

	It("removes the run folders of deleted resources, and old artifacts", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), newJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1", "title": "0"})
		newJob(ctx, namespace, "two", map[string]any{"zosendpoint": "lpar1"})
		for _, name := range []string{"two", "gone"} {
			pod.write(pod.folder(name)+"/env/extravars", "{}")
		}
		pod.realRunner(wellDone)
		Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"2"}}}`, gate.AnnotationMaxArtifacts))
		for i := range 4 {
			Patch(ctx, job, fmt.Sprintf(`{"spec":{"title":"%d"}}`, i+1))
			pod.reconcile(ctx, job)
		}
		Expect(filepath.Glob(filepath.Join(pod.dir, pod.folder("*")))).To(ConsistOf(HaveSuffix("/one"), HaveSuffix("/two")))
		Expect(filepath.Glob(filepath.Join(pod.dir, pod.folder("one"), "artifacts/*"))).To(ConsistOf(HaveSuffix("/1003"), HaveSuffix("/1004"), HaveSuffix("/latest")))
	}, NodeTimeout(time.Minute))
})

var _ = Describe("The lock of an operator's pod", func() {
	It("is taken over when the holder's pod has ended, and not before", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newOperatorPod(ctx, namespace)
		pod.lock(ctx).expectTaken(ctx)

		By("waiting for the pod that holds it")
		other := newPod(ctx, namespace, "operator-2")
		setHolder(ctx, namespace, coordinationv1.LeaseSpec{HolderIdentity: ptr.To("operator-2_" + string(other.UID))})
		waiting := pod.lock(ctx)
		waiting.expectWaiting(ctx)
		pod.api.stop()
		Consistently(waiting.ended).WithTimeout(3 * time.Second).ShouldNot(BeClosed())
		pod.api.resume()
		waiting.expectWaiting(ctx)
		other.Status.Phase = corev1.PodFailed
		Expect(K8s.Status().Update(ctx, other)).To(Succeed())
		ended := time.Now()
		waiting.expectTaken(ctx)
		AddReportEntry("seconds until the lock of a pod that ended is taken over", time.Since(ended).Seconds())
		lease := gateLease(namespace)
		Get(ctx, NewWithT(GinkgoT()), lease)
		Expect(lease.Spec.HolderIdentity).To(HaveValue(Equal(pod.podName + "_" + pod.podUID)))
	}, NodeTimeout(2*time.Minute))

	It("is not taken by a pod that is deleted, whose SIGTERM may have come before anything handled it", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newOperatorPod(ctx, namespace)
		object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod.podName}}
		setHolder(ctx, namespace, coordinationv1.LeaseSpec{})
		Patch(ctx, object, `{"metadata":{"finalizers":["example.com/stay"]}}`)
		DeferCleanup(func(ctx context.Context) { _ = TryPatch(ctx, object, `{"metadata":{"finalizers":null}}`) })
		Expect(K8s.Delete(ctx, object)).To(Succeed())
		l := pod.lock(ctx)
		Eventually(l.ended).WithContext(ctx).Should(BeClosed())
		Expect(l.file).NotTo(BeAnExistingFile())
		lease := gateLease(namespace)
		Get(ctx, NewWithT(GinkgoT()), lease)
		Expect(lease.Spec.HolderIdentity).To(BeNil())
	}, NodeTimeout(time.Minute))

	It("ends by SIGTERM when it has just taken the lock", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newOperatorPod(ctx, namespace)
		for range 20 {
			setHolder(ctx, namespace, coordinationv1.LeaseSpec{})
			l := pod.lockFor(ctx, "exec sleep 1000")
			Eventually(func(g Gomega) {
				lease := gateLease(namespace)
				Get(ctx, g, lease)
				g.Expect(lease.Spec.HolderIdentity).NotTo(BeNil())
			}).WithContext(ctx).WithPolling(time.Millisecond / 10).Should(Succeed())
			Expect(l.process.Signal(syscall.SIGTERM)).To(Succeed())
			Eventually(l.ended).WithContext(ctx).WithTimeout(10 * time.Second).Should(BeClosed())
		}
	}, NodeTimeout(3*time.Minute))

	DescribeTable("holders", func(ctx context.Context, holder func(other *corev1.Pod) coordinationv1.LeaseSpec, live bool) {
		namespace := newNamespace(ctx)
		pod, other := newOperatorPod(ctx, namespace), newPod(ctx, namespace, "operator-2")
		setHolder(ctx, namespace, holder(other))
		l := pod.lock(ctx)
		if live {
			l.expectWaiting(ctx)
			Expect(K8s.Delete(ctx, other, client.GracePeriodSeconds(0))).To(Succeed())
		}
		l.expectTaken(ctx)
	},
		Entry("no holder", func(*corev1.Pod) coordinationv1.LeaseSpec { return coordinationv1.LeaseSpec{} }, false, NodeTimeout(time.Minute)),
		Entry("a pod that does not exist", func(*corev1.Pod) coordinationv1.LeaseSpec {
			return coordinationv1.LeaseSpec{HolderIdentity: ptr.To("operator-3_x")}
		}, false, NodeTimeout(time.Minute)),
		Entry("an earlier pod of the same name", func(*corev1.Pod) coordinationv1.LeaseSpec {
			return coordinationv1.LeaseSpec{HolderIdentity: ptr.To("operator-2_x")}
		}, false, NodeTimeout(time.Minute)),
		Entry("a pod that exists", func(other *corev1.Pod) coordinationv1.LeaseSpec {
			return coordinationv1.LeaseSpec{HolderIdentity: ptr.To("operator-2_" + string(other.UID))}
		}, true, NodeTimeout(time.Minute)),
		Entry("a pod of an earlier version, whose time is over", func(*corev1.Pod) coordinationv1.LeaseSpec {
			return coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("operator-2_x"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NewMicroTime(time.Now().Add(-time.Hour))),
			}
		}, true, NodeTimeout(time.Minute)),
	)
})

func gateLease(namespace string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: gateOperator}}
}

func setHolder(ctx context.Context, namespace string, spec coordinationv1.LeaseSpec) {
	GinkgoHelper()
	lease := gateLease(namespace)
	Get(ctx, NewWithT(GinkgoT()), lease)
	lease.Spec = spec
	Expect(K8s.Update(ctx, lease)).To(Succeed())
}

// gateEvents returns the Kubernetes Events of the gate as type, reason and message.
func gateEvents(ctx context.Context, namespace string) []string {
	GinkgoHelper()
	var texts []string
	for _, object := range listObjects(ctx, &corev1.EventList{}, client.InNamespace(namespace)) {
		if event := object.(*corev1.Event); event.InvolvedObject.Kind == gateKind {
			texts = append(texts, strings.Join([]string{event.Type, event.Reason, event.Message}, " "))
		}
	}
	return texts
}

// lockProcess is `engine lock` and a command after it, which writes a file.
type lockProcess struct {
	address, file string
	process       *os.Process
	ended         chan struct{}
}

func (p *operatorPod) lock(ctx context.Context) *lockProcess {
	GinkgoHelper()
	return p.lockFor(ctx, "true")
}

// lockFor runs `engine lock` and then a command as the entrypoint does; the command also runs a script.
func (p *operatorPod) lockFor(_ context.Context, script string) *lockProcess {
	GinkgoHelper()
	l := &lockProcess{address: freeAddress(), file: filepath.Join(p.dir, "locked"), ended: make(chan struct{})}
	_ = os.Remove(l.file)
	command := exec.Command("/bin/sh", "-c", `"$0" lock && exec "$@"`, engineBinary(), "/bin/sh", "-c", "echo $$ >"+l.file+"; "+script)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Env = append(p.environment(), "ZOSCB_PROBE_PORT="+l.address[strings.LastIndex(l.address, ":")+1:])
	command.Stdout, command.Stderr = GinkgoWriter, GinkgoWriter
	Expect(command.Start()).To(Succeed())
	l.process = command.Process
	go func() {
		_ = command.Wait()
		close(l.ended)
	}()
	DeferCleanup(func() { _ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) })
	return l
}

func (l *lockProcess) expectTaken(ctx context.Context) {
	GinkgoHelper()
	Eventually(l.ended).WithContext(ctx).Should(BeClosed())
	Expect(l.file).To(BeAnExistingFile())
}

func (l *lockProcess) expectWaiting(ctx context.Context) {
	GinkgoHelper()
	probe := func(path string) func() (int, error) {
		return func() (int, error) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.address+path, nil)
			if err != nil {
				return 0, err
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return 0, err
			}
			return response.StatusCode, response.Body.Close()
		}
	}
	Eventually(probe("/healthz")).WithContext(ctx).Should(Equal(http.StatusOK))
	Consistently(probe("/readyz")).WithTimeout(3 * time.Second).Should(Equal(http.StatusServiceUnavailable))
	Expect(l.ended).NotTo(BeClosed())
}
