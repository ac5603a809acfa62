package integration

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/source/store"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// copied imports an archive that was copied into the manager's pod, as authors' tools do, and returns its OperatorCollection.
func copied(ctx context.Context, m *managerProcess, namespace string, s *sample, spec v2beta2.OperatorCollectionSpec) *v2beta2.OperatorCollection {
	GinkgoHelper()
	m.upload(s.name, s.version, s.archive())
	return importCopied(ctx, namespace, s, spec)
}

func importCopied(ctx context.Context, namespace string, s *sample, spec v2beta2.OperatorCollectionSpec) *v2beta2.OperatorCollection {
	GinkgoHelper()
	oc := newCollection(namespace, "oc", spec)
	oc.Labels = s.labels()
	Create(ctx, oc)
	if namespace == ManagerNamespace {
		DeferCleanup(func(ctx context.Context) { removeCollections(ctx, namespace) })
	}
	Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
	Get(ctx, Default, oc)
	return oc
}

// changed is a sample whose archive has other content, and the same version.
func (s *sample) changed(text string) *sample {
	other := *s
	other.files = map[string]string{"README.md": text}
	return &other
}

// download asks a manager for an archive as a pod does that starts.
func (m *managerProcess) download(ctx context.Context, archive []byte) func(Gomega) int {
	return func(g Gomega) int {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.artifactAddress+store.URLPath(digest.Digest(DigestOf(archive))), nil)
		g.Expect(err).NotTo(HaveOccurred())
		response, err := http.DefaultClient.Do(request)
		g.Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		return response.StatusCode
	}
}

// runs is the digest of the archive that pods get which start now.
func runs(ctx context.Context, namespace string, s *sample) func(Gomega) string {
	config := runtimeConfigMap(namespace, s)
	return func(g Gomega) string {
		Get(ctx, g, config)
		return config.Data["digest"]
	}
}

var _ = Describe("An archive that is copied over the one in the manager's pod", func() {
	It("runs as soon as it is complete", func(ctx context.Context) {
		s := newSample()
		oc := copied(ctx, theManager, ManagerNamespace, s, skipping)
		path := oc.Status.Config.CollectionPath
		Eventually(ctx, runs(ctx, ManagerNamespace, s)).Should(Equal(DigestOf(s.archive())))

		By("being written")
		content := s.changed("changed").archive()
		file, err := os.Create(path)
		Expect(err).NotTo(HaveOccurred())
		defer file.Close()
		_, err = file.Write(content[:len(content)/2])
		Expect(err).NotTo(HaveOccurred())
		Consistently(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).WithTimeout(2 * time.Second).Should(ConditionTrue())
		Expect(importedDigest(ctx, oc)(Default)).To(Equal(DigestOf(s.archive())))
		_, err = file.Write(content[len(content)/2:])
		Expect(err).NotTo(HaveOccurred())

		By("being complete")
		Eventually(ctx, importedDigest(ctx, oc)).Should(Equal(DigestOf(content)))
		Eventually(ctx, runs(ctx, ManagerNamespace, s)).Should(Equal(DigestOf(content)))
		Expect(theManager.download(ctx, content)(Default)).To(Equal(http.StatusOK))
		Get(ctx, Default, oc)
		Expect(oc.Status.History[0].By).To(Equal("upload"))
		Expect(oc.Status.Config.CollectionPath).To(Equal(path))

		By("being there when the manager starts again, and an archive that replaced it by other means stays")
		Patch(ctx, oc, `{"spec":{"digest":"`+DigestOf(s.archive())+`"}}`)
		Eventually(ctx, importedDigest(ctx, oc)).Should(Equal(DigestOf(s.archive())))
		theManager.restart(ctx, usualFlags...)
		Patch(ctx, oc, `{"metadata":{"annotations":{"look":"again"}}}`)
		Consistently(ctx, importedDigest(ctx, oc)).Should(Equal(DigestOf(s.archive())))
		Expect(Condition(ctx, oc, v2beta2.ConditionUploadRefused)(Default)).To(ConditionAbsent())
		Expect(theManager.download(ctx, s.archive())(Default)).To(Equal(http.StatusOK))
	})

	It("changes nothing of others that have the same collection", func(ctx context.Context) {
		s, namespace := newSample(), newNamespace(ctx)
		oc := copied(ctx, theManager, ManagerNamespace, s, skipping)
		other := importCopied(ctx, namespace, s, skipping)
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, other)
		expectRest(ctx, namespace)

		By("what runs being copied again")
		theManager.upload(s.name, s.version, s.archive())
		Consistently(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).WithTimeout(2 * time.Second).Should(ConditionTrue())

		By("another one being copied")
		mark := markAudit()
		next := s.changed("next").archive()
		theManager.upload(s.name, s.version, next)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionUploadRefused)).Should(And(ConditionTrue(),
			WithReason(v2beta2.ReasonVersionConflict), WithMessage(namespace), WithMessage("give this archive another version")))
		Expect(importedDigest(ctx, other)(Default)).To(Equal(DigestOf(s.archive())))
		Expect(mark.writesAbout(namespace)()).To(BeEmpty())
		removeCollections(ctx, namespace)
		theManager.upload(s.name, s.version, next)
		Eventually(ctx, importedDigest(ctx, oc)).Should(Equal(DigestOf(next)))
	})

	It("is refused and reported where spec.digest pins the archive, and what runs is as before", func(ctx context.Context) {
		s := newSample()
		oc := copied(ctx, theManager, ManagerNamespace, s, v2beta2.OperatorCollectionSpec{Digest: DigestOf(s.archive())})
		makeAvailable(ctx, ManagerNamespace, s.operator())
		ExpectReady(ctx, oc)
		theManager.upload(s.name, s.version, s.changed("changed").archive())
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionUploadRefused)).Should(And(ConditionTrue(), WithReason(v2beta2.ReasonDigestMismatch),
			WithMessage("differs from what runs, which is unaffected"), WithMessage("spec.digest")))
		Eventually(ctx, func() string { return strings.Join(eventsIn(ctx, ManagerNamespace), "\n") }).
			Should(ContainSubstring(v2beta2.ReasonDigestMismatch + " the archive "))
		ExpectReady(ctx, oc)
		Get(ctx, Default, oc)
		Expect(oc.Status.Phase).To(Equal(v2beta2.PhaseSuccessful))
		Expect(Condition(ctx, oc, v2beta2.ConditionImported)(Default)).To(ConditionTrue())
		Expect(oc.Status.Artifact.Digest).To(Equal(DigestOf(s.archive())))
		Expect(runs(ctx, ManagerNamespace, s)(Default)).To(Equal(DigestOf(s.archive())))

		By("and spec.interval does not ask for it again")
		Patch(ctx, oc, `{"spec":{"interval":"1h"}}`)
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, oc)
			g.Expect(oc.Status.ObservedGeneration).To(Equal(oc.Generation))
		}).Should(Succeed())
		Expect(Condition(ctx, oc, v2beta2.ConditionImported)(Default)).To(ConditionTrue())
		Expect(Condition(ctx, oc, v2beta2.ConditionUploadRefused)(Default)).To(ConditionTrue())

		By("until what runs is copied again")
		theManager.upload(s.name, s.version, s.archive())
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionUploadRefused)).Should(ConditionAbsent())
	})

	It("is taken from the pod of the manager that leads, and an earlier one is not", func(ctx context.Context) {
		pair := startPair(ctx, "--artifact-url=https://127.0.0.1:PORT")
		s := newSample()
		leader := pair.leader(ctx)
		oc := copied(ctx, pair.managers[leader], ManagerNamespace, s, skipping)
		former := leader
		follower := pair.managers[1-leader]
		follower.upload(s.name, s.version, s.changed("elsewhere").archive())
		Eventually(ctx, follower.log).Should(ContainSubstring("is not imported while another manager leads"))
		Expect(importedDigest(ctx, oc)(Default)).To(Equal(DigestOf(s.archive())))

		By("being copied to the next leader, which has its folder")
		leader = pair.takeOver(ctx, former)
		folder := filepath.Join(follower.storage, "suboperator", s.name, s.version)
		Expect(os.RemoveAll(folder)).To(Succeed())
		Patch(ctx, oc, `{"metadata":{"annotations":{"look":"again"}}}`)
		Eventually(ctx, func() string { return folder }).Should(BeADirectory(), "clients copy to status.config.collectionPath")
		later := s.changed("later").archive()
		follower.upload(s.name, s.version, later)
		Eventually(ctx, importedDigest(ctx, oc)).Should(Equal(DigestOf(later)))

		By("not running one that the former leader has, also for a new OperatorCollection")
		pair.restart(ctx, former)
		removeCollections(ctx, ManagerNamespace)
		last := s.changed("last").archive()
		pair.managers[leader].upload(s.name, s.version, last)
		again := importCopied(ctx, ManagerNamespace, s, skipping)
		Expect(importedDigest(ctx, again)(Default)).To(Equal(DigestOf(last)))
		Consistently(ctx, importedDigest(ctx, again)).WithTimeout(3 * time.Second).Should(Equal(DigestOf(last)))
		pair.takeOver(ctx, leader)
		Consistently(ctx, importedDigest(ctx, again)).WithTimeout(3 * time.Second).Should(Equal(DigestOf(last)))
		pair.restart(ctx, leader)
	})
})
