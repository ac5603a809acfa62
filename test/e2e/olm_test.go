//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

const (
	olmNamespace = "olm"
	catalogName  = "collection-operator-catalog"
	pagesPackage = "olm-lab-pages-operator"
)

// pages is the folder of a version of a collection that keeps pages, which say what version wrote them.
func pages(version string) fs.FS {
	files := map[string]string{
		"galaxy.yml": "{namespace: olm_lab, name: pages, version: VERSION, readme: README.md, authors: [e2e]}",
		"README.md":  "# pages\n",
		"operator-config.yml": `
domain: olm-lab
name: pages
version: VERSION
displayName: Pages
description: Keeps pages.
resources:
  - kind: Page
    playbook: page.yml
    finalizer: page.yml
    vars:
      - {name: text, displayName: Text, type: string, required: true}
`,
		"page.yml": `
- name: Keep a page
  hosts: all
  gather_facts: false
  tasks:
    - name: Write it
      ansible.builtin.shell: "echo VERSION {{ text | quote }} > /tmp/page-{{ ansible_operator_meta.name }}"
      when: k8s_cr_event != 'delete'
    - name: Take a while
      ansible.builtin.wait_for: {path: /tmp/go-on, timeout: 240}
      when: k8s_cr_event != 'delete' and text is match('slow')
    - name: Remove it
      ansible.builtin.file:
        path: "/tmp/page-{{ ansible_operator_meta.name }}"
        state: absent
      when: k8s_cr_event == 'delete'
`,
	}
	return Folder(files, "VERSION", version)
}

// olmLab is a lab in a cluster with the Operator Lifecycle Manager.
type olmEnvironment struct {
	environment
	archives map[string][]byte
	zos      *system
	// collection is at the version that was last imported.
	collection *v2beta2.OperatorCollection
	soc        *v2beta2.SubOperatorConfig
	// before lists all objects of the cluster before the collection was imported.
	before []string
	pods   *podCount
}

func newOLMEnvironment() *olmEnvironment {
	e := &olmEnvironment{environment: environment{namespace: "e2e-olm", domain: "olm-lab"}}
	e.zos = &system{environment: &e.environment, name: "zos1", user: "ibmuser"}
	e.collection = &v2beta2.OperatorCollection{ObjectMeta: e.meta("pages.olm-lab")}
	e.soc = &v2beta2.SubOperatorConfig{ObjectMeta: e.meta("pages.olm-lab-soc")}
	return e
}

// The whole way of a collection through the Operator Lifecycle Manager, in this order.
var _ = Describe("With the Operator Lifecycle Manager", Label("olm", "story"), Ordered, ContinueOnFailure, func() {
	e := newOLMEnvironment()
	BeforeAll(e.start)
	AfterEach(e.explain)
	AfterAll(e.cleanUp)

	Context("a collection", func() { olmInstallation(e) })
	Context("a newer version", func() { olmUpgrades(e) })
	Context("the method", func() { olmSwitches(e) })
	Context("an older version", func() { olmReturns(e) })
	Context("a tile", func() { olmTile(e) })
	Context("a deletion", func() { olmDeletion(e, ofPages) })
})

// What is proved of the whole cluster.
var _ = Describe("With the Operator Lifecycle Manager, and nothing else happening,", Label("olm"), Serial, Ordered, ContinueOnFailure, func() {
	e := newOLMEnvironment()
	BeforeAll(e.start)
	AfterEach(e.explain)
	AfterAll(e.cleanUp)

	Context("a collection", func() { olmIdle(e) })
	Context("a deletion", func() { olmDeletion(e, func(objects []string) []string { return objects }) })
})

// ofPages are those of some objects that are in the specs' namespaces or are named after their collection.
func ofPages(objects []string) []string {
	return slices.DeleteFunc(objects, func(object string) bool {
		_, name, _ := strings.Cut(object, " ")
		return !slices.ContainsFunc([]string{"e2e-olm/", tileNamespace, "olm-lab-pages", "pages.", ":e2e-olm:"}, func(part string) bool { return strings.Contains(name, part) })
	})
}

// start makes a system that can be logged on to, and all versions of the collection.
func (e *olmEnvironment) start(ctx context.Context) {
	GinkgoHelper()
	expectOLM(ctx)
	folders := map[string]fs.FS{}
	for _, version := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		folders[pagesArchive(version)] = pages(version)
	}
	e.archives = archivesOf(folders)
	e.removeTile(ctx)
	e.environment.start(ctx, e.archives)
	e.zos.start(ctx)
	private, public := newKey("")
	e.zos.authorize(ctx, "operator", public)
	e.credential(ctx, "zos1-credential", map[string]string{"username": e.zos.user, "ssh-privatekey": private})
	e.endpoint(ctx, "zos1", v2beta2.ZosEndpointSpec{
		Host: e.zos.host(), CredentialName: "zos1-credential", Variables: Variables(`"ansible_python_interpreter: /usr/bin/python3"`),
	})
	operatorGroup(ctx, e.namespace)
	e.before = listObjects(ctx, e.namespace)
	e.pods = countPods(e.namespace, map[string]string{"operator-name": "pages"})
}

func (e *olmEnvironment) cleanUp(ctx context.Context) {
	e.removeTile(ctx)
	e.environment.cleanUp(ctx)
}

// explain prints what one needs to understand a spec that failed.
func (e *olmEnvironment) explain(ctx context.Context) {
	if !CurrentSpecReport().Failed() {
		return
	}
	e.environment.explain(ctx)
	for _, args := range [][]string{
		{"get", "csv,subscriptions.operators.coreos.com,installplans.operators.coreos.com,operatorgroups", "-A", "-o", "wide"},
		{"get", "opcol,soc", "-n", e.namespace, "-o", "yaml"},
		{"get", "catalogsources", "-n", olmNamespace, "-o", "yaml"},
		{"get", "subscriptions.operators.coreos.com", "-n", e.namespace, "-o", "yaml"},
		{"logs", "-n", olmNamespace, "deployment/catalog-operator", "--tail=20"},
	} {
		printed, _ := Output(ctx, kubectlPath(), args...)
		GinkgoWriter.Printf("\n$ kubectl %s\n%s\n", strings.Join(args, " "), printed)
	}
}

// expectOLM fails early where these specs cannot run, and waits until the manager has found OLM.
func expectOLM(ctx context.Context) {
	GinkgoHelper()
	_, err := K8s.RESTMapper().RESTMapping(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.SubscriptionKind).GroupKind())
	Expect(err).NotTo(HaveOccurred(), "this cluster has no Operator Lifecycle Manager: devcluster up --olm")
	source := &operatorsv1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: catalogName, Namespace: olmNamespace}}
	Eventually(ctx, func(g Gomega) { Live(ctx, g, source) }).
		Should(Succeed(), "the manager makes no CatalogSource: install it with COMPONENTS=olm")
}

// operatorGroup lets OLM install in a namespace, as its administrator does, and waits for what OLM creates for it.
func operatorGroup(ctx context.Context, namespace string) {
	GinkgoHelper()
	group := &operatorsv1.OperatorGroup{
		ObjectMeta: metav1.ObjectMeta{Name: namespace, Namespace: namespace},
		Spec:       operatorsv1.OperatorGroupSpec{TargetNamespaces: []string{namespace}},
	}
	Create(ctx, group)
	roles := &rbacv1.ClusterRoleList{}
	Eventually(ctx, func(g Gomega) {
		g.Expect(K8s.List(ctx, roles, client.MatchingLabels{"olm.owner.kind": operatorsv1.OperatorGroupKind, "olm.owner.namespace": namespace})).To(Succeed())
		g.Expect(roles.Items).To(HaveLen(3), "the roles admin, edit and view of the OperatorGroup")
	}).Should(Succeed())
}

func pagesArchive(version string) string { return "pages-" + version + ".tar.gz" }

// imports moves the OperatorCollection to another version.
func (e *olmEnvironment) imports(ctx context.Context, version string) {
	GinkgoHelper()
	spec := e.spec(pagesArchive(version), e.archives[pagesArchive(version)])
	Patch(ctx, e.collection.DeepCopy(), MustJSON(map[string]any{"spec": map[string]any{"collectionURL": spec.CollectionURL, "digest": spec.Digest}}))
}

// page is a resource of the collection.
func (e *olmEnvironment) page(namespace, name, text string) *unstructured.Unstructured {
	page := e.instance("v1minor0patch0", "Page", name, map[string]any{"zosendpoint": "zos1", "text": text})
	page.SetNamespace(namespace)
	return page
}

// expectPage waits until the page on the system is the wanted one.
func (e *olmEnvironment) expectPage(ctx context.Context, name, want string) {
	GinkgoHelper()
	Eventually(ctx, func() string {
		return e.zos.shell(ctx, "cat /tmp/page-"+name+" 2>/dev/null || true")
	}).WithTimeout(OLMTimeout).Should(Equal(want + "\n"))
}

// expectRunning waits until the SubOperatorConfig is Ready, and checks that one Deployment is, with the version.
func (e *olmEnvironment) expectRunning(ctx context.Context, version string) *appsv1.Deployment {
	GinkgoHelper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: pagesPackage}}
	Eventually(ctx, func(g Gomega) {
		generation := Live(ctx, g, e.soc).GetGeneration()
		g.Expect(Condition(ctx, e.soc, v2beta2.ConditionReady)(g)).To(And(ConditionTrue(), WithMessage(version), HaveField("ObservedGeneration", generation)))
		// A pod may be ready for some milliseconds when its startup probe succeeds, and then again with its readiness probe.
		Get(ctx, g, deployment)
		g.Expect(deployment.Status.ReadyReplicas).To(BeEquivalentTo(1))
	}).WithTimeout(OLMTimeout).Should(Succeed())
	Expect(deployment.Labels).To(HaveKeyWithValue("operator-version", version))
	return deployment
}

func clusterServiceVersion(namespace, version string) *operatorsv1alpha1.ClusterServiceVersion {
	return &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: pagesPackage + ".v" + version, Namespace: namespace}}
}

func subscription(namespace string) *operatorsv1alpha1.Subscription {
	return &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Name: pagesPackage, Namespace: namespace}}
}

// succeeded waits until OLM says that a version is installed.
func succeeded(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion) {
	GinkgoHelper()
	Eventually(ctx, Field(ctx, csv, "status", "phase")).WithTimeout(OLMTimeout).
		Should(BeEquivalentTo(operatorsv1alpha1.CSVPhaseSucceeded))
}

// packageManifest is what OLM shows of a package, in the namespace where somebody looks.
func packageManifest(name, namespace string) *unstructured.Unstructured {
	manifest := &unstructured.Unstructured{}
	manifest.SetAPIVersion("packages.operators.coreos.com/v1")
	manifest.SetKind("PackageManifest")
	manifest.SetName(name)
	manifest.SetNamespace(namespace)
	return manifest
}

// channels maps the channels of the collection's package to the version at their head.
func channels(ctx context.Context, namespace string) func(Gomega) map[string]string {
	return func(g Gomega) map[string]string {
		list, _, err := unstructured.NestedSlice(Live(ctx, g, packageManifest(pagesPackage, namespace)).Object, "status", "channels")
		g.Expect(err).NotTo(HaveOccurred())
		heads := map[string]string{}
		for _, item := range list {
			channel := item.(map[string]any)
			heads[fmt.Sprint(channel["name"])] = fmt.Sprint(channel["currentCSV"])
		}
		return heads
	}
}

// podCount knows the most pods that were at work at once, however short that was.
type podCount struct {
	mu     sync.Mutex
	alive  map[types.UID]string
	most   int
	atOnce []string
}

// countPods watches pods until the specs end.
func countPods(namespace string, selector map[string]string) *podCount {
	GinkgoHelper()
	count := &podCount{alive: map[types.UID]string{}}
	factory := informers.NewSharedInformerFactoryWithOptions(kubernetes.NewForConfigOrDie(RestConfig), 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = labels.FormatLabels(selector) }))
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { count.see(object.(*corev1.Pod)) },
		UpdateFunc: func(_, object any) { count.see(object.(*corev1.Pod)) },
		DeleteFunc: func(object any) {
			if final, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = final.Obj
			}
			count.forget(object.(*corev1.Pod))
		},
	})
	Expect(err).NotTo(HaveOccurred())
	stop := make(chan struct{})
	DeferCleanup(func() { close(stop) })
	factory.Start(stop)
	Expect(cache.WaitForCacheSync(stop, informer.HasSynced)).To(BeTrue())
	return count
}

func (c *podCount) see(pod *corev1.Pod) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		c.forget(pod)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alive[pod.UID] = pod.Name
	if len(c.alive) > c.most {
		c.most, c.atOnce = len(c.alive), nil
		for _, name := range c.alive {
			c.atOnce = append(c.atOnce, name)
		}
	}
}

func (c *podCount) forget(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.alive, pod.UID)
}

// expectOneAtATime fails if two of the pods were ever at work at once.
func (c *podCount) expectOneAtATime() {
	GinkgoHelper()
	c.mu.Lock()
	defer c.mu.Unlock()
	Expect(c.most).To(Equal(1), "at the same time there were %v", c.atOnce)
}
