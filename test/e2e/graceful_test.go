//go:build e2e

package e2e

import (
	"context"
	"io/fs"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/runstatus"
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

var _ = Describe("A playbook that runs while its operator is replaced", Ordered, func() {
	playsEnd(&environment{namespace: "e2e-slow", domain: "slow-lab"}, "Slow")
})

var _ = Describe("A playbook that runs while OLM replaces its operator", Label("olm"), Ordered, func() {
	playsEnd(&environment{namespace: "e2e-slow-olm", domain: "slow-olm-lab"}, "SlowOLM")
})

// playsEnd upgrades a collection in the middle of a run.
func playsEnd(e *environment, kind string) {
	zos := &system{environment: e, name: "zos1", user: "ibmuser"}
	oc := &v2beta2.OperatorCollection{ObjectMeta: e.meta("slow")}
	var built map[string][]byte

	BeforeAll(func(ctx context.Context) {
		built = archivesOf(map[string]fs.FS{"1.0.0.tar.gz": slow(e.domain, kind, "1.0.0"), "1.1.0.tar.gz": slow(e.domain, kind, "1.1.0")})
		e.start(ctx, built)
		zos.start(ctx)
		private, public := newKey("")
		zos.authorize(ctx, "operator", public)
		e.credential(ctx, "zos1", map[string]string{"username": zos.user, "ssh-privatekey": private})
		e.endpoint(ctx, "zos1", v2beta2.ZosEndpointSpec{
			Host: zos.host(), CredentialName: "zos1", Variables: Variables(`"ansible_python_interpreter: /usr/bin/python3"`),
		})
		e.install(ctx, oc.Name, "1.0.0.tar.gz", built["1.0.0.tar.gz"])
	}, NodeTimeout(8*time.Minute))
	AfterEach(e.explain, NodeTimeout(time.Minute))
	AfterAll(e.cleanUp, NodeTimeout(8*time.Minute))

	It("ends, only then the new operator begins, and starts it again when somebody asks", func(ctx context.Context) {
		trace := func() string { return zos.shell(ctx, "cat /tmp/slow 2>/dev/null || true") }
		thing := e.instance("v1minor0patch0", kind, "thing", map[string]any{"zosendpoint": "zos1"})
		Create(ctx, thing)
		Eventually(trace).WithContext(ctx).Should(Equal("1.0.0 begins\n"))

		Patch(ctx, oc.DeepCopy(), MustJSON(map[string]any{"spec": map[string]any{
			"collectionURL": "http://archives." + e.namespace + ".svc.cluster.local/1.1.0.tar.gz",
			"digest":        DigestOf(built["1.1.0.tar.gz"]),
		}}))
		pods := func(g Gomega) []corev1.Pod {
			var list corev1.PodList
			g.Expect(K8s.List(ctx, &list, client.InNamespace(e.namespace), client.MatchingLabels{"operator-name": "slow"})).To(Succeed())
			return list.Items
		}
		terminating := And(HaveLen(1), HaveEach(HaveField("DeletionTimestamp", Not(BeNil()))))
		Eventually(pods).WithContext(ctx).Should(terminating)
		Consistently(pods).WithContext(ctx).Should(terminating, "it waits for its playbook, and nothing starts beside it")
		Expect(trace()).To(Equal("1.0.0 begins\n"))

		zos.shell(ctx, "touch /tmp/go-on")
		Eventually(Condition(ctx, oc, v2beta2.ConditionReady)).WithContext(ctx).WithTimeout(3 * time.Minute).Should(ConditionTrue())
		Eventually(Condition(ctx, thing, runstatus.ConditionReady)).WithContext(ctx).Should(And(ConditionTrue(), WithReason("Outdated")))
		Expect(trace()).To(Equal("1.0.0 begins\n1.0.0 ends\n"), "a new version alone starts no playbook")
		ask(ctx, thing)
		Eventually(trace).WithContext(ctx).Should(Equal("1.0.0 begins\n1.0.0 ends\n1.1.0 begins\n1.1.0 ends\n"))
		Eventually(Condition(ctx, thing, runstatus.ConditionReady)).WithContext(ctx).Should(And(ConditionTrue(), WithReason("Succeeded")))
	}, NodeTimeout(6*time.Minute))
}
