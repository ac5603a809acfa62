//go:build e2e

package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
	"github.com/collection-operator/collection-operator/test/registry"
)

// registryScript serves a folder. What is below /private/ needs the credentials of the specs.
const registryScript = `
import base64, http.server, os

class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        allowed = ("Token " + os.environ["TOKEN"], "Basic " + base64.b64encode(os.environ["BASIC"].encode()).decode())
        if self.path.startswith("/private/") and self.headers.get("Authorization") not in allowed:
            self.send_error(401)
            return
        super().do_GET()

os.chdir("/srv")
http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever()
`

const (
	dependencyToken    = "e2e-galaxy-t0ken"
	dependencyPassword = "e2e-pip-passw0rd"
)

// dependentConfig is the operator-config of a collection with one kind, whose playbook is dependentPlaybook.
const dependentConfig = `
domain: deps-lab
name: NAME
version: 1.0.0
displayName: NAME
resources:
  - {kind: KIND, playbook: play.yml}
`

// dependentPlaybook says on status what a dependency says.
const dependentPlaybook = `
- name: Tell what the dependencies say
  hosts: all
  gather_facts: false
  tasks:
    - name: Tell it
      operator_sdk.util.k8s_status:
        api_version: "{{ k8s_cr_version }}"
        kind: "{{ k8s_cr_kind }}"
        name: "{{ ansible_operator_meta.name }}"
        namespace: "{{ ansible_operator_meta.namespace }}"
        status:
          said: "SAID"
      delegate_to: localhost
`

// sayingModules is a collection whose filter modules_versions returns the versions of Python modules.
func sayingModules(name, version string) registry.Collection {
	return registry.Collection{Namespace: "depslab", Name: name, Version: version, Files: map[string]string{
		"plugins/filter/modules_versions.py": "import importlib\n\n\ndef modules_versions(names):\n" +
			"    return '" + name + " " + version + " with ' + ' '.join(importlib.import_module(n).__version__ for n in names)\n\n\n" +
			"class FilterModule:\n    def filters(self):\n        return {'modules_versions': modules_versions}\n",
	}}
}

// dependent is the folder of a collection that says something and has further files.
func dependent(name, kind, said string, files map[string]string) fs.FS {
	all := map[string]string{"play.yml": strings.ReplaceAll(dependentPlaybook, "SAID", said)}
	maps.Copy(all, files)
	return Minimal("deps-lab", name, "1.0.0", strings.NewReplacer("NAME", name, "KIND", kind).Replace(dependentConfig), all)
}

// What collections need is installed, or named.
var _ = Describe("A collection with dependencies", Ordered, ContinueOnFailure, func() {
	e := &dependencyEnvironment{environment: environment{namespace: "e2e-dependencies", domain: "deps-lab"}}

	BeforeAll(func(ctx context.Context) {
		e.archives = archivesOf(dependentCollections())
		e.start(ctx, e.archives)
		e.startRegistry(ctx)
		Create(ctx, &v2beta2.ZosEndpoint{ObjectMeta: e.meta("here"), Spec: v2beta2.ZosEndpointSpec{EndpointType: v2beta2.EndpointLocal}})
	})
	AfterEach(e.explain)
	AfterAll(e.cleanUp)

	It("gets collections from the archive and a Galaxy server, packages from an index and a folder of wheels", e.installsAll)
	It("says all that is missing, keeps calm, and goes on by itself once the server has it", e.heals)
	It("says which versions exclude each other", e.namesConflicts)
	It("says that the image's ansible-core does not fit", e.checksAnsible)
	It("logs on to the servers, and shows the credentials nowhere", e.logsOn)
})

func dependentCollections() map[string]fs.FS {
	local, wheel := sayingModules("local", "1.0.0"), registry.Package{Name: "deps-wheel", Version: "0.1"}
	return map[string]fs.FS{
		"all.tar.gz": dependent("all", "AllDep", "{{ ['deps_wheel'] | depslab.local.modules_versions }}, {{ ['deps_index'] | depslab.far.modules_versions }}", map[string]string{
			"meta/runtime.yml":             "requires_ansible: '>=2.14.0'\n",
			"collections/requirements.yml": "collections:\n- name: deps/" + local.FileName() + "\n  type: file\n- {name: depslab.far, version: '>=1.0.0,<2.0.0'}\n",
			"deps/" + local.FileName():     string(local.Archive()),
			"requirements.txt":             "deps-index<2  # from the index\nPyYAML\n",
			"collections/requirements.txt": "--no-index\n--find-links ../wheels\ndeps-wheel==0.1\n",
			"wheels/" + wheel.FileName():   string(wheel.Wheel()),
		}),
		"late.tar.gz": dependent("late", "LateDep", "{{ ['deps_late'] | depslab.late.modules_versions }}", map[string]string{
			"requirements.yml": "- {name: depslab.late, version: '>=1.0.0'}\n",
			"requirements.txt": "deps-late>=1\n",
		}),
		"conflict.tar.gz": dependent("conflict", "ConflictDep", "nothing", map[string]string{
			"collections/requirements.yml": "collections: [depslab.left, depslab.right]\n",
			"requirements.txt":             "deps-index>=2\n",
			"roles/x/requirements.txt":     "deps-index<2\n",
		}),
		"ansible.tar.gz": dependent("ansible", "AnsibleDep", "nothing", map[string]string{"meta/runtime.yml": "requires_ansible: '>=99.1'\n"}),
		"private.tar.gz": dependent("private", "PrivateDep", "{{ ['deps_index'] | depslab.far.modules_versions }}", map[string]string{
			"collections/requirements.yml": "collections: [depslab.far]\n", "requirements.txt": "deps-index\n",
		}),
	}
}

type dependencyEnvironment struct {
	environment
	archives map[string][]byte
}

func (e *dependencyEnvironment) registryURL() string {
	return "http://registry." + e.namespace + ".svc.cluster.local"
}

// startRegistry starts the Galaxy server and package index.
func (e *dependencyEnvironment) startRegistry(ctx context.Context) {
	GinkgoHelper()
	labels := map[string]string{"app": "registry"}
	container := corev1.Container{
		Name: "http", Image: "localhost/collection-operator/ssh-target:dev", ImagePullPolicy: corev1.PullIfNotPresent,
		Command:        []string{"python3", "-c", registryScript},
		Env:            []corev1.EnvVar{{Name: "TOKEN", Value: dependencyToken}, {Name: "BASIC", Value: "pipuser:" + dependencyPassword}},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}}},
		VolumeMounts:   []corev1.VolumeMount{{Name: "srv", MountPath: "/srv"}},
	}
	Create(ctx, &appsv1.Deployment{ObjectMeta: e.meta("registry"), Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{container}, TerminationGracePeriodSeconds: new(int64),
			Volumes: []corev1.Volume{{Name: "srv", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		}},
	}}, &corev1.Service{ObjectMeta: e.meta("registry"), Spec: corev1.ServiceSpec{
		Selector: labels, Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}})
	kubectl(ctx, "rollout", "status", "-n", e.namespace, "deployment/registry", "--timeout=3m")
	needs := func(name, dependency, version string) registry.Collection {
		return registry.Collection{Namespace: "depslab", Name: name, Version: "1.0.0", Dependencies: map[string]string{dependency: version}}
	}
	e.offer(ctx, "", []registry.Collection{
		sayingModules("far", "1.0.0"), sayingModules("far", "1.1.0"), sayingModules("far", "2.0.0"),
		needs("left", "depslab.far", ">=2.0.0"), needs("right", "depslab.far", "<2.0.0"),
	}, []registry.Package{{Name: "deps-index", Version: "1.0"}, {Name: "deps-index", Version: "2.0"}})
	e.offer(ctx, "/private", []registry.Collection{sayingModules("far", "1.1.0")}, []registry.Package{{Name: "deps-index", Version: "1.0"}})
}

// offer adds collections and packages to what the registry offers below a path.
func (e *dependencyEnvironment) offer(ctx context.Context, path string, collections []registry.Collection, packages []registry.Package) {
	GinkgoHelper()
	packed := registry.Tarball(registry.Files(e.registryURL()+path, collections, packages))
	kubectl(ctx, "exec", "-n", e.namespace, "deployment/registry", "--", "/bin/sh", "-euc",
		fmt.Sprintf("mkdir -p /srv%s; echo %s | base64 -d | tar xzC /srv%s", path, base64.StdEncoding.EncodeToString(packed), path))
}

// importing creates an OperatorCollection; the manager makes the SubOperatorConfig.
func (e *dependencyEnvironment) importing(ctx context.Context, name string, dependencies *v2beta2.DependenciesSpec) (*v2beta2.OperatorCollection, *v2beta2.SubOperatorConfig) {
	GinkgoHelper()
	oc := &v2beta2.OperatorCollection{ObjectMeta: e.meta(name + ".deps-lab.1.0.0"), Spec: v2beta2.OperatorCollectionSpec{
		CollectionURL:             "http://archives." + e.namespace + ".svc.cluster.local/" + name + ".tar.gz",
		SkipSignatureVerification: true, DeletionPolicy: v2beta2.DeletionFinalize, Dependencies: dependencies,
	}}
	Create(ctx, oc)
	return oc, &v2beta2.SubOperatorConfig{ObjectMeta: e.meta(oc.Name + "-soc")}
}

func (e *dependencyEnvironment) servers(path string) *v2beta2.DependenciesSpec {
	return &v2beta2.DependenciesSpec{GalaxyURL: e.registryURL() + path + registry.GalaxyPath, PipIndexURL: e.registryURL() + path + registry.IndexPath}
}

// says runs a playbook and checks what it says.
func (e *dependencyEnvironment) says(ctx context.Context, kind, text string) {
	GinkgoHelper()
	object := e.instance("v1minor0patch0", kind, "one", map[string]any{"zosendpoint": "here"})
	Create(ctx, object.DeepCopy())
	expectSuccess(ctx, object)
	Expect(Field(ctx, object, "status", "said")(Default)).To(Equal(text))
}

func (e *dependencyEnvironment) installsAll(ctx context.Context) {
	oc, _ := e.importing(ctx, "all", e.servers(""))
	Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).WithTimeout(InstallTimeout).Should(ConditionTrue())
	e.says(ctx, "AllDep", "local 1.0.0 with 0.1, far 1.1.0 with 1.0")
}

func (e *dependencyEnvironment) heals(ctx context.Context) {
	oc, soc := e.importing(ctx, "late", e.servers(""))
	Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).WithTimeout(InstallTimeout).Should(And(
		WithReason(v2beta2.ReasonDependencyMissing), WithMessage("collection depslab.late >=1.0.0 (from requirements.yml)"),
		WithMessage("Python package deps-late>=1 (from requirements.txt)"), WithMessage(e.registryURL()+registry.GalaxyPath), WithMessage(e.registryURL()+registry.IndexPath),
	))
	Expect(Condition(ctx, soc, v2beta2.ConditionReconciling)(Default)).To(ConditionTrue())
	Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).Should(And(ConditionFalse(), WithMessage("depslab.late")))

	message := Condition(ctx, soc, v2beta2.ConditionReady)(Default).Message
	Consistently(ctx, func(g Gomega) {
		g.Expect(Condition(ctx, soc, v2beta2.ConditionReady)(g).Message).To(Equal(message))
		g.Expect(e.restarts(ctx, g, "late")).To(BeZero())
	}).WithTimeout(45 * time.Second).Should(Succeed())

	e.offer(ctx, "", []registry.Collection{sayingModules("late", "1.0.0")}, []registry.Package{{Name: "deps-late", Version: "1.5"}})
	Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).WithTimeout(InstallTimeout).Should(ConditionTrue())
	e.says(ctx, "LateDep", "late 1.0.0 with 1.5")
}

// restarts is how often containers of a collection's pods were started again.
func (e *dependencyEnvironment) restarts(ctx context.Context, g Gomega, name string) int32 {
	var pods corev1.PodList
	g.Expect(K8s.List(ctx, &pods, client.InNamespace(e.namespace), client.MatchingLabels{"operator-name": name})).To(Succeed())
	total := int32(0)
	for _, pod := range pods.Items {
		for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			total += status.RestartCount
		}
	}
	return total
}

func (e *dependencyEnvironment) namesConflicts(ctx context.Context) {
	oc, soc := e.importing(ctx, "conflict", e.servers(""))
	Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).WithTimeout(InstallTimeout).Should(And(
		WithReason(v2beta2.ReasonDependencyMissing),
		WithMessage("collection depslab.far <2.0.0 (from depslab.right 1.0.0) and >=2.0.0 (from depslab.left 1.0.0)"),
		WithMessage("deps-index>=2 (from requirements.txt), deps-index<2 (from roles/x/requirements.txt)"),
	))
	Remove(ctx, oc)
}

func (e *dependencyEnvironment) checksAnsible(ctx context.Context) {
	oc, soc := e.importing(ctx, "ansible", nil)
	Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).WithTimeout(InstallTimeout).Should(And(
		WithReason(v2beta2.ReasonDependencyMissing), WithMessage("the runtime image has ansible-core 2."), WithMessage("meta/runtime.yml requires >=99.1"),
	))
	Remove(ctx, oc)
}

func (e *dependencyEnvironment) logsOn(ctx context.Context) {
	spec := e.servers("/private")
	oc, soc := e.importing(ctx, "private", spec)
	Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).WithTimeout(InstallTimeout).Should(And(
		WithReason(v2beta2.ReasonDependencyMissing), WithMessage("depslab.far"), WithMessage("deps-index"), WithMessage("401"),
	))
	Patch(ctx, oc, `{"spec":{"dependencies":{"credentialsSecret":"servers"}}}`)
	Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).Should(And(
		WithReason(v2beta2.ReasonCredentialsInvalid), WithMessage(`Secret "servers" does not exist`),
	))
	servers := e.meta("servers")
	servers.Labels = map[string]string{"zoscb.ibm.com/credential": "true"}
	Create(ctx, &corev1.Secret{ObjectMeta: servers, StringData: map[string]string{
		"galaxyToken": dependencyToken, "pipUsername": "pipuser", "pipPassword": dependencyPassword,
	}})
	Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).WithTimeout(InstallTimeout).Should(ConditionTrue())
	e.says(ctx, "PrivateDep", "far 1.1.0 with 1.0")

	told := kubectl(ctx, "get", "-n", e.namespace, "zoscb,configmaps,pods,replicasets,events", "-o", "yaml") +
		kubectl(ctx, "logs", "-n", e.namespace, "-l", "operator-name=private", "--all-containers", "--tail=-1")
	told = strings.ReplaceAll(told, "value: "+dependencyToken, "")
	told = strings.ReplaceAll(told, "value: pipuser:"+dependencyPassword, "")
	Expect(told).NotTo(ContainSubstring(dependencyToken))
	Expect(told).NotTo(ContainSubstring(dependencyPassword))
}
