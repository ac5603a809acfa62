//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// gradualFolder is a version of a collection. Version 2.0.0 fails in one namespace until somebody repairs the system.
func gradualFolder(domain, kind, failing, version string) fs.FS {
	files := map[string]string{
		"galaxy.yml": "{namespace: gradual_lab, name: gradual, version: VERSION, readme: README.md, authors: [e2e]}",
		"README.md":  "# gradual\n",
		"operator-config.yml": `
domain: DOMAIN
name: gradual
version: VERSION
displayName: Gradual
description: Fails in one namespace.
resources:
  - {kind: KIND, playbook: gradual.yml}
`,
		"gradual.yml": `
- name: Work
  hosts: all
  gather_facts: false
  tasks:
    - name: Begin
      ansible.builtin.shell: "echo {{ ansible_operator_meta.namespace }} {{ ansible_operator_meta.name }} VERSION begins >> /tmp/gradual"
    - name: Fail
      ansible.builtin.shell: "[ VERSION = 1.0.0 ] || [ {{ ansible_operator_meta.namespace }} != FAILING ] || [ -e /tmp/repaired ]"
    - name: End
      ansible.builtin.shell: "echo {{ ansible_operator_meta.namespace }} {{ ansible_operator_meta.name }} VERSION ends >> /tmp/gradual"
`,
	}
	return Folder(files, "DOMAIN", domain, "KIND", kind, "FAILING", failing, "VERSION", version)
}

var _ = Describe("An upgrade in four namespaces, of which one fails", Ordered, func() {
	upgradeGradually(&environment{namespace: "e2e-gradual", domain: "gradual-lab"}, "Gradual", v2beta2.InstallDirect)
})

var _ = Describe("An upgrade in four namespaces, of which one fails, by OLM", Label("olm", "upgrades"), Ordered, func() {
	upgradeGradually(&environment{namespace: "e2e-gradual-olm", domain: "gradual-olm-lab"}, "GradualOLM", v2beta2.InstallOLM)
})

// upgradeGradually upgrades a collection in four namespaces. Those of the second fail. UPGRADE_RESOURCES is the number of custom resources.
func upgradeGradually(e *environment, kind string, method v2beta2.InstallMethod) {
	zos := &system{environment: e, name: "zos1", user: "ibmuser"}
	oc := &v2beta2.OperatorCollection{ObjectMeta: e.meta("gradual")}
	soc := &v2beta2.SubOperatorConfig{ObjectMeta: e.meta("gradual")}
	namespaces := []string{e.namespace, e.namespace + "-b", e.namespace + "-c", e.namespace + "-d"} // As they are upgraded.
	failing := namespaces[1]
	var (
		built     map[string][]byte
		resources int
	)

	neighbor := func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"zoscb.ibm.com/allow-mapping-from": e.namespace}}}
	}
	// things are spread over the namespaces.
	things := func() []*unstructured.Unstructured {
		var list []*unstructured.Unstructured
		for i := range resources {
			object := e.instance("v1minor0patch0", kind, fmt.Sprintf("thing-%02d", i/len(namespaces)), map[string]any{"zosendpoint": "zos1"})
			object.SetNamespace(namespaces[i%len(namespaces)])
			list = append(list, object)
		}
		return list
	}
	// versions are those of the operators, in the order of the namespaces.
	versions := func(ctx context.Context) func(Gomega) []string {
		return func(g Gomega) []string {
			var found []string
			for _, namespace := range namespaces {
				operator := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: e.domain + "-gradual-operator"}}
				Get(ctx, g, operator)
				found = append(found, operator.Spec.Template.Labels["operator-version"])
			}
			return found
		}
	}

	BeforeAll(func(ctx context.Context) {
		resources = int(setting("UPGRADE_RESOURCES", 4))
		built = archivesOf(map[string]fs.FS{"1.0.0.tar.gz": gradualFolder(e.domain, kind, failing, "1.0.0"), "2.0.0.tar.gz": gradualFolder(e.domain, kind, failing, "2.0.0")})
		e.start(ctx, built)
		mapping := []v2beta2.NamespaceMapping{{Namespace: e.namespace}}
		for _, name := range namespaces[1:] {
			Remove(ctx, neighbor(name))
			Eventually(ctx, Gone(ctx, neighbor(name))).Should(BeTrue())
			Create(ctx, neighbor(name))
			mapping = append(mapping, v2beta2.NamespaceMapping{Namespace: name})
		}
		letInstall(ctx, method, namespaces...)
		zos.start(ctx)
		private, public := newKey("")
		zos.authorize(ctx, "operator", public)
		e.credential(ctx, "zos1", map[string]string{"username": zos.user, "ssh-privatekey": private})
		e.endpoint(ctx, "zos1", v2beta2.ZosEndpointSpec{
			Host: zos.host(), CredentialName: "zos1", Variables: Variables(`"ansible_python_interpreter: /usr/bin/python3"`),
		})
		mapped := soc.DeepCopy()
		mapped.Spec = v2beta2.SubOperatorConfigSpec{OperatorCollection: oc.Name, Mapping: mapping}
		Create(ctx, mapped)
		spec := e.spec("1.0.0.tar.gz", built["1.0.0.tar.gz"])
		spec.Runtime = &v2beta2.RuntimeSpec{MaxRetries: new(int32), RerunOn: []v2beta2.RerunTrigger{v2beta2.RerunOnSpec, v2beta2.RerunOnSecret, v2beta2.RerunOnCollection}}
		e.installSpec(ctx, oc.Name, spec)
		expectInstalledBy(ctx, soc, method)
	})
	AfterEach(e.explain)
	AfterAll(func(ctx context.Context) {
		e.cleanUp(ctx)
		for _, name := range namespaces[1:] {
			Remove(ctx, neighbor(name))
		}
	})

	It("stops there, and goes on when it is repaired", func(ctx context.Context) {
		audit := auditResources(namespaces...)
		for _, thing := range things() {
			Create(ctx, thing)
		}
		for _, thing := range things() {
			Eventually(ctx, Condition(ctx, thing, runstatus.ConditionReady)).WithTimeout(InstallTimeout).Should(ConditionTrue())
		}
		Patch(ctx, oc.DeepCopy(), MustJSON(map[string]any{"spec": map[string]any{
			"collectionURL": "http://archives." + e.namespace + ".svc.cluster.local/2.0.0.tar.gz",
			"digest":        DigestOf(built["2.0.0.tar.gz"]),
			"upgrade":       map[string]any{"strategy": map[string]any{"healthyFor": "20s"}},
		}}))

		By("stopping at the namespace whose custom resource fails")
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).WithTimeout(InstallTimeout).Should(And(ConditionFalse(),
			WithReason(v2beta2.ReasonUpgradeStopped), WithMessage("version 2.0.0 runs in 2 of 4 namespaces; stopped at namespace "+failing),
			WithMessage("began to fail with version 2.0.0"), WithMessage(kind+" "+failing+"/thing-00")))
		Consistently(ctx, versions(ctx)).WithTimeout(25*time.Second).Should(Equal([]string{"2.0.0", "2.0.0", "1.0.0", "1.0.0"}), "longer than healthyFor")
		Expect(Condition(ctx, things()[0], runstatus.ConditionReady)(Default)).To(ConditionTrue())

		By("going on when its playbook succeeds")
		zos.shell(ctx, "touch /tmp/repaired")
		for _, thing := range things() {
			if thing.GetNamespace() == failing {
				ask(ctx, thing)
			}
		}
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).WithTimeout(InstallTimeout).Should(ConditionTrue())
		Expect(versions(ctx)(Default)).To(HaveEach("2.0.0"))
		want, unsuccessful, lines := map[string][]string{}, []string{}, []string{}
		for _, thing := range things() {
			name := thing.GetNamespace() + "/" + thing.GetName()
			want[name] = []string{"1.0.0", "2.0.0"}
			if thing.GetNamespace() == failing {
				unsuccessful = append(unsuccessful, name)
			}
			for _, version := range want[name] {
				lines = append(lines, thing.GetNamespace()+" "+thing.GetName()+" "+version+" ends")
			}
		}
		Eventually(ctx, func() []string {
			return strings.Split(strings.TrimSpace(zos.shell(ctx, "grep ' ends$' /tmp/gradual")), "\n")
		}).
			WithTimeout(5 * time.Minute).Should(ConsistOf(lines))
		audit.expect(ctx, want, unsuccessful...)
		expectInstalledBy(ctx, soc, method)
		Get(ctx, Default, oc)
		Expect(oc.Status.Upgrade).To(BeNil())
	})
}
