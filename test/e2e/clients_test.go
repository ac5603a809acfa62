//go:build e2e

package e2e

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// home has the z/OS system. Authors' tools put collections into the manager's namespace.
	home       *environment
	zos        *system
	key        string
	collection *v2beta2.OperatorCollection
	soc        *v2beta2.SubOperatorConfig
	install    v2beta2.InstallMethod
}

func newAuthorsTool(home, namespace string, install v2beta2.InstallMethod) *authorsTool {
	e := &environment{namespace: namespace, domain: "clients-lab"}
	tool := &authorsTool{environment: e, home: &environment{namespace: home, domain: e.domain}, install: install}
	tool.zos = &system{environment: tool.home, name: "zos1", user: "ibmuser"}
	tool.collection = &v2beta2.OperatorCollection{ObjectMeta: e.meta("authors-notes.clients-lab.1.0.0"), Spec: v2beta2.OperatorCollectionSpec{SkipSignatureVerification: true}}
	tool.collection.Labels = map[string]string{
		"operator-domain": "clients-lab", "operator-name": "authors-notes", "operator-version": "1.0.0", "managed-by": "ibm-zos-cloud-broker",
	}
	tool.soc = &v2beta2.SubOperatorConfig{ObjectMeta: e.meta(tool.collection.Name + "-soc")}
	tool.soc.Labels = tool.collection.Labels
	return tool
}

func (t *authorsTool) start(ctx context.Context) {
	t.removeRest(ctx)
	t.home.start(ctx, map[string][]byte{"none": nil})
	letInstall(ctx, t.install, t.namespace)
	t.zos.start(ctx)
	private, public := newKey("")
	t.key = private
	t.zos.authorize(ctx, t.zos.user, public)
	// Authors' tools set neither a type nor a label.
	Create(ctx, &corev1.Secret{ObjectMeta: t.meta("zos1"), StringData: map[string]string{"username": t.zos.user, "ssh_key": private}})
}

func (t *authorsTool) note() *unstructured.Unstructured {
	return t.instance(instanceVersion, "AuthorsNote", "hello", map[string]any{"zosendpoint": "zos1"})
}

// removeRest removes what a spec that failed has left.
func (t *authorsTool) removeRest(ctx context.Context) {
	for _, object := range []client.Object{t.collection.DeepCopy(), t.note()} {
		if K8s.Get(ctx, client.ObjectKeyFromObject(object), object) == nil { // Its kind may not exist.
			PatchIfFound(ctx, object, `{"metadata":{"finalizers":[]}}`)
			Remove(ctx, object)
		}
	}
	Eventually(ctx, Gone(ctx, t.soc)).WithTimeout(ClientTimeout).Should(BeTrue())
}

func (t *authorsTool) end(ctx context.Context) {
	t.removeRest(ctx)
	Remove(ctx, &v2beta2.ZosEndpoint{ObjectMeta: t.meta("zos1")})
	Remove(ctx, &corev1.Secret{ObjectMeta: t.meta("zos1")})
	Remove(ctx, &corev1.Secret{ObjectMeta: t.meta("made")})
	if t.install == v2beta2.InstallOLM {
		Remove(ctx, &operatorsv1.OperatorGroup{ObjectMeta: t.meta(t.namespace)})
	}
	t.home.cleanUp(ctx)
}

// copyArchive copies an archive into a manager's pod.
func (t *authorsTool) copyArchive(ctx context.Context, pod, target, edition string) {
	GinkgoHelper()
	local := filepath.Join(GinkgoT().TempDir(), "clients_lab-authors_notes-1.0.0.tar.gz")
	Expect(os.WriteFile(local, Build(authorsNotes(edition)), 0o600)).To(Succeed())
	kubectl(ctx, "cp", "-n", ManagerNamespace, local, pod+":"+target)
}

// create uploads an archive and maps it, with a shared credential, or without one as where zoscb-encrypt is missing.
func (t *authorsTool) create(ctx context.Context, edition string, credentials v2beta2.CredentialType) {
	GinkgoHelper()
	pod, folder := leaderPod(ctx).Name, "/opt/collections/suboperator/authors-notes/1.0.0"
	kubectl(ctx, "exec", "-n", ManagerNamespace, pod, "--", "mkdir", "-p", folder)
	t.copyArchive(ctx, pod, folder+"/clients_lab-authors_notes-1.0.0.tar.gz", edition)
	if Gone(ctx, &v2beta2.ZosEndpoint{ObjectMeta: t.meta("zos1")})(Default) {
		t.endpoint(ctx, "zos1", v2beta2.ZosEndpointSpec{Host: t.zos.host(), Variables: Variables(`"ansible_python_interpreter: /usr/bin/python3"`)})
	}
	Create(ctx, t.collection.DeepCopy())
	Eventually(ctx, Field(ctx, t.collection, "status", "phase")).WithTimeout(25 * time.Second).Should(Equal("Successful"))
	endpoint := v2beta2.EndpointMapping{Name: "zos1"}
	if credentials == v2beta2.CredentialShared {
		endpoint.CredentialName = "zos1"
	}
	wanted := t.soc.DeepCopy()
	wanted.SetGroupVersionKind(v2beta2.GroupVersion.WithKind("SubOperatorConfig"))
	wanted.Spec = v2beta2.SubOperatorConfigSpec{
		OperatorCollection: t.collection.Name, CredentialType: credentials, Install: t.install,
		Mapping: []v2beta2.NamespaceMapping{{Namespace: t.namespace, ZosEndpoints: &[]v2beta2.EndpointMapping{endpoint}}},
	}
	kubectlApply(ctx, wanted)
	Eventually(ctx, Field(ctx, t.soc, "status", "phase")).WithTimeout(150 * time.Second).Should(Equal("Successful"))
}

// kubectlApply merges an object on the server with whatever is there.
func kubectlApply(ctx context.Context, object client.Object) {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), "object.json")
	Expect(os.WriteFile(file, []byte(MustJSON(object)), 0o600)).To(Succeed())
	kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", file)
}

// redeploy copies an archive to status.config.collectionPath, and deletes the operator's pods. No pod that is made afterwards runs another
// archive.
func (t *authorsTool) redeploy(ctx context.Context, pod, edition string) {
	GinkgoHelper()
	var target string
	Eventually(ctx, func() string {
		target = Field(ctx, t.collection, "status", "config", "collectionPath")(Default)
		return target
	}).ShouldNot(BeEmpty())
	former := t.pods(ctx)(Default)
	t.copyArchive(ctx, pod, target, edition)
	kubectl(ctx, "delete", "pods", "-n", t.namespace, "-l", "operator-name=authors-notes", "--wait=false")
	Eventually(ctx, func(g Gomega) {
		ready := slices.DeleteFunc(readyPods(ctx, t.namespace, authorsPods)(g), func(name string) bool { return slices.Contains(former, name) })
		g.Expect(ready).NotTo(BeEmpty())
		for _, name := range ready {
			if is := t.edition(ctx, g, name); is != edition {
				StopTrying("pod " + name + " became ready with the archive " + is).Now()
			}
		}
	}).WithPolling(200 * time.Millisecond).Should(Succeed())
	t.expectRuns(ctx, edition)
}

var authorsPods = client.MatchingLabels{"operator-name": "authors-notes"}

// pods are the names of the operator's pods that are not being deleted.
func (t *authorsTool) pods(ctx context.Context) func(Gomega) []string {
	return func(g Gomega) []string {
		var pods corev1.PodList
		g.Expect(K8s.List(ctx, &pods, client.InNamespace(t.namespace), authorsPods)).To(Succeed())
		var names []string
		for _, pod := range pods.Items {
			if pod.DeletionTimestamp == nil {
				names = append(names, pod.Name)
			}
		}
		return names
	}
}

// edition is what the archive that a pod runs says which one it is.
func (t *authorsTool) edition(ctx context.Context, g Gomega, pod string) string {
	readme, err := Output(ctx, kubectlPath(), "exec", "-n", t.namespace, pod, "-c", "operator", "--", "cat", "/opt/ansible/content/README.md")
	g.Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(readme)
}

// expectRuns waits until the one pod that is ready has an archive.
func (t *authorsTool) expectRuns(ctx context.Context, edition string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		pods := readyPods(ctx, t.namespace, authorsPods)(g)
		g.Expect(pods).To(HaveLen(1))
		g.Expect(t.edition(ctx, g, pods[0])).To(Equal(edition))
	}).Should(Succeed())
}

// withdraw removes the finalizer of the OperatorCollection and deletes it.
func (t *authorsTool) withdraw(ctx context.Context) {
	GinkgoHelper()
	Patch(ctx, t.collection.DeepCopy(), `{"metadata":{"finalizers":[]}}`)
	Remove(ctx, t.collection.DeepCopy())
	Eventually(ctx, Gone(ctx, t.soc)).WithTimeout(ClientTimeout).Should(BeTrue())
}

// expectAnswers asks what the editor extension asks about an operator with a custom resource.
func (t *authorsTool) expectAnswers(ctx context.Context, note *unstructured.Unstructured) {
	GinkgoHelper()
	var names []string
	Eventually(ctx, func(g Gomega) {
		names = t.pods(ctx)(g)
		g.Expect(names).To(HaveLen(1))
		g.Expect(readyPods(ctx, t.namespace, authorsPods)(g)).To(Equal(names))
	}).Should(Succeed())
	pod := &corev1.Pod{ObjectMeta: t.meta(names[0])}
	Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
	for _, init := range pod.Spec.InitContainers {
		Expect(init.Name).To(HavePrefix("init-"), "containers that have ended look failed otherwise")
	}
	api := path.Join("/apis/suboperator.zoscb.ibm.com/v1minor0patch0/namespaces", t.namespace, "authorsnotes")
	Expect(kubectl(ctx, "get", "--raw", api)).To(ContainSubstring(`"name":"` + note.GetName() + `"`))
	Eventually(ctx, Field(ctx, note, "status", "phase")).Should(Equal("Succeeded"))
	log := path.Join("/tmp/ansible-operator/runner/suboperator.zoscb.ibm.com/v1minor0patch0/AuthorsNote", t.namespace, note.GetName(), "artifacts/latest/stdout")
	Eventually(ctx, func() (string, error) {
		return Output(ctx, kubectlPath(), "exec", "-n", t.namespace, pod.Name, "--", "cat", log)
	}).Should(ContainSubstring("Keep a note"), "ansible-operator makes the link after the run has ended")
	Expect(kubectl(ctx, "exec", "-n", t.namespace, pod.Name, "--", "zoscb-encrypt", "version")).To(HavePrefix("zoscb-encrypt "))
	if t.install == v2beta2.InstallOLM {
		name := Field(ctx, t.soc, "status", "clusterserviceversion", "metadata", "name")(Default)
		Eventually(ctx, func() string {
			return kubectl(ctx, "get", "clusterserviceversion", name, "-n", t.namespace, "-o", "jsonpath={.status.phase}")
		}).Should(Equal("Succeeded"))
	}
}

// makeCredential makes a Secret as where the author has no zoscb-encrypt: the one in the first container of the operator's pod prints it.
func (t *authorsTool) makeCredential(ctx context.Context) {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	key, manifest := filepath.Join(folder, "key"), filepath.Join(folder, "secret.yaml")
	Expect(os.WriteFile(key, []byte(t.key), 0o600)).To(Succeed())
	pods := t.pods(ctx)(Default)
	Expect(pods).To(HaveLen(1))
	kubectl(ctx, "cp", "-n", t.namespace, key, pods[0]+":/tmp/author.key")
	printed := kubectl(ctx, "exec", "-n", t.namespace, pods[0], "--", "zoscb-encrypt", "credential-secret", "-n", "made", "-u", t.zos.user, "-s", "/tmp/author.key")
	kubectl(ctx, "exec", "-n", t.namespace, pods[0], "--", "rm", "/tmp/author.key")
	Expect(os.WriteFile(manifest, []byte(printed), 0o600)).To(Succeed())
	kubectl(ctx, "apply", "-n", t.namespace, "-f", manifest)
}

// replay are the sequences of authors' tools, in their order.
func (t *authorsTool) replay(ctx context.Context, credentials v2beta2.CredentialType) {
	By("create")
	t.create(ctx, "first", credentials)
	t.expectRuns(ctx, "first")
	note := t.note()
	if credentials == v2beta2.CredentialPersonal {
		note.SetAnnotations(map[string]string{"zoscb.ibm.com/credential": "zos1"})
	}
	Create(ctx, note.DeepCopy())
	expectSuccess(ctx, note)
	t.expectAnswers(ctx, note)
	t.makeCredential(ctx)
	if credentials == v2beta2.CredentialPersonal {
		Patch(ctx, note.DeepCopy(), `{"metadata":{"annotations":{"zoscb.ibm.com/credential":"made"}}}`)
	}

	By("redeploy collection")
	t.redeploy(ctx, leaderPod(ctx).Name, "second")
	ask(ctx, note)
	Eventually(ctx, func() string { return t.zos.shell(ctx, "cat /tmp/note-hello") }).Should(Equal("second"))

	By("redeploy operator")
	t.withdraw(ctx)
	t.create(ctx, "third", credentials)
	t.expectRuns(ctx, "third")

	By("delete")
	expectSuccess(ctx, note)
	t.withdraw(ctx)
	Eventually(ctx, Condition(ctx, note, "Ready")).Should(And(ConditionFalse(), WithReason("NoOperator")))
	Expect(kubectl(ctx, "describe", "authorsnote", "hello", "-n", t.namespace)).To(ContainSubstring("kubectl collection abandon AuthorsNote/hello"))
	Remove(ctx, note.DeepCopy())
	Run(ctx, kubectlCollection, "abandon", "authorsnote/hello", "-n", t.namespace, "--yes")
	Eventually(ctx, Gone(ctx, note)).Should(BeTrue())
}

var _ = Describe("Authors' tools", Serial, Label("serial"), Ordered, ContinueOnFailure, func() {
	t := newAuthorsTool("e2e-clients", ManagerNamespace, v2beta2.InstallDirect)
	BeforeAll(t.start)
	AfterEach(t.explain)
	AfterEach(t.removeRest)
	AfterAll(t.end)

	DescribeTable("create a collection, redeploy it and its operator, and delete it", t.replay,
		Entry("with a shared credential", v2beta2.CredentialShared),
		Entry("with personal credentials", v2beta2.CredentialPersonal),
	)

	It("do so with one manager", func(ctx context.Context) {
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ManagerNamespace, Name: ManagerName}}
		DeferCleanup(func(ctx context.Context) {
			Patch(ctx, set.DeepCopy(), `{"spec":{"replicas":2}}`)
			Eventually(ctx, managersReady(ctx)).WithTimeout(InstallTimeout).Should(HaveLen(2))
		})
		Patch(ctx, set.DeepCopy(), `{"spec":{"replicas":1}}`)
		Eventually(ctx, managersReady(ctx)).Should(HaveLen(1))
		t.replay(ctx, v2beta2.CredentialShared)
	})

	It("redeploy a collection with an archive in the pod of the other manager", func(ctx context.Context) {
		t.create(ctx, "first", v2beta2.CredentialShared)
		t.expectRuns(ctx, "first")
		var other string
		Eventually(ctx, func(g Gomega) {
			leader := leaderPod(ctx).Name
			others := slices.DeleteFunc(managersReady(ctx)(g), func(pod string) bool { return pod == leader })
			g.Expect(others).To(HaveLen(1))
			other = others[0]
		}).WithTimeout(InstallTimeout).Should(Succeed())
		kubectl(ctx, "exec", "-n", ManagerNamespace, other, "--", "mkdir", "-p", "/opt/collections/suboperator/authors-notes/1.0.0")
		t.redeploy(ctx, other, "second")
		t.withdraw(ctx)
	})
})

var _ = Describe("Authors' tools, with the Operator Lifecycle Manager", Label("olm"), Serial, Ordered, ContinueOnFailure, func() {
	t := newAuthorsTool("e2e-clients-olm", ManagerNamespace, v2beta2.InstallOLM)
	BeforeAll(t.start)
	AfterEach(t.explain)
	AfterEach(t.removeRest)
	AfterAll(t.end)

	It("create a collection, redeploy it and its operator, and delete it", func(ctx context.Context) { t.replay(ctx, v2beta2.CredentialShared) })
})
