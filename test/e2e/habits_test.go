//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

const (
	regionsVersion = "v1minor2patch0"
	queuesVersion  = "v0minor3patch0-beta-1"
	regionsPod     = "habits-lab-zos-regions-operator"
	queuesPod      = "habits-lab-zos-queues-operator"
)

// Each way in which public collections are written, in collections of our own.
var _ = Describe("A collection in the habits of its author", Ordered, ContinueOnFailure, func() {
	e := &environment{namespace: "e2e-habits", domain: "habits-lab"}
	zos := &system{environment: e, name: "zos1", user: "ibmuser"}

	BeforeAll(func(ctx context.Context) {
		folder := func(name string) fs.FS {
			return os.DirFS(filepath.Join(projectDir, "test", "collections", "habits", name))
		}
		archives := archivesOf(map[string]fs.FS{"regions.tar.gz": folder("regions"), "queues.tar.gz": folder("queues")})
		e.start(ctx, archives)
		zos.start(ctx)
		private, public := newKey("")
		zos.authorize(ctx, "ibmuser", public)
		e.credential(ctx, "zos1", map[string]string{"username": "ibmuser", "ssh-privatekey": private})
		e.endpoint(ctx, "zos1", v2beta2.ZosEndpointSpec{Host: zos.host(), CredentialName: "zos1", Variables: Variables(
			`{"name": "site", "value": {"name": "the lab of {{ inventory_hostname }}", "home": "/home/{{ ansible_user }}",
				"departments": {"regions": "Transactions", "queues": "Messaging"}}}`,
			`"PYZ=/usr"`,
			`"ansible_python_interpreter: '{{ PYZ }}/bin/python3'"`,
			`{"name": "zos_environment", "value": {"REGION_HOME": "{{ site.home }}", "_BPXK_AUTOCVT": "ON"}}`,
		)})
		e.install(ctx, "zos-regions.habits-lab.1.2.0", "regions.tar.gz", archives["regions.tar.gz"])
		e.install(ctx, "zos-queues.habits-lab.0.3.0-beta.1", "queues.tar.gz", archives["queues.tar.gz"])
	})
	AfterEach(e.explain)
	AfterAll(e.cleanUp)

	Context("with everything at the root and plugins inside a role", func() { regionSpecs(e, zos) })
	Context("with everything below playbooks/ and plugins called by their full names", func() { queueSpecs(e, zos) })

	It("sends templates by SFTP, as Ansible does, but no module", func(ctx context.Context) {
		sent := zos.transferred(ctx)
		Expect(sent).To(MatchRegexp(`open ".*\.ansible.*" flags WRITE`))
		Expect(sent).NotTo(ContainSubstring("AnsiballZ"))
		Expect(sent).NotTo(MatchRegexp(`open ".*\.py" flags WRITE`))
	})
})

func regionSpecs(e *environment, zos *system) {
	region := e.instance(regionsVersion, "Region", "cicsa", map[string]any{
		"zosendpoint":       "zos1",
		"DFH_REGION_APPLID": "CICSA001",
		"adminSecret":       "administrator",
		"sit_parameters":    []any{map[string]any{"name": "GRPLIST", "value": "LAB"}},
	})
	passwordHash := fmt.Sprintf("%x", sha256.Sum256([]byte("correct horse")))

	It("creates", func(ctx context.Context) {
		administrator := &corev1.Secret{ObjectMeta: e.meta("administrator"), StringData: map[string]string{"user": "master", "password": "correct horse"}}
		administrator.Labels = map[string]string{v2beta2.LabelRuntime: regionsPod}
		Create(ctx, administrator)
		Create(ctx, region.DeepCopy())
		expectSuccess(ctx, region)
		Expect(zos.shell(ctx, "cat /home/ibmuser/regions/cicsa001/job")).To(Equal(
			"* Region of habits_lab.zos_regions, Transactions at the lab of zos1\n//CICSA001 JOB CLASS=A,USER=ibmuser\n"))
		Expect(zos.shell(ctx, "cat /home/ibmuser/regions/cicsa001/parameters")).To(Equal(
			"* written by the action plugin for zos1\nGRPLIST=LAB\nMXT=50\nSTART=AUTO\nADMIN=master," + passwordHash + "\n"))
		Expect(Field(ctx, region, "status", "region", "dataset")(Default)).To(Equal("REGIONS.CICSA001.SYSIN"))
		Expect(Field(ctx, region, "status", "region", "environment")(Default)).To(Equal("/home/ibmuser"))
		Expect(e.inOperator(ctx, regionsPod, "cat /opt/ansible/content/records/CICSA001.json")).To(ContainSubstring("REGIONS.CICSA001.SYSIN"))
		Expect(kubectl(ctx, "logs", "-n", e.namespace, "deployment/"+regionsPod, "-c", "operator")).NotTo(ContainSubstring("correct horse"))
	})

	It("updates", func(ctx context.Context) {
		Patch(ctx, region.DeepCopy(), `{"spec": {"DFS_JobClass": "B", "max_tasks": 70, "sit_parameters": null, "adminSecret": null}}`)
		Eventually(ctx, func() string {
			return zos.shell(ctx, "cat /home/ibmuser/regions/cicsa001/parameters")
		}).Should(Equal("* written by the action plugin for zos1\nMXT=70\nSTART=AUTO\n"))
		expectSuccess(ctx, region)
		Expect(zos.shell(ctx, "cat /home/ibmuser/regions/cicsa001/job")).To(ContainSubstring("CLASS=B"))
	})

	It("says what the collection's own test plugin finds wrong", func(ctx context.Context) {
		wrong := e.instance(regionsVersion, "Region", "wrong", map[string]any{"zosendpoint": "zos1", "DFH_REGION_APPLID": "9TOOLONGNAME"})
		Create(ctx, wrong.DeepCopy())
		Eventually(ctx, Condition(ctx, wrong, "Failure")).Should(And(ConditionTrue(), WithMessage("9TOOLONGNAME is not an APPLID")))
		Patch(ctx, wrong.DeepCopy(), `{"spec": {"DFH_REGION_APPLID": "CICSB001"}}`)
		expectSuccess(ctx, wrong)
		Remove(ctx, wrong.DeepCopy())
		Eventually(ctx, Gone(ctx, wrong)).Should(BeTrue())
	})

	It("deletes with the playbook that created", func(ctx context.Context) {
		Remove(ctx, region.DeepCopy())
		Eventually(ctx, Gone(ctx, region)).Should(BeTrue())
		Expect(zos.shell(ctx, "ls /home/ibmuser/regions")).To(Equal("journal\n"))
		Expect(zos.shell(ctx, "cat /home/ibmuser/regions/journal")).To(ContainSubstring("removed cicsa001\n"))
		Expect(e.inOperator(ctx, regionsPod, "ls /opt/ansible/content/records")).To(BeEmpty())
	})
}

func queueSpecs(e *environment, zos *system) {
	manager := e.instance(queuesVersion, "QueueManager", "orders", map[string]any{
		"zosendpoint": "zos1", "ssid": "QM01", "queue_names": []any{"ORDERS.IN", "ORDERS.OUT"},
	})
	queue := func(name string) func() string {
		return func() string {
			return zos.shell(context.Background(), "cat /home/ibmuser/queues/QM01/"+name+" 2>&1 || true")
		}
	}
	in := e.instance(queuesVersion, "Queue", "orders-orders-in", nil)
	out := e.instance(queuesVersion, "Queue", "orders-orders-out", nil)

	It("creates, resources of another kind included", func(ctx context.Context) {
		Create(ctx, manager.DeepCopy())
		expectSuccess(ctx, manager)
		definition := "DEFINE QMGR(QM01) CCSID(1047) CUSTOM('zos1') DESCR('defined by habits_lab.zos_queues for Messaging')"
		Expect(queue("QMGR.QM01")()).To(Equal(definition + "\n"))
		Expect(Field(ctx, manager, "status", "definition")(Default)).To(Equal(definition))
		Expect(Field(ctx, manager, "status", "system")(Default)).To(Equal("Linux"))
		for _, q := range []client.Object{in, out} {
			expectSuccess(ctx, q)
			Expect(Live(ctx, Default, q).GetOwnerReferences()).To(BeEmpty())
		}
		Expect(queue("QLOCAL.ORDERS.IN")()).To(Equal(
			"DEFINE QLOCAL(ORDERS.IN) CUSTOM('zos1') DESCR('defined by habits_lab.zos_queues for Messaging') MAXDEPTH(5000)\n"))
	})

	It("updates both kinds", func(ctx context.Context) {
		Patch(ctx, in.DeepCopy(), `{"spec": {"max_depth": 10}}`)
		Eventually(ctx, queue("QLOCAL.ORDERS.IN")).Should(ContainSubstring("MAXDEPTH(10)"))
		Patch(ctx, manager.DeepCopy(), `{"spec": {"queue_names": ["ORDERS.IN"]}}`)
		Eventually(ctx, Gone(ctx, out)).Should(BeTrue())
		Expect(queue("QLOCAL.ORDERS.OUT")()).To(ContainSubstring("No such file"))
		expectSuccess(ctx, manager)
	})

	It("deletes with a playbook of its own, which deletes resources of the other kind", func(ctx context.Context) {
		Remove(ctx, manager.DeepCopy())
		Eventually(ctx, Gone(ctx, manager)).Should(BeTrue())
		Expect(Gone(ctx, in)(Default)).To(BeTrue())
		Expect(zos.shell(ctx, "ls /home/ibmuser/queues/QM01")).To(BeEmpty())
	})
}
