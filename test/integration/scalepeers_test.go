package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/bench/report"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// objectsFile is where the objects are that the manager made of collections.
func objectsFile(count int) string {
	return filepath.Join(os.Getenv("BENCH_WORK"), fmt.Sprintf("objects-%d.json", count))
}

var _ = Describe("Scale of others", Serial, Label("scale"), func() {
	It("is that of kubectl apply of the same objects", func(ctx context.Context) {
		count := size("BENCH_COLLECTIONS")
		s, lists := newPeer(ctx, count)
		all, err := joined(lists).MarshalJSON()
		Expect(err).NotTo(HaveOccurred())
		file := filepath.Join(GinkgoT().TempDir(), "all.json")
		Expect(os.WriteFile(file, all, 0o600)).To(Succeed())
		kubectl := filepath.Join(projectDir(), ".devcluster/bin/kubectl")
		peer := report.Peer{Name: "kubectl apply", Collections: count, Objects: len(joined(lists).Items)}
		s.installPeer(ctx, &peer, lists, func() error {
			output, err := Output(ctx, kubectl, "apply", "-f", file)
			if err != nil {
				return fmt.Errorf("kubectl: %w\n%s", err, output)
			}
			return nil
		})
		savePeer(fmt.Sprintf("kubectl-%d", count), peer)
	})
})

// newPeer stops the manager, which would remove CRDs that look like its own, and makes the namespaces. Each list has the
// objects of one collection.
func newPeer(ctx context.Context, count int) (*scale, []unstructured.UnstructuredList) {
	GinkgoHelper()
	content, err := os.ReadFile(objectsFile(count))
	if err != nil {
		Skip("there are no objects of the manager to compare with: " + err.Error())
	}
	var lists []unstructured.UnstructuredList
	Expect(json.Unmarshal(content, &lists)).To(Succeed())
	s := newScale(ctx)
	s.setStarts(ctx, true)
	_, err = s.view.GetInformer(ctx, &apiextensionsv1.CustomResourceDefinition{})
	Expect(err).NotTo(HaveOccurred())
	for i := range (count + collectionsPerNamespace - 1) / collectionsPerNamespace {
		Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("scale-%d", i)}})
	}
	theManager.stop()
	DeferCleanup(theManager.start)
	return s, lists
}

func joined(lists []unstructured.UnstructuredList) *unstructured.UnstructuredList {
	all := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	for _, list := range lists {
		all.Items = append(all.Items, list.Items...)
	}
	return all
}

// installPeer measures a command, and until CRDs are Established and Deployments Available.
func (s *scale) installPeer(ctx context.Context, peer *report.Peer, lists []unstructured.UnstructuredList, install func() error) {
	GinkgoHelper()
	By(peer.Name)
	crds := 0
	for _, object := range joined(lists).Items {
		if object.GetKind() == "CustomResourceDefinition" {
			crds++
		}
	}
	begin := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	finished := make(chan float64, 1)
	go func() {
		if err := install(); err != nil {
			cancel(err)
		}
		finished <- time.Since(begin).Seconds()
	}()
	Expect(s.await(ctx, func() (bool, error) { return s.deploymentsAvailable(ctx, len(lists)) })).To(Succeed())
	peer.Available = time.Since(begin).Seconds()
	peer.Applied = <-finished
	Expect(s.await(ctx, func() (bool, error) {
		list := &apiextensionsv1.CustomResourceDefinitionList{}
		err := s.view.List(ctx, list, client.UnsafeDisableDeepCopy)
		done := 0
		for i := range list.Items {
			if established(&list.Items[i]) {
				done++
			}
		}
		return done >= crds+ourCRDs, err
	})).To(Succeed())
	Expect(context.Cause(ctx)).NotTo(HaveOccurred())
	peer.Established = time.Since(begin).Seconds()
}

// ourCRDs are those of the manager itself.
const ourCRDs = 3

func (s *scale) deploymentsAvailable(ctx context.Context, count int) (bool, error) {
	deployments := &appsv1.DeploymentList{}
	err := s.view.List(ctx, deployments, client.UnsafeDisableDeepCopy)
	available := 0
	for i := range deployments.Items {
		available += int(deployments.Items[i].Status.AvailableReplicas)
	}
	return available == count, err
}

func savePeer(name string, peer report.Peer) {
	GinkgoHelper()
	AddReportEntry(name, peer.Text(), ReportEntryVisibilityAlways)
	write(name, peer)
}

// dump writes what the manager made of each collection to objectsFile, as somebody else would apply it.
func (s *scale) dump(ctx context.Context, count int) {
	GinkgoHelper()
	if os.Getenv("BENCH_WORK") == "" {
		return
	}
	var lists []unstructured.UnstructuredList
	for i := range count {
		oc := newCollection(fmt.Sprintf("scale-%d", i/collectionsPerNamespace), fmt.Sprintf("scale-%d", i), v2beta2.OperatorCollectionSpec{})
		list := unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
		for _, kind := range []string{"Region", "Queue", "Dataset"} {
			crd := Live(ctx, Default, customResourceDefinition(fmt.Sprintf("%s.%s", plural(i, kind), SharedGroup)))
			list.Items = append(list.Items, *crd)
		}
		for _, object := range installed(ctx, defaultSOC(oc)) {
			list.Items = append(list.Items, *object)
		}
		for j := range list.Items {
			undress(&list.Items[j])
		}
		lists = append(lists, list)
	}
	content, err := json.Marshal(lists)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(objectsFile(count), content, 0o600)).To(Succeed())
}

func plural(i int, kind string) string {
	return fmt.Sprintf("scale%d%ss", i, map[string]string{"Region": "region", "Queue": "queue", "Dataset": "dataset"}[kind])
}

// undress leaves of an object what its author wrote.
func undress(object *unstructured.Unstructured) {
	for _, path := range [][]string{
		{"status"}, {"metadata", "uid"}, {"metadata", "resourceVersion"}, {"metadata", "managedFields"}, {"metadata", "creationTimestamp"},
		{"metadata", "generation"}, {"metadata", "ownerReferences"}, {"metadata", "finalizers"},
	} {
		unstructured.RemoveNestedField(object.Object, path...)
	}
}

// installsAtOnce is how many processes of Helm run at the same time, as many as the manager has workers.
const installsAtOnce = 4

var _ = Describe("Scale of Helm", Serial, Label("scale"), func() {
	It("is that of a chart for each collection with the same objects", func(ctx context.Context) {
		count := size("BENCH_COLLECTIONS")
		helm, err := exec.LookPath(os.Getenv("BENCH_HELM"))
		if err != nil {
			Skip("BENCH_HELM is no program: " + err.Error())
		}
		s, lists := newPeer(ctx, count)
		dir := GinkgoT().TempDir()
		for i, list := range lists {
			writeChart(filepath.Join(dir, fmt.Sprintf("scale-%d", i)), list)
		}
		peer := report.Peer{Name: "helm install, a chart for each collection", Collections: count, Objects: len(joined(lists).Items)}
		s.installPeer(ctx, &peer, lists, func() error {
			group, ctx := errgroup.WithContext(ctx)
			group.SetLimit(installsAtOnce)
			for i := range lists {
				group.Go(func() error {
					name := fmt.Sprintf("scale-%d", i)
					output, err := Output(ctx, helm, "install", name, filepath.Join(dir, name), "--namespace", fmt.Sprintf("scale-%d", i/collectionsPerNamespace))
					if err != nil {
						return fmt.Errorf("helm: %w\n%s", err, output)
					}
					return nil
				})
			}
			return group.Wait()
		})
		savePeer(fmt.Sprintf("helm-%d", count), peer)
	})
})

// writeChart makes a chart of objects, with CRDs where Helm waits for them.
func writeChart(dir string, list unstructured.UnstructuredList) {
	GinkgoHelper()
	files := map[string]string{
		"Chart.yaml":             "apiVersion: v2\nname: scale\nversion: 1.0.0\n",
		"templates/objects.yaml": `{{ .Files.Get "objects.yaml" }}`,
	}
	for _, object := range list.Items {
		file := "objects.yaml"
		if object.GetKind() == "CustomResourceDefinition" {
			file = "crds/" + object.GetName() + ".yaml"
		}
		files[file] += "---\n" + MustJSON(object.Object) + "\n"
	}
	for name, content := range files {
		Expect(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)).To(Succeed())
	}
}
