package integration

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// backup has objects in the order in which a tool such as Velero restores them: definitions first, what others need, and then by the
// name of the resource.
type backup struct{ definitions, objects []*unstructured.Unstructured }

// takeBackup reads everything of namespaces, and everything cluster-scoped that the manager made, without what such a tool leaves out.
func takeBackup(ctx context.Context, s *sample, namespaces ...string) backup {
	GinkgoHelper()
	var b backup
	take := func(gvk schema.GroupVersionKind, options ...client.ListOption) (taken []*unstructured.Unstructured) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		Expect(K8s.List(ctx, list, options...)).To(Succeed(), gvk.Kind)
		for i := range list.Items {
			if item := &list.Items[i]; item.GetName() != "kube-root-ca.crt" && item.GetName() != "default" {
				taken = append(taken, withoutState(item))
			}
		}
		return taken
	}
	made := client.HasLabels{"operator-name"}
	b.definitions = take(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), made)
	b.objects = slices.Concat(take(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), made), take(rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), made))
	for _, gvk := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Secret"), corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"), appsv1.SchemeGroupVersion.WithKind("Deployment"),
		coordinationv1.SchemeGroupVersion.WithKind("Lease"), v2beta2.GroupVersion.WithKind("OperatorCollection"),
		rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), rbacv1.SchemeGroupVersion.WithKind("Role"),
		v2beta2.GroupVersion.WithKind("SubOperatorConfig"),
		{Group: SharedGroup, Version: s.apiVersion(), Kind: s.kind}, v2beta2.GroupVersion.WithKind("ZosEndpoint"),
	} {
		for _, namespace := range namespaces {
			b.objects = append(b.objects, take(gvk, client.InNamespace(namespace))...)
		}
	}
	return b
}

// withoutState returns an object as Velero restores it: without status, and without what the API server and the garbage collector
// know it by.
func withoutState(object *unstructured.Unstructured) *unstructured.Unstructured {
	restored := object.DeepCopy()
	delete(restored.Object, "status")
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "managedFields", "ownerReferences"} {
		unstructured.RemoveNestedField(restored.Object, "metadata", field)
	}
	return restored
}

func restore(ctx context.Context, objects ...*unstructured.Unstructured) {
	GinkgoHelper()
	for _, object := range objects {
		Expect(K8s.Create(ctx, object.DeepCopy())).To(Succeed(), "%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName())
	}
}

// startOver starts an empty control plane, and a manager without archives that has the key of the former one, until the spec ends.
func startOver(ctx context.Context) *managerProcess {
	GinkgoHelper()
	const keySecret = "collection-operator-credential-key"
	key := withoutState(Live(ctx, Default, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ManagerNamespace, Name: keySecret}}))
	second := StartControlPlane(projectDir())
	DeferCleanup(func() { Connect(controlPlane.Kubeconfig) })
	Connect(second.Kubeconfig)
	applyManifests(ctx, filepath.Join(projectDir(), "config"))
	restore(ctx, key)
	m := newManager(ctx, theManager.binary)
	m.start(ctx)
	DeferCleanup(func() {
		m.stop()
		m.checkLog()
		if CurrentSpecReport().Failed() {
			AddReportEntry("the log of the manager of the restored cluster", m.log())
		}
	})
	return m
}

func notFound(response http.ResponseWriter, request *http.Request) { http.NotFound(response, request) }

var _ = Describe("A backup that is restored without status", func() {
	It("loses nothing: neither CRDs, nor settings, nor which archives and host keys are trusted", func(ctx context.Context) {
		namespace, s, late, lost := newNamespace(ctx), newSample(), newSample(), newSample()
		server := startSSHServer()
		lpar := newEndpoint(namespace, "lpar1", server)
		Create(ctx, lpar)
		content, spec := s.archive(), unverified("")
		spec.CollectionURL = web.Serve(content)
		oc := newCollection(namespace, "oc", spec)
		Create(ctx, oc)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		lateContent := late.archive()
		second := newCollection(namespace, "late", unverified(web.Serve(lateContent)))
		Create(ctx, second)
		Eventually(ctx, Condition(ctx, second, v2beta2.ConditionImported)).Should(ConditionTrue())
		lostContent := lost.archive()
		third := newCollection(namespace, "lost", unverified(web.Serve(lostContent)))
		Create(ctx, third)
		Eventually(ctx, Condition(ctx, third, v2beta2.ConditionImported)).Should(ConditionTrue())
		kept := lost.instance(namespace, "kept")
		Create(ctx, kept)
		soc := defaultSOC(oc)
		Patch(ctx, soc, `{"spec":{"runtime":{"networkPolicy":{"egress":"Restricted","allowTo":[{"cidr":"192.0.2.1/32"}]}}}}`)
		Create(ctx, newSOC(namespace, "another", "oc"))
		thing := s.instance(namespace, "one")
		thing.SetFinalizers([]string{InstanceFinalizer})
		thing.SetAnnotations(map[string]string{"zoscb.ibm.com/run-record": "as it was"})
		Create(ctx, thing)
		Eventually(ctx, Field(ctx, lpar, "metadata", "annotations", "zoscb.ibm.com/pinned-host-keys")).
			Should(Equal(server.address() + " " + server.hostKey()))
		for collection, content := range map[*v2beta2.OperatorCollection][]byte{second: lateContent, third: lostContent} {
			Eventually(ctx, Field(ctx, collection, "metadata", "annotations", "zoscb.ibm.com/artifact-digest")).Should(HavePrefix(DigestOf(content)))
		}
		saved := takeBackup(ctx, s, namespace)
		Patch(ctx, thing, `{"metadata":{"finalizers":null}}`)

		By("restoring CRDs first, while the origins have other content or are away, and a host another key")
		moved := *s
		moved.variables = "{name: size, displayName: Other Size, type: integer, default: 3}"
		web.Replace(spec.CollectionURL, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(moved.archive()) })
		web.Replace(second.Spec.CollectionURL, notFound)
		web.Replace(third.Spec.CollectionURL, notFound)
		pinned := server.hostKey()
		server.replaceKey(newSigner())
		m := startOver(ctx)
		restore(ctx, saved.definitions...)
		Consistently(ctx, func(g Gomega) {
			for _, definition := range saved.definitions {
				g.Expect(Gone(ctx, definition)(g)).To(BeFalse(), definition.GetName())
			}
		}).Should(Succeed())
		Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		// Tools restore ServiceAccounts early and custom resources late.
		configs := slices.IndexFunc(saved.objects, func(object *unstructured.Unstructured) bool { return object.GetKind() == "SubOperatorConfig" })
		restore(ctx, saved.objects[:configs]...)
		afterwards(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator()}})
		restore(ctx, saved.objects[configs:]...)
		Create(ctx, lost.instance(namespace, "kept"))

		By("keeping what was restored, and importing nothing else")
		ExpectFailure(ctx, oc, v2beta2.ReasonArtifactChanged, DigestOf(content), false)
		Eventually(ctx, Condition(ctx, lpar, v2beta2.ConditionReachable)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonHostKeyMismatch)))
		Get(ctx, Default, lpar)
		Expect(lpar.Status.HostKeys).To(Equal([]string{pinned}))
		expectRestored(ctx, saved)

		By("importing from an origin that is back")
		web.Replace(second.Spec.CollectionURL, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(lateContent) })
		Patch(ctx, second, `{"metadata":{"annotations":{"example.com/again":"1"}}}`)
		Eventually(ctx, Condition(ctx, second, v2beta2.ConditionImported)).Should(ConditionTrue())
		Get(ctx, Default, second)
		Expect(second.Status.Artifact.Digest).To(Equal(DigestOf(lateContent)))

		By("importing what the restored volume has, though the origin has something else")
		m.stop()
		Expect(os.CopyFS(filepath.Join(m.storage, ".restored"), os.DirFS(filepath.Join(theManager.storage, ".artifacts")))).To(Succeed())
		Expect(os.RemoveAll(filepath.Join(m.storage, ".artifacts"))).To(Succeed())
		Expect(os.Remove(filepath.Join(m.storage, ".restored", "sha256", DigestOf(lostContent)[len("sha256:"):]+".tar.gz"))).To(Succeed())
		Expect(os.Rename(filepath.Join(m.storage, ".restored"), filepath.Join(m.storage, ".artifacts"))).To(Succeed())
		m.start(ctx)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		Get(ctx, Default, oc)
		Expect(oc.Status.Artifact.Digest).To(Equal(DigestOf(content)))
		Eventually(ctx, func(g Gomega) {
			makeAvailable(ctx, namespace, s.operator()) // The manager may change what was restored.
			g.Expect(Condition(ctx, soc, v2beta2.ConditionReady)(g)).To(ConditionTrue())
		}).Should(Succeed())
		Expect(Condition(ctx, lpar, v2beta2.ConditionReady)(Default)).NotTo(WithReason(v2beta2.ReasonForeignObject))
		expectRestored(ctx, saved)

		By("asking for custom resources also before a collection is imported again")
		Remove(ctx, third)
		ExpectFailure(ctx, third, v2beta2.ReasonInstancesExist, lost.kind+" "+namespace+"/kept", false)
		expectRestored(ctx, backup{definitions: saved.definitions})
		Remove(ctx, lost.instance(namespace, "kept"))

		By("removing all of it for good when it is deleted now")
		Patch(ctx, thing, `{"metadata":{"finalizers":null}}`)
		Remove(ctx, thing)
		for _, collection := range []*v2beta2.OperatorCollection{oc, second, third} {
			Remove(ctx, collection)
			Eventually(ctx, Gone(ctx, collection)).Should(BeTrue())
		}
		for _, definition := range saved.definitions {
			if slices.Contains([]string{s.name, late.name, lost.name}, definition.GetLabels()["operator-name"]) {
				Eventually(ctx, Gone(ctx, definition)).Should(BeTrue())
			}
		}
	})
})

var _ = Describe("The CRD of an OperatorCollection that was removed by force", func() {
	It("is kept until a user prunes it, and only without custom resources", func(ctx context.Context) {
		namespace, s, binary := newNamespace(ctx), newSample(), toolBinary()
		oc, definition, thing := importSample(ctx, namespace, s), customResourceDefinition(s.crdName()), s.instance(namespace, "one")
		Create(ctx, thing)
		prune := func(more ...string) string {
			GinkgoHelper()
			return runTool(ctx, 0, binary, append([]string{"prune"}, more...)...)
		}
		Expect(prune("--yes")).NotTo(ContainSubstring(s.crdName()))
		soc := defaultSOC(oc)
		Eventually(ctx, Gone(ctx, soc)).Should(BeFalse())
		Remove(ctx, soc)
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
		Expect(prune("--yes")).NotTo(ContainSubstring(s.crdName()))
		removeByForce(ctx, oc)
		Expect(prune()).To(MatchRegexp(`(?m)^` + s.crdName() + ` +some +` + namespace + `/oc$`))
		Expect(prune("--yes")).To(ContainSubstring(s.crdName() + ": kept: it has custom resources"))
		Remove(ctx, thing)
		Eventually(ctx, Gone(ctx, thing)).Should(BeTrue())
		Expect(prune()).To(MatchRegexp(`(?m)^` + s.crdName() + ` +none +` + namespace + `/oc$`))
		Consistently(ctx, Gone(ctx, definition)).Should(BeFalse())
		Expect(prune("--yes")).To(ContainSubstring(s.crdName() + ": removed"))
		Eventually(ctx, Gone(ctx, definition)).Should(BeTrue())
	})
})

var _ = Describe("The record of an import", func() {
	It("gives no access to an archive of another tenant that only the store still has", attack.Label, func(ctx context.Context) {
		mine, s := newNamespace(ctx), newSample()
		origin := web.Serve(s.archive())
		theirs := newCollection(newNamespace(ctx), "oc", unverified(origin))
		Create(ctx, theirs)
		record := annotationOf(ctx, theirs, "zoscb.ibm.com/artifact-digest")
		Eventually(ctx, record).Should(HavePrefix(DigestOf(s.archive())))
		web.Replace(origin, notFound)
		forged := newCollection(mine, "oc", unverified(origin))
		forged.Annotations = map[string]string{"zoscb.ibm.com/artifact-digest": record(Default)}
		Create(ctx, forged)
		Eventually(ctx, Condition(ctx, forged, v2beta2.ConditionImported)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonArchiveNotFound)))
		Eventually(ctx, Condition(ctx, theirs, v2beta2.ConditionImported)).Should(ConditionTrue())
		attack.Repelled("Nothing lost", "copy the record of another tenant's import to an OperatorCollection, to get the archive from the store",
			"the archive is fetched from its origin", seen(ctx, forged, v2beta2.ConditionImported))
	})
})

// expectRestored expects everything of a backup, with its spec, annotations and finalizers.
func expectRestored(ctx context.Context, saved backup) {
	GinkgoHelper()
	for _, object := range slices.Concat(saved.definitions, saved.objects) {
		live := Live(ctx, Default, object)
		name := object.GetKind() + "/" + object.GetName()
		Expect(live.GetDeletionTimestamp()).To(BeNil(), name)
		switch object.GetKind() {
		case "OperatorCollection", "SubOperatorConfig", "ZosEndpoint":
			Expect(live.Object["spec"]).To(Equal(object.Object["spec"]), name)
		case "Secret", "ConfigMap", "ServiceAccount", "Deployment", "Lease", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition":
			continue
		}
		Expect(live.GetFinalizers()).To(ContainElements(object.GetFinalizers()), name)
		for annotation, value := range object.GetAnnotations() {
			Expect(live.GetAnnotations()).To(HaveKeyWithValue(annotation, value), name)
		}
	}
}
