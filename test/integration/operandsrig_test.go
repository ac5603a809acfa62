package integration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operandsv1alpha1 "github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

const (
	operandsAccount = "collection-operator-operands"
	operandsRole    = operandsAccount + "-namespace"
	operandsUser    = "system:serviceaccount:" + ManagerNamespace + ":" + operandsAccount
)

// operandsProcess runs what handles OperandRequests, as its own ServiceAccount.
type operandsProcess struct {
	kubeconfig, logFile, address string
	command                      *exec.Cmd
}

// startOperands installs the component operands and runs it until the spec ends.
func startOperands(ctx context.Context) *operandsProcess {
	GinkgoHelper()
	applyOperandManifests(ctx)
	dir := GinkgoT().TempDir()
	p := &operandsProcess{kubeconfig: filepath.Join(dir, "kubeconfig"), logFile: filepath.Join(dir, "log"), address: freeAddress()}
	writeKubeconfig(ctx, operandsAccount, p.kubeconfig)
	p.start(ctx)
	DeferCleanup(func() {
		p.kill()
		log, err := os.ReadFile(p.logFile)
		Expect(err).NotTo(HaveOccurred())
		if CurrentSpecReport().Failed() {
			AddReportEntry("the log of the component operands", string(log))
		}
		Expect(linesWith(string(log), "panic")).To(BeEmpty())
	})
	return p
}

func applyOperandManifests(ctx context.Context) {
	GinkgoHelper()
	files, err := filepath.Glob(filepath.Join(projectDir(), "config/components/operands/crd/*.yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(files).To(HaveLen(4))
	for _, name := range []string{"role.yaml", "user_roles.yaml"} {
		files = append(files, filepath.Join(projectDir(), "config/components/operands", name))
	}
	for _, file := range files {
		for _, object := range Manifests(file) {
			Expect(K8s.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("integration"))).To(Succeed(), file)
		}
	}
	for _, plural := range []string{"operandregistries", "operandconfigs", "operandrequests", "operandbindinfos"} {
		serve(ctx, customResourceDefinition(plural+".operator.ibm.com"), "v1alpha1")
	}
}

func (p *operandsProcess) prepare(ctx context.Context) *exec.Cmd {
	command := exec.CommandContext(ctx, filepath.Join(binaries, "manager"), "operands", "--leader-elect=false",
		"--manager-namespace="+ManagerNamespace, "--health-probe-bind-address="+p.address)
	command.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig)
	return command
}

func (p *operandsProcess) start(ctx context.Context) {
	GinkgoHelper()
	log, err := os.OpenFile(p.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	Expect(err).NotTo(HaveOccurred())
	defer log.Close()
	p.command = p.prepare(context.WithoutCancel(ctx))
	p.command.Stdout, p.command.Stderr = log, log
	Expect(p.command.Start()).To(Succeed())
	Eventually(ctx, func(g Gomega) {
		response, err := http.Get("http://" + p.address + "/readyz")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
	}).Should(Succeed())
}

// kill ends the process as a crash of its node would.
func (p *operandsProcess) kill() {
	GinkgoHelper()
	Expect(p.command.Process.Kill()).To(Succeed())
	_ = p.command.Wait()
}

// grantOperands lets the component write in a namespace, as an administrator does with the command in its messages. It returns when the
// API server knows: the component asks again after a minute only.
func grantOperands(ctx context.Context, namespace, role string) {
	GinkgoHelper()
	Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ManagerNamespace, Name: operandsAccount}},
	})
	resource, group := "things", SharedGroup
	switch role {
	case operandsBindingsRole:
		resource, group = "secrets", ""
	case operandsOLMRole:
		resource, group = "subscriptions", "operators.coreos.com"
	}
	awaitRight(ctx, operandsUser, namespace, "create", resource, group)
}

// tools is a namespace with an installed collection, and an OperandRegistry and OperandConfig named tools.
type tools struct {
	namespace string
	sample    *sample
	oc        *v2beta2.OperatorCollection
	registry  *operandsv1alpha1.OperandRegistry
	config    *operandsv1alpha1.OperandConfig
}

// newTools offers an operator named files, with this scope. Its OperandConfig creates one resource of its kind, with this spec.
func newTools(ctx context.Context, scope, spec string) *tools {
	GinkgoHelper()
	t := &tools{namespace: newNamespace(ctx), sample: newSample()}
	t.sample.variables = "{name: size, displayName: Size, type: integer, default: 3}\n      - {name: note, displayName: Note, type: string}"
	t.oc = installSample(ctx, t.namespace, t.sample)
	grantOperands(ctx, t.namespace, operandsRole)
	object := metav1.ObjectMeta{Namespace: t.namespace, Name: "tools"}
	t.registry = &operandsv1alpha1.OperandRegistry{ObjectMeta: object}
	Expect(yaml.UnmarshalStrict([]byte("{operators: [{name: files, collection: {name: oc}, scope: "+scope+"}]}"), &t.registry.Spec)).To(Succeed())
	t.config = &operandsv1alpha1.OperandConfig{ObjectMeta: object}
	Expect(yaml.UnmarshalStrict(fmt.Appendf(nil, "{services: [{name: files, spec: {%s: %s}}]}", strings.ToLower(t.sample.kind), spec), &t.config.Spec)).To(Succeed())
	Create(ctx, t.registry, t.config)
	return t
}

// shared is the resource that the OperandConfig creates.
func (t *tools) shared() *unstructured.Unstructured { return t.instance(t.namespace, "files") }

func (t *tools) instance(namespace, name string) *unstructured.Unstructured {
	return Instance(t.sample.apiVersion(), t.sample.kind, namespace, name, nil)
}

// request asks for operands of the OperandRegistry, and is deleted when the spec ends.
func (t *tools) request(ctx context.Context, namespace, name string, operands ...string) *operandsv1alpha1.OperandRequest {
	GinkgoHelper()
	request := &operandsv1alpha1.OperandRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	text := fmt.Sprintf("{requests: [{registry: tools, registryNamespace: %s, operands: [%s]}]}", t.namespace, strings.Join(operands, ", "))
	Expect(yaml.UnmarshalStrict([]byte(text), &request.Spec)).To(Succeed())
	Create(ctx, request)
	DeferCleanup(func(ctx context.Context) {
		Remove(ctx, request)
		Eventually(ctx, Gone(ctx, request)).Should(BeTrue())
	})
	return request
}

// own asks for a resource of the collection's kind in the namespace of the request.
func (t *tools) own(name string) string {
	return fmt.Sprintf("{name: files, kind: %s, apiVersion: %s/%s, instanceName: %s, spec: {zosendpoint: lpar1, size: 8}}",
		t.sample.kind, SharedGroup, t.sample.apiVersion(), name)
}

// succeed plays the part of an operator whose playbook succeeded.
func succeed(ctx context.Context, instance *unstructured.Unstructured) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		live := Live(ctx, g, instance)
		g.Expect(unstructured.SetNestedField(live.Object, map[string]any{
			"observedGeneration": live.GetGeneration(),
			"conditions": []any{map[string]any{
				"type": "Ready", "status": "True", "reason": "Succeeded", "message": "done", "lastTransitionTime": "2026-01-01T00:00:00Z",
			}},
		}, "status")).To(Succeed())
		g.Expect(K8s.Status().Update(ctx, live)).To(Succeed())
	}).Should(Succeed())
}

// operandWrites are the writes of the component since a mark, as verb and path, except events.
func (m *auditMark) operandWrites() []string {
	GinkgoHelper()
	for _, event := range m.log.Next() {
		if event.User.Username == operandsUser && !event.DryRun() && event.ObjectRef.Resource != "events" && event.ObjectRef.Resource != "selfsubjectreviews" {
			m.writes = append(m.writes, event.Verb+" "+event.RequestURI)
		}
	}
	return m.writes
}

// phaseOf is the phase of a request, if its status is of its present generation.
func phaseOf(ctx context.Context, request *operandsv1alpha1.OperandRequest) func(Gomega) string {
	return func(g Gomega) string {
		Get(ctx, g, request)
		if request.Status.ObservedGeneration != request.Generation {
			return ""
		}
		return request.Status.Phase
	}
}
