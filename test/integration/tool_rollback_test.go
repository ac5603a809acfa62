package integration

import (
	"context"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("kubectl collection rollback", func() {
	It("returns to the version before, and says what keeps it from doing so", func(ctx context.Context) {
		binary, namespace, s := toolBinary(), newNamespace(ctx), newSample()
		newer := s.at("1.1.0")
		source := newOrigin(s.archive())
		oc := newCollection(namespace, "oc", unverified(source.url))
		rollback := func(more ...string) []string { return append([]string{"rollback", "oc", "-n", namespace}, more...) }
		runTool(ctx, 2, binary, rollback()...)
		Create(ctx, oc)
		makeReadyAgain(ctx, oc, s, "1.0.0")
		session := startTool(binary, rollback()...)
		Eventually(ctx, session).Should(gexec.Exit(1))
		Expect(string(session.Err.Contents())).To(ContainSubstring("no version before 1.0.0"))
		source.publish(newer.archive())
		Patch(ctx, oc, `{"spec":{"collectionURL":"`+source.url+`?moved"}}`)
		makeReadyAgain(ctx, oc, s, "1.1.0")

		By("showing what it would do")
		Expect(runTool(ctx, 0, binary, rollback("--dry-run")...)).To(And(
			MatchRegexp(`(?m)^1\.1\.0 +sha256:[0-9a-f]{12} +20\S+ +Installed +\S+$`), ContainSubstring("Returning from version 1.1.0 to 1.0.0, "+DigestOf(s.archive()))))
		Get(ctx, Default, oc)
		Expect(oc.Spec.Digest).To(BeEmpty())

		By("doing it")
		source.answer(http.NotFound)
		session = startTool(binary, rollback()...)
		makeReadyAgain(ctx, oc, s, "1.0.0")
		Eventually(ctx, session).Should(gexec.Exit(0))
		Expect(string(session.Out.Contents())).To(And(ContainSubstring("from Git"), ContainSubstring("Succeeded: version 1.0.0 is imported and installed")))
		Eventually(ctx, historyOf(ctx, oc)).Should(HaveExactElements(
			version(s, v2beta2.VersionInstalled, "kubectl-collection"), HaveField("Version", "1.1.0"), HaveField("Version", "1.0.0")))
		Expect(runTool(ctx, 0, binary, "status", "oc", "-n", namespace, "-o", "json")).To(ContainSubstring(`"by": "kubectl-collection"`))

		By("going forward with it, while somebody reverts the change")
		session = startTool(binary, rollback("--to", "1.1.0")...)
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, oc)
			g.Expect(oc.Spec.Digest).To(Equal(DigestOf(newer.archive())))
		}).Should(Succeed())
		Patch(ctx, oc, `{"spec":{"digest":"`+DigestOf(s.archive())+`"}}`)
		Eventually(ctx, session).Should(gexec.Exit(1))
		Expect(string(session.Out.Contents())).To(ContainSubstring("spec.digest was changed again"))
	})
})
