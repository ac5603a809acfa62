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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// formerManager builds the manager of the version that landed last before this one, which hack/last-landed names. It needs the history
// of the repository.
func formerManager(ctx context.Context) string {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(projectDir(), "hack", "last-landed"))
	Expect(err).NotTo(HaveOccurred())
	commit, dir := strings.TrimSpace(string(content)), GinkgoT().TempDir()
	printed, err := Output(ctx, "git", "-C", projectDir(), "cat-file", "-e", commit+"^{commit}")
	Expect(err).NotTo(HaveOccurred(), "the history of the repository lacks commit %s, which hack/last-landed names: %s. In a shallow clone run git fetch --unshallow", commit, printed)
	archive, binary := filepath.Join(dir, "former.tar"), filepath.Join(dir, "manager")
	Run(ctx, "git", "-C", projectDir(), "archive", "--output", archive, commit)
	Run(ctx, "tar", "-x", "-f", archive, "-C", dir)
	began := time.Now()
	// With -trimpath the folder does not matter to the build cache.
	Run(ctx, "go", "build", "-C", dir, "-trimpath", "-o", binary, "./cmd/manager")
	AddReportEntry("the former version of the manager was built in", time.Since(began).Round(time.Second).String())
	return binary
}

// replaceBy starts another version of the manager with the same storage, until the spec ends.
func (m *managerProcess) replaceBy(ctx context.Context, binary string) {
	GinkgoHelper()
	m.stop()
	m.binary = binary
	m.start(ctx)
}

var _ = Describe("Another version of the manager", func() {
	It("reads what the former one wrote, and the other way round", Label("soak"), func(ctx context.Context) {
		present, former := theManager.binary, formerManager(ctx)
		DeferCleanup(func(ctx context.Context) { theManager.replaceBy(ctx, present) })
		theManager.replaceBy(ctx, former)
		namespace, s, gone := newNamespace(ctx), newSample(), newSample()
		server := startSSHServer()
		lpar := newEndpoint(namespace, "lpar1", server)
		Create(ctx, lpar)
		oc := installSample(ctx, namespace, s)
		soc, thing := defaultSOC(oc), s.instance(namespace, "one")
		thing.SetFinalizers([]string{InstanceFinalizer})
		thing.SetAnnotations(map[string]string{"zoscb.ibm.com/run-record": "as it was"})
		Create(ctx, thing)
		ExpectReady(ctx, lpar)
		Eventually(ctx, Condition(ctx, lpar, v2beta2.ConditionReachable)).Should(ConditionTrue())
		before := keptState(ctx, namespace, s, oc, soc, lpar, thing)

		for round, binary := range []string{present, former, present} {
			By(fmt.Sprintf("replacing the manager for the %d. time", round+1))
			theManager.replaceBy(ctx, binary)
			// What it does for a changed spec shows that it has taken over.
			policy := []string{"Finalize", "Block"}[round%2]
			Patch(ctx, oc, `{"spec":{"deletionPolicy":"`+policy+`"}}`)
			Eventually(ctx, func(g Gomega) {
				Get(ctx, g, oc)
				g.Expect(oc.Status.ObservedGeneration).To(Equal(oc.Generation))
			}).Should(Succeed())
			Eventually(ctx, func(g Gomega) {
				makeAvailable(ctx, namespace, s.operator()) // The versions may have different pods.
				for _, object := range []client.Object{oc, soc} {
					g.Expect(Condition(ctx, object, v2beta2.ConditionReady)(g)).To(ConditionTrue())
				}
			}).WithPolling(time.Second).Should(Succeed())
			Expect(keptState(ctx, namespace, s, oc, soc, lpar, thing)).To(Equal(before))
			if binary == present { // Former versions rendered titles, which hide forms in consoles, and no category.
				expectNoOwners(ctx, soc)
				Eventually(ctx, func(g Gomega) {
					crd := customResourceDefinition(s.crdName())
					Get(ctx, g, crd)
					g.Expect(crd.Spec.Names.Categories).To(Equal([]string{"zos"}))
					g.Expect(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Title).To(BeEmpty())
				}).Should(Succeed())
			}
			if round == 0 {
				Eventually(ctx, Field(ctx, lpar, "metadata", "annotations", "zoscb.ibm.com/pinned-host-keys")).ShouldNot(BeEmpty())
				other := newCollection(namespace, "gone", gone.pinned())
				Create(ctx, other)
				Eventually(ctx, Condition(ctx, other, v2beta2.ConditionImported)).Should(ConditionTrue())
				Remove(ctx, other)
				Eventually(ctx, Gone(ctx, other)).Should(BeTrue())
			}
		}

		By("removing everything that both have made")
		Patch(ctx, thing, `{"metadata":{"finalizers":null}}`)
		Remove(ctx, thing)
		Remove(ctx, oc)
		Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
		Eventually(ctx, Gone(ctx, customResourceDefinition(s.crdName()))).Should(BeTrue())
	})
})

// keptState is what no version of the manager may lose or make anew, by object.
func keptState(ctx context.Context, namespace string, s *sample, objects ...client.Object) map[string]any {
	GinkgoHelper()
	state := map[string]any{"archive": filepath.Base(theManager.archiveOf(s))}
	for _, object := range append(objects, deployment(namespace, s.operator()), customResourceDefinition(s.crdName())) {
		live := Live(ctx, Default, object)
		name := live.GetKind() + "/" + live.GetName()
		state[name+" UID"], state[name+" finalizers"] = string(live.GetUID()), live.GetFinalizers()
		for _, path := range [][]string{
			{"status", "artifact", "digest"}, {"status", "artifact", "verifiedAt"}, {"status", "collection"}, {"status", "inventory"},
			{"status", "hostKeys"}, {"status", "pinnedFor"}, {"metadata", "annotations", "zoscb.ibm.com/run-record"}, {"metadata", "annotations", "zoscb.ibm.com/claimed-by"},
			{"metadata", "annotations", "zoscb.ibm.com/default"},
		} {
			if value, found, err := unstructured.NestedFieldCopy(live.Object, path...); err == nil && found {
				state[name+" "+strings.Join(path, ".")] = value
			}
		}
	}
	return state
}

// archiveOf is the file in the store with the archive of a sample.
func (m *managerProcess) archiveOf(s *sample) string {
	GinkgoHelper()
	path := filepath.Join(m.storage, ".artifacts", "sha256", strings.TrimPrefix(DigestOf(s.archive()), "sha256:")+".tar.gz")
	Expect(path).To(BeAnExistingFile())
	return path
}
