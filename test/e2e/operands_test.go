//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operandsv1alpha1 "github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

const operandsName = "collection-operator-operands"

var operandsPods = client.MatchingLabels{"app.kubernetes.io/name": operandsName}

// operandsFolder is a collection that keeps one file for each resource. Removing the file waits until somebody allows it, as for a window.
func operandsFolder(domain, name, kind string) fs.FS {
	files := map[string]string{
		"galaxy.yml": "{namespace: operands_lab, name: NAME, version: 1.0.0, readme: README.md, authors: [e2e]}",
		"README.md":  "# NAME\n",
		"operator-config.yml": `
domain: DOMAIN
name: NAME
version: 1.0.0
displayName: NAME
description: Keeps files.
resources:
  - kind: KIND
    playbook: keep.yml
    finalizer: remove.yml
    vars:
      - {name: text, displayName: Text, type: string, required: true}
`,
		"keep.yml": `
- name: Keep a file
  hosts: all
  gather_facts: false
  tasks:
    - name: Write it
      ansible.builtin.shell: "echo {{ text | quote }} > /tmp/KIND-{{ ansible_operator_meta.namespace }}-{{ ansible_operator_meta.name }}"
`,
		"remove.yml": `
- name: Remove a file
  hosts: all
  gather_facts: false
  tasks:
    - name: Wait for the window
      ansible.builtin.wait_for: {path: /tmp/window, timeout: 240}
    - name: Remove it
      ansible.builtin.file:
        path: "/tmp/KIND-{{ ansible_operator_meta.namespace }}-{{ ansible_operator_meta.name }}"
        state: absent
`,
	}
	return Folder(files, "DOMAIN", domain, "NAME", name, "KIND", kind)
}

// operandsLab is a namespace that offers a group of two operators, and requests some of them itself, and a team that requests all.
type operandsLab struct {
	environment
	zos    *system
	olm    bool
	team   string
	suffix string
}

var _ = Describe("Operand requests", Slow, Ordered, func() {
	l := &operandsLab{environment: environment{namespace: "e2e-operands", domain: "operands-lab"}, team: "e2e-operands-team"}
	l.prepare()
	It("bring a group to two teams, follow changes, and give it back, also when the component is killed in each phase", l.story)
})

var _ = Describe("Operand requests, by OLM", Label("olm"), Slow, Ordered, func() {
	l := &operandsLab{environment: environment{namespace: "e2e-operands-olm", domain: "operands-olm-lab"}, team: "e2e-operands-olm-team", olm: true, suffix: "OLM"}
	l.prepare()
	It("bring packages to two teams, follow changes, and give them back, also when the component is killed", l.storyOfPackages)
})

// neighbor is the namespace of the team.
func (l *operandsLab) neighbor() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.team, Annotations: map[string]string{"zoscb.ibm.com/allow-mapping-from": l.namespace}}}
}

// install installs the component beside the manager, as an administrator does.
func (l *operandsLab) install(ctx context.Context) {
	GinkgoHelper()
	kubectl(ctx, "delete", "deployment", "-n", ManagerNamespace, operandsName, "--ignore-not-found") // The tag of its image does not change.
	Run(ctx, "env", "COMPONENTS="+strings.TrimSpace(os.Getenv("COMPONENTS")+" operands"), filepath.Join(projectDir, "hack", "deploy.sh"),
		"localhost/collection-operator/manager:dev", "localhost/collection-operator/runtime:dev", runtime.GOARCH)
}

// runs waits until the component runs.
func (l *operandsLab) runs(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) []corev1.Pod {
		var pods corev1.PodList
		g.Expect(K8s.List(ctx, &pods, client.InNamespace(ManagerNamespace), operandsPods)).To(Succeed())
		return pods.Items
	}).Should(ConsistOf(HaveField("Status.Conditions", ContainElement(And(
		HaveField("Type", corev1.PodReady), HaveField("Status", corev1.ConditionTrue))))))
}

// grant lets the component write in a namespace.
func (l *operandsLab) grant(ctx context.Context, namespace string, roles ...string) {
	GinkgoHelper()
	for _, role := range roles {
		Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ManagerNamespace, Name: operandsName}},
		})
	}
}

// kill ends the process of the component as a crash of its node would, if the node is this machine, and lets another one begin at once.
func (l *operandsLab) kill(ctx context.Context) {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(K8s.List(ctx, &pods, client.InNamespace(ManagerNamespace), operandsPods)).To(Succeed())
	killed := 0
	for i := range pods.Items {
		for _, pid := range processesOf(pods.Items[i].UID, "/manager") {
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed++
			}
		}
		Expect(client.IgnoreNotFound(K8s.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0)))).To(Succeed())
	}
	AddReportEntry("kill", fmt.Sprintf("%d processes of %d pods", killed, len(pods.Items)))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: ManagerNamespace, Name: "operands.collection-operator.zoscb.ibm.com"}}
	Expect(client.IgnoreNotFound(K8s.Delete(ctx, lease))).To(Succeed())
}

// processesOf returns those of a pod on this machine that run a program.
func processesOf(pod types.UID, program string) []int {
	GinkgoHelper()
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	Expect(err).NotTo(HaveOccurred())
	var found []int
	for _, file := range files {
		groups, _ := os.ReadFile(file) // The process may have ended.
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && strings.Contains(string(groups), "pod"+string(pod)) && strings.HasPrefix(string(command), program+"\x00") {
			found = append(found, pid)
		}
	}
	return found
}

func (l *operandsLab) start(ctx context.Context) {
	GinkgoHelper()
	if l.olm {
		expectOLM(ctx)
	}
	l.install(ctx)
	archives := archivesOf(map[string]fs.FS{
		"books.tar.gz": operandsFolder(l.domain, "books", "Book"+l.suffix), "shelves.tar.gz": operandsFolder(l.domain, "shelves", "Shelf"+l.suffix),
	})
	l.environment.start(ctx, archives)
	for _, name := range []string{"books", "shelves"} {
		Create(ctx,
			&v2beta2.SubOperatorConfig{ObjectMeta: l.meta(name), Spec: v2beta2.SubOperatorConfigSpec{OperatorCollection: name, Mapping: []v2beta2.NamespaceMapping{}}},
			&v2beta2.OperatorCollection{ObjectMeta: l.meta(name), Spec: l.spec(name+".tar.gz", archives[name+".tar.gz"])})
	}
	Remove(ctx, l.neighbor())
	Eventually(ctx, Gone(ctx, l.neighbor())).Should(BeTrue())
	Create(ctx, l.neighbor())
	for _, namespace := range []string{l.namespace, l.team} {
		l.grant(ctx, namespace, operandsName+"-namespace", operandsName+"-bindings")
	}
	if l.olm {
		l.grant(ctx, l.namespace, operandsName+"-olm")
	}
	l.startSystem(ctx)
	for _, name := range []string{"books", "shelves"} {
		imported := &v2beta2.OperatorCollection{ObjectMeta: l.meta(name)}
		Eventually(ctx, Condition(ctx, imported, v2beta2.ConditionImported)).Should(ConditionTrue())
		if l.olm {
			Eventually(ctx, Condition(ctx, imported, v2beta2.ConditionPublished)).Should(ConditionTrue())
		}
	}
	l.runs(ctx)
}

func (l *operandsLab) startSystem(ctx context.Context) {
	GinkgoHelper()
	l.zos = &system{environment: &l.environment, name: "zos1", user: "ibmuser"}
	l.zos.start(ctx)
	private, public := newKey("")
	l.zos.authorize(ctx, "operator", public)
	l.credential(ctx, "zos1", map[string]string{"username": l.zos.user, "ssh-privatekey": private})
	l.endpoint(ctx, "zos1", v2beta2.ZosEndpointSpec{Host: l.zos.host(), CredentialName: "zos1", Variables: Variables(`"ansible_python_interpreter: /usr/bin/python3"`)})
}

// offer creates the OperandRegistry and its OperandConfig.
func (l *operandsLab) offer(ctx context.Context) *operandsv1alpha1.OperandConfig {
	GinkgoHelper()
	operator := func(name string) string {
		if l.olm {
			return fmt.Sprintf("{name: %[1]s, packageName: %[2]s-%[1]s-operator, channel: v1.0.0, scope: public}", name, l.domain)
		}
		return fmt.Sprintf("{name: %[1]s, collection: {name: %[1]s}, scope: public}", name)
	}
	registry := &operandsv1alpha1.OperandRegistry{ObjectMeta: l.meta("group")}
	Expect(yaml.UnmarshalStrict(fmt.Appendf(nil, "{operators: [%s, %s]}", operator("books"), operator("shelves")), &registry.Spec)).To(Succeed())
	config := &operandsv1alpha1.OperandConfig{ObjectMeta: l.meta("group")}
	Expect(yaml.UnmarshalStrict(fmt.Appendf(nil, "{services: [{name: books, spec: {book%[1]s: {zosendpoint: zos1, text: one}}}, {name: shelves, spec: {shelf%[1]s: {zosendpoint: zos1, text: one}}}]}",
		strings.ToLower(l.suffix)), &config.Spec)).To(Succeed())
	Create(ctx, registry, config)
	return config
}

// bind gives a Secret to those who request books.
func (l *operandsLab) bind(ctx context.Context) *operandsv1alpha1.OperandBindInfo {
	GinkgoHelper()
	info := &operandsv1alpha1.OperandBindInfo{ObjectMeta: l.meta("books")}
	Expect(yaml.UnmarshalStrict([]byte("{operand: books, registry: group, bindings: {public: {secret: catalog}}}"), &info.Spec)).To(Succeed())
	Create(ctx, info, &corev1.Secret{ObjectMeta: l.meta("catalog"), StringData: map[string]string{"url": "here"}})
	return info
}

func (l *operandsLab) request(namespace, operands string) *operandsv1alpha1.OperandRequest {
	GinkgoHelper()
	request := &operandsv1alpha1.OperandRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "team"}}
	Expect(yaml.UnmarshalStrict(fmt.Appendf(nil, "{requests: [{registry: group, registryNamespace: %s, operands: [%s]}]}", l.namespace, operands), &request.Spec)).To(Succeed())
	return request
}

// resource is that which the OperandConfig creates: its name is that of the example, or of the operand.
func (l *operandsLab) resource(kind, operand string) *unstructured.Unstructured {
	name := operand
	if l.olm {
		name = "example"
	}
	return l.instance("v1minor0patch0", kind+l.suffix, name, nil)
}

func (l *operandsLab) file(ctx context.Context, object *unstructured.Unstructured) func() string {
	return func() string {
		return l.zos.shell(ctx, "cat /tmp/"+object.GetKind()+"-"+object.GetNamespace()+"-"+object.GetName()+" 2>/dev/null || true")
	}
}

// installed reports whether something installs the operator of a collection in the namespace.
func (l *operandsLab) installed(ctx context.Context, name, namespace string) func(Gomega) bool {
	return func(g Gomega) bool {
		if l.olm {
			return !Gone(ctx, l.subscriptionOf(name))(g)
		}
		soc := &v2beta2.SubOperatorConfig{ObjectMeta: l.meta(name)}
		Get(ctx, g, soc)
		for _, m := range soc.Spec.Mapping {
			if m.Namespace == namespace {
				return true
			}
		}
		return false
	}
}

func (l *operandsLab) subscriptionOf(name string) client.Object {
	s := subscription(l.namespace)
	s.Name = l.domain + "-" + name + "-operator"
	return s
}

// prepare defines what happens before and after the specs.
func (l *operandsLab) prepare() {
	BeforeAll(l.start)
	AfterEach(func(ctx context.Context) {
		l.explain(ctx)
		if CurrentSpecReport().Failed() {
			for _, args := range [][]string{{"get", "opreq,opreg,opcon,opbi", "-A", "-o", "yaml"}, {"logs", "-n", ManagerNamespace, "deployment/" + operandsName, "--tail=50"}} {
				printed, _ := Output(ctx, kubectlPath(), args...)
				GinkgoWriter.Printf("\n$ kubectl %s\n%s\n", strings.Join(args, " "), printed)
			}
		}
	})
	AfterAll(func(ctx context.Context) {
		for _, namespace := range []string{l.team, l.namespace} {
			_, _ = Output(ctx, kubectlPath(), "delete", "operandrequests", "-n", namespace, "--all", "--wait=false")
		}
		l.cleanUp(ctx)
		_, _ = Output(ctx, kubectlPath(), "delete", "deployment", "-n", ManagerNamespace, operandsName, "--ignore-not-found")
		Remove(ctx, l.neighbor())
	})
}

// comes creates requests, kills the component while it installs operators, and waits until all is there.
func (l *operandsLab) comes(ctx context.Context, requests ...*operandsv1alpha1.OperandRequest) {
	GinkgoHelper()
	for _, request := range requests {
		Create(ctx, request)
	}
	Eventually(ctx, l.installed(ctx, "books", l.namespace)).Should(BeTrue())
	l.kill(ctx)
	for _, request := range requests {
		Eventually(ctx, Condition(ctx, request, v2beta2.ConditionReady)).WithTimeout(InstallTimeout).Should(ConditionTrue(), request.Namespace)
		Get(ctx, Default, request)
		Expect(request.Status.Phase).To(Equal(operandsv1alpha1.RequestRunning))
	}
}

// changes is the patch of an OperandConfig that gives books another text.
func (l *operandsLab) changes() string {
	return fmt.Sprintf(`{"spec":{"services":[{"name":"books","spec":{"book%[1]s":{"zosendpoint":"zos1","text":"two"}}},{"name":"shelves","spec":{"shelf%[1]s":{"zosendpoint":"zos1","text":"one"}}}]}}`,
		strings.ToLower(l.suffix))
}

func (l *operandsLab) story(ctx context.Context) {
	config, info := l.offer(ctx), l.bind(ctx)
	book, shelf := l.resource("Book", "books"), l.resource("Shelf", "shelves")
	own := Instance("v1minor0patch0", "Book", l.team, "own", nil)
	first := l.request(l.team, fmt.Sprintf("{name: books}, {name: shelves}, {name: books, kind: %s, apiVersion: %s, instanceName: own, spec: {zosendpoint: zos1, text: own}}",
		own.GetKind(), own.GetAPIVersion()))
	second := l.request(l.namespace, "{name: books}")
	copies := []*corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Namespace: l.team, Name: "books-catalog"}}, {ObjectMeta: l.meta("books-catalog")}}

	By("installing the operators")
	l.comes(ctx, first, second)
	for object, text := range map[*unstructured.Unstructured]string{book: "one\n", shelf: "one\n", own: "own\n"} {
		Expect(l.file(ctx, object)()).To(Equal(text))
	}
	for _, secret := range copies {
		Expect(Gone(ctx, secret)(Default)).To(BeFalse())
	}

	By("changing the configuration, and revoking the binding, while the component is away")
	l.kill(ctx)
	Patch(ctx, config, l.changes())
	Remove(ctx, info)
	for _, secret := range copies {
		Eventually(ctx, Gone(ctx, secret)).Should(BeTrue())
	}
	Eventually(ctx, l.file(ctx, book)).Should(Equal("two\n"))
	Eventually(ctx, Condition(ctx, book, runstatus.ConditionReady)).Should(ConditionTrue())

	By("deleting the first request")
	Remove(ctx, first)
	Eventually(ctx, Condition(ctx, first, v2beta2.ConditionReady)).Should(And(ConditionFalse(), WithReason(operandsv1alpha1.ReasonRemovalWaiting), WithMessage(shelf.GetName())))
	l.kill(ctx)
	l.runs(ctx)
	Consistently(ctx, l.installed(ctx, "shelves", l.namespace)).WithTimeout(3*time.Second).Should(BeTrue(), "its resource has not ended yet")
	l.zos.shell(ctx, "touch /tmp/window")
	Eventually(ctx, Gone(ctx, first)).Should(BeTrue())
	Expect(Gone(ctx, shelf)(Default)).To(BeTrue())
	for _, object := range []*unstructured.Unstructured{shelf, own} {
		Expect(l.file(ctx, object)()).To(BeEmpty())
	}
	Expect(l.installed(ctx, "shelves", l.namespace)(Default)).To(BeFalse())
	Expect(l.installed(ctx, "books", l.team)(Default)).To(BeFalse())
	Expect(l.file(ctx, book)()).To(Equal("two\n"), "the second one has it, too")

	By("deleting the other one")
	Remove(ctx, second)
	Eventually(ctx, Gone(ctx, second)).Should(BeTrue())
	Expect(l.file(ctx, book)()).To(BeEmpty())
	Expect(l.installed(ctx, "books", l.namespace)(Default)).To(BeFalse())
	Eventually(ctx, l.leftovers(ctx)).Should(BeEmpty())
}

// storyOfPackages has only what is different with OLM.
func (l *operandsLab) storyOfPackages(ctx context.Context) {
	config := l.offer(ctx)
	l.zos.shell(ctx, "touch /tmp/window")
	book, shelf := l.resource("Book", "books"), l.resource("Shelf", "shelves")
	first, second := l.request(l.team, "{name: books}, {name: shelves}"), l.request(l.namespace, "{name: books}")
	l.comes(ctx, first, second)
	Patch(ctx, config, l.changes())
	Eventually(ctx, l.file(ctx, book)).Should(Equal("two\n"))
	Eventually(ctx, Condition(ctx, book, runstatus.ConditionReady)).Should(ConditionTrue())
	for _, request := range []*operandsv1alpha1.OperandRequest{first, second} {
		Remove(ctx, request)
	}
	l.kill(ctx)
	for _, request := range []*operandsv1alpha1.OperandRequest{first, second} {
		Eventually(ctx, Gone(ctx, request)).Should(BeTrue())
	}
	for object, name := range map[*unstructured.Unstructured]string{book: "books", shelf: "shelves"} {
		Expect(l.file(ctx, object)()).To(BeEmpty())
		Expect(l.installed(ctx, name, l.namespace)(Default)).To(BeFalse())
	}
	Eventually(ctx, l.leftovers(ctx)).Should(BeEmpty())
}

// leftovers lists what is there of the operators and of requests, except what was there before.
func (l *operandsLab) leftovers(ctx context.Context) func(Gomega) string {
	return func(g Gomega) string {
		kinds := "deployments,pods,secrets,configmaps"
		if l.olm {
			kinds += ",subscriptions.operators.coreos.com,clusterserviceversions,operatorgroups"
		}
		var left []string
		for _, namespace := range []string{l.namespace, l.team} {
			for _, selector := range []string{"operator.ibm.com/opreq-control=true", "operator-domain=" + l.domain} {
				printed, err := Output(ctx, kubectlPath(), "get", kinds, "-n", namespace, "-l", selector, "-o", "name")
				g.Expect(err).NotTo(HaveOccurred(), printed)
				if lines := strings.TrimSpace(printed); lines != "" && !strings.HasPrefix(lines, "No resources") {
					left = append(left, lines)
				}
			}
		}
		return strings.Join(left, "\n")
	}
}
