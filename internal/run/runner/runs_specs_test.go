package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("The gate before ansible-runner", func() {
	It("runs a new resource once, and afterwards writes nothing", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1", "title": "a", "pyz": "b"})
		pod.RealRunner(`cp "$2/env/extravars" "$2/env/settings" "$DIR/"; echo "TASK [copy]"; ` + WellDone)
		Expect(pod.Reconcile(ctx, job)).To(Equal("5m0s"), "a Secret may change without an event")
		Expect(pod.Plays()).To(Equal(1))

		By("handing over only what is declared")
		vars := map[string]any{}
		Expect(json.Unmarshal([]byte(pod.Read("extravars")), &vars)).To(Succeed())
		Expect(vars).To(And(HaveKey("title"), HaveKey("zosendpoint"), HaveKey("ansible_operator_meta"), Not(HaveKey("pyz"))))
		Expect(pod.Read("settings")).To(Equal("{}"))

		By("telling what the run did")
		live := Live(ctx, Default, job)
		Expect(live.Object["status"]).To(And(
			HaveKeyWithValue("phase", "Succeeded"),
			HaveKeyWithValue("lastRun", And(HaveKeyWithValue("id", "1001"), HaveKeyWithValue("outcome", "Succeeded"))),
		))
		Expect(pod.Read("output")).To(ContainSubstring(fmt.Sprintf(`"kind":"Job","namespace":%q,"name":"one","run":"1001","line":"TASK [copy]"`, namespace)))
		ExpectHealth(ctx, "resource-succeeded", job)

		By("skipping without a write")
		for range 3 {
			Expect(pod.Start(live).Answer(ctx)).To(Equal("5m0s"))
		}
		Expect(pod.Plays()).To(Equal(1))
		Expect(Live(ctx, Default, job).GetResourceVersion()).To(Equal(live.GetResourceVersion()))
		Expect(filepath.EvalSymlinks(filepath.Join(pod.Dir, pod.Folder("one"), "artifacts/latest"))).To(HaveSuffix("/1001"))

		By("running it again when it changes")
		Patch(ctx, job, `{"spec":{"title":"c"}}`)
		pod.Reconcile(ctx, job)
		Expect(pod.Plays()).To(Equal(2))
	})

	It("answers a stale cache without a run", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1", "title": "a"})
		cached := Live(ctx, Default, job)
		Patch(ctx, job, `{"spec":{"title":"b"}}`)
		pod.RealRunner(WellDone)
		Expect(pod.Start(cached).Answer(ctx)).To(Equal("1s"))
		gone := cached.DeepCopy()
		gone.SetName("gone")
		Expect(pod.Start(gone).Answer(ctx)).To(Equal("10s"))
		Expect(pod.Plays()).To(BeZero())
	})

	It("starts no run while another pod holds the lock, or while it cannot be read", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		cached := Live(ctx, Default, job)
		pod.RealRunner(WellDone)
		pod.API.Stop()
		Expect(pod.Start(cached).Answer(ctx)).To(Equal("10s"))
		pod.API.Resume()
		other := NewPod(ctx, namespace, "operator-2")
		Patch(ctx, gateLease(namespace), fmt.Sprintf(`{"spec":{"holderIdentity":"operator-2_%s"}}`, other.UID))
		Expect(pod.Reconcile(ctx, job)).To(Equal("10s"))
		Expect(pod.Read("output")).To(ContainSubstring("pod operator-2 holds Lease gate-operator and has not ended"))
		Expect(pod.Plays()).To(BeZero())
		Expect(Live(ctx, Default, job).Object).NotTo(HaveKey("status"))

		By("nor while the manager is about to remove the operator, which does not concern another pod")
		identity := pod.PodName + "_" + pod.PodUID
		closing := func(holder string, until time.Time) {
			Patch(ctx, gateLease(namespace), fmt.Sprintf(`{"metadata":{"annotations":{%q:"%s %s"}},"spec":{"holderIdentity":%q}}`,
				"zoscb.ibm.com/no-new-runs", holder, until.UTC().Format(time.RFC3339), identity))
		}
		closing(identity, time.Now().Add(time.Minute))
		Expect(pod.Reconcile(ctx, job)).To(Equal("10s"))
		Expect(pod.Read("output")).To(ContainSubstring("another version takes its place"))
		Expect(pod.Plays()).To(BeZero())
		closing("operator-2_"+string(other.UID), time.Now().Add(time.Minute))
		pod.Reconcile(ctx, job)
		Expect(pod.Plays()).To(Equal(1))
	})

	It("makes the Lease again when somebody has deleted it", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(WellDone)
		Remove(ctx, gateLease(namespace))
		Expect(pod.Reconcile(ctx, job)).To(Equal("5m0s"))
		Expect(pod.Plays()).To(Equal(1))
		lease := gateLease(namespace)
		Get(ctx, Default, lease)
		Expect(lease.Spec.HolderIdentity).To(HaveValue(Equal(pod.PodName + "_" + pod.PodUID)))
	})

	It("records that a run starts before status says so", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(WellDone)
		jobs := &unstructured.UnstructuredList{}
		jobs.SetGroupVersionKind(job.GroupVersionKind())
		changes, err := server.Client.Watch(ctx, jobs, client.InNamespace(namespace))
		Expect(err).NotTo(HaveOccurred())
		defer changes.Stop()
		pod.Reconcile(ctx, job)
		var phases []string
		for !slices.Contains(phases, "Succeeded") {
			changed := (<-changes.ResultChan()).Object.(*unstructured.Unstructured)
			if phase, _, _ := unstructured.NestedString(changed.Object, "status", "phase"); phase != "" {
				Expect(changed.GetAnnotations()).To(HaveKey(gate.AnnotationRecord), phase)
				phases = append(phases, phase)
			}
		}
		Expect(phases).To(ContainElement("Running"))
	})

	It("records an outcome once the API server is back", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(`while [ ! -e $DIR/go ]; do sleep 0.02; done; ` + WellDone)
		r := pod.Start(Live(ctx, Default, job))
		Eventually(pod.Plays).Should(Equal(1))
		pod.API.Stop()
		pod.Write("go", "")
		Eventually(func() string { return pod.Read("output") }).Should(ContainSubstring("the outcome is written later"))
		Expect(Field(ctx, job, "status", "phase")(Default)).To(Equal("Running"))
		ExpectHealth(ctx, "resource-running", job)
		Expect(r.Ended).NotTo(BeClosed())
		pod.API.Resume()
		Expect(r.Answer(ctx)).To(Equal("5m0s"))
		Expect(Field(ctx, job, "status", "phase")(Default)).To(Equal("Succeeded"))
		Expect(pod.Reconcile(ctx, job)).To(Equal("5m0s"))
		Expect(pod.Plays()).To(Equal(1))
	})

	It("does not run a delete play again whose gate was killed at its end", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(WellDone)
		pod.Reconcile(ctx, job)
		Remove(ctx, job)
		pod.RealRunner(`while [ ! -e $DIR/go ]; do sleep 0.02; done; ` + WellDone)
		r := pod.Start(Live(ctx, Default, job))
		Eventually(pod.Plays).Should(Equal(2))
		pod.API.Stop()
		pod.Write("go", "")
		Eventually(func() string { return pod.Read("output") }).Should(ContainSubstring("the outcome is written later"))
		Expect(r.Command.Process.Kill()).To(Succeed())
		Eventually(r.Ended).Should(BeClosed())
		pod.API.Resume()
		Expect(pod.Reconcile(ctx, job)).To(Equal("done"), "the finalizer goes")
		Expect(pod.Reconcile(ctx, job)).To(Equal("done"), "if it could not be removed at first")
		Expect(pod.Plays()).To(Equal(2))
		Expect(os.ReadDir(filepath.Join(pod.Dir, "state/journal"))).To(BeEmpty())
	})

	It("keeps the outcome of a run whose gate was killed before", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(`while [ ! -e $DIR/go ]; do sleep 0.02; done; ` + WellDone)
		r := pod.Start(Live(ctx, Default, job))
		Eventually(pod.Plays).Should(Equal(1))
		Expect(r.Command.Process.Kill()).To(Succeed())
		Eventually(r.Ended).Should(BeClosed())
		Expect(pod.Reconcile(ctx, job)).To(Equal("10s"), "the real runner has not ended")
		pod.Write("go", "")
		Eventually(ctx, func() string { return pod.Reconcile(ctx, job) }).Should(Equal("5m0s"))
		Expect(pod.Plays()).To(Equal(1))
		Expect(Field(ctx, job, "status", "phase")(Default)).To(Equal("Succeeded"))
	})

	It("tries a run again that ended with its pod", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(`echo $$ >$DIR/pid; sleep 1000`)
		r := pod.Start(Live(ctx, Default, job))
		Eventually(func() string { return pod.Read("pid") }).ShouldNot(BeEmpty())
		Expect(r.Command.Process.Kill()).To(Succeed())
		runner, err := strconv.Atoi(strings.TrimSpace(pod.Read("pid")))
		Expect(err).NotTo(HaveOccurred())
		Expect(syscall.Kill(-runner, syscall.SIGKILL)).To(Succeed())
		Eventually(r.Ended).Should(BeClosed())
		for _, volume := range []string{"state", "runs"} {
			Expect(os.RemoveAll(filepath.Join(pod.Dir, volume))).To(Succeed())
		}
		pod.RealRunner(WellDone)
		pod.Reconcile(ctx, job)
		Expect(pod.Plays()).To(Equal(1), "before the retry is due")
		Expect(Field(ctx, job, "status", "lastRun", "outcome")(Default)).To(Equal("Interrupted"))
		pass(ctx, job)
		pod.expectRun(ctx, job)
		Expect(Field(ctx, job, "status", "phase")(Default)).To(Equal("Succeeded"))
	})

	It("ends a run that is cancelled, and lets the resource rest", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(`trap 'report "{\"ended\": \"canceled\"}"; kill $!; exit 1' TERM
report '{"currentTask": {"name": "Copy", "since": "2026-01-02T03:04:05Z"}}'
while [ ! -e $DIR/go ]; do sleep 0.02; done
report '{"currentTask": {"name": "Submit", "since": "2026-01-02T03:04:06Z"}}'
sleep 1000 & wait`)
		r := pod.Start(Live(ctx, Default, job))
		Eventually(ctx, Field(ctx, job, "status", "lastRun", "currentTask", "name")).Should(Equal("Copy"))
		Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"another"}}}`, gate.AnnotationCancel))
		pod.Write("go", "")
		Eventually(ctx, Field(ctx, job, "status", "lastRun", "currentTask", "name")).Should(Equal("Submit"), "it has read the resource since")
		Expect(r.Ended).NotTo(BeClosed())
		Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"1001"}}}`, gate.AnnotationCancel))
		Expect(r.Answer(ctx)).To(Equal("5m0s"))
		Expect(Field(ctx, job, "status", "lastRun", "outcome")(Default)).To(Equal("Cancelled"))
		ExpectHealth(ctx, "resource-cancelled", job)
		Expect(pod.Reconcile(ctx, job)).To(Equal("5m0s"))
		Expect(pod.Plays()).To(Equal(1))
	})

	It("runs a resource that names a resource which cannot exist", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		hostile := "{{ lookup('pipe', 'id') }}/../../secrets"
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1", "follows": hostile})
		pod.RealRunner(WellDone)
		Expect(pod.Reconcile(ctx, job)).To(Equal("5m0s"))
		Expect(pod.Plays()).To(Equal(1))
	})

	It("starts no second run beside one that has not ended", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(`while [ ! -e $DIR/go ]; do sleep 0.02; done; ` + WellDone)
		r := pod.Start(Live(ctx, Default, job))
		Eventually(pod.Plays).Should(Equal(1))
		Expect(pod.Reconcile(ctx, job)).To(Equal("10s"))
		pod.Write("go", "")
		Expect(r.Answer(ctx)).To(Equal("5m0s"))
		Expect(pod.Plays()).To(Equal(1))
	})

	It("reports failures, retries when they are due, and runs when it is asked", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.Settings.RunTimeoutSeconds = 1
		pod.WriteSettings()
		pod.RealRunner(`sleep 1000`)
		pod.expectRetry(ctx, job, 10*time.Second)
		Expect(Field(ctx, job, "status", "lastRun", "outcome")(Default)).To(Equal("TimedOut"))
		ExpectHealth(ctx, "resource-retry", job)
		Expect(gateEvents(ctx, namespace)).To(ConsistOf(ContainSubstring("Warning RunFailed run 1001: TimedOut: the run was ended because it took longer than runTimeout (1s)")))
		pod.Settings.RunTimeoutSeconds = 0
		pod.WriteSettings()
		pod.RealRunner(WellDone)
		pod.Reconcile(ctx, job)
		Expect(pod.Plays()).To(Equal(1), "before the retry is due")
		pass(ctx, job)
		pod.expectRun(ctx, job)
		Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"2026-11-22T10:00:00Z"}}}`, gate.AnnotationRequestedAt))
		Expect(pod.Reconcile(ctx, job)).To(Equal("5m0s"))
		Expect(pod.Plays()).To(Equal(3))
		Expect(gateEvents(ctx, namespace)).To(ContainElement(ContainSubstring("Normal RunRequested")))
		Expect(pod.Reconcile(ctx, job)).To(Equal("5m0s"))
		Expect(pod.Plays()).To(Equal(3))
		Patch(ctx, job, `{"spec":{"title":"b"}}`)
		ExpectHealth(ctx, "resource-changed", job)
	})

	// Specification: Operator Resources, finalizer MAY: is a playbook that runs when a resource is deleted
	It("keeps the finalizer while a delete play fails or asks to run again", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		Remove(ctx, job)
		pod.RealRunner(`exit 1`)
		pod.expectRetry(ctx, job, 10*time.Second)
		Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"1"}}}`, gate.AnnotationRequestedAt))
		pod.RealRunner(`report '{"ended": "successful", "requeueAfter": "1m"}'`)
		pod.expectRetry(ctx, job, time.Minute)
		ExpectHealth(ctx, "resource-deleting", job)
		Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"2"}}}`, gate.AnnotationRequestedAt))
		pod.RealRunner(WellDone)
		Expect(pod.Reconcile(ctx, job)).To(Equal("done"))
	})

	It("runs a playbook whose status the author's schema refuses", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		const group = "strict.example.com"
		MakeJobKindIn(ctx, group)
		crd := JobCRD(group)
		Expect(K8s.Patch(ctx, crd, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/status/properties",
			"value":{"phase":{"type":"string","enum":["Theirs"]}}}]`)))).To(Succeed())
		pod, job := newOperatorPod(ctx, namespace), JobIn(group, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.Settings.Group = group
		pod.WriteSettings()
		Create(ctx, job)
		Eventually(ctx, func() error {
			return K8s.Status().Patch(ctx, job.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`)), client.DryRunAll)
		}).Should(MatchError(apierrors.IsInvalid, "IsInvalid"))
		pod.RealRunner(WellDone)
		Expect(pod.Reconcile(ctx, job)).To(Equal("5m0s"))
		Expect(pod.Plays()).To(Equal(1))
		Expect(pod.Reconcile(ctx, job)).To(Equal("5m0s"))
		Expect(pod.Plays()).To(Equal(1), "the record is enough")
	})

	It("ignores a forged record", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		other := NewJob(ctx, namespace, "two", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(WellDone)
		pod.Reconcile(ctx, job)
		record := Live(ctx, Default, job).GetAnnotations()[gate.AnnotationRecord]
		Expect(record).NotTo(BeEmpty())
		Patch(ctx, other, MustJSON(map[string]any{"metadata": map[string]any{"annotations": map[string]any{gate.AnnotationRecord: record}}}))
		pod.expectRun(ctx, other)
		Expect(gateRecord(ctx, other).RunID).To(Equal("1002"), "it has a record of its own")
		Expect(pod.Reconcile(ctx, other)).To(Equal("5m0s"))
		Expect(pod.Plays()).To(Equal(2))
	})

	It("ignores an older record of the same resource", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1", "title": "a"})
		pod.RealRunner(WellDone)
		pod.Reconcile(ctx, job)
		older := Live(ctx, Default, job)
		Patch(ctx, job, `{"spec":{"title":"b"}}`)
		pod.Reconcile(ctx, job)
		Expect(pod.Plays()).To(Equal(2))
		Patch(ctx, job, MustJSON(map[string]any{
			"spec":     map[string]any{"title": "a"},
			"metadata": map[string]any{"annotations": map[string]any{gate.AnnotationRecord: older.GetAnnotations()[gate.AnnotationRecord]}},
		}))
		pod.Reconcile(ctx, job)
		Expect(pod.Plays()).To(Equal(3), "title a is not what the last run wrote")
	})

	It("runs a resource that was deleted and created again from its manifest", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(WellDone)
		pod.Reconcile(ctx, job)
		exported := Live(ctx, Default, job)
		Remove(ctx, job)
		Expect(pod.Reconcile(ctx, job)).To(Equal("done"))
		Patch(ctx, job, `{"metadata":{"finalizers":null}}`)
		Eventually(ctx, Gone(ctx, job)).Should(BeTrue())
		again := NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		Patch(ctx, again, MustJSON(map[string]any{"metadata": map[string]any{"annotations": exported.GetAnnotations()}}))
		pod.Reconcile(ctx, again)
		Expect(pod.Plays()).To(Equal(3))

		By("but not one that was restored with its installation")
		Expect(K8s.Delete(ctx, gateLease(namespace))).To(Succeed())
		restored := Live(ctx, Default, again)
		Patch(ctx, again, `{"metadata":{"finalizers":null}}`)
		Remove(ctx, again)
		Eventually(ctx, Gone(ctx, again)).Should(BeTrue())
		again = NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		Patch(ctx, again, MustJSON(map[string]any{"metadata": map[string]any{"annotations": restored.GetAnnotations()}}))
		pod.Reconcile(ctx, again)
		Expect(pod.Plays()).To(Equal(3))
		Expect(Field(ctx, again, "status", "phase")(Default)).To(Equal("Succeeded"))
	})

	It("removes the run folders of deleted resources, and old artifacts", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1", "title": "0"})
		NewJob(ctx, namespace, "two", map[string]any{"zosendpoint": "lpar1"})
		for _, name := range []string{"two", "gone"} {
			pod.Write(pod.Folder(name)+"/env/extravars", "{}")
		}
		pod.RealRunner(WellDone)
		Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"2"}}}`, gate.AnnotationMaxArtifacts))
		for i := range 4 {
			Patch(ctx, job, fmt.Sprintf(`{"spec":{"title":"%d"}}`, i+1))
			pod.Reconcile(ctx, job)
		}
		Expect(filepath.Glob(filepath.Join(pod.Dir, pod.Folder("*")))).To(ConsistOf(HaveSuffix("/one"), HaveSuffix("/two")))
		Expect(filepath.Glob(filepath.Join(pod.Dir, pod.Folder("one"), "artifacts/*"))).To(ConsistOf(HaveSuffix("/1003"), HaveSuffix("/1004"), HaveSuffix("/latest")))
	})
})

var _ = Describe("The gate of an operator that takes over a kind", func() {
	It("runs nothing for a resource whose last run was the former operator's, successful or not", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		former := newOperatorPod(ctx, namespace)
		former.Settings.MaxRetries = 0
		former.WriteSettings()
		done := NewJob(ctx, namespace, "done", map[string]any{"zosendpoint": "lpar1"})
		failed := NewJob(ctx, namespace, "failed", map[string]any{"zosendpoint": "lpar1"})
		former.RealRunner(WellDone)
		former.Reconcile(ctx, done)
		former.RealRunner(`report '{"ended": "failed", "host": "lpar1", "tasks": {"ok": 0, "changed": 0, "failed": 1, "unreachable": 0, "skipped": 0}}'; exit 2`)
		former.Reconcile(ctx, failed)
		Expect(former.Plays()).To(Equal(2))

		next := newPodOfOperator(ctx, namespace, "next-operator", "next-1")
		next.AddEndpoint(ctx, LocalEndpoint(namespace, "lpar1"))
		next.Settings.MaxRetries, next.Settings.Version, next.Settings.Digest = 0, "2.0.0", "sha256:2"
		next.WriteSettings()
		next.RealRunner(WellDone)
		next.Reconcile(ctx, done)
		next.Reconcile(ctx, failed)
		Expect(next.Plays()).To(BeZero())
		Expect(Field(ctx, failed, "status", "phase")(Default)).To(Equal("Failed"))
	})
})
