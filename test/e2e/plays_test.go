//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// plays is an environment with the collection whose runs can be counted.
type plays struct {
	environment
	// archives by file name: 1.0.0.tar.gz and 1.1.0.tar.gz.
	archives map[string][]byte
	// version of the API in which resources are read and written.
	version string
	// kinds is the prefix of the names of the kinds.
	kinds string
}

const playsVersion = "v1minor0patch0"

// newPlays returns an environment. Environments of this kind share their kinds, so that they must not clean up while
// another one is used.
func newPlays(namespace string) *plays {
	return newPlaysOf(namespace, "runs-lab", "")
}

// newPlaysOf returns an environment whose collection has another domain, and kinds with a prefix. It can be used beside others.
func newPlaysOf(namespace, domain, kinds string) *plays {
	return &plays{environment: environment{namespace: namespace, domain: domain}, version: playsVersion, kinds: kinds}
}

// name is that of the OperatorCollection.
func (p *plays) name() string { return "zos-plays." + p.domain }

// deployment is the name of the operator.
func (p *plays) deployment() string { return p.domain + "-zos-plays-operator" }

// folder is a version of the collection, with further variables of its kind Play in YAML.
func (p *plays) folder(version, variables string) fs.FS {
	GinkgoHelper()
	folder := map[string]string{}
	root := os.DirFS(filepath.Join(projectDir, "test", "collections", "runs"))
	Expect(fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, name)
		folder[name] = string(content)
		return err
	})).To(Succeed())
	const hold = "\n      - name: hold\n"
	Expect(folder["operator-config.yml"]).To(ContainSubstring(hold))
	folder["operator-config.yml"] = strings.Replace(folder["operator-config.yml"], hold, strings.TrimSuffix(variables, "\n")+hold, 1)
	return Folder(folder, "version: 1.0.0", "version: "+version, "runs-lab", p.domain, "runs_lab", strings.ReplaceAll(p.domain, "-", "_"),
		"kind: ", "kind: "+p.kinds)
}

// pyzVariable is a field that version 1.1.0 adds. Endpoints have a variable of the same name.
const pyzVariable = `
      - name: PYZ
        displayName: Python
        type: string
        default: /tmp/evil
`

// begin creates the namespace and serves both versions.
func (p *plays) begin(ctx context.Context) {
	GinkgoHelper()
	p.archives = archivesOf(map[string]fs.FS{
		"1.0.0.tar.gz": p.folder("1.0.0", ""), "1.1.0.tar.gz": p.folder("1.1.0", pyzVariable),
	})
	p.start(ctx, p.archives)
}

func (p *plays) system(name string) *system {
	return &system{environment: &p.environment, name: name, user: "ibmuser"}
}

// connectTo starts a system and registers it as an endpoint of the same name.
func (p *plays) connectTo(ctx context.Context, name string) *system {
	GinkgoHelper()
	zos := p.system(name)
	p.connect(ctx, zos, v2beta2.ZosEndpointSpec{})
	return zos
}

// connect starts a system and registers it as an endpoint of the same name, with further settings.
func (p *plays) connect(ctx context.Context, zos *system, spec v2beta2.ZosEndpointSpec) {
	GinkgoHelper()
	zos.start(ctx)
	private, public := newKey("")
	zos.authorize(ctx, "operator", public)
	p.credential(ctx, zos.name, map[string]string{"username": zos.user, "ssh-privatekey": private})
	spec.CredentialName = zos.name
	p.register(ctx, zos.name, zos, spec)
}

// register registers a system as an endpoint.
func (p *plays) register(ctx context.Context, name string, zos *system, spec v2beta2.ZosEndpointSpec) {
	GinkgoHelper()
	spec.Host = zos.host()
	spec.Variables = Variables(`"PYZ=/usr"`, `"ansible_python_interpreter: '{{ PYZ }}/bin/python3'"`)
	p.endpoint(ctx, name, spec)
}

// collection is the OperatorCollection of a version.
func (p *plays) collection(version string) *v2beta2.OperatorCollection {
	return &v2beta2.OperatorCollection{ObjectMeta: p.meta(p.name()), Spec: p.spec(version+".tar.gz", p.archives[version+".tar.gz"])}
}

// importing imports a version with settings for its runtime, and waits until its operator runs.
func (p *plays) importing(ctx context.Context, version string, settings map[string]any) {
	GinkgoHelper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p.collection(version))
	Expect(err).NotTo(HaveOccurred())
	oc := &unstructured.Unstructured{Object: content}
	oc.SetGroupVersionKind(v2beta2.GroupVersion.WithKind("OperatorCollection"))
	Expect(unstructured.SetNestedMap(oc.Object, settings, "spec", "runtime")).To(Succeed())
	Create(ctx, oc)
	Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).WithTimeout(InstallTimeout).Should(ConditionTrue())
}

func (p *plays) play(name, endpoint string, fields map[string]any) *unstructured.Unstructured {
	spec := map[string]any{"zosendpoint": endpoint, "note": "first"}
	maps.Copy(spec, fields)
	return p.instance(p.version, p.kinds+"Play", name, spec)
}

// setting is a file on an endpoint, which can be checked for drift.
func (p *plays) setting(name, endpoint, content string) *unstructured.Unstructured {
	return p.instance(p.version, p.kinds+"Setting", name, map[string]any{"zosendpoint": endpoint, "path": "/tmp/" + name, "content": content})
}

// playsNamed are resources with names of a prefix and a number.
func (p *plays) playsNamed(prefix string, count int, endpoint string, fields map[string]any) []*unstructured.Unstructured {
	var list []*unstructured.Unstructured
	for i := range count {
		list = append(list, p.play(fmt.Sprintf("%s-%02d", prefix, i), endpoint, fields))
	}
	return list
}

// statusOf is what a resource tells of its runs.
func statusOf(g Gomega, live *unstructured.Unstructured) runstatus.Status {
	var status runstatus.Status
	fields, _, err := unstructured.NestedMap(live.Object, "status")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status)).To(Succeed())
	return status
}

// lastRun is the last run of a resource, an empty one if there was none.
func lastRun(ctx context.Context, object client.Object) func(Gomega) runstatus.Run {
	return func(g Gomega) runstatus.Run {
		if run := statusOf(g, Live(ctx, g, object)).LastRun; run != nil {
			return *run
		}
		return runstatus.Run{}
	}
}

func withOutcome(outcome gate.Outcome) OmegaMatcher { return HaveField("Outcome", outcome) }

// waitsFor is the reason why the run of a resource waits for its endpoint, or "".
func waitsFor(ctx context.Context, object client.Object) func(Gomega) endpoint.Reason {
	return func(g Gomega) endpoint.Reason {
		if waiting := statusOf(g, Live(ctx, g, object)).Waiting; waiting != nil {
			return endpoint.Reason(waiting.Reason)
		}
		return ""
	}
}

// live lists the resources of kind Play whose names have a prefix.
func (p *plays) live(ctx context.Context, g Gomega, prefix string) []unstructured.Unstructured {
	return p.liveIn(ctx, g, p.namespace, "Play", prefix)
}

// liveIn lists the resources of a kind in a namespace whose names have a prefix.
func (p *plays) liveIn(ctx context.Context, g Gomega, namespace, kind, prefix string) []unstructured.Unstructured {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(SharedGroup + "/" + p.version)
	list.SetKind(p.kinds + kind + "List")
	g.Expect(K8s.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
	return slices.DeleteFunc(list.Items, func(u unstructured.Unstructured) bool { return !strings.HasPrefix(u.GetName(), prefix) })
}

// phases counts the resources with a prefix by phase.
func (p *plays) phases(ctx context.Context, prefix string) func(Gomega) map[runstatus.Phase]int {
	return func(g Gomega) map[runstatus.Phase]int {
		counted := map[runstatus.Phase]int{}
		for _, object := range p.live(ctx, g, prefix) {
			counted[statusOf(g, &object).Phase]++
		}
		return counted
	}
}

// snapshot has what changes with any write to a resource, and the ID of its last run.
func (p *plays) snapshot(ctx context.Context, g Gomega, prefix string) map[string]string {
	seen := map[string]string{}
	for _, object := range p.live(ctx, g, prefix) {
		status := statusOf(g, &object)
		g.Expect(status.LastRun).NotTo(BeNil(), object.GetName())
		seen[object.GetName()] = fmt.Sprintf("%s %s, resource version %s", status.Phase, status.LastRun.ID, object.GetResourceVersion())
	}
	return seen
}

// lines counts the equal lines that the playbooks left on a system.
func (s *system) lines(ctx context.Context) map[string]int {
	GinkgoHelper()
	counted := map[string]int{}
	for line := range strings.Lines(s.shell(ctx, "cat /tmp/plays 2>/dev/null || true")) {
		counted[strings.TrimSpace(line)]++
	}
	return counted
}

// logons is how often somebody logged on to the system.
func (s *system) logons(ctx context.Context) int {
	GinkgoHelper()
	return strings.Count(s.log(ctx), "Accepted publickey")
}

// waits reports whether a playbook waits in its middle, having created a file.
func (s *system) waits(ctx context.Context, file string) func() string {
	return func() string { return s.shell(ctx, "ls /tmp/"+file+" 2>/dev/null || true") }
}

// pod is the only pod of the operator, which must be ready, or nil.
func (p *plays) pod(ctx context.Context, g Gomega) *corev1.Pod {
	var pods corev1.PodList
	g.Expect(K8s.List(ctx, &pods, client.InNamespace(p.namespace), client.MatchingLabels{"operator-name": "zos-plays"})).To(Succeed())
	g.Expect(pods.Items).To(HaveLen(1))
	return &pods.Items[0]
}

// ready returns the time at which the operator's pod became ready, the zero time if it is not ready or was there before.
func (p *plays) ready(ctx context.Context, before types.UID) func(Gomega) time.Time {
	return func(g Gomega) time.Time {
		pod := p.pod(ctx, g)
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pod.UID != before && pod.DeletionTimestamp == nil {
				return c.LastTransitionTime.Time
			}
		}
		return time.Time{}
	}
}

// askedScript prints the names of the resources with a prefix for which ansible-operator has started a run in the pod, and
// one line for each such run that has not ended.
const askedScript = `
for folder in /tmp/ansible-operator/runner/*/*/*Play/*/"$1"*/env/extravars; do
	[ -e "$folder" ] && basename "${folder%/env/extravars}"
done
grep -lzE "[P]lay/[^/]+/$1" /proc/[0-9]*/cmdline 2>/dev/null || true
`

// asked are the resources with a prefix that the pod's gate was asked about, and the processes of their runs.
func (p *plays) asked(ctx context.Context, prefix string) func() ([]string, error) {
	return func() ([]string, error) {
		printed, err := Output(ctx, kubectlPath(), "exec", "-n", p.namespace, "deployment/"+p.deployment(), "-c", "operator", "--",
			"/bin/sh", "-uc", askedScript, "asked", prefix)
		return strings.Fields(printed), err
	}
}

// expectNoPlays does something that replaces the operator's pod, and expects the resources with a prefix to be as before,
// without a logon, once the new pod has looked at all of them. It prints how long that takes, in which other runs have a part.
func (p *plays) expectNoPlays(ctx context.Context, what, prefix string, zos *system, replace func(context.Context)) {
	GinkgoHelper()
	names := slices.Sorted(maps.Keys(p.snapshot(ctx, Default, prefix)))
	before, logons, plays := p.snapshot(ctx, Default, prefix), zos.logons(ctx), zos.lines(ctx)
	Expect(before).To(HaveEach(HavePrefix(string(runstatus.PhaseSucceeded))))
	old := p.pod(ctx, Default).UID
	begin := time.Now()
	replace(ctx)
	var ready time.Time
	Eventually(ctx, p.ready(ctx, old)).Should(Not(BeZero()))
	ready = p.ready(ctx, old)(Default)
	Eventually(ctx, p.asked(ctx, prefix)).Should(And(ContainElements(names), Not(ContainElement(HavePrefix("/proc")))), "all resources were looked at")
	Expect(p.snapshot(ctx, Default, prefix)).To(Equal(before))
	took := time.Since(ready)
	Expect(zos.logons(ctx)-logons).To(BeZero(), "logons")
	Expect(zos.lines(ctx)).To(Equal(plays))
	AddReportEntry(what, fmt.Sprintf("%d resources as before %.1f s after the new pod was ready, without a logon; %.1f s in all",
		len(before), took.Seconds(), time.Since(begin).Seconds()), ReportEntryVisibilityAlways)
}

// killPod deletes the operator's pod, as anybody may.
func (p *plays) killPod(ctx context.Context) {
	GinkgoHelper()
	Remove(ctx, p.pod(ctx, Default))
}

// collectionTool runs kubectl collection in the namespace. It returns what was printed to both outputs.
func (p *plays) collectionTool(ctx context.Context, args ...string) (string, error) {
	return p.collectionToolIn(ctx, p.namespace, args...)
}

func (p *plays) collectionToolIn(ctx context.Context, namespace string, args ...string) (string, error) {
	printed, err := exec.CommandContext(ctx, kubectlCollection, append(args, "-n", namespace)...).CombinedOutput()
	return string(printed), err
}
