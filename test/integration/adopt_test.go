package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// adoptedToken is a secret in a spec, which no backup may have.
const adoptedToken = "token-that-no-backup-may-have"

// product is a cluster with z/OS Cloud Broker. Known from public sources are:
//   - kinds, versions, spec fields, and the four labels of an OperatorCollection: IBM's SDK for collections (its modules and playbooks)
//   - status.phase, status.config.collectionPath, status.clusterserviceversion and status.customresourcedefinition: the SDK and the editor
//     extension, which read them
//   - group and name of the versions of generated kinds, and the name of operators: the extension, and the SDK's must-gather output
//   - ibm-zoscb-operator, ibm-zoscb-manager-<ZosCloudBroker>: that output; the label component=manager: the SDK
//   - conditions of resources: ansible-operator, which the product builds on
//
// Not public, and therefore made up here: the schemas of the CRDs, their version v2beta1, the names of finalizers, and the type of
// status.packages.
type product struct {
	namespace string
	samples   []*sample
	folder    string
	// saved is the name of the folder of the backup.
	saved string
	// perKind is the number of custom resources of each collection.
	perKind int
	// byOLM is the sample whose operator the Operator Lifecycle Manager installed.
	byOLM *sample
}

// newProduct starts an empty control plane and makes a cluster with the product in it, until the spec ends. It has a number of
// collections, with a number of resources each.
func newProduct(ctx context.Context, collections, perKind int) *product {
	GinkgoHelper()
	second := StartControlPlane(projectDir())
	DeferCleanup(func() { Connect(controlPlane.Kubeconfig) })
	Connect(second.Kubeconfig)
	p := &product{namespace: "zoscb", saved: "first", folder: GinkgoT().TempDir(), perKind: perKind}
	for range collections {
		s := newSample()
		s.variables = "{name: size, displayName: Size, type: integer, required: false}" // No defaults, which the API server would write.
		p.samples = append(p.samples, s)
	}
	Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}})
	p.kubeconfig(second.Kubeconfig)
	p.makeDefinitions(ctx)
	Create(ctx, p.object("v2beta1", "ZosCloudBroker", "zoscloudbroker", `{"license":{"accept":true},"logLevel":"debug","multiNamespace":true,"managerResources":{}}`))
	at := newEndpoint(p.namespace, "lpar1", startSSHServer()).Spec
	lpar := p.object("v2beta2", "ZosEndpoint", "lpar1", fmt.Sprintf(`{"endpointType":"remote","host":%q,"port":%d,"variables":["PYZ: /usr/lpp"],"legacy":{"a":"b"}}`, at.Host, at.Port))
	Create(ctx, lpar, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "logon"}, Type: corev1.SecretTypeSSHAuth,
		StringData: map[string]string{"username": "IBMUSER", "ssh-privatekey": SecretValue("the key of the product")},
	})
	for i, s := range p.samples {
		p.makeCollection(ctx, s, i == 0)
	}
	p.storeInNewVersion(ctx)
	for _, name := range []string{"ibm-zoscb-operator", "ibm-zoscb-manager-zoscloudbroker"} {
		Create(ctx, p.deployment(name, map[string]string{"component": "manager", "instance-name": "zoscloudbroker"}))
	}
	return p
}

func (p *product) kubeconfig(file string) { p.folderFile("kubeconfig", file) }

func (p *product) folderFile(name, from string) {
	GinkgoHelper()
	content, err := os.ReadFile(from)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(p.folder, name), content, 0o600)).To(Succeed())
}

func (p *product) object(version, kind, name, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	Expect(object.UnmarshalJSON([]byte(fmt.Sprintf(`{"apiVersion":"zoscb.ibm.com/%s","kind":%q,"metadata":{"namespace":%q,"name":%q},"spec":%s}`,
		version, kind, p.namespace, name, spec)))).To(Succeed())
	return object
}

func (p *product) deployment(name string, labels map[string]string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Image: "registry.invalid/product"}}},
			},
		},
	}
}

// definitionOf is a CRD that accepts everything.
func (p *product) definitionOf(group, kind string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	plural := strings.ToLower(kind) + "s"
	crd := customResourceDefinition(plural + "." + group)
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: group, Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural, Singular: strings.ToLower(kind)},
	}
	anything := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	for i, version := range versions {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: i == 0,
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": anything, "status": anything},
			}},
		})
	}
	return crd
}

func (p *product) makeDefinitions(ctx context.Context) {
	GinkgoHelper()
	crds := []*apiextensionsv1.CustomResourceDefinition{
		p.definitionOf("zoscb.ibm.com", "ZosCloudBroker", "v2beta1"),
		p.definitionOf("zoscb.ibm.com", "ZosEndpoint", "v2beta2"),
		p.definitionOf("zoscb.ibm.com", "SubOperatorConfig", "v2beta2"),
		p.definitionOf("zoscb.ibm.com", "OperatorCollection", "v2beta1", "v2beta2"),
	}
	for _, s := range p.samples {
		crds = append(crds, p.definitionOf(SharedGroup, s.kind, s.apiVersion()))
	}
	for _, crd := range crds {
		Create(ctx, crd)
		for _, version := range crd.Spec.Versions {
			serve(ctx, crd, version.Name)
		}
	}
}

// storeInNewVersion lets the product store OperatorCollections in v2beta2, after those that exist were stored in v2beta1.
func (p *product) storeInNewVersion(ctx context.Context) {
	GinkgoHelper()
	Patch(ctx, customResourceDefinition("operatorcollections.zoscb.ibm.com"), `{"spec":{"versions":`+MustJSON(
		p.definitionOf("zoscb.ibm.com", "OperatorCollection", "v2beta2", "v2beta1").Spec.Versions)+`}}`)
}

// makeCollection makes what the product has of a collection: one whose archive was uploaded, or one with a URL.
func (p *product) makeCollection(ctx context.Context, s *sample, uploaded bool) {
	GinkgoHelper()
	spec, name := `{"skipSignatureVerification":true,"collectionURL":"`+web.Serve(s.archive())+`","collectionURLToken":"`+adoptedToken+`"}`, s.name+"."+domain+"."+s.version
	if uploaded {
		spec = `{"skipSignatureVerification":true}`
	}
	oc := p.object("v2beta2", "OperatorCollection", name, spec)
	if uploaded {
		oc.SetLabels(map[string]string{"operator-domain": domain, "operator-name": s.name, "operator-version": s.version, "managed-by": "ibm-zos-cloud-broker"})
	}
	oc.SetFinalizers([]string{"operatorcollections.zoscb.ibm.com/finalizer"})
	soc := p.object("v2beta2", "SubOperatorConfig", name+"-soc", `{"operatorCollection":"`+name+`","credentialType":"shared","mapping":[{"namespace":"`+p.namespace+
		`","zosendpoints":[{"name":"lpar1","credentialName":"logon"}]}]}`)
	soc.SetLabels(map[string]string{"operator-name": s.name})
	operator := p.deployment(s.operator(), map[string]string{"operator-name": s.name})
	operator.Spec.Template.Spec.ServiceAccountName = s.operator()
	Create(ctx, oc, soc, operator,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: s.operator()}})
	p.setStatus(ctx, oc, `{"phase":"Successful","config":{"collectionPath":"/opt/collections/suboperator/`+s.name+"/"+s.version+`/`+s.name+`.tar.gz"}}`)
	p.setStatus(ctx, soc, `{"phase":"Successful","clusterserviceversion":{"metadata":{"name":"`+s.operator()+`.v`+s.version+`"}},
		"customresourcedefinition":[{"metadata":{"name":"`+s.crdName()+`"}}],"packages":[{"name":"of a type that is not public"}]}`)
	for i := range p.perKind {
		resource := s.instance(p.namespace, fmt.Sprintf("r%d", i))
		resource.SetFinalizers([]string{s.plural() + "." + SharedGroup + "/finalizer"})
		resource.SetLabels(map[string]string{"olm.copiedFrom": "anybody-may-set-this"})
		Create(ctx, resource)
		p.setStatus(ctx, resource, `{"mine":"`+resource.GetName()+`","conditions":[
			{"type":"Running","status":"True","reason":"Successful","message":"Awaiting next reconciliation","lastTransitionTime":"2036-01-02T10:00:00Z",
			 "ansibleResult":{"ok":5,"changed":1,"failures":0,"skipped":0,"completion":"2036-01-02T10:00:00.123456"}},
			{"type":"Failure","status":"False","reason":"","message":"","lastTransitionTime":"2036-01-02T10:00:00Z"},
			{"type":"Successful","status":"True","reason":"Successful","message":"Last reconciliation succeeded","lastTransitionTime":"2036-01-02T10:00:00Z"}]}`)
	}
}

func (p *product) setStatus(ctx context.Context, object *unstructured.Unstructured, status string) {
	GinkgoHelper()
	Expect(K8s.Status().Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(`{"status":`+status+`}`)))).To(Succeed())
}

func (p *product) stopManagers(ctx context.Context) {
	GinkgoHelper()
	for _, name := range []string{"ibm-zoscb-operator", "ibm-zoscb-manager-zoscloudbroker"} {
		Patch(ctx, deployment(p.namespace, name), `{"spec":{"replicas":0}}`)
	}
}

// run runs the tool.
func (p *product) run(ctx context.Context, code int, args ...string) string {
	GinkgoHelper()
	return runTool(ctx, code, toolBinary(), append([]string{"adopt", "--kubeconfig", filepath.Join(p.folder, "kubeconfig"), "--archives", p.folder}, args...)...)
}

// backup are the arguments that name the folder of the backup, and confirm.
func (p *product) backup(more ...string) []string {
	return append([]string{"--backup", filepath.Join(p.folder, p.saved), "--yes", "--drop-fields"}, more...)
}

// resources are all custom resources of collections.
func (p *product) resources(ctx context.Context) []*unstructured.Unstructured {
	GinkgoHelper()
	var all []*unstructured.Unstructured
	for _, s := range p.samples {
		for i := range p.perKind {
			all = append(all, Live(ctx, Default, s.instance(p.namespace, fmt.Sprintf("r%d", i))))
		}
	}
	return all
}

// content is all that the product has in the cluster, by kind and name, without what the API server counts up.
func (p *product) content(ctx context.Context) map[string]any {
	GinkgoHelper()
	objects := p.resources(ctx)
	for kind, version := range map[string]string{"ZosCloudBroker": "v2beta1", "ZosEndpoint": "v2beta2", "SubOperatorConfig": "v2beta2", "OperatorCollection": "v2beta2"} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("zoscb.ibm.com/" + version)
		list.SetKind(kind + "List")
		Expect(K8s.List(ctx, list)).To(Succeed())
		for i := range list.Items {
			objects = append(objects, &list.Items[i])
		}
	}
	names := []string{"zoscloudbrokers.zoscb.ibm.com", "zosendpoints.zoscb.ibm.com", "suboperatorconfigs.zoscb.ibm.com", "operatorcollections.zoscb.ibm.com"}
	for _, s := range p.samples {
		names = append(names, s.crdName())
		if s == p.byOLM {
			subscription, _ := p.packages(s) // It makes the rest.
			objects = append(objects, Live(ctx, Default, subscription))
		} else {
			objects = append(objects, Live(ctx, Default, deployment(p.namespace, s.operator())))
		}
		objects = append(objects, Live(ctx, Default, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: s.operator()}}))
	}
	for _, name := range names {
		objects = append(objects, Live(ctx, Default, customResourceDefinition(name)))
	}
	all := map[string]any{}
	for _, o := range objects {
		for _, field := range []string{"resourceVersion", "managedFields", "generation"} {
			unstructured.RemoveNestedField(o.Object, "metadata", field)
		}
		switch o.GetKind() {
		case "CustomResourceDefinition": // Conditions have times.
			unstructured.RemoveNestedField(o.Object, "status")
		case "Deployment", "ServiceAccount", "Subscription": // They are made again.
			unstructured.RemoveNestedField(o.Object, "metadata", "uid")
			unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
		}
		all[o.GetKind()+" "+o.GetName()] = o.Object
	}
	return all
}

// install does what `make deploy` does but for the workload, and starts the manager.
func (p *product) install(ctx context.Context) *managerProcess {
	GinkgoHelper()
	applyManifests(ctx, filepath.Join(projectDir(), "config"))
	p.applyNextRelease(ctx)
	m := newManager(ctx, theManager.binary)
	m.upload(p.samples[0].name, p.samples[0].version, p.samples[0].archive())
	m.start(ctx)
	DeferCleanup(func() {
		m.stop()
		if CurrentSpecReport().Failed() {
			AddReportEntry("the log of the manager of the adopted cluster", m.log())
		}
	})
	for _, s := range p.samples {
		makeAvailable(ctx, p.namespace, s.operator())
		oc := newCollection(p.namespace, s.name+"."+domain+"."+s.version, v2beta2.OperatorCollectionSpec{})
		ExpectReady(ctx, oc)
		ExpectReady(ctx, &v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: oc.Name + "-soc"}})
	}
	return m
}

// applyNextRelease applies CRDs with another schema, without force.
func (p *product) applyNextRelease(ctx context.Context) {
	GinkgoHelper()
	files, err := filepath.Glob(filepath.Join(projectDir(), "config/crd/bases/*.yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		crd := Manifests(file)[0]
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		Expect(err).NotTo(HaveOccurred())
		Expect(unstructured.SetNestedField(versions[0].(map[string]any), "next release", "schema", "openAPIV3Schema", "description")).To(Succeed())
		Expect(unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions")).To(Succeed())
		Expect(K8s.Apply(ctx, client.ApplyConfigurationFromUnstructured(crd), client.FieldOwner("integration"))).To(Succeed(), file)
	}
}

// reconcileAll lets the operator of a sample see all of its resources, as its pod does when it starts, with what the manager has
// installed. It returns how many playbooks ran.
func (p *product) reconcileAll(ctx context.Context, s *sample) (plays int) {
	GinkgoHelper()
	pod := NewPodOfOperator(ctx, p.namespace, s.operator(), s.operator()+"-1")
	pod.Kind = s.kind
	pod.RealRunner(WellDone)
	settings := Live(ctx, Default, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: s.operator() + "-runtime"}})
	text, _, err := unstructured.NestedString(settings.Object, "data", gate.SettingsFile)
	Expect(err).NotTo(HaveOccurred())
	pod.Write("runtime/"+gate.SettingsFile, text)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: s.operator() + "-endpoints"}}
	Get(ctx, Default, secret)
	for name, value := range secret.Data {
		pod.Write("endpoints/"+name, string(value))
	}
	for i := range p.perKind {
		pod.Reconcile(ctx, s.instance(p.namespace, fmt.Sprintf("r%d", i)))
	}
	Remove(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: s.operator() + "-1"}})
	Remove(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: s.operator()}})
	return pod.Plays()
}

// addToInventory lets a SubOperatorConfig list an object that it did not install, and one of a type that has none.
func (p *product) addToInventory(ctx context.Context, config, kind, name string) {
	GinkgoHelper()
	soc := &v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: config}}
	Get(ctx, Default, soc)
	soc.Status.Inventory = append(soc.Status.Inventory, v2beta2.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: p.namespace, Name: name},
		v2beta2.ObjectReference{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview", Name: "a"})
	Expect(K8s.Status().Update(ctx, soc)).To(Succeed())
}

var _ = Describe("A cluster of z/OS Cloud Broker", func() {
	It("is adopted with its collections and resources, without a run, and given back", func(ctx context.Context) {
		p := newProduct(ctx, 3, 10)
		original := p.content(ctx)

		By("refusing, with all problems at once, while the product runs and an archive is missing")
		output := p.run(ctx, 1, "--dry-run")
		Expect(output).To(And(
			ContainSubstring("Resources whose playbook does not run (30):"),
			ContainSubstring("kubectl scale deployment ibm-zoscb-manager-zoscloudbroker -n zoscb --replicas=0"),
			ContainSubstring("kubectl scale deployment ibm-zoscb-operator -n zoscb --replicas=0"),
			ContainSubstring("/opt/collections/suboperator/"+p.samples[0].name+"/1.0.0/"),
			ContainSubstring("ZosEndpoint zoscb/lpar1: Collection Operator does not know spec.legacy: the field is dropped when the object is next written. To accept that"), Not(ContainSubstring(adoptedToken))))
		Expect(p.run(ctx, 1, p.backup()...)).To(ContainSubstring("Nothing was changed: solve the problems first."))
		p.stopManagers(ctx)
		Expect(output).To(ContainSubstring("is only seen with its archive: download"))
		for i, name := range []string{"uploaded.tar.gz", "second.tar.gz", "third.tar.gz"} {
			Expect(os.WriteFile(filepath.Join(p.folder, name), p.samples[i].archive(), 0o600)).To(Succeed())
		}
		output = p.run(ctx, 0, "--dry-run", "--drop-fields")
		Expect(output).To(And(ContainSubstring(DigestOf(p.samples[0].archive())), ContainSubstring("Nothing was changed: this was a dry run.")))
		AddReportEntry("the dry run", output)
		Expect(p.content(ctx)).To(Equal(original))
		_, err := os.Stat(filepath.Join(p.folder, p.saved))
		Expect(os.IsNotExist(err)).To(BeTrue())

		By("not waiting for ever for an operator that does not end, and giving the cluster back")
		Patch(ctx, deployment(p.namespace, p.samples[2].operator()), `{"metadata":{"finalizers":["example.com/hold"]}}`)
		p.run(ctx, 2, p.backup("--timeout", "5s")...)
		Patch(ctx, deployment(p.namespace, p.samples[2].operator()), `{"metadata":{"finalizers":null}}`)
		Expect(p.run(ctx, 0, p.backup("--back")...)).To(ContainSubstring("The cluster is as before"))
		Expect(p.run(ctx, 0, p.backup("--back")...)).To(ContainSubstring("undone already"))
		Patch(ctx, deployment(p.namespace, p.samples[2].operator()), `{"metadata":{"finalizers":null}}`)
		restored := p.content(ctx)
		Expect(restored).To(Equal(original))
		p.saved = "second"

		By("adopting")
		began := time.Now()
		before := p.resources(ctx)
		output = p.run(ctx, 0, p.backup()...)
		AddReportEntry("adopted after", time.Since(began).Round(time.Millisecond).String())
		Expect(output).To(ContainSubstring("kubectl collection push " + filepath.Join(p.folder, "uploaded.tar.gz")))
		saved, err := os.ReadFile(filepath.Join(p.folder, p.saved, "before-adoption.yaml"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(saved)).NotTo(ContainSubstring(adoptedToken))
		for i, after := range p.resources(ctx) {
			Expect(after.GetUID()).To(Equal(before[i].GetUID()))
			Expect(after.GetGeneration()).To(Equal(before[i].GetGeneration()))
			Expect(after.Object["status"]).To(Equal(before[i].Object["status"]))
			Expect(after.GetFinalizers()).To(Equal([]string{render.Finalizer}))
		}
		Expect(p.run(ctx, 0, p.backup()...)).To(ContainSubstring("there is nothing to adopt"))
		Expect(p.run(ctx, 1, p.backup("--finish")...)).To(ContainSubstring("is not Ready"))

		By("starting the manager and its operators")
		m := p.install(ctx)
		for _, s := range p.samples {
			Expect(p.reconcileAll(ctx, s)).To(BeZero(), "runs of %s", s.kind)
		}
		for i, after := range p.resources(ctx) {
			Expect(after.GetUID()).To(Equal(before[i].GetUID()))
			Expect(after.GetAnnotations()).To(HaveKey(gate.AnnotationRecord))
			mine, _, _ := unstructured.NestedString(after.Object, "status", "mine")
			Expect(mine).To(Equal(after.GetName()), "what a playbook wrote is kept")
			phase, _, _ := unstructured.NestedString(after.Object, "status", "phase")
			Expect(phase).To(Equal("Succeeded"))
		}
		Patch(ctx, p.samples[1].instance(p.namespace, "r0"), `{"spec":{"size":7}}`)
		Expect(p.reconcileAll(ctx, p.samples[1])).To(Equal(1), "a change runs the playbook, so the gate can tell")
		Patch(ctx, p.samples[1].instance(p.namespace, "r0"), `{"spec":{"size":null}}`)

		By("refusing to finish while the product runs")
		Patch(ctx, deployment(p.namespace, "ibm-zoscb-operator"), `{"spec":{"replicas":1}}`)
		Expect(p.run(ctx, 1, p.backup("--finish")...)).To(ContainSubstring("kubectl scale deployment ibm-zoscb-operator"))
		Patch(ctx, deployment(p.namespace, "ibm-zoscb-operator"), `{"spec":{"replicas":0}}`)

		By("going back, and leaving alone what only the inventory has")
		m.stop()
		foreign := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "foreign"}}
		Create(ctx, foreign)
		p.addToInventory(ctx, p.samples[1].name+"."+domain+"."+p.samples[1].version+"-soc", "ServiceAccount", foreign.Name)
		Expect(p.run(ctx, 0, p.backup("--back")...)).To(ContainSubstring("The cluster is as before"))
		Live(ctx, Default, foreign)
		restored = p.content(ctx)
		delete(restored, p.samples[1].kind+" r0") // Its spec was changed meanwhile.
		delete(original, p.samples[1].kind+" r0")
		Expect(restored).To(HaveLen(len(original)))
		for name, object := range original {
			Expect(restored[name]).To(Equal(object), name)
		}

		By("adopting again, and finishing")
		p.run(ctx, 2, p.backup()...) // The folder is of an adoption that is undone.
		p.saved = "third"
		Expect(p.run(ctx, 0, p.backup()...)).To(ContainSubstring("Adopted."))
		m = p.install(ctx)
		output = p.run(ctx, 0, p.backup("--finish")...)
		Expect(output).To(ContainSubstring("kubectl delete deployment ibm-zoscb-operator -n zoscb"))
		for _, s := range p.samples {
			Expect(Live(ctx, Default, newCollection(p.namespace, s.name+"."+domain+"."+s.version, v2beta2.OperatorCollectionSpec{})).GetFinalizers()).
				NotTo(ContainElement("operatorcollections.zoscb.ibm.com/finalizer"))
		}
		m.stop()
		runTool(ctx, 2, toolBinary(), append([]string{"adopt", "--kubeconfig", filepath.Join(p.folder, "kubeconfig")}, p.backup("--back")...)...)
	})
})
