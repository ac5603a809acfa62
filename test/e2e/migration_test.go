//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// Serial because they delete the manager's pod.
var _ = Describe("A migration of custom resources", Serial, Label("serial"), Slow, Ordered, func() {
	migrate(newPlaysOf("e2e-migration", "migration-lab", "Migration"), v2beta2.InstallDirect)
})

var _ = Describe("A migration of custom resources, by OLM", Label("olm", "upgrades"), Serial, Ordered, func() {
	migrate(newPlaysOf("e2e-migration-olm", "migration-olm-lab", "MigrationOLM"), v2beta2.InstallOLM)
})

// migrate upgrades a collection to a version with a migration playbook, which fails for one custom resource.
// UPGRADE_RESOURCES is the number of custom resources.
func migrate(p *plays, method v2beta2.InstallMethod) {
	m := &migration{plays: p, method: method}
	m.oc = &v2beta2.OperatorCollection{ObjectMeta: m.meta(m.name())}
	m.soc = &v2beta2.SubOperatorConfig{ObjectMeta: m.meta(m.name() + "-soc")}

	BeforeAll(m.prepare)
	AfterEach(m.explain)
	AfterAll(m.cleanUp)

	It("stops at the first that fails, also for the next pod and the next manager", m.stops)
	It("goes on when that succeeds, and migrates each once", m.goesOn)
	It("has no way back", m.goesBack)
}

type migration struct {
	*plays
	method v2beta2.InstallMethod
	zos    *system
	oc     *v2beta2.OperatorCollection
	soc    *v2beta2.SubOperatorConfig
	audit  *resourceAudit
	// resources is their number, UPGRADE_RESOURCES or 12.
	resources int
	broken    *unstructured.Unstructured
}

const migrateYAML = `
- hosts: all
  gather_facts: false
  tasks:
    - name: Check that the data set is free
      ansible.builtin.raw: test ! -e "/tmp/broken-{{ ansible_operator_meta.name }}"
      changed_when: false
    - name: Migrate
      ansible.builtin.raw: echo "migrate {{ ansible_operator_meta.name }} from {{ zoscb_migrate.from }} to {{ zoscb_migrate.to }}, {{ k8s_cr_event }} {{ note }}" >>/tmp/plays
      changed_when: true
`

// withMigration is a folder of the collection with a migration playbook.
func withMigration(folder fs.FS) fs.FS {
	GinkgoHelper()
	files := map[string]string{"migrate.yml": migrateYAML}
	Expect(fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(folder, name)
		files[name] = string(content)
		return err
	})).To(Succeed())
	files["operator-config.yml"] = "migrationPlaybook: migrate.yml\n" + files["operator-config.yml"]
	return Folder(files)
}

func (m *migration) prepare(ctx context.Context) {
	m.resources = int(setting("UPGRADE_RESOURCES", 12))
	m.archives = archivesOf(map[string]fs.FS{"1.0.0.tar.gz": m.folder("1.0.0", ""), "2.0.0.tar.gz": withMigration(m.folder("2.0.0", ""))})
	m.start(ctx, m.archives)
	letInstall(ctx, m.method, m.namespace)
	m.zos = m.connectTo(ctx, "zos1")
	m.importing(ctx, "1.0.0", map[string]any{"maxConcurrentReconciles": int64(4)})
	expectInstalledBy(ctx, m.soc, m.method)
	m.audit = auditResources(m.namespace)
	objects := m.playsNamed("living", m.resources, "zos1", nil)
	m.broken = objects[m.resources/2]
	for _, object := range objects {
		Create(ctx, object)
	}
	Eventually(ctx, m.phases(ctx, "living")).WithTimeout(2*time.Minute + time.Duration(m.resources)*10*time.Second).
		Should(Equal(map[runstatus.Phase]int{runstatus.PhaseSucceeded: m.resources}))
	m.zos.shell(ctx, "touch /tmp/broken-"+m.broken.GetName())
}

// migrated are the lines that migration playbooks left on the system, counted.
func (m *migration) migrated(ctx context.Context) map[string]int {
	GinkgoHelper()
	counted := map[string]int{}
	for line, count := range m.zos.lines(ctx) {
		if strings.HasPrefix(line, "migrate ") {
			counted[line] = count
		}
	}
	return counted
}

func (m *migration) stopped(ctx context.Context) func(Gomega) string {
	return func(g Gomega) string {
		lease := &coordinationv1.Lease{ObjectMeta: m.meta(m.deployment())}
		Get(ctx, g, lease)
		return lease.Annotations[gate.AnnotationMigrationStopped]
	}
}

// waiting is the number of resources that wait because another one has failed.
func (m *migration) waiting(ctx context.Context) func(Gomega) int {
	return func(g Gomega) int {
		count := 0
		for _, object := range m.live(ctx, g, "living") {
			if w := statusOf(g, &object).Waiting; w != nil && w.Reason == "MigrationStopped" && strings.Contains(w.Message, m.broken.GetName()) {
				count++
			}
		}
		return count
	}
}

func (m *migration) stops(ctx context.Context) {
	spec := m.collection("2.0.0").Spec
	Patch(ctx, m.oc.DeepCopy(), MustJSON(map[string]any{"spec": map[string]any{"collectionURL": spec.CollectionURL, "digest": spec.Digest}}))
	Eventually(ctx, m.stopped(ctx)).Should(Equal(m.kinds + "Play/" + m.broken.GetName()))
	// What had started when it failed ends; all others wait.
	Eventually(ctx, func(g Gomega) int { return m.waiting(ctx)(g) + len(m.migrated(ctx)) }).Should(Equal(m.resources - 1))
	before := m.migrated(ctx)
	Expect(before).To(HaveEach(1))
	failed := Condition(ctx, m.soc, v2beta2.ConditionMigrated)
	says := And(ConditionFalse(), WithReason(v2beta2.ReasonMigrationFailed), WithMessage(m.broken.GetName()),
		WithMessage(fmt.Sprintf("%d of %d custom resources are migrated", len(before), m.resources)))
	Eventually(ctx, failed).Should(says)
	// It is tried again, after 10 s for the first time: meanwhile its last run has no outcome.
	Eventually(ctx, lastRun(ctx, m.broken)).Should(And(withOutcome(gate.OutcomeFailed), HaveField("Reason", gate.ReasonMigrate)))

	// OLM may replace the first pod of the version once more.
	Eventually(ctx, Condition(ctx, m.soc, v2beta2.ConditionReady)).Should(And(ConditionTrue(), WithMessage("2.0.0")))
	By("replacing the manager and the operator's pod")
	operator := m.pod(ctx, Default).UID
	leader := leaderPod(ctx)
	Expect(K8s.Delete(ctx, leader, client.GracePeriodSeconds(0))).To(Succeed())
	removeManagerLease(ctx)
	m.killPod(ctx)
	Eventually(ctx, m.ready(ctx, operator)).WithTimeout(InstallTimeout).Should(Not(BeZero()))
	Eventually(ctx, m.asked(ctx, "living")).Should(ContainElement(m.broken.GetName()))
	Expect(leaderPod(ctx).UID).NotTo(Equal(leader.UID))
	Consistently(ctx, func() map[string]int { return m.migrated(ctx) }).WithTimeout(20 * time.Second).WithPolling(2 * time.Second).Should(Equal(before))
	Expect(m.stopped(ctx)(Default)).To(HaveSuffix(m.broken.GetName()))
	Eventually(ctx, failed).Should(says)
	AddReportEntry("migration stopped", fmt.Sprintf("%d of %d resources were migrated when one failed", len(before), m.resources), ReportEntryVisibilityAlways)
}

func (m *migration) goesOn(ctx context.Context) {
	m.zos.shell(ctx, "rm /tmp/broken-"+m.broken.GetName())
	ask(ctx, m.broken)
	begin := time.Now()
	Eventually(ctx, m.stopped(ctx)).Should(BeEmpty())
	Eventually(ctx, Condition(ctx, m.soc, v2beta2.ConditionMigrated)).WithTimeout(12 * time.Minute).
		Should(And(ConditionTrue(), WithMessage(fmt.Sprintf("%[1]d of %[1]d custom resources are migrated to version 2.0.0", m.resources))))
	Eventually(ctx, m.phases(ctx, "living")).Should(Equal(map[runstatus.Phase]int{runstatus.PhaseSucceeded: m.resources}))
	want, versions := map[string]int{}, map[string][]string{}
	for _, object := range m.live(ctx, Default, "living") {
		name, status := object.GetName(), statusOf(Default, &object)
		for _, line := range []string{"begin " + name + " first", "end " + name + " first", "migrate " + name + " from 1.0.0 to 2.0.0, create first"} {
			want[line] = 1
		}
		versions[m.namespace+"/"+name] = []string{"1.0.0", "2.0.0"}
		Expect(status.Migration).To(HaveValue(And(HaveField("From", "1.0.0"), HaveField("To", "2.0.0"))), name)
		Expect(status.LastRun).To(HaveValue(And(withOutcome(gate.OutcomeSucceeded), HaveField("Reason", gate.ReasonMigrate), HaveField("Version", "2.0.0"))), name)
	}
	Expect(want).To(HaveLen(3 * m.resources))
	Expect(m.zos.lines(ctx)).To(Equal(want), "every migration once, and no other playbook")
	m.audit.expect(ctx, versions, m.namespace+"/"+m.broken.GetName())
	ExpectReady(ctx, m.soc)
	expectInstalledBy(ctx, m.soc, m.method)
	AddReportEntry("migration", fmt.Sprintf("%d resources %.0f s after the cause was corrected, each once", m.resources, time.Since(begin).Seconds()), ReportEntryVisibilityAlways)
}

func (m *migration) goesBack(ctx context.Context) {
	spec := m.collection("1.0.0").Spec
	Patch(ctx, m.oc.DeepCopy(), MustJSON(map[string]any{"spec": map[string]any{"collectionURL": spec.CollectionURL, "digest": spec.Digest}}))
	Eventually(ctx, Condition(ctx, m.oc, v2beta2.ConditionUpgradeBlocked)).
		Should(And(ConditionTrue(), WithReason(v2beta2.ReasonUpgradeBlocked), WithMessage("migrationReversible")))
}
