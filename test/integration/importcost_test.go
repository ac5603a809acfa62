package integration

import (
	"context"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("The cost of an import", func() {
	It("is one load of the archive and few writes, and nothing when nothing has changed", func(ctx context.Context) {
		namespace, s, begin := newNamespace(ctx), newSample(), time.Now()
		audit := markAudit()
		oc := installSample(ctx, namespace, s)
		Get(ctx, Default, oc)
		archive := oc.Status.Artifact.Digest
		loads := func() int {
			return len(linesWith(strings.Join(linesWith(theManager.logSince(begin), "an archive was loaded"), "\n"), archive))
		}
		Expect(loads()).To(Equal(1))
		writes := func(words ...string) []string {
			return slices.DeleteFunc(slices.Clone(audit.writesSince()), func(write string) bool {
				return slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(write, word) })
			})
		}
		Expect(writes("customresourcedefinitions/"+s.crdName())).To(BeEmpty(), "after its creation")
		Expect(writes("patch", "/"+namespace+"/operatorcollections/oc?")).To(HaveLen(3), "finalizer; labels and record; default SubOperatorConfig")

		expectRest(ctx)
		quiet := markAudit()
		Patch(ctx, oc, `{"metadata":{"annotations":{"example.com/look":"again"}}}`)
		Consistently(ctx, quiet.writesAbout(namespace)).Should(BeEmpty())
		Expect(loads()).To(Equal(1))
	})

	It("is decided by what this manager has imported already, also if its cache lacks it", func(ctx context.Context) {
		api, namespace := startLaggingAPI(), newNamespace(ctx)
		theManager.restartWith(ctx, api, "--max-kinds-per-namespace=1")
		s, other := newSample(), newSample()
		late := "operatorcollections"
		api.late.Store(&late)
		first, second := newCollection(namespace, "first", s.pinned()), newCollection(namespace, "second", other.pinned())
		Create(ctx, first)
		Create(ctx, second)
		var imported int
		Eventually(ctx, func(g Gomega) {
			imported = 0
			for _, oc := range []*v2beta2.OperatorCollection{first, second} {
				Get(ctx, g, oc)
				if oc.Status.Artifact != nil {
					imported++
				} else {
					g.Expect(oc.Status.Message).To(ContainSubstring("the budget of kinds"))
				}
			}
			g.Expect(imported).NotTo(BeZero())
		}).Should(Succeed())
		Expect(imported).To(Equal(1))
	})
})
