//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// adoptedResources is the number of custom resources that are adopted.
const adoptedResources = 30

// Serial because the manager is stopped, and the API group of all collections belongs to nobody meanwhile.
var _ = Describe("A cluster that is adopted from z/OS Cloud Broker", Serial, Label("serial"), Slow, Ordered, func() {
	a := &adoptedCluster{plays: newPlaysOf("e2e-adopt", "adopt-lab", "Adopt")}
	BeforeAll(a.prepare)
	AfterEach(a.explain)
	AfterAll(func(ctx context.Context) {
		for _, crd := range a.own { // Without the label, no manager starts, and no later spec passes.
			Patch(ctx, &crd, `{"metadata":{"labels":{"app.kubernetes.io/part-of":"collection-operator"}}}`)
		}
		a.manage(ctx, "2")
		a.cleanUp(ctx)
	})

	It("runs no playbook, and logs on nowhere", a.adopt)
	It("runs the playbook of a resource that is changed then", func(ctx context.Context) {
		changed := a.play("adopted-00", "zos1", nil)
		Patch(ctx, changed, `{"spec":{"note":"second"}}`)
		Eventually(ctx, func() map[string]int { return a.zos.lines(ctx) }).
			Should(Equal(map[string]int{"begin adopted-00 second": 1, "end adopted-00 second": 1}))
		Expect(a.zos.logons(ctx)).To(BeNumerically(">", a.logons))
	})
})

// adoptedCluster is made as the product leaves a cluster. Which parts of that are known, and from where, is said in
// test/integration/adopt_test.go.
type adoptedCluster struct {
	*plays
	zos    *system
	logons int
	// own are the CRDs of the product's own kinds.
	own []apiextensionsv1.CustomResourceDefinition
}

func (a *adoptedCluster) prepare(ctx context.Context) {
	a.archives = archivesOf(map[string]fs.FS{"1.0.0.tar.gz": a.folder("1.0.0", "")})
	a.start(ctx, a.archives)
	a.zos = a.connectTo(ctx, "zos1")
	a.own = a.ownDefinitions(ctx)
	a.refuseBesideManager(ctx)
	a.manage(ctx, "0")
	a.makeDefinition(ctx)
	oc := a.collection("1.0.0")
	oc.Labels = map[string]string{"operator-domain": a.domain, "operator-name": "zos-plays", "operator-version": "1.0.0", "managed-by": "ibm-zos-cloud-broker"}
	soc := &v2beta2.SubOperatorConfig{ObjectMeta: a.meta(oc.Name + "-soc"), Spec: v2beta2.SubOperatorConfigSpec{
		OperatorCollection: oc.Name, CredentialType: v2beta2.CredentialShared,
		Mapping: []v2beta2.NamespaceMapping{{Namespace: a.namespace, ZosEndpoints: &[]v2beta2.EndpointMapping{{Name: "zos1", CredentialName: "zos1"}}}},
	}}
	Create(ctx, oc, soc)
	a.setStatus(ctx, soc, map[string]any{"phase": "Successful", "customresourcedefinition": []any{map[string]any{"metadata": map[string]any{"name": a.definition().Name}}}})
	ended := time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
	condition := func(name, status string) map[string]any {
		return map[string]any{"type": name, "status": status, "reason": "Successful", "message": "", "lastTransitionTime": ended}
	}
	for _, resource := range a.playsNamed("adopted", adoptedResources, "zos1", nil) {
		resource.SetFinalizers([]string{a.definition().Name + "/finalizer"})
		Create(ctx, resource)
		a.setStatus(ctx, resource, map[string]any{"conditions": []any{condition("Running", "True"), condition("Failure", "False"), condition("Successful", "True")}})
	}
	for _, crd := range a.own {
		Patch(ctx, &crd, `{"metadata":{"labels":{"app.kubernetes.io/part-of":null}}}`)
	}
}

// refuseBesideManager expects that adoption knows the manager of Collection Operator by what is installed.
func (a *adoptedCluster) refuseBesideManager(ctx context.Context) {
	GinkgoHelper()
	Patch(ctx, a.own[0].DeepCopy(), `{"metadata":{"labels":{"app.kubernetes.io/part-of":null}}}`)
	printed, err := a.collectionTool(ctx, "adopt", "--dry-run")
	Patch(ctx, a.own[0].DeepCopy(), `{"metadata":{"labels":{"app.kubernetes.io/part-of":"collection-operator"}}}`)
	Expect(err).To(HaveOccurred())
	Expect(printed).To(ContainSubstring("kubectl scale statefulset " + ManagerName))
}

// manage scales the manager.
func (a *adoptedCluster) manage(ctx context.Context, replicas string) {
	GinkgoHelper()
	kubectl(ctx, "scale", "-n", ManagerNamespace, "statefulset/"+ManagerName, "--replicas="+replicas)
	kubectl(ctx, "rollout", "status", "-n", ManagerNamespace, "statefulset/"+ManagerName, "--timeout=3m")
	if replicas == "0" {
		Eventually(ctx, func(g Gomega) []corev1.Pod {
			var pods corev1.PodList
			g.Expect(K8s.List(ctx, &pods, client.InNamespace(ManagerNamespace), managerPods)).To(Succeed())
			return pods.Items
		}).Should(BeEmpty())
	}
}

func (a *adoptedCluster) ownDefinitions(ctx context.Context) []apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	var crds apiextensionsv1.CustomResourceDefinitionList
	Expect(K8s.List(ctx, &crds, client.MatchingLabels{"app.kubernetes.io/part-of": "collection-operator"})).To(Succeed())
	own := slices.DeleteFunc(crds.Items, func(crd apiextensionsv1.CustomResourceDefinition) bool {
		return crd.Spec.Group != v2beta2.GroupVersion.Group
	})
	Expect(own).NotTo(BeEmpty())
	return own
}

func (a *adoptedCluster) definition() *apiextensionsv1.CustomResourceDefinition {
	kind := a.kinds + "Play"
	plural := strings.ToLower(kind) + "s"
	anything := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	return &apiextensionsv1.CustomResourceDefinition{
		// The labels let cleanUp find it.
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + SharedGroup, Labels: map[string]string{"operator-domain": a.domain, "operator-name": "zos-plays"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: SharedGroup, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural, Singular: strings.ToLower(kind)},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: a.version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": anything, "status": anything},
				}},
			}},
		},
	}
}

func (a *adoptedCluster) makeDefinition(ctx context.Context) {
	GinkgoHelper()
	crd := a.definition()
	Create(ctx, crd)
	kubectl(ctx, "wait", "--for=condition=Established", "crd/"+crd.Name, "--timeout=1m")
	Eventually(ctx, func(g Gomega) { a.live(ctx, g, "") }).Should(Succeed(), "the API server serves it a moment later")
}

func (a *adoptedCluster) setStatus(ctx context.Context, object client.Object, status map[string]any) {
	GinkgoHelper()
	content, err := json.Marshal(map[string]any{"status": status})
	Expect(err).NotTo(HaveOccurred())
	Expect(K8s.Status().Patch(ctx, object, client.RawPatch("application/merge-patch+json", content))).To(Succeed())
}

func (a *adoptedCluster) adopt(ctx context.Context) {
	uids := map[string]any{}
	for _, object := range a.live(ctx, Default, "adopted") {
		uids[object.GetName()] = object.GetUID()
	}
	a.logons = a.zos.logons(ctx)
	folder := GinkgoT().TempDir()
	Expect(os.WriteFile(filepath.Join(folder, "1.0.0.tar.gz"), a.archives["1.0.0.tar.gz"], 0o600)).To(Succeed())
	printed, err := a.collectionTool(ctx, "adopt", "--yes", "--archives", folder, "--backup", filepath.Join(folder, "backup"))
	Expect(err).NotTo(HaveOccurred(), printed)
	Expect(printed).To(ContainSubstring("Adopted."))
	a.manage(ctx, "2")
	Eventually(ctx, Condition(ctx, a.collection("1.0.0"), v2beta2.ConditionReady)).WithTimeout(InstallTimeout).Should(ConditionTrue())
	Eventually(ctx, a.phases(ctx, "adopted")).
		Should(Equal(map[runstatus.Phase]int{runstatus.PhaseSucceeded: adoptedResources}))
	Eventually(ctx, a.asked(ctx, "adopted")).Should(Not(ContainElement(HavePrefix("/proc"))))
	Expect(a.zos.logons(ctx)-a.logons).To(BeZero(), "logons")
	Expect(a.zos.lines(ctx)).To(BeEmpty(), "runs")
	for _, object := range a.live(ctx, Default, "adopted") {
		Expect(object.GetUID()).To(BeEquivalentTo(uids[object.GetName()]))
		Expect(object.GetAnnotations()).To(HaveKey("zoscb.ibm.com/run-record"))
		last, found, err := unstructured.NestedMap(object.Object, "status", "lastRun")
		Expect(err).NotTo(HaveOccurred())
		Expect(found).To(BeFalse(), "%v", last)
	}
}
