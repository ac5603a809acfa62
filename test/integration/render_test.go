package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/author/galaxy"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("What the tool renders for an archive", func() {
	DescribeTable("is what the manager puts on the API server", func(ctx context.Context, archive func(ctx context.Context) []byte) {
		content := archive(ctx)
		namespace := newNamespace(ctx)
		rendered := renderWithTool(ctx, content, namespace)
		oc := newCollection(namespace, "oc", pinned(content))
		Create(ctx, oc)
		makeAvailable(ctx, namespace, nameOf(rendered, "Deployment"))
		ExpectReady(ctx, oc)

		By("comparing which objects there are")
		var want []string
		for _, object := range installed(ctx, defaultSOC(oc)) {
			if object.GetKind() != "Secret" {
				want = append(want, object.GetKind()+" "+object.GetName())
			}
		}
		labels := client.MatchingLabels{}
		for _, name := range []string{"operator-domain", "operator-name"} {
			labels[name] = rendered[0].GetLabels()[name]
		}
		for _, crd := range listObjects(ctx, &apiextensionsv1.CustomResourceDefinitionList{}, labels) {
			want = append(want, "CustomResourceDefinition "+crd.GetName())
		}
		var got []string
		for _, object := range rendered {
			got = append(got, object.GetKind()+" "+object.GetName())
		}
		Expect(got).To(ConsistOf(want))

		for _, object := range rendered {
			By("comparing " + object.GetKind() + " " + object.GetName())
			live := &unstructured.Unstructured{}
			live.SetGroupVersionKind(object.GroupVersionKind())
			Expect(K8s.Get(ctx, client.ObjectKeyFromObject(object), live)).To(Succeed())
			takeOwner(object, live)
			// The API server fills in its defaults, and would write what is printed in the place of what is there.
			object.SetResourceVersion(live.GetResourceVersion())
			Expect(K8s.Update(ctx, object, client.DryRunAll)).To(Succeed())
			Expect(cmp.Diff(written(live), written(object))).To(BeEmpty(), "-live +printed")
		}
	},
		Entry("with several kinds and a role", func(context.Context) []byte {
			return archiveOf("../collections/files")
		}),
		Entry("with many shapes of playbooks", func(context.Context) []byte {
			return archiveOf("../collections/habits/queues")
		}),
		Entry("with permissions in the whole cluster", func(ctx context.Context) []byte {
			grantVersion(ctx)
			s := newSample()
			s.permissions = "clusterRoles: [{nonResourceURLs: [/version], verbs: [get]}]"
			return s.archive()
		}),
	)
})

func archiveOf(folder string) []byte {
	GinkgoHelper()
	var archive bytes.Buffer
	Expect(galaxy.Build(os.DirFS(folder), &archive)).To(Succeed())
	return archive.Bytes()
}

// renderWithTool runs the tool's real binary, with the settings of the manager under test.
func renderWithTool(ctx context.Context, archive []byte, namespace string) []*unstructured.Unstructured {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), "collection.tar.gz")
	Expect(os.WriteFile(file, archive, 0o600)).To(Succeed())
	command := exec.CommandContext(ctx, toolBinary(), "render", file, "--namespace", namespace, "--output", "json",
		"--runtime-image", "registry.invalid/runtime:integration", "--artifact-url", "http://"+theManager.artifactAddress)
	command.Stderr = GinkgoWriter
	printed, err := command.Output()
	Expect(err).NotTo(HaveOccurred())
	var list struct{ Items []map[string]any }
	Expect(json.Unmarshal(printed, &list)).To(Succeed())
	var objects []*unstructured.Unstructured
	for _, item := range list.Items {
		objects = append(objects, &unstructured.Unstructured{Object: item})
	}
	Expect(objects).NotTo(BeEmpty())
	return objects
}

func nameOf(objects []*unstructured.Unstructured, kind string) string {
	GinkgoHelper()
	for _, object := range objects {
		if object.GetKind() == kind {
			return object.GetName()
		}
	}
	Fail("there is no " + kind)
	return ""
}

// takeOwner gives a printed object what only a cluster knows: the SubOperatorConfig that it is made for, the OperatorCollections that
// have a kind, and when its version was published.
func takeOwner(object, live *unstructured.Unstructured) {
	for annotation, owner := range live.GetAnnotations() {
		if !slices.Contains([]string{"zoscb.ibm.com/suboperatorconfig", "zoscb.ibm.com/held-by"}, annotation) && !strings.HasPrefix(annotation, "life.zoscb.ibm.com/") {
			continue
		}
		annotations := object.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[annotation] = owner
		object.SetAnnotations(annotations)
	}
}

// written is an object without what the API server or others than the manager keep in it.
func written(object *unstructured.Unstructured) map[string]any {
	u := object.DeepCopy()
	u.SetManagedFields(nil)
	u.SetResourceVersion("")
	unstructured.RemoveNestedField(u.Object, "status")
	return u.Object
}
