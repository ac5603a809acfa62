package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// migrations is what a run of the specs does: the migration playbook writes the resource's name to a file and fails for the one that
// the file broken names; another playbook succeeds.
const migrations = `
if grep -q zoscb_migrate "$2/env/extravars"; then
	cp "$2/env/extravars" "$DIR/extravars"
	basename "$2" >>$DIR/migrations
	if [ "$(cat $DIR/broken 2>/dev/null)" = "$(basename "$2")" ]; then
		report '{"ended": "failed", "failures": [{"message": "the data set is in use"}]}'
		exit 1
	fi
fi
` + WellDone

// migrated returns the names of the resources whose migration playbook ran, in this order.
func (p *operatorPod) migrated() []string { return strings.Fields(p.Read("migrations")) }

// upgrade gives the pod another version of the collection, which has a migration playbook.
func (p *operatorPod) upgrade(version string) {
	GinkgoHelper()
	p.Settings.Version, p.Settings.Digest, p.Settings.MigrationPlaybook = version, "sha256:"+version, "/opt/ansible/content/migrate.yml"
	p.WriteSettings()
}

// jobsOf makes resources that have succeeded with version 1.0.0, and then upgrades the pod to 2.0.0.
func (p *operatorPod) jobsOf(ctx context.Context, names ...string) map[string]*unstructured.Unstructured {
	GinkgoHelper()
	p.RealRunner(migrations)
	jobs := map[string]*unstructured.Unstructured{}
	for _, name := range names {
		jobs[name] = NewJob(ctx, p.Namespace, name, map[string]any{"zosendpoint": "lpar1", "title": "a"})
		p.expectRun(ctx, jobs[name])
	}
	Expect(p.migrated()).To(BeEmpty())
	p.upgrade("2.0.0")
	return jobs
}

func lastRunReason(ctx context.Context, job client.Object) string {
	GinkgoHelper()
	return Field(ctx, job, "status", "lastRun", "reason")(Default)
}

func requestRun(ctx context.Context, job client.Object, value string) {
	GinkgoHelper()
	Patch(ctx, job, MustJSON(map[string]any{"metadata": map[string]any{"annotations": map[string]any{gate.AnnotationRequestedAt: value}}}))
}

func stoppedMigration(ctx context.Context, namespace string) string {
	GinkgoHelper()
	lease := gateLease(namespace)
	Get(ctx, Default, lease)
	return lease.Annotations[gate.AnnotationMigrationStopped]
}

var _ = Describe("A migration playbook", func() {
	It("runs once for a resource of an older version, and for no new one", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newOperatorPod(ctx, namespace)
		job := pod.jobsOf(ctx, "one")["one"]
		pod.expectRun(ctx, job)
		Expect(pod.migrated()).To(Equal([]string{"one"}))

		By("telling the playbook and status")
		vars := map[string]any{}
		Expect(json.Unmarshal([]byte(pod.Read("extravars")), &vars)).To(Succeed())
		Expect(vars).To(And(
			HaveKeyWithValue("zoscb_migrate", map[string]any{"from": map[string]any{"__ansible_unsafe": "1.0.0"}, "to": map[string]any{"__ansible_unsafe": "2.0.0"}}),
			HaveKeyWithValue("zoscb_playbook", "/opt/ansible/content/migrate.yml"), HaveKeyWithValue("k8s_cr_event", "create"),
			HaveKey("title"), HaveKey("zosendpoint"), HaveKey("ansible_operator_meta")))
		live := Live(ctx, Default, job)
		migration := And(HaveKeyWithValue("from", "1.0.0"), HaveKeyWithValue("to", "2.0.0"), HaveKey("finished"))
		Expect(live.Object["status"]).To(And(
			HaveKeyWithValue("phase", "Succeeded"), HaveKeyWithValue("migration", migration),
			HaveKeyWithValue("lastRun", And(HaveKeyWithValue("reason", "Migrate"), HaveKeyWithValue("version", "2.0.0")))))

		By("not running again: without a change, after a restart, without status, without the record")
		pod.expectNoRun(ctx, job, LocalEndpoint(namespace, "lpar1"))
		pod.Restart(ctx, "operator-2")
		pod.expectNoRun(ctx, job, LocalEndpoint(namespace, "lpar1"))
		Expect(K8s.Status().Patch(ctx, job.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":null}`)))).To(Succeed())
		pod.expectNoRun(ctx, job, LocalEndpoint(namespace, "lpar1"))
		Expect(Live(ctx, Default, job).Object["status"]).To(And(
			HaveKeyWithValue("migration", migration), HaveKeyWithValue("lastRun", HaveKeyWithValue("reason", "Migrate"))))
		earlier := fmt.Sprintf(`{"status":{"lastRun":{"started":%q}}}`, time.Now().UTC().Add(-time.Minute).Format(time.RFC3339)) // A record from the second of a run is none.
		Expect(K8s.Status().Patch(ctx, job.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(earlier)))).To(Succeed())
		Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, gate.AnnotationRecord))
		pod.expectNoRun(ctx, job, LocalEndpoint(namespace, "lpar1"))
		Expect(Live(ctx, Default, job).Object["status"]).To(HaveKeyWithValue("migration", migration))

		By("running the usual playbook when the resource changes, and for a new one")
		Patch(ctx, job, `{"spec":{"title":"b"}}`)
		pod.expectRun(ctx, job)
		Expect(lastRunReason(ctx, job)).To(Equal("Changed"))
		pod.expectRun(ctx, NewJob(ctx, namespace, "two", map[string]any{"zosendpoint": "lpar1"}))
		Expect(pod.migrated()).To(HaveLen(1))

		By("migrating it to the next version")
		pod.upgrade("3.0.0")
		pod.expectRun(ctx, job)
		Expect(Field(ctx, job, "status", "migration", "from")(Default)).To(Equal("2.0.0"))
	})

	It("runs before a change that was made meanwhile, obeys a hold, and is not run for a resource that is being deleted", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newOperatorPod(ctx, namespace)
		jobs, e := pod.jobsOf(ctx, "edited", "deleted"), LocalEndpoint(namespace, "lpar1")
		Patch(ctx, jobs["edited"], `{"spec":{"title":"b"}}`)
		Patch(ctx, e, `{"spec":{"hold":"IPL until noon"}}`)
		pod.expectNoRun(ctx, jobs["edited"], e)
		expectWaiting(ctx, jobs["edited"], "EndpointHeld", "IPL until noon")
		Patch(ctx, e, `{"spec":{"hold":""}}`)
		before := pod.Plays()
		Expect(pod.Reconcile(ctx, jobs["edited"])).To(Equal("1s"))
		Expect(pod.Plays()).To(Equal(before + 1))
		Expect(pod.migrated()).To(Equal([]string{"edited"}))
		Expect(Condition(ctx, jobs["edited"], "Ready")(Default)).To(And(ConditionFalse(), WithMessage("the resource is migrated, and its playbook is to run")))
		pod.expectRun(ctx, jobs["edited"])
		Expect(lastRunReason(ctx, jobs["edited"])).To(Equal("Changed"))
		Expect(Condition(ctx, jobs["edited"], "Ready")(Default)).To(ConditionTrue())

		Remove(ctx, jobs["deleted"])
		Expect(pod.Reconcile(ctx, jobs["deleted"])).To(Equal("done"))
		Expect(pod.migrated()).To(Equal([]string{"edited"}))
	})

	It("stops the others when it fails, until it succeeds", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newOperatorPod(ctx, namespace)
		jobs := pod.jobsOf(ctx, "a", "b", "c")
		pod.Write("broken", "b")
		pod.expectRun(ctx, jobs["a"])
		Expect(pod.Reconcile(ctx, jobs["b"])).To(about(10 * time.Second))
		Expect(stoppedMigration(ctx, namespace)).To(Equal("Job/b"))
		Expect(Field(ctx, jobs["b"], "status", "message")(Default)).To(ContainSubstring("migration: the data set is in use; attempt 1 of 6"))

		By("letting no other one start, also after a restart, nor anything else of a resource that is not migrated")
		waits := func() {
			GinkgoHelper()
			requestRun(ctx, jobs["c"], time.Now().String())
			pod.expectNoRun(ctx, jobs["c"], LocalEndpoint(namespace, "lpar1"))
			expectWaiting(ctx, jobs["c"], "MigrationStopped", "the migration of Job/b has failed: migrations go on when it succeeds")
		}
		waits()
		pod.Restart(ctx, "operator-2")
		waits()
		Patch(ctx, jobs["a"], `{"spec":{"title":"b"}}`)
		pod.expectRun(ctx, jobs["a"]) // It is migrated.

		By("failing again, and succeeding when somebody asks")
		requestRun(ctx, jobs["b"], "1")
		pod.expectRun(ctx, jobs["b"])
		waits()
		Expect(os.Remove(filepath.Join(pod.Dir, "broken"))).To(Succeed())
		requestRun(ctx, jobs["b"], "2")
		pod.expectRun(ctx, jobs["b"])
		Expect(stoppedMigration(ctx, namespace)).To(BeEmpty())
		pod.expectRun(ctx, jobs["c"])
		Expect(pod.migrated()).To(Equal([]string{"a", "b", "b", "b", "c"}))
		Expect(pod.Reconcile(ctx, jobs["c"])).NotTo(BeEmpty())
		Expect(lastRunReason(ctx, jobs["c"])).To(Equal("Retry"), "the request is not lost")
	})

	It("goes on when the failed resource is deleted, and ignores an annotation that nothing supports", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newOperatorPod(ctx, namespace)
		jobs := pod.jobsOf(ctx, "a", "b", "c")
		pod.Write("broken", "b")
		pod.Reconcile(ctx, jobs["b"])
		pod.expectNoRun(ctx, jobs["a"], LocalEndpoint(namespace, "lpar1"))
		Remove(ctx, jobs["b"])
		pod.expectRun(ctx, jobs["a"])
		Expect(stoppedMigration(ctx, namespace)).To(BeEmpty())
		for _, forged := range []string{"Job/a", "Job/nobody", "Other/a", "nonsense", "Job/../a"} {
			Patch(ctx, gateLease(namespace), MustJSON(map[string]any{"metadata": map[string]any{"annotations": map[string]any{gate.AnnotationMigrationStopped: forged}}}))
		}
		pod.expectRun(ctx, jobs["c"])
		Expect(stoppedMigration(ctx, namespace)).To(BeEmpty())
		Expect(pod.migrated()).To(Equal([]string{"b", "a", "c"}))
	})

	It("does not run again whose gate was killed at its end", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newOperatorPod(ctx, namespace)
		jobs := pod.jobsOf(ctx, "a", "b")
		pod.RealRunner(`while [ -d $DIR ] && [ ! -e $DIR/go ]; do sleep 0.02; done; ` + migrations)
		for _, name := range []string{"a", "b"} {
			before := pod.Plays()
			pod.Write("broken", "b")
			r := pod.Start(Live(ctx, Default, jobs[name]))
			Eventually(pod.Plays).Should(Equal(before + 1))
			pod.API.Stop()
			pod.Write("go", "")
			Eventually(func() string { return pod.Read("output") }).Should(ContainSubstring("the outcome is written later"))
			Expect(r.Command.Process.Kill()).To(Succeed())
			Eventually(r.Ended).Should(BeClosed())
			pod.API.Resume()
			pod.Reconcile(ctx, jobs[name])
			if name == "a" {
				Expect(pod.Plays()).To(Equal(before + 1))
			}
			Expect(os.Remove(filepath.Join(pod.Dir, "go"))).To(Succeed())
			Expect(os.Truncate(filepath.Join(pod.Dir, "output"), 0)).To(Succeed())
		}
		Expect(pod.migrated()[:2]).To(Equal([]string{"a", "b"}), "the retry of b may be due by then")
		Expect(Field(ctx, jobs["a"], "status", "phase")(Default)).To(Equal("Succeeded"))
		Expect(stoppedMigration(ctx, namespace)).To(Equal("Job/b"), "the failure is known to the others")
	})
})
