//go:build e2e

package e2e

import (
	"context"
	"io/fs"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// slow is the folder of a version of a collection whose playbook ends when somebody lets it.
func slow(domain, kind, version string) fs.FS {
	files := map[string]string{
		"galaxy.yml": "{namespace: slow_lab, name: slow, version: VERSION, readme: README.md, authors: [e2e]}",
		"README.md":  "# slow\n",
		"operator-config.yml": `
domain: DOMAIN
name: slow
version: VERSION
displayName: Slow
description: Takes its time.
resources:
  - {kind: KIND, playbook: slow.yml}
`,
		"slow.yml": `
- name: Take time
  hosts: all
  gather_facts: false
  tasks:
    - name: Begin
      ansible.builtin.shell: "echo VERSION begins >> /tmp/slow"
    - name: Wait
      ansible.builtin.wait_for:
        path: /tmp/go-on
        timeout: 240
    - name: End
      ansible.builtin.shell: "echo VERSION ends >> /tmp/slow"
`,
	}
	return Folder(files, "DOMAIN", domain, "KIND", kind, "VERSION", version)
}

var _ = Describe("A playbook that runs while its operator is replaced", Label("story"), Ordered, func() {
	playsEnd(&environment{namespace: "e2e-slow", domain: "slow-lab"}, "Slow", v2beta2.InstallDirect)
})

var _ = Describe("A playbook that runs while OLM replaces its operator", Label("olm"), Ordered, func() {
	playsEnd(&environment{namespace: "e2e-slow-olm", domain: "slow-olm-lab"}, "SlowOLM", v2beta2.InstallOLM)
})

var _ = Describe("A playbook that takes longer than its pod may", Ordered, func() {
	e := &environment{namespace: "e2e-cut", domain: "cut-lab"}
	zos := &system{environment: e, name: "zos1", user: "ibmuser"}
	oc := &v2beta2.OperatorCollection{ObjectMeta: e.meta("slow")}
	var built map[string][]byte

	BeforeAll(func(ctx context.Context) {
		built = archivesOf(map[string]fs.FS{"1.0.0.tar.gz": slow(e.domain, "Cut", "1.0.0"), "1.1.0.tar.gz": slow(e.domain, "Cut", "1.1.0")})
		e.start(ctx, built)
		zos.start(ctx)
		private, public := newKey("")
		zos.authorize(ctx, "operator", public)
		e.credential(ctx, "zos1", map[string]string{"username": zos.user, "ssh-privatekey": private})
		e.endpoint(ctx, "zos1", v2beta2.ZosEndpointSpec{
			Host: zos.host(), CredentialName: "zos1", Variables: Variables(`"ansible_python_interpreter: /usr/bin/python3"`),
		})
		spec := e.spec("1.0.0.tar.gz", built["1.0.0.tar.gz"])
		spec.Runtime = &v2beta2.RuntimeSpec{TerminationSeconds: new(int32(30))}
		e.installSpec(ctx, oc.Name, spec)
	})
	AfterEach(e.explain)
	AfterAll(e.cleanUp)

	It("is ended and told, no other starts meanwhile, and the next pod runs it again", func(ctx context.Context) {
		trace := func() string { return zos.shell(ctx, "cat /tmp/slow 2>/dev/null || true") }
		thing := e.instance("v1minor0patch0", "Cut", "thing", map[string]any{"zosendpoint": "zos1"})
		Create(ctx, thing)
		Eventually(ctx, trace).Should(Equal("1.0.0 begins\n"))
		Eventually(ctx, Field(ctx, thing, "status", "lastRun", "currentTask", "name")).Should(Equal("Wait"))
		run, _, _ := unstructured.NestedString(Live(ctx, Default, thing).Object, "status", "lastRun", "id")

		By("upgrading, and asking for a run of another resource while the pod ends")
		changeArchive(ctx, e, oc, "1.1.0.tar.gz", built)
		pods := func(g Gomega) []corev1.Pod {
			var list corev1.PodList
			g.Expect(K8s.List(ctx, &list, client.InNamespace(e.namespace), client.MatchingLabels{"operator-name": "slow"})).To(Succeed())
			return list.Items
		}
		Eventually(ctx, pods).Should(And(HaveLen(1), HaveEach(HaveField("DeletionTimestamp", Not(BeNil())))))
		other := e.instance("v1minor0patch0", "Cut", "other", map[string]any{"zosendpoint": "zos1"})
		Create(ctx, other)

		Eventually(ctx, Field(ctx, thing, "status", "lastRun", "outcome")).Should(Equal("Interrupted"))
		Expect(Live(ctx, Default, thing).Object["status"]).To(HaveKeyWithValue("lastRun", And(
			HaveKeyWithValue("id", run), HaveKeyWithValue("failure", And(HaveKeyWithValue("task", "Wait"),
				HaveKeyWithValue("message", And(ContainSubstring(`in task "Wait"`), ContainSubstring("runtime.terminationSeconds"))))))))
		Expect(trace()).To(Equal("1.0.0 begins\n"), "no other run has started")

		By("running both in the next pod")
		Eventually(ctx, trace).Should(Equal("1.0.0 begins\n1.1.0 begins\n1.1.0 begins\n"))
		zos.shell(ctx, "touch /tmp/go-on")
		Eventually(ctx, Condition(ctx, thing, runstatus.ConditionReady)).Should(And(ConditionTrue(), WithReason("Succeeded")))
		Eventually(ctx, Condition(ctx, other, runstatus.ConditionReady)).Should(And(ConditionTrue(), WithReason("Succeeded")))
		Expect(Live(ctx, Default, thing).Object["status"]).To(HaveKeyWithValue("lastRun", HaveKeyWithValue("attempt", BeEquivalentTo(1))),
			"it used up no retry")
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).WithTimeout(InstallTimeout).Should(ConditionTrue())
	})
})

// changeArchive gives an OperatorCollection another archive.
func changeArchive(ctx context.Context, e *environment, oc *v2beta2.OperatorCollection, file string, built map[string][]byte) {
	GinkgoHelper()
	Patch(ctx, oc.DeepCopy(), MustJSON(map[string]any{"spec": map[string]any{
		"collectionURL": "http://archives." + e.namespace + ".svc.cluster.local/" + file, "digest": DigestOf(built[file]),
	}}))
}

// playsEnd upgrades a collection in the middle of a run.
func playsEnd(e *environment, kind string, method v2beta2.InstallMethod) {
	zos := &system{environment: e, name: "zos1", user: "ibmuser"}
	oc := &v2beta2.OperatorCollection{ObjectMeta: e.meta("slow")}
	var built map[string][]byte

	BeforeAll(func(ctx context.Context) {
		built = archivesOf(map[string]fs.FS{"1.0.0.tar.gz": slow(e.domain, kind, "1.0.0"), "1.1.0.tar.gz": slow(e.domain, kind, "1.1.0")})
		e.start(ctx, built)
		letInstall(ctx, method, e.namespace)
		zos.start(ctx)
		private, public := newKey("")
		zos.authorize(ctx, "operator", public)
		e.credential(ctx, "zos1", map[string]string{"username": zos.user, "ssh-privatekey": private})
		e.endpoint(ctx, "zos1", v2beta2.ZosEndpointSpec{
			Host: zos.host(), CredentialName: "zos1", Variables: Variables(`"ansible_python_interpreter: /usr/bin/python3"`),
		})
		e.install(ctx, oc.Name, "1.0.0.tar.gz", built["1.0.0.tar.gz"])
		expectInstalledBy(ctx, &v2beta2.SubOperatorConfig{ObjectMeta: e.meta("slow-soc")}, method)
	})
	AfterEach(e.explain)
	AfterAll(e.cleanUp)

	It("ends, only then the new operator begins, and starts it again when somebody asks", func(ctx context.Context) {
		trace := func() string { return zos.shell(ctx, "cat /tmp/slow 2>/dev/null || true") }
		thing := e.instance("v1minor0patch0", kind, "thing", map[string]any{"zosendpoint": "zos1"})
		Create(ctx, thing)
		Eventually(ctx, trace).Should(Equal("1.0.0 begins\n"))

		changeArchive(ctx, e, oc, "1.1.0.tar.gz", built)
		pods := func(g Gomega) []corev1.Pod {
			var list corev1.PodList
			g.Expect(K8s.List(ctx, &list, client.InNamespace(e.namespace), client.MatchingLabels{"operator-name": "slow"})).To(Succeed())
			return list.Items
		}
		terminating := And(HaveLen(1), HaveEach(HaveField("DeletionTimestamp", Not(BeNil()))))
		// OLM may need minutes for it; the playbook waits for four.
		Eventually(ctx, pods).WithTimeout(InstallTimeout).Should(terminating)
		Consistently(ctx, pods).Should(terminating, "it waits for its playbook, and nothing starts beside it")
		Expect(trace()).To(Equal("1.0.0 begins\n"))

		zos.shell(ctx, "touch /tmp/go-on")
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).WithTimeout(InstallTimeout).Should(ConditionTrue())
		Eventually(ctx, Condition(ctx, thing, runstatus.ConditionReady)).Should(And(ConditionTrue(), WithReason("Outdated")))
		Expect(trace()).To(Equal("1.0.0 begins\n1.0.0 ends\n"), "a new version alone starts no playbook")
		ask(ctx, thing)
		Eventually(ctx, trace).Should(Equal("1.0.0 begins\n1.0.0 ends\n1.1.0 begins\n1.1.0 ends\n"))
		Eventually(ctx, Condition(ctx, thing, runstatus.ConditionReady)).Should(And(ConditionTrue(), WithReason("Succeeded")))
	})
}
