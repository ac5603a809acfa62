//go:build e2e

package e2e

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// authorsNotes is the folder of a collection whose archive says in README.md which one it is.
func authorsNotes(edition string) fs.FS {
	files := map[string]string{
		"galaxy.yml": "{namespace: clients_lab, name: authors_notes, version: 1.0.0, readme: README.md, authors: [e2e]}",
		"README.md":  edition,
		"operator-config.yml": `
domain: clients-lab
name: authors-notes
version: 1.0.0
displayName: Notes
resources:
  - kind: AuthorsNote
    playbook: note.yml
    finalizer: note.yml
`,
		"note.yml": `
- name: Keep a note
  hosts: all
  gather_facts: false
  tasks:
    - name: Write it
      ansible.builtin.copy: {content: EDITION, dest: "/tmp/note-{{ ansible_operator_meta.name }}", mode: "0600"}
      when: k8s_cr_event != 'delete'
    - name: Remove it
      ansible.builtin.file: {path: "/tmp/note-{{ ansible_operator_meta.name }}", state: absent}
      when: k8s_cr_event == 'delete'
`,
	}
	return Folder(files, "EDITION", edition)
}

// authorsTool does what the playbooks of authors' tools do, in their order, with their clients and time limits.
type authorsTool struct {
	*environment
	zos        *system
	collection *v2beta2.OperatorCollection
	soc        *v2beta2.SubOperatorConfig
	install    v2beta2.InstallMethod
}

func newAuthorsTool(name string, install v2beta2.InstallMethod) *authorsTool {
	e := &environment{namespace: name, domain: "clients-lab"}
	tool := &authorsTool{environment: e, zos: &system{environment: e, name: "zos1", user: "ibmuser"}, install: install}
	tool.collection = &v2beta2.OperatorCollection{ObjectMeta: e.meta("authors-notes.clients-lab.1.0.0"), Spec: v2beta2.OperatorCollectionSpec{SkipSignatureVerification: true}}
	tool.collection.Labels = map[string]string{
		"operator-domain": "clients-lab", "operator-name": "authors-notes", "operator-version": "1.0.0", "managed-by": "ibm-zos-cloud-broker",
	}
	tool.soc = &v2beta2.SubOperatorConfig{ObjectMeta: e.meta(tool.collection.Name + "-soc")}
	tool.soc.Labels = tool.collection.Labels
	return tool
}

func (t *authorsTool) start(ctx context.Context) {
	t.environment.start(ctx, map[string][]byte{"none": nil})
	letInstall(ctx, t.install, t.namespace)
	t.zos.start(ctx)
	private, public := newKey("")
	t.zos.authorize(ctx, t.zos.user, public)
	// The keys are those of authors' tools.
	t.credential(ctx, "zos1", map[string]string{"username": t.zos.user, "ssh_key": private})
}

// copyArchive copies an archive into a manager's pod.
func (t *authorsTool) copyArchive(ctx context.Context, pod, target, edition string) {
	GinkgoHelper()
	local := filepath.Join(GinkgoT().TempDir(), "clients_lab-authors_notes-1.0.0.tar.gz")
	Expect(os.WriteFile(local, Build(authorsNotes(edition)), 0o600)).To(Succeed())
	kubectl(ctx, "cp", "-n", ManagerNamespace, local, pod+":"+target)
}

// create uploads an archive and maps it, with a credential or without.
func (t *authorsTool) create(ctx context.Context, edition string) {
	GinkgoHelper()
	pod, folder := leaderPod(ctx).Name, "/opt/collections/suboperator/authors-notes/1.0.0"
	kubectl(ctx, "exec", "-n", ManagerNamespace, pod, "--", "mkdir", "-p", folder)
	t.copyArchive(ctx, pod, folder+"/clients_lab-authors_notes-1.0.0.tar.gz", edition)
	if Gone(ctx, &v2beta2.ZosEndpoint{ObjectMeta: t.meta("zos1")})(Default) {
		t.endpoint(ctx, "zos1", v2beta2.ZosEndpointSpec{Host: t.zos.host(), Variables: Variables(`"ansible_python_interpreter: /usr/bin/python3"`)})
	}
	Create(ctx, t.collection.DeepCopy())
	Eventually(Field(ctx, t.collection, "status", "phase")).WithContext(ctx).WithTimeout(25 * time.Second).Should(Equal("Successful"))
	wanted := t.soc.DeepCopy()
	wanted.SetGroupVersionKind(v2beta2.GroupVersion.WithKind("SubOperatorConfig"))
	wanted.Spec = v2beta2.SubOperatorConfigSpec{
		OperatorCollection: t.collection.Name, CredentialType: v2beta2.CredentialShared, Install: t.install,
		Mapping: []v2beta2.NamespaceMapping{{Namespace: t.namespace, ZosEndpoints: &[]v2beta2.EndpointMapping{{Name: "zos1", CredentialName: "zos1"}}}},
	}
	kubectlApply(ctx, wanted)
	Eventually(Field(ctx, t.soc, "status", "phase")).WithContext(ctx).WithTimeout(150 * time.Second).Should(Equal("Successful"))
}

// kubectlApply merges an object on the server with whatever is there.
func kubectlApply(ctx context.Context, object client.Object) {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), "object.json")
	Expect(os.WriteFile(file, []byte(MustJSON(object)), 0o600)).To(Succeed())
	kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", file)
}

// expectRuns waits until the one pod that is ready has an archive.
func (t *authorsTool) expectRuns(ctx context.Context, edition string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		pods := readyPods(ctx, t.namespace, client.MatchingLabels{"operator-name": "authors-notes"})(g)
		g.Expect(pods).To(HaveLen(1))
		readme, err := Output(ctx, kubectlPath(), "exec", "-n", t.namespace, pods[0], "-c", "operator", "--", "cat", "/opt/ansible/content/README.md")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(strings.TrimSpace(readme)).To(Equal(edition))
	}).WithContext(ctx).Should(Succeed())
}

// withdraw removes the finalizer of the OperatorCollection and deletes it.
func (t *authorsTool) withdraw(ctx context.Context) {
	GinkgoHelper()
	Patch(ctx, t.collection.DeepCopy(), `{"metadata":{"finalizers":[]}}`)
	Remove(ctx, t.collection.DeepCopy())
	Eventually(Gone(ctx, t.soc)).WithContext(ctx).WithTimeout(140 * time.Second).Should(BeTrue())
}

// expectAnswers asks what the editor extension asks about an operator with a custom resource.
func (t *authorsTool) expectAnswers(ctx context.Context, note *unstructured.Unstructured) {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(K8s.List(ctx, &pods, client.InNamespace(t.namespace), client.MatchingLabels{"operator-name": "authors-notes"})).To(Succeed())
	Expect(pods.Items).To(HaveLen(1))
	for _, init := range pods.Items[0].Spec.InitContainers {
		Expect(init.Name).To(HavePrefix("init-"), "containers that have ended look failed otherwise")
	}
	api := path.Join("/apis/suboperator.zoscb.ibm.com/v1minor0patch0/namespaces", t.namespace, "authorsnotes")
	Expect(kubectl(ctx, "get", "--raw", api)).To(ContainSubstring(`"name":"` + note.GetName() + `"`))
	Eventually(Field(ctx, note, "status", "phase")).WithContext(ctx).Should(Equal("Succeeded"))
	log := path.Join("/tmp/ansible-operator/runner/suboperator.zoscb.ibm.com/v1minor0patch0/AuthorsNote", t.namespace, note.GetName(), "artifacts/latest/stdout")
	Expect(kubectl(ctx, "exec", "-n", t.namespace, pods.Items[0].Name, "--", "cat", log)).To(ContainSubstring("Keep a note"))
	Expect(kubectl(ctx, "exec", "-n", t.namespace, pods.Items[0].Name, "--", "zoscb-encrypt", "version")).To(HavePrefix("zoscb-encrypt "))
	if t.install == v2beta2.InstallOLM {
		name := Field(ctx, t.soc, "status", "clusterserviceversion", "metadata", "name")(Default)
		Expect(kubectl(ctx, "get", "clusterserviceversion", name, "-n", t.namespace, "-o", "jsonpath={.status.phase}")).To(Equal("Succeeded"))
	}
}

// replay are sequences of authors' tools, in their order.
func (t *authorsTool) replay(ctx context.Context) {
	By("create")
	t.create(ctx, "first")
	t.expectRuns(ctx, "first")
	note := t.instance(instanceVersion, "AuthorsNote", "hello", map[string]any{"zosendpoint": "zos1"})
	Create(ctx, note.DeepCopy())
	expectSuccess(ctx, note)
	t.expectAnswers(ctx, note)

	By("redeploy operator")
	t.withdraw(ctx)
	t.create(ctx, "third")
	t.expectRuns(ctx, "third")

	By("delete")
	expectSuccess(ctx, note)
	t.withdraw(ctx)
	Eventually(Condition(ctx, note, "Ready")).WithContext(ctx).Should(And(ConditionFalse(), WithReason("NoOperator")))
	Expect(kubectl(ctx, "describe", "authorsnote", "hello", "-n", t.namespace)).To(ContainSubstring("kubectl collection abandon AuthorsNote/hello"))
	Remove(ctx, note.DeepCopy())
	Run(ctx, "go", "run", "-C", projectDir, "./cmd/kubectl-collection", "abandon", "authorsnote/hello", "-n", t.namespace, "--yes")
	Eventually(Gone(ctx, note)).WithContext(ctx).Should(BeTrue())
}

var _ = Describe("Authors' tools", Serial, Ordered, ContinueOnFailure, func() {
	t := newAuthorsTool("e2e-clients", v2beta2.InstallDirect)
	BeforeAll(t.start, NodeTimeout(5*time.Minute))
	AfterEach(t.explain, NodeTimeout(time.Minute))
	AfterAll(t.cleanUp, NodeTimeout(5*time.Minute))

	It("create a collection, redeploy its operator, and delete it", t.replay, NodeTimeout(12*time.Minute))
})

var _ = Describe("Authors' tools, with the Operator Lifecycle Manager", Label("olm"), Serial, Ordered, ContinueOnFailure, func() {
	t := newAuthorsTool("e2e-clients-olm", v2beta2.InstallOLM)
	BeforeAll(t.start, NodeTimeout(8*time.Minute))
	AfterEach(t.explain, NodeTimeout(time.Minute))
	AfterAll(t.cleanUp, NodeTimeout(8*time.Minute))

	It("create a collection, redeploy its operator, and delete it", t.replay, NodeTimeout(20*time.Minute))
})
