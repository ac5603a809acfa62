//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// desk is the folder of a collection that is being written.
var desk = map[string]string{
	"galaxy.yml": "{namespace: dev_lab, name: desk, version: 1.0.0, readme: README.md, authors: [e2e]}",
	"README.md":  "# desk\n",
	"operator-config.yml": `
domain: dev-lab
name: desk
version: 1.0.0
displayName: Desk
resources:
  - kind: Desk
    playbook: put.yml
    finalizer: clear.yml
    vars:
      - {name: thing, displayName: Thing, type: string, default: a pen}
`,
	"put.yml":   "- {name: Put, hosts: all, gather_facts: false, tasks: [ansible.builtin.raw: 'echo {{ thing }} EDITION >/tmp/desk']}\n",
	"clear.yml": "- {name: Clear, hosts: all, gather_facts: false, tasks: [ansible.builtin.raw: 'rm -f /tmp/desk']}\n",
}

const deskGroup = "desk.dev-lab.suboperator.zoscb.ibm.com"

var _ = Describe("A collection under development", Ordered, func() {
	e := &environment{namespace: "e2e-dev", domain: "dev-lab"}
	zos := &system{environment: e, name: "zos1", user: "ibmuser"}

	BeforeAll(func(ctx context.Context) {
		e.start(ctx, map[string][]byte{"none": nil})
		zos.start(ctx)
		private, public := newKey("")
		zos.authorize(ctx, zos.user, public)
		e.credential(ctx, "zos1", map[string]string{"username": zos.user, "ssh-privatekey": private})
		e.endpoint(ctx, "zos1", v2beta2.ZosEndpointSpec{Host: zos.host(), CredentialName: "zos1"})
		Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.namespace}}, `{"metadata":{"annotations":{"zoscb.ibm.com/allow-development":"true"}}}`)
		account := &corev1.ServiceAccount{ObjectMeta: e.meta("uploader")}
		Create(ctx, account, &rbacv1.RoleBinding{
			ObjectMeta: e.meta("uploader"),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "collection-operator-uploader"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: e.namespace, Name: account.Name}},
		})
		granted := &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "e2e-dev", Labels: map[string]string{"zoscb.ibm.com/aggregate-to-grants": "true"}},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{deskGroup}, Resources: []string{"*"}, Verbs: []string{"*"}}},
		}
		Remove(ctx, granted.DeepCopy())
		Create(ctx, granted)
		DeferCleanup(func(ctx context.Context) { Remove(ctx, granted) })
	})
	AfterEach(e.explain)
	AfterAll(e.cleanUp)

	It("runs after each change of its folder, and leaves nothing behind", func(ctx context.Context) {
		folder := GinkgoT().TempDir()
		write := func(name, edition string) {
			GinkgoHelper()
			Expect(os.WriteFile(filepath.Join(folder, name), Folder(desk, "EDITION", edition)[name].Data, 0o600)).To(Succeed())
		}
		for name := range desk {
			write(name, "first")
		}
		resource := filepath.Join(GinkgoT().TempDir(), "desk.yaml")
		Expect(os.WriteFile(resource, []byte("apiVersion: suboperator.zoscb.ibm.com/v1minor0patch0\nkind: Desk\nmetadata: {name: mine}\nspec: {zosendpoint: zos1}\n"), 0o600)).To(Succeed())

		began := time.Now()
		session, err := gexec.Start(exec.Command(kubectlCollection, "dev", folder, "-f", resource, "-n", e.namespace, "--service-account=uploader"), GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { session.Kill() })
		Eventually(ctx, session.Out).WithTimeout(InstallTimeout).Should(gbytes.Say("Waiting for a change"))
		Expect(zos.shell(ctx, "cat /tmp/desk")).To(Equal("a pen first\n"))
		AddReportEntry("from a folder to a result on the system", time.Since(began).Round(time.Second).String())

		began = time.Now()
		write("put.yml", "second")
		Eventually(ctx, session.Out).WithTimeout(InstallTimeout).Should(gbytes.Say("Changed: .*put.yml(?s:.*)Waiting for a change"))
		Expect(zos.shell(ctx, "cat /tmp/desk")).To(Equal("a pen second\n"))
		AddReportEntry("from a changed line to a result on the system", time.Since(began).Round(time.Second).String())

		session.Interrupt()
		Eventually(ctx, session).WithTimeout(InstallTimeout).Should(gexec.Exit(0))
		Expect(zos.shell(ctx, "ls /tmp/desk 2>/dev/null || true")).To(BeEmpty(), "the deletion playbook has run")
		var left v2beta2.OperatorCollectionList
		Expect(K8s.List(ctx, &left)).To(Succeed())
		Expect(left.Items).NotTo(ContainElement(HaveField("Namespace", e.namespace)), fmt.Sprint(left.Items))
	})
})
