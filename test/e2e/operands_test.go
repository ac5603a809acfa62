//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operandsv1alpha1 "github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/runstatus"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

const operandsName = "collection-operator-operands"

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

// operandsLab is a namespace that offers a group of two operators, and two teams that request them.
type operandsLab struct {
	environment
	zos          *system
	olm          bool
	teamA, teamB string
	suffix       string
}

var _ = Describe("Operand requests", Ordered, func() {
	operandStory(&operandsLab{environment: environment{namespace: "e2e-operands", domain: "operands-lab"}, teamA: "e2e-operands-a", teamB: "e2e-operands-b"})
})

var _ = Describe("Operand requests, by OLM", Label("olm"), Ordered, func() {
	operandStory(&operandsLab{
		environment: environment{namespace: "e2e-operands-olm", domain: "operands-olm-lab"}, teamA: "e2e-operands-olm-a", teamB: "e2e-operands-olm-b", olm: true, suffix: "OLM",
	})
})

func (l *operandsLab) neighbor(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"zoscb.ibm.com/allow-mapping-from": l.namespace}}}
}

// install installs the component beside the manager, as an administrator does.
func (l *operandsLab) install(ctx context.Context) {
	GinkgoHelper()
	Run(ctx, "env", "COMPONENTS="+strings.TrimSpace(os.Getenv("COMPONENTS")+" operands"), filepath.Join(projectDir, "hack", "deploy.sh"),
		"localhost/collection-operator/manager:dev", "localhost/collection-operator/runtime:dev", runtime.GOARCH)
	kubectl(ctx, "rollout", "restart", "-n", ManagerNamespace, "deployment/"+operandsName) // The tag of its image does not change.
	kubectl(ctx, "rollout", "status", "-n", ManagerNamespace, "deployment/"+operandsName, "--timeout=3m")
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

// kill ends the process of the component without a graceful shutdown.
func (l *operandsLab) kill(ctx context.Context) {
	GinkgoHelper()
	Expect(K8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(ManagerNamespace),
		client.MatchingLabels{"app.kubernetes.io/name": operandsName}, client.GracePeriodSeconds(0))).To(Succeed())
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
	for _, name := range []string{l.teamA, l.teamB} {
		Remove(ctx, l.neighbor(name))
		Eventually(Gone(ctx, l.neighbor(name))).WithContext(ctx).Should(BeTrue())
		Create(ctx, l.neighbor(name))
		l.grant(ctx, name, operandsName+"-namespace", operandsName+"-bindings")
	}
	l.grant(ctx, l.namespace, operandsName+"-namespace", operandsName+"-bindings")
	if l.olm {
		l.grant(ctx, l.namespace, operandsName+"-olm")
	}
	l.zos = &system{environment: &l.environment, name: "zos1", user: "ibmuser"}
	l.zos.start(ctx)
	private, public := newKey("")
	l.zos.authorize(ctx, "operator", public)
	l.credential(ctx, "zos1", map[string]string{"username": l.zos.user, "ssh-privatekey": private})
	l.endpoint(ctx, "zos1", v2beta2.ZosEndpointSpec{Host: l.zos.host(), CredentialName: "zos1", Variables: Variables(`"ansible_python_interpreter: /usr/bin/python3"`)})
	for _, name := range []string{"books", "shelves"} {
		Create(ctx,
			&v2beta2.SubOperatorConfig{ObjectMeta: l.meta(name), Spec: v2beta2.SubOperatorConfigSpec{OperatorCollection: name, Mapping: []v2beta2.NamespaceMapping{}}},
			&v2beta2.OperatorCollection{ObjectMeta: l.meta(name), Spec: l.spec(name+".tar.gz", archives[name+".tar.gz"])})
		imported := &v2beta2.OperatorCollection{ObjectMeta: l.meta(name)}
		Eventually(Condition(ctx, imported, v2beta2.ConditionImported)).WithContext(ctx).Should(ConditionTrue())
		if l.olm {
			Eventually(Condition(ctx, imported, v2beta2.ConditionPublished)).WithContext(ctx).Should(ConditionTrue())
		}
	}
}

// offer creates the OperandRegistry, its OperandConfig and an OperandBindInfo.
func (l *operandsLab) offer(ctx context.Context) (*operandsv1alpha1.OperandConfig, *operandsv1alpha1.OperandBindInfo) {
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
	info := &operandsv1alpha1.OperandBindInfo{ObjectMeta: l.meta("books")}
	Expect(yaml.UnmarshalStrict([]byte("{operand: books, registry: group, bindings: {public: {secret: catalog}}}"), &info.Spec)).To(Succeed())
	Create(ctx, registry, config, info, &corev1.Secret{ObjectMeta: l.meta("catalog"), StringData: map[string]string{"url": "here"}})
	return config, info
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

func operandStory(l *operandsLab) {
	BeforeAll(l.start, NodeTimeout(12*time.Minute))
	AfterEach(func(ctx context.Context) {
		l.explain(ctx)
		if CurrentSpecReport().Failed() {
			for _, args := range [][]string{{"get", "opreq,opreg,opcon,opbi", "-A", "-o", "yaml"}, {"logs", "-n", ManagerNamespace, "deployment/" + operandsName, "--tail=50"}} {
				printed, _ := Output(ctx, kubectlPath(), args...)
				GinkgoWriter.Printf("\n$ kubectl %s\n%s\n", strings.Join(args, " "), printed)
			}
		}
	}, NodeTimeout(time.Minute))
	AfterAll(func(ctx context.Context) {
		_, _ = Output(ctx, kubectlPath(), "delete", "operandrequests", "-n", l.teamA, "--all", "--wait=false")
		_, _ = Output(ctx, kubectlPath(), "delete", "operandrequests", "-n", l.teamB, "--all", "--wait=false")
		l.cleanUp(ctx)
		_, _ = Output(ctx, kubectlPath(), "delete", "deployment", "-n", ManagerNamespace, operandsName, "--ignore-not-found")
		Remove(ctx, l.neighbor(l.teamA))
		Remove(ctx, l.neighbor(l.teamB))
	}, NodeTimeout(8*time.Minute))

	It("bring a group to two teams, follow changes, and give it back, also when the manager is killed in each phase", func(ctx context.Context) {
		config, info := l.offer(ctx)
		book, shelf := l.resource("Book", "books"), l.resource("Shelf", "shelves")
		wanted := "{name: books}, {name: shelves}"
		own := Instance("v1minor0patch0", "Book"+l.suffix, l.teamA, "own", nil)
		if !l.olm {
			wanted += fmt.Sprintf(", {name: books, kind: %s, apiVersion: %s, instanceName: own, spec: {zosendpoint: zos1, text: own}}", own.GetKind(), own.GetAPIVersion())
		}
		first, second := l.request(l.teamA, wanted), l.request(l.teamB, "{name: books}")

		By("installing the operators")
		Create(ctx, first, second)
		Eventually(l.installed(ctx, "books", l.namespace)).WithContext(ctx).Should(BeTrue())
		l.kill(ctx)
		for _, request := range []*operandsv1alpha1.OperandRequest{first, second} {
			Eventually(Condition(ctx, request, v2beta2.ConditionReady)).WithContext(ctx).WithTimeout(8*time.Minute).Should(ConditionTrue(), request.Namespace)
			Get(ctx, Default, request)
			Expect(request.Status.Phase).To(Equal(operandsv1alpha1.RequestRunning))
		}
		Expect(l.file(ctx, book)()).To(Equal("one\n"))
		Expect(l.file(ctx, shelf)()).To(Equal("one\n"))
		if !l.olm {
			Expect(l.file(ctx, own)()).To(Equal("own\n"))
		}

		By("changing the configuration while the manager is away")
		l.kill(ctx)
		text := fmt.Sprintf(`{"spec":{"services":[{"name":"books","spec":{"book%[1]s":{"zosendpoint":"zos1","text":"two"}}},{"name":"shelves","spec":{"shelf%[1]s":{"zosendpoint":"zos1","text":"one"}}}]}}`, strings.ToLower(l.suffix))
		Patch(ctx, config, text)
		Eventually(l.file(ctx, book)).WithContext(ctx).WithTimeout(4 * time.Minute).Should(Equal("two\n"))
		Eventually(Condition(ctx, book, runstatus.ConditionReady)).WithContext(ctx).Should(ConditionTrue())

		By("copying a binding, and revoking it")
		copied := func(namespace string) *corev1.Secret {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "books-catalog"}}
		}
		for _, namespace := range []string{l.teamA, l.teamB} {
			Expect(Gone(ctx, copied(namespace))(Default)).To(BeFalse())
		}
		l.kill(ctx)
		Remove(ctx, info)
		for _, namespace := range []string{l.teamA, l.teamB} {
			Eventually(Gone(ctx, copied(namespace))).WithContext(ctx).Should(BeTrue())
		}

		By("deleting the first request")
		Remove(ctx, first)
		Eventually(Condition(ctx, first, v2beta2.ConditionReady)).WithContext(ctx).Should(And(ConditionFalse(), WithReason(operandsv1alpha1.ReasonRemovalWaiting), WithMessage(shelf.GetName())))
		l.kill(ctx)
		Consistently(l.installed(ctx, "shelves", l.namespace)).WithContext(ctx).Should(BeTrue(), "its resource has not ended yet")
		l.zos.shell(ctx, "touch /tmp/window")
		Eventually(Gone(ctx, first)).WithContext(ctx).WithTimeout(5 * time.Minute).Should(BeTrue())
		Expect(Gone(ctx, shelf)(Default)).To(BeTrue())
		Expect(l.file(ctx, shelf)()).To(BeEmpty())
		Expect(l.installed(ctx, "shelves", l.namespace)(Default)).To(BeFalse())
		Expect(l.file(ctx, book)()).To(Equal("two\n"), "the second one has it, too")
		if !l.olm {
			Expect(l.file(ctx, own)()).To(BeEmpty())
			Expect(l.installed(ctx, "books", l.teamA)(Default)).To(BeFalse())
		}

		By("deleting the other one")
		Remove(ctx, second)
		l.kill(ctx)
		Eventually(Gone(ctx, second)).WithContext(ctx).WithTimeout(5 * time.Minute).Should(BeTrue())
		Expect(l.file(ctx, book)()).To(BeEmpty())
		Expect(l.installed(ctx, "books", l.namespace)(Default)).To(BeFalse())
		Eventually(l.leftovers(ctx)).WithContext(ctx).Should(BeEmpty())
	}, NodeTimeout(30*time.Minute))
}

// leftovers lists what is there of the operators and of requests, except what was there before.
func (l *operandsLab) leftovers(ctx context.Context) func(Gomega) string {
	return func(g Gomega) string {
		kinds := "deployments,pods,secrets,configmaps"
		if l.olm {
			kinds += ",subscriptions.operators.coreos.com,clusterserviceversions,operatorgroups"
		}
		var left []string
		for _, namespace := range []string{l.namespace, l.teamA, l.teamB} {
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
