package integration

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/source/archive"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// dumpingPlaybook writes the extra variables that it gets to a file, and something to the status.
const dumpingPlaybook = `- hosts: all
  gather_facts: false
  tasks:
    - name: Dump
      ansible.builtin.copy:
        dest: "{{ path }}"
        mode: "0600"
        content: >-
          {% set all = {} %}
          {% for name in query('varnames', '^(path|size|title|tags|flag|region|zosendpoint|color|k8s_|ansible_operator_meta|zoscb_|_)') %}
          {% set _ = all.update({name: lookup('vars', name)}) %}
          {% endfor %}
          {{ all | to_nice_json }}
    - name: Report
      operator_sdk.util.k8s_status:
        api_version: "{{ k8s_cr_version }}"
        kind: "{{ k8s_cr_kind }}"
        name: "{{ ansible_operator_meta.name }}"
        namespace: "{{ ansible_operator_meta.namespace }}"
        status: {region: ready}
      delegate_to: localhost
`

// hostPod is an operator's pod whose container runs on this machine: the installed engine, the real ansible-operator and Ansible, with
// the files that the manager has written to the cluster.
type hostPod struct {
	root, namespace, operator string
}

// startHostPod starts the operator of a sample.
func startHostPod(ctx context.Context, namespace string, s *sample) *hostPod {
	GinkgoHelper()
	root, err := os.MkdirTemp("/tmp", "pod") // Sockets lie in it.
	Expect(err).NotTo(HaveOccurred())
	p := &hostPod{root: root, namespace: namespace, operator: s.operator()}
	DeferCleanup(func() {
		Expect(os.RemoveAll(root)).To(Succeed())
		kinds, _ := filepath.Glob("/tmp/ansible-operator/runner/*/*/" + s.kind)
		for _, folder := range kinds {
			Expect(os.RemoveAll(folder)).To(Succeed())
		}
	})
	install := exec.CommandContext(ctx, filepath.Join(projectDir(), "internal/run/engine/install.sh"), root, "--engine-binary", EngineBinary, "--with-operator-sdk-util")
	out, err := install.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	p.mount(ctx)
	p.unpack(s)
	p.start(NewPod(ctx, namespace, "operator-1"))
	return p
}

// local replaces the paths of a pod.
func (p *hostPod) local(text string) string {
	return strings.NewReplacer("/opt/ansible/", p.root+"/opt/ansible/", "/etc/zoscb/", p.root+"/etc/zoscb/", "/usr/share/", p.root+"/usr/share/").Replace(text)
}

func (p *hostPod) write(name, content string) {
	GinkgoHelper()
	path := filepath.Join(p.root, name)
	Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
	Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
}

// mount writes what the kubelet would mount, once the endpoint is there.
func (p *hostPod) mount(ctx context.Context) {
	GinkgoHelper()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.operator + "-runtime"}}
	endpoints := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.operator + "-endpoints"}}
	Eventually(ctx, func(g Gomega) {
		Get(ctx, g, config)
		Get(ctx, g, endpoints)
		g.Expect(endpoints.Data).To(HaveKey("lpar1_vars.yaml"))
	}).Should(Succeed())
	for name, content := range config.Data {
		p.write("etc/zoscb/runtime/"+name, p.local(content))
	}
	p.write("opt/ansible/collections/runs.json", p.local(config.Data["runs.json"]))
	for name, content := range endpoints.Data {
		p.write("etc/zoscb/endpoints/"+name, string(content))
	}
}

func (p *hostPod) unpack(s *sample) {
	GinkgoHelper()
	content, err := os.OpenRoot(filepath.Join(p.root, "opt/ansible/content"))
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = content.Close() }()
	Expect(archive.Extract(bytes.NewReader(s.archive()), content, archive.Limits{})).To(Succeed())
}

// start starts the container's entrypoint.
func (p *hostPod) start(pod *corev1.Pod) {
	GinkgoHelper()
	StartForwarder().WriteKubeconfig(filepath.Join(p.root, "kubeconfig"), "")
	env := []string{
		"PATH=" + filepath.Join(projectDir(), ".devcluster/bin") + ":/usr/local/bin:/usr/bin:/bin", "ZOSCB_HOME=" + p.root + "/opt/ansible/home",
		"WATCH_NAMESPACE=" + p.namespace, "POD_NAME=" + pod.Name, "POD_UID=" + string(pod.UID),
		"KUBECONFIG=" + p.root + "/kubeconfig", "ZOSCB_KUBECONFIG=" + p.root + "/kubeconfig",
		"ZOSCB_TERMINATION_LOG=" + p.root + "/termination-log", "ANSIBLE_LOCAL_TEMP=" + p.root + "/tmp",
	}
	defaults, err := os.ReadFile(filepath.Join(projectDir(), "internal/run/engine/env"))
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(defaults)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && p.local(line) != line {
			env = append(env, p.local(line))
		}
	}
	command := exec.Command(filepath.Join(p.root, "opt/ansible/engine/entrypoint"), "run", "--watches-file="+p.root+"/etc/zoscb/runtime/watches.yaml",
		"--inject-owner-ref=false", "--ansible-verbosity=0", "--ansible-log-events=Nothing", "--reconcile-period=0s",
		"--health-probe-bind-address=0", "--metrics-bind-address=0", "--graceful-shutdown-timeout=5s")
	command.Env, command.Dir = env, p.root
	command.Stdout, command.Stderr = GinkgoWriter, GinkgoWriter
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	Expect(command.Start()).To(Succeed())
	ended := make(chan struct{})
	go func() {
		_ = command.Wait()
		close(ended)
	}()
	DeferCleanup(func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
			<-ended
		}
	})
}

// volatile are fields of a status that differ between two runs.
var volatile = map[string]bool{
	"id": true, "started": true, "finished": true, "lastTransitionTime": true, "completion": true,
}

// withoutVolatile returns a status without the history and without what differs between two runs.
func withoutVolatile(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, field := range value {
			if name == "history" {
				continue
			}
			out[name] = withoutVolatile(field)
			if volatile[name] {
				out[name] = "differs"
			}
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, item := range value {
			out[i] = withoutVolatile(item)
		}
		return out
	case int64:
		return float64(value)
	}
	return value
}

var installedIn = regexp.MustCompile(`/tmp/[^/"]+/opt/`)

var _ = Describe("A run without a cluster", func() {
	It("gives the playbook the variables, and the resource the status, that an operator gives", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		s.variables = strings.Join([]string{
			"{name: path, displayName: P, type: string, required: true}", "{name: size, displayName: S, type: integer, default: 3}",
			"{name: title, displayName: T, type: string}", "{name: tags, displayName: T, type: string, array: true}",
			"{name: flag, displayName: F, type: boolean}",
			"{name: region, displayName: R, type: object, objectVariables: [{name: zone, displayName: Z, type: string, default: a}]}",
		}, "\n      - ")
		s.files = map[string]string{"play.yml": dumpingPlaybook}
		dir := GinkgoT().TempDir()
		dump := filepath.Join(dir, "dump")
		takeDump := func() string {
			GinkgoHelper()
			content, err := os.ReadFile(dump)
			Expect(err).NotTo(HaveOccurred())
			Expect(os.Remove(dump)).To(Succeed())
			return installedIn.ReplaceAllString(string(content), "/opt/")
		}
		endpoint := LocalEndpoint(namespace, "lpar1")
		endpoint.Spec.Variables = Variables(`"color=red"`)
		resource := s.instance(namespace, "one")
		resource.Object["spec"] = map[string]any{
			"zosendpoint": "lpar1", "path": dump, "title": "{{ lookup('env', 'HOME') }}", "tags": []any{"a", "{{ b }}"}, "region": map[string]any{},
		}

		By("running it with ansible-operator and a real API server")
		importSample(ctx, namespace, s)
		makeAvailable(ctx, namespace, s.operator())
		Create(ctx, endpoint)
		startHostPod(ctx, namespace, s)
		Create(ctx, resource.DeepCopy())
		DeferCleanup(func(ctx context.Context) {
			_ = TryPatch(ctx, resource.DeepCopy(), `{"metadata":{"finalizers":null}}`)
		})
		live := resource.DeepCopy()
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, live)
			g.Expect(live.Object).To(HaveKeyWithValue("status", HaveKeyWithValue("phase", "Succeeded")))
		}).WithTimeout(InstallTimeout).Should(Succeed(), "ansible-operator and Ansible take their time")
		ofPod := takeDump()
		Expect(ofPod).To(And(ContainSubstring(`"size": 3`), ContainSubstring("{{ b }}"), ContainSubstring(`"color": "red"`), Not(ContainSubstring(`"flag"`))))

		By("running it without a cluster")
		files := map[string]string{"collection.tar.gz": string(s.archive()), "resource.yaml": toYAML(resource), "endpoint.yaml": toYAML(endpoint)}
		for name, content := range files {
			Expect(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)).To(Succeed())
		}
		out := runTool(ctx, 0, toolBinary(), "run", filepath.Join(dir, "collection.tar.gz"), s.kind, "-n", namespace,
			"-f", filepath.Join(dir, "resource.yaml"), "-f", filepath.Join(dir, "endpoint.yaml"))
		Expect(takeDump()).To(Equal(ofPod))
		_, printed, found := strings.Cut(out, "\nStatus:\n")
		Expect(found).To(BeTrue(), out)
		var status map[string]any
		Expect(yaml.Unmarshal([]byte(printed), &status)).To(Succeed())
		Expect(withoutVolatile(status)).To(Equal(withoutVolatile(live.Object["status"])))
		Expect(status).To(HaveKeyWithValue("region", "ready"))
	})
})

func toYAML(object client.Object) string {
	GinkgoHelper()
	object = object.DeepCopyObject().(client.Object)
	gvk, err := K8s.GroupVersionKindFor(object)
	Expect(err).NotTo(HaveOccurred())
	object.GetObjectKind().SetGroupVersionKind(gvk)
	content, err := yaml.Marshal(object)
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}
