package runner_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("What keeps a run from starting", func() {
	It("stands in the resource", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(WellDone)
		settings := pod.Read("runtime/" + gate.SettingsFile)
		for _, test := range []struct{ file, content, good, message string }{
			{"runtime/" + gate.SettingsFile, "{", settings, "no run can start: decode runs.json: unexpected end of JSON input: if it stays so, see the log of the operator's pod"},
			{"runtime/" + gate.SettingsFile, strings.ReplaceAll(settings, `"Job"`, `"Queue"`), settings, `kind "Job" is not in runs.json`},
			{"endpoints/" + gate.RecordKeyFile, "short", strings.Repeat("k", gate.RecordKeyBytes), "record.key has 5 bytes instead of 32"},
			{"endpoints/lpar1_vars.yaml", "{", `{"ansible_connection": "local"}`, "variables of endpoint lpar1: unexpected end of JSON input"},
		} {
			pod.Write(test.file, test.content)
			Expect(pod.Reconcile(ctx, job)).To(Equal("10s"))
			expectWaiting(ctx, job, "CannotStart", test.message)
			version := Live(ctx, Default, job).GetResourceVersion()
			Expect(pod.Reconcile(ctx, job)).To(Equal("10s"))
			Expect(Live(ctx, Default, job).GetResourceVersion()).To(Equal(version), "nothing is new")
			pod.Write(test.file, test.good)
		}
		Expect(pod.Plays()).To(BeZero())
		pod.expectRun(ctx, job)
	})

	It("is not shown while a run is in progress", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(untilGo)
		call := pod.Start(Live(ctx, Default, job))
		Eventually(pod.Plays).Should(Equal(1))
		settings := pod.Read("runtime/" + gate.SettingsFile)
		pod.Write("runtime/"+gate.SettingsFile, "{")
		Expect(pod.Reconcile(ctx, job)).To(Equal("10s"))
		Expect(Field(ctx, job, "status", "phase")(Default)).To(Equal("Running"))
		pod.Write("runtime/"+gate.SettingsFile, settings)
		pod.Write("go", "")
		Expect(call.Answer(ctx)).To(Equal("5m0s"))
	})

	It("is not shown before it has lasted, nor by a pod that is replaced", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(WellDone)
		pod.expectRun(ctx, job)
		succeeded := Live(ctx, Default, job).GetResourceVersion()
		expectNothing := func() {
			GinkgoHelper()
			Expect(pod.Reconcile(ctx, job)).To(Equal("10s"))
			Expect(Live(ctx, Default, job).GetResourceVersion()).To(Equal(succeeded))
		}
		file := "endpoints/" + gate.RecordKeyFile
		pod.Write(file, "short")
		pod.hideWaits(true)
		expectNothing()
		pod.Write(file, strings.Repeat("k", gate.RecordKeyBytes))
		pod.Write("endpoints/lpar1_vars.yaml", "{")
		annotate(ctx, job, gate.AnnotationRequestedAt, "now")
		succeeded = Live(ctx, Default, job).GetResourceVersion()
		expectNothing()
		pod.Write(file, "short")
		pod.hideWaits(false)
		uid := pod.PodUID
		pod.PodUID = "another"
		expectNothing()
		pod.PodUID = uid
		Expect(pod.Reconcile(ctx, job)).To(Equal("10s"))
		expectWaiting(ctx, job, "CannotStart", "record.key has 5 bytes")
	})

	It("starts no run of what was successful when the key of records is lost", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(WellDone)
		pod.expectRun(ctx, job)
		pod.Write("endpoints/"+gate.RecordKeyFile, "")
		pod.Reconcile(ctx, job)
		expectWaiting(ctx, job, "CannotStart", "record.key has 0 bytes")
		pod.Write("endpoints/"+gate.RecordKeyFile, strings.Repeat("n", gate.RecordKeyBytes))
		pod.Reconcile(ctx, job)
		Expect(pod.Plays()).To(Equal(1))
		Expect(Condition(ctx, job, "Ready")(Default)).To(ConditionTrue())
		Patch(ctx, job, `{"spec":{"title":"another"}}`)
		pod.expectRun(ctx, job)
	})

	It("is shown after a pod has ended in mid-run, unless the journal knows of the run", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(forever)
		pod.killContainer(pod.startForever(ctx, job))
		pod.Write("endpoints/"+gate.RecordKeyFile, "short")
		pod.Reconcile(ctx, job)
		Expect(Field(ctx, job, "status", "phase")(Default)).To(Equal("Running"))
		pod.Restart(ctx, "operator-2")
		pod.Reconcile(ctx, job)
		expectWaiting(ctx, job, "CannotStart", "record.key has 5 bytes")
		Expect(Field(ctx, job, "status", "lastRun", "outcome")(Default)).To(Equal("Interrupted"))
		pod.Write("endpoints/"+gate.RecordKeyFile, strings.Repeat("k", gate.RecordKeyBytes))
		pod.RealRunner(WellDone)
		pod.Reconcile(ctx, job)
		pass(ctx, job)
		pod.expectRun(ctx, job)
	})
})
