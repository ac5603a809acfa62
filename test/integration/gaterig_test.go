package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/gate"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

const (
	// gateGroup and gateKind are the kind of the gate's specs, which no manager knows.
	gateGroup = "gate.example.com"
	gateKind  = "Job"
	// gateOperator is the name of the operator and of its Lease.
	gateOperator = "gate-operator"
)

// engineBinary is what stands in for ansible-runner in the runtime image.
func engineBinary() string { return filepath.Join(binaries, "engine") }

// operatorPod is an operator's pod as the gate sees it: files, environment, API server, and the real ansible-runner, which is
// a shell script.
type operatorPod struct {
	dir, namespace, podName, podUID string
	// kind of its resources.
	kind string
	// playbook is the path of the author's.
	playbook string
	settings gate.Settings
	api      *forwarder
	calls    int
}

// newOperatorPod makes a pod that holds the lock, with a local endpoint lpar1.
func newOperatorPod(ctx context.Context, namespace string) *operatorPod {
	GinkgoHelper()
	p := newPodOfOperator(ctx, namespace, gateOperator, "operator-1")
	p.addEndpoint(ctx, localEndpoint(namespace, "lpar1"))
	return p
}

// newPodOfOperator makes a pod without endpoints that holds the lock of its operator.
func newPodOfOperator(ctx context.Context, namespace, operator, podName string) *operatorPod {
	GinkgoHelper()
	pod := newPod(ctx, namespace, podName)
	dir, err := os.MkdirTemp("/tmp", "gate") // A socket lies in it, whose path must be short.
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	p := &operatorPod{dir: dir, namespace: namespace, kind: gateKind, podName: pod.Name, podUID: string(pod.UID), playbook: "/opt/ansible/content/job.yml", api: startForwarder()}
	p.settings = gate.Settings{
		Version: "1.0.0", Digest: "sha256:1", Operator: operator, Group: gateGroup, APIVersion: "v1",
		RerunOn: gate.DefaultRerunOn(), MaxRetries: gate.DefaultMaxRetries, MaxArtifacts: 3,
		Kinds: map[string]gate.KindSettings{gateKind: {
			Plural:    "jobs",
			Variables: []gate.Variable{{Name: "title"}, {Name: "password", Secret: true}, {Name: "follows", Reference: "jobs"}},
		}},
	}
	p.writeSettings()
	p.write("endpoints/"+gate.RecordKeyFile, strings.Repeat("k", gate.RecordKeyBytes))
	p.api.writeKubeconfig(filepath.Join(dir, "kubeconfig"), "")
	p.write("bin/real-runner", "")
	Expect(os.Symlink(engineBinary(), filepath.Join(dir, "bin/ansible-runner"))).To(Succeed())
	Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: operator},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(p.podName + "_" + p.podUID)},
	})
	return p
}

func (p *operatorPod) write(name, content string) {
	GinkgoHelper()
	path := filepath.Join(p.dir, name)
	Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
	Expect(os.WriteFile(path, []byte(content), 0o700)).To(Succeed())
}

func (p *operatorPod) read(name string) string {
	content, _ := os.ReadFile(filepath.Join(p.dir, name))
	return string(content)
}

func (p *operatorPod) writeSettings() {
	GinkgoHelper()
	p.write("runtime/"+gate.SettingsFile, MustJSON(p.settings))
}

// realRunner sets what a run does. $DIR is the pod's folder. plays counts the runs.
func (p *operatorPod) realRunner(script string) {
	GinkgoHelper()
	p.write("bin/real-runner", fmt.Sprintf(`#!/bin/sh
DIR=%s
echo play >>$DIR/plays
mkdir -p "$2/artifacts/$6"
report() { echo "$1" >"$ZOSCB_RUN_REPORT.new" && mv "$ZOSCB_RUN_REPORT.new" "$ZOSCB_RUN_REPORT"; }
%s
`, p.dir, script))
}

const wellDone = `report '{"ended": "successful", "host": "lpar1", "tasks": {"ok": 1, "changed": 1, "failed": 0, "unreachable": 0, "skipped": 0}}'`

func (p *operatorPod) plays() int { return strings.Count(p.read("plays"), "play") }

// reconciliation is one call of ansible-runner by ansible-operator.
type reconciliation struct {
	command *exec.Cmd
	server  *http.Server
	ended   chan struct{}
	mutex   sync.Mutex
	posted  []map[string]any
	took    time.Duration
}

// start calls ansible-runner for a resource as ansible-operator would that has it in its cache.
func (p *operatorPod) start(cached *unstructured.Unstructured) *reconciliation {
	GinkgoHelper()
	p.calls++
	ident := strconv.Itoa(1000 + p.calls)
	folder := p.folder(cached.GetName())
	socket := filepath.Join(p.dir, ident+".sock")
	event := "create"
	if cached.GetDeletionTimestamp() != nil {
		event = "delete"
	}
	vars := map[string]any{
		"ansible_operator_meta": map[string]any{"namespace": p.namespace, "name": cached.GetName()},
		"k8s_cr_event":          event, "k8s_cr_kind": p.kind, "k8s_cr_group": gateGroup, "k8s_cr_version": gateGroup + "/v1", "k8s_managed": true,
		"_gate_example_com_job": map[string]any{}, "zoscb_playbook": p.playbook, "zoscb_inventory_name": "",
	}
	spec, _, _ := unstructured.NestedMap(cached.Object, "spec")
	for name, value := range spec {
		vars[name] = markUnsafe(value)
	}
	p.write(folder+"/env/extravars", MustJSON(vars))
	p.write(folder+"/env/settings", MustJSON(map[string]string{"runner_http_url": socket, "runner_http_path": "/events/"}))
	r := &reconciliation{ended: make(chan struct{})}
	r.listen(socket)
	output, err := os.OpenFile(filepath.Join(p.dir, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	Expect(err).NotTo(HaveOccurred())
	r.command = exec.Command(filepath.Join(p.dir, "bin/ansible-runner"), "run", filepath.Join(p.dir, folder), "--rotate-artifacts", "20", "-p", "/entry.yml", "-i", ident)
	r.command.Env = append(p.environment(), "KUBECONFIG=/nonexistent", "K8S_AUTH_KUBECONFIG=/nonexistent")
	r.command.ExtraFiles = []*os.File{output}
	r.command.Stdout, r.command.Stderr = GinkgoWriter, GinkgoWriter
	started := time.Now()
	Expect(r.command.Start()).To(Succeed())
	Expect(output.Close()).To(Succeed())
	go func() {
		_ = r.command.Wait()
		r.took = time.Since(started)
		_ = r.server.Close()
		latest := filepath.Join(p.dir, folder, "artifacts/latest")
		_ = os.Remove(latest)
		_ = os.Symlink(filepath.Join(p.dir, folder, "artifacts", ident), latest)
		close(r.ended)
	}()
	return r
}

// markUnsafe marks all texts in a value, as ansible-operator does.
func markUnsafe(value any) any {
	switch value := value.(type) {
	case string:
		return map[string]any{"__ansible_unsafe": value}
	case []any:
		items := make([]any, len(value))
		for i, item := range value {
			items[i] = markUnsafe(item)
		}
		return items
	case map[string]any:
		fields := map[string]any{}
		for name, field := range value {
			fields[name] = markUnsafe(field)
		}
		return fields
	}
	return value
}

func (p *operatorPod) environment() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "WATCH_NAMESPACE=" + p.namespace, "POD_NAME=" + p.podName, "POD_UID=" + p.podUID,
		"ZOSCB_KUBECONFIG=" + filepath.Join(p.dir, "kubeconfig"), "ZOSCB_OUTPUT_FD=3",
		"ZOSCB_SETTINGS=" + filepath.Join(p.dir, "runtime", gate.SettingsFile), "ZOSCB_ENDPOINTS_DIR=" + filepath.Join(p.dir, "endpoints"),
		"ZOSCB_STATE_DIR=" + filepath.Join(p.dir, "state"), "ZOSCB_ANSIBLE_RUNNER=" + filepath.Join(p.dir, "bin/real-runner"),
	}
}

func (p *operatorPod) folder(name string) string {
	return filepath.Join("runs", p.kind, p.namespace, name)
}

// reconcile returns the answer of a call with the resource as it is now: "done", or when to ask again.
func (p *operatorPod) reconcile(ctx context.Context, object client.Object) string {
	GinkgoHelper()
	return p.start(Live(ctx, NewWithT(GinkgoT()), object)).answer(ctx)
}

// about matches an answer that counts from the end of a run, at most ten seconds before.
func about(after time.Duration) types.GomegaMatcher {
	return WithTransform(time.ParseDuration, BeNumerically("~", after-5*time.Second, 5*time.Second))
}

func (r *reconciliation) listen(socket string) {
	GinkgoHelper()
	listener, err := net.Listen("unix", socket)
	Expect(err).NotTo(HaveOccurred())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /events/", func(w http.ResponseWriter, request *http.Request) {
		var event map[string]any
		if request.Header.Get("Content-Type") != "application/json" || json.NewDecoder(request.Body).Decode(&event) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.posted = append(r.posted, event)
		w.WriteHeader(http.StatusNoContent)
	})
	r.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	go func() { _ = r.server.Serve(listener) }()
}

// answer waits for the end of the call. It reads the events as ansible-operator does.
func (r *reconciliation) answer(ctx context.Context) string {
	GinkgoHelper()
	Eventually(r.ended).WithContext(ctx).WithTimeout(2 * time.Minute).Should(BeClosed())
	Expect(r.posted).To(HaveLen(1), "the answer is one event")
	event := r.posted[0]
	Expect(event["uuid"]).NotTo(BeEmpty())
	if event["event"] == "playbook_on_stats" {
		return "done"
	}
	data, _ := event["event_data"].(map[string]any)
	Expect(data).To(HaveKeyWithValue("task_action", "operator_sdk.util.requeue_after"))
	result, _ := data["res"].(map[string]any)
	return fmt.Sprint(result["period"])
}

// newJob makes a resource with a finalizer.
func newJob(ctx context.Context, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	GinkgoHelper()
	job := jobIn(gateGroup, namespace, name, spec)
	job.SetFinalizers([]string{gateGroup + "/finalizer"})
	Create(ctx, job)
	DeferCleanup(func(ctx context.Context) {
		_ = TryPatch(ctx, job.DeepCopy(), `{"metadata":{"finalizers":null}}`)
		Remove(ctx, job)
	})
	return job
}

// jobIn is a resource of the specs' kind in an API group.
func jobIn(group, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": gateKind, "metadata": map[string]any{"namespace": namespace, "name": name}, "spec": spec,
	}}
}

// makeGateKind makes the CRD of the specs' kind.
func makeGateKind(ctx context.Context) { makeGateKindIn(ctx, gateGroup) }

// makeGateKindIn makes the CRD of the specs' kind in an API group.
func makeGateKindIn(ctx context.Context, group string) {
	GinkgoHelper()
	anything := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "jobs." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "jobs", Singular: "job", Kind: gateKind, ListKind: "JobList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": anything, "status": anything},
				}},
			}},
		},
	}
	Create(ctx, crd)
	DeferCleanup(func(ctx context.Context) {
		Remove(ctx, crd)
		Eventually(goneInTheEnd(ctx, crd)).WithContext(ctx).Should(BeTrue())
	})
	Eventually(func(g Gomega) {
		Get(ctx, g, crd)
		g.Expect(established(crd)).To(BeTrue())
	}).WithContext(ctx).Should(Succeed())
}

// newPod makes a pod that no node runs.
func newPod(ctx context.Context, namespace, name string) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false),
			Containers:                   []corev1.Container{{Name: "operator", Image: "operator"}},
		},
	}
	Eventually(func() error { return K8s.Create(ctx, pod) }).WithContext(ctx).Should(Succeed(), "once the namespace has a ServiceAccount")
	return pod
}

// forwarder stands between a pod and the API server, and can be stopped.
type forwarder struct {
	address string
	mutex   sync.Mutex
	stopped bool
	open    map[net.Conn]bool
}

func startForwarder() *forwarder {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)
	f := &forwarder{address: listener.Addr().String(), open: map[net.Conn]bool{}}
	target := strings.TrimPrefix(RestConfig.Host, "https://")
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", target)
			if err != nil || !f.add(from, to) {
				_ = from.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				}()
			}
		}
	}()
	return f
}

func (f *forwarder) add(connections ...net.Conn) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, connection := range connections {
		if f.stopped {
			_ = connection.Close()
			continue
		}
		f.open[connection] = true
	}
	return !f.stopped
}

// stop ends all connections, and new ones at once.
func (f *forwarder) stop() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.stopped = true
	for connection := range f.open {
		_ = connection.Close()
	}
	clear(f.open)
}

func (f *forwarder) resume() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.stopped = false
}

// writeKubeconfig writes the configuration of a client that is an administrator, or the given user.
func (f *forwarder) writeKubeconfig(path, user string) {
	GinkgoHelper()
	config := clientcmdapi.NewConfig()
	config.Clusters["cluster"] = &clientcmdapi.Cluster{
		Server: "https://" + f.address, CertificateAuthority: RestConfig.CAFile, CertificateAuthorityData: RestConfig.CAData,
	}
	config.AuthInfos["user"] = &clientcmdapi.AuthInfo{
		Token: RestConfig.BearerToken, ClientCertificate: RestConfig.CertFile, ClientCertificateData: RestConfig.CertData,
		ClientKey: RestConfig.KeyFile, ClientKeyData: RestConfig.KeyData, Impersonate: user,
	}
	config.Contexts["context"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: "user"}
	config.CurrentContext = "context"
	Expect(clientcmd.WriteToFile(*config, path)).To(Succeed())
}
