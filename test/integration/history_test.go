package integration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// historyOf are the versions that an OperatorCollection had.
func historyOf(ctx context.Context, oc *v2beta2.OperatorCollection) func(Gomega) []v2beta2.InstalledVersion {
	return func(g Gomega) []v2beta2.InstalledVersion {
		Get(ctx, g, oc)
		return oc.Status.History
	}
}

func version(s *sample, outcome v2beta2.VersionOutcome, by string) types.GomegaMatcher {
	return And(HaveField("Version", s.version), HaveField("Digest", DigestOf(s.archive())), HaveField("Size", BeEquivalentTo(len(s.archive()))),
		HaveField("Outcome", outcome), HaveField("By", by), HaveField("Time", Not(BeZero())))
}

// at is a sample in another version.
func (s *sample) at(version string) *sample {
	other := *s
	other.version = version
	return &other
}

// changeAs changes the spec of an OperatorCollection as a field manager.
func changeAs(ctx context.Context, oc *v2beta2.OperatorCollection, manager, changes string) {
	GinkgoHelper()
	Expect(K8s.Patch(ctx, oc, merge(changes), client.FieldOwner(manager))).To(Succeed())
}

// expectObserved waits until the status of an OperatorCollection describes its present spec.
func expectObserved(ctx context.Context, oc *v2beta2.OperatorCollection) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		Get(ctx, g, oc)
		g.Expect(oc.Status.ObservedGeneration).To(Equal(oc.Generation))
	}).Should(Succeed())
}

var _ = Describe("The history of an OperatorCollection", func() {
	It("says which versions it had and who asked for them, and returns to one whatever the source has now", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		newer, newest := s.at("1.1.0"), s.at("1.2.0")
		source := newOrigin(s.archive())
		spec := unverified(source.url)
		spec.Interval = &metav1.Duration{Duration: time.Hour}
		oc := newCollection(namespace, "oc", spec)
		Expect(K8s.Create(ctx, oc, client.FieldOwner("first-author"))).To(Succeed())
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).Should(BeFalse())
		Expect(historyOf(ctx, oc)(Default)).To(HaveExactElements(version(s, v2beta2.VersionInstalling, "first-author")))
		makeReadyAgain(ctx, oc, s, "1.0.0")
		thing := s.instance(namespace, "thing")
		Create(ctx, thing)

		By("a tag that moves, and one that moves again before the operator runs")
		source.publish(newer.archive())
		changeAs(ctx, oc, "second-author", `{"spec":{"interval":"2h"}}`)
		Eventually(ctx, importedDigest(ctx, oc)).Should(Equal(DigestOf(newer.archive())))
		source.publish(newest.archive())
		changeAs(ctx, oc, "second-author", `{"spec":{"interval":"3h"}}`)
		makeReadyAgain(ctx, oc, s, "1.2.0")
		Eventually(ctx, historyOf(ctx, oc)).Should(HaveExactElements(
			version(newest, v2beta2.VersionInstalled, "interval"), version(newer, v2beta2.VersionReplaced, "interval"), version(s, v2beta2.VersionInstalled, "first-author")))

		By("going back, also when the manager was restarted and the source is gone")
		answered := len(source.answers)
		theManager.kill()
		theManager.start(ctx)
		Eventually(ctx, func() int { return len(source.answers) }).Should(BeNumerically(">", answered), "a manager that starts asks once")
		source.answer(http.NotFound)
		answered = len(source.answers)
		changeAs(ctx, oc, "third-author", fmt.Sprintf(`{"spec":{"digest":%q}}`, DigestOf(s.archive())))
		makeReadyAgain(ctx, oc, s, "1.0.0")
		Eventually(ctx, historyOf(ctx, oc)).Should(HaveExactElements(
			version(s, v2beta2.VersionInstalled, "third-author"), version(newest, v2beta2.VersionInstalled, "interval"),
			version(newer, v2beta2.VersionReplaced, "interval"), version(s, v2beta2.VersionInstalled, "first-author")))
		Expect(oc.Status.Artifact.Verification).To(Equal("Digest"))
		Expect(oc.Status.Warnings).To(BeEmpty())
		Patch(ctx, oc, `{"spec":{"interval":"4h"}}`)
		expectObserved(ctx, oc)
		Expect(source.answers).To(HaveLen(answered), "the source is not asked for a version that is pinned")
		Expect(Gone(ctx, thing)(Default)).To(BeFalse())

		By("not going forward to an archive that was damaged in the store, before the source has it again")
		path := theManager.archiveOf(newest)
		Expect(os.WriteFile(path, []byte("damaged"), 0o644)).To(Succeed())
		changeAs(ctx, oc, "third-author", fmt.Sprintf(`{"spec":{"digest":%q}}`, DigestOf(newest.archive())))
		ExpectFailure(ctx, oc, v2beta2.ReasonArchiveNotFound, "404", false)
		Expect(importedDigest(ctx, oc)(Default)).To(Equal(DigestOf(s.archive())))
		source.publish(newest.archive())
		Patch(ctx, oc, `{"spec":{"interval":"5h"}}`)
		makeReadyAgain(ctx, oc, s, "1.2.0")
	})

	It("keeps what was uploaded, also beside a later upload, and lets nobody else have it", func(ctx context.Context) {
		serveTLS(ctx)
		namespace, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		newer, token := s.at("1.1.0"), uploaderToken(ctx, namespace)
		oc := newCollection(namespace, "oc", skipping)
		Create(ctx, oc)
		for _, each := range []*sample{s, newer} {
			push(ctx, namespace, token, each.archive())
			Eventually(ctx, importedDigest(ctx, oc)).Should(Equal(DigestOf(each.archive())))
			makeReadyAgain(ctx, oc, s, each.version)
		}
		Eventually(ctx, historyOf(ctx, oc)).Should(HaveExactElements(
			version(newer, v2beta2.VersionInstalled, "upload"), HaveField("Version", "1.0.0")))
		Expect(pushed()).To(BeEmpty())
		Patch(ctx, oc, fmt.Sprintf(`{"spec":{"digest":%q}}`, DigestOf(s.archive())))
		makeReadyAgain(ctx, oc, s, "1.0.0")
		Expect(oc.Status.Warnings).To(BeEmpty(), "nothing has to be uploaded again")

		By("pinning, where it was never imported, what another namespace has in its history")
		foreign := newCollection(other, "foreign", v2beta2.OperatorCollectionSpec{CollectionURL: web.Handle(http.NotFound), Digest: DigestOf(newer.archive())})
		Create(ctx, foreign)
		Eventually(ctx, Condition(ctx, foreign, v2beta2.ConditionImported)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonArchiveNotFound)))
		Expect(historyOf(ctx, foreign)(Default)).To(BeEmpty())
	})

	It("keeps archives on a manager that has lost them, and leads afterwards", func(ctx context.Context) {
		pair := startPair(ctx)
		namespace, s := newNamespace(ctx), newSample()
		newer := s.at("1.1.0")
		oc := importSample(ctx, namespace, s)
		makeReadyAgain(ctx, oc, s, "1.0.0")
		changeSpec(ctx, oc, newer.pinned())
		makeReadyAgain(ctx, oc, s, "1.1.0")
		leader := pair.leader(ctx)
		pair.kill(ctx, 1-leader)
		pair.managers[1-leader].loseArchives()
		pair.restart(ctx, 1-leader)
		pair.expectCopies(ctx, s.archive())
		pair.expectCopies(ctx, newer.archive())
		pair.takeOver(ctx, leader)
		Patch(ctx, oc, fmt.Sprintf(`{"spec":{"collectionURL":%q,"digest":%q}}`, web.Handle(http.NotFound), DigestOf(s.archive())))
		makeReadyAgain(ctx, oc, s, "1.0.0")
		pair.restart(ctx, leader)
	})

	It("does not excuse an archive from its verification", func(ctx context.Context) {
		namespace, s, signer := newNamespace(ctx), newSample(), ecdsaSigner()
		newer := s.at("1.1.0")
		Create(ctx, secretOf(namespace, signer.evidence(s.archive())))
		oc := newCollection(namespace, "oc", signed(s.archive()))
		Create(ctx, oc)
		expectVerified(ctx, oc, "Signature", signer.fingerprint)
		setSecret(ctx, namespace, signer.evidence(newer.archive()))
		Patch(ctx, oc, fmt.Sprintf(`{"spec":{"collectionURL":%q}}`, web.Serve(newer.archive())))
		Eventually(ctx, importedDigest(ctx, oc)).Should(Equal(DigestOf(newer.archive())))
		Patch(ctx, oc, fmt.Sprintf(`{"spec":{"digest":%q}}`, DigestOf(s.archive())))
		ExpectFailure(ctx, oc, v2beta2.ReasonSignatureInvalid, "the running operator is unaffected", false)
		Expect(importedDigest(ctx, oc)(Default)).To(Equal(DigestOf(newer.archive())))
		setSecret(ctx, namespace, signer.evidence(s.archive()))
		Eventually(ctx, importedDigest(ctx, oc)).Should(Equal(DigestOf(s.archive())))
		expectVerified(ctx, oc, "Signature", signer.fingerprint)
	})
})
