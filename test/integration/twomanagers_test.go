package integration

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc/connectivity"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// refuseAll answers as an origin that is broken.
func refuseAll(response http.ResponseWriter, _ *http.Request) {
	response.WriteHeader(http.StatusServiceUnavailable)
}

// warningsOf are those in status.
func warningsOf(ctx context.Context, oc client.Object) func(Gomega) []string {
	return func(g Gomega) []string {
		texts, _, err := unstructured.NestedStringSlice(Live(ctx, g, oc).Object, "status", "warnings")
		g.Expect(err).NotTo(HaveOccurred())
		return texts
	}
}

var _ = Describe("Two managers", func() {
	It("have an upload before it is imported, and give it back to the one that lost it", func(ctx context.Context) {
		pair := startPair(ctx)
		namespace, s := newNamespace(ctx), newSample()
		oc := pair.upload(ctx, namespace, s)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		for i := range pair.managers {
			Expect(pair.holds(i, s.archive())()).To(BeTrue(), "manager %d", i)
		}
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)

		By("when the volume of the follower is lost")
		leader := pair.leader(ctx)
		follower := 1 - leader
		pair.kill(ctx, follower)
		pair.managers[follower].loseArchives()
		pair.restart(ctx, follower)
		Expect(pair.holds(follower, s.archive())()).To(BeTrue(), "it is ready")
		Expect(pair.leader(ctx)).To(Equal(leader))

		By("when that of the leader is lost, and it leads again")
		mark := markAudit()
		pair.takeOver(ctx, leader)
		pair.managers[leader].loseArchives()
		pair.restart(ctx, leader)
		Expect(pair.holds(leader, s.archive())()).To(BeTrue(), "it is ready")
		Expect(pair.takeOver(ctx, follower)).To(Equal(leader))
		Consistently(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).Should(ConditionTrue())
		Expect(mark.writesAbout(namespace)()).To(BeEmpty(), "a takeover changes nothing")
		pair.restart(ctx, follower)
	})

	It("pull an archive from each other when it is needed, without its origin", func(ctx context.Context) {
		pair := startPair(ctx)
		namespace, s := newNamespace(ctx), newSample()
		spec, leader := s.pinned(), pair.leader(ctx)
		oc := newCollection(namespace, "oc", spec)
		Create(ctx, oc)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		Expect(pair.holds(1-leader, s.archive())()).To(BeFalse(), "nobody has needed it")
		web.Replace(spec.CollectionURL, refuseAll)

		By("when the pod of an operator asks the one that lacks it")
		Expect(pair.serves(1-leader, s.archive())).To(Equal(http.StatusOK))
		Expect(pair.holds(1-leader, s.archive())()).To(BeTrue())
		Expect(pair.serves(1-leader, newSample().archive())).To(Equal(http.StatusNotFound))

		By("when its volume is lost, and it leads")
		pair.kill(ctx, 1-leader)
		pair.managers[1-leader].loseArchives()
		pair.restart(ctx, 1-leader)
		pair.takeOver(ctx, leader)
		Consistently(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).Should(ConditionTrue())
		Expect(pair.serves(1-leader, s.archive())).To(Equal(http.StatusOK))
		pair.restart(ctx, leader)
	})

	DescribeTable("finish an install during which the leader is killed, once",
		func(ctx context.Context, stop stopFunc) {
			pair := startPair(ctx)
			namespace, s := newNamespace(ctx), newSample()
			spec, stopped, proceed := stop(ctx, pair, namespace, s)
			leader := pair.leader(ctx)
			oc := newCollection(namespace, "oc", spec)
			Create(ctx, oc)
			stopped(ctx, oc)
			pair.kill(ctx, leader)
			proceed(ctx)
			pair.awaitLeader(ctx, 1-leader)
			Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).WithTimeout(InstallTimeout).Should(BeFalse())
			makeAvailable(ctx, namespace, s.operator())
			ExpectReady(ctx, oc)
			pair.restart(ctx, leader)
			pair.expectCopies(ctx, s.archive())
			expectInstallation(ctx, defaultSOC(oc), s)
			Expect(listObjects(ctx, &v2beta2.SubOperatorConfigList{}, client.InNamespace(namespace))).To(HaveLen(1))
			for _, m := range pair.managers {
				Expect(m.storedArchives()).To(HaveLen(1))
			}
		},
		Entry("while it downloads", stopDownload),
		Entry("when it has stored the archive, which the other has not, and all objects but one are applied", stopBeforeDeployment),
	)

	It("go on after both were killed", func(ctx context.Context) {
		pair := startPair(ctx)
		namespace, s := newNamespace(ctx), newSample()
		oc := newCollection(namespace, "oc", s.pinned())
		Create(ctx, oc)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).ShouldNot(ConditionAbsent())
		for i := range pair.managers {
			pair.kill(ctx, i)
		}
		for i := range pair.managers {
			pair.restart(ctx, i)
		}
		pair.leader(ctx)
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).WithTimeout(InstallTimeout).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		Expect(pair.holds(pair.leader(ctx), s.archive())()).To(BeTrue())
		expectInstallation(ctx, defaultSOC(oc), s)
	})

	It("lose nothing while they do not reach each other, and report it", func(ctx context.Context) {
		pair := startPair(ctx)
		namespace, s, later := newNamespace(ctx), newSample(), newSample()
		leader := pair.leader(ctx)
		Eventually(ctx, Condition(ctx, pair.upload(ctx, namespace, s), v2beta2.ConditionImported)).Should(ConditionTrue())
		pair.cut(ctx)
		oc := pair.upload(ctx, namespace, later)
		pod := pair.pod(1 - leader).Name
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(And(
			ConditionFalse(), WithReason(v2beta2.ReasonReplicating), WithMessage(pod)))
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		Eventually(ctx, warningsOf(ctx, oc)).Should(ContainElement(
			`not every manager has a copy of the archive: pod "` + pod + `" does not answer`))
		Expect(pair.holds(1-leader, later.archive())()).To(BeFalse())
		pair.expectCopies(ctx, s.archive())

		By("having all again when they do")
		pair.heal(ctx)
		pair.expectCopies(ctx, later.archive())
		Eventually(ctx, func(g Gomega) string { return strings.Join(warningsOf(ctx, oc)(g), " ") }).ShouldNot(ContainSubstring("copy of the archive"))
	})

	It("do not wait for one that is not ready for long", func(ctx context.Context) {
		pair := startPair(ctx)
		leader := pair.leader(ctx)
		pair.kill(ctx, 1-leader)
		namespace, s := newNamespace(ctx), newSample()
		mark := markAudit()
		Eventually(ctx, Condition(ctx, pair.upload(ctx, namespace, s), v2beta2.ConditionImported)).Should(ConditionTrue())
		Expect(strings.Join(mark.writesSince(), " ")).NotTo(ContainSubstring(v2beta2.ReasonReplicating))
		pair.restart(ctx, 1-leader)
		Expect(pair.holds(1-leader, s.archive())()).To(BeTrue(), "it is ready")
	})

	It("give an upload to one that could not be reached when it was imported", func(ctx context.Context) {
		pair := startPair(ctx)
		follower := 1 - pair.leader(ctx)
		pair.setStatus(ctx, follower, nowhere, false)
		Eventually(ctx, time.After(1500*time.Millisecond)).Should(Receive()) // A list of the Pods is used for a second.
		namespace, s := newNamespace(ctx), newSample()
		Eventually(ctx, Condition(ctx, pair.upload(ctx, namespace, s), v2beta2.ConditionImported)).Should(ConditionTrue())
		Expect(pair.holds(follower, s.archive())()).To(BeFalse())
		pair.heal(ctx)
		pair.expectCopies(ctx, s.archive())
	})

	It("both serve the catalog for the Operator Lifecycle Manager, and only the leader writes", func(ctx context.Context) {
		withoutOLM()
		installOLM(ctx)
		allowOLM(ctx)
		namespace, s := newNamespace(ctx), newSample()
		_, port, err := net.SplitHostPort(freeAddress())
		Expect(err).NotTo(HaveOccurred())
		pair := startPair(ctx, "--catalog-bind-address=HOST:"+port, "--catalog-address=catalog.example:50051", "--catalog-namespace="+namespace)
		oc := importSample(ctx, newNamespace(ctx), s)
		Eventually(ctx, Condition(ctx, oc, published)).Should(ConditionTrue())
		catalogs := [2]*testCatalog{}
		for i, host := range pair.hosts {
			catalogs[i] = newTestCatalog(net.JoinHostPort(host, port), namespace)
			Eventually(ctx, catalogs[i].packages(ctx)).Should(ConsistOf(s.operator()))
		}
		Eventually(ctx, Gone(ctx, deployment(oc.Namespace, s.operator()))).WithTimeout(InstallTimeout).Should(BeFalse())
		expectRest(ctx, oc.Namespace)

		By("and not again after a takeover")
		source := Live(ctx, Default, catalogs[0].source())
		mark := markAudit()
		service := newTestService()
		ended := pair.leader(ctx)
		service.route(catalogs[ended].address)
		olm := newOLMConnection(ctx, service.address)
		olm.becomesReady(ctx)
		service.route(catalogs[1-ended].address)
		leader := pair.takeOver(ctx, ended)
		Consistently(ctx, Condition(ctx, oc, published)).Should(ConditionTrue())
		Expect(catalogs[leader].packages(ctx)()).To(ConsistOf(s.operator()))
		Expect(Live(ctx, Default, source).GetResourceVersion()).To(Equal(source.GetResourceVersion()))
		Expect(mark.writesAbout(oc.Namespace)()).To(BeEmpty())

		By("and keep OLM connected, whether one crashes or ends")
		Expect(olm.becomesReady(ctx)).NotTo(ContainElement(connectivity.TransientFailure))
		Expect(olm.catalog.packages(ctx)()).To(ConsistOf(s.operator()))
		pair.restart(ctx, ended)
		service.route(catalogs[ended].address)
		pair.managers[leader].stop()
		Expect(olm.becomesReady(ctx)).NotTo(ContainElement(connectivity.TransientFailure))
		Expect(olm.catalog.packages(ctx)()).To(ConsistOf(s.operator()))
	})

	It("let clients upload to the leader, and report an upload that was lost with it", func(ctx context.Context) {
		pair := startPair(ctx)
		namespace, s, lost := newNamespace(ctx), newSample(), newSample()
		leader := pair.leader(ctx)
		pair.managers[leader].upload(lost.name, lost.version, lost.archive())
		imported := pair.upload(ctx, namespace, s)
		Eventually(ctx, Condition(ctx, imported, v2beta2.ConditionImported)).Should(ConditionTrue())
		pair.takeOver(ctx, leader)
		ExpectFailure(ctx, createUploaded(ctx, namespace, lost), v2beta2.ReasonArchiveNotUploaded, "upload", false)
		Consistently(ctx, Condition(ctx, imported, v2beta2.ConditionImported)).Should(ConditionTrue())
		Expect(pair.holds(1-leader, s.archive())()).To(BeTrue())
	})
})

// stopFunc prepares an install that stops. It returns the spec, what waits until it has stopped, and what lets it go on.
type stopFunc = func(context.Context, *managerPair, string, *sample) (v2beta2.OperatorCollectionSpec, func(context.Context, client.Object), func(context.Context))

// stopDownload lets the first download never end.
func stopDownload(_ context.Context, _ *managerPair, _ string, s *sample) (v2beta2.OperatorCollectionSpec, func(context.Context, client.Object), func(context.Context)) {
	spec, asked := s.pinned(), make(chan struct{}, 100)
	web.Replace(spec.CollectionURL, func(_ http.ResponseWriter, request *http.Request) {
		asked <- struct{}{}
		<-request.Context().Done()
	})
	return spec, func(ctx context.Context, _ client.Object) {
			Eventually(ctx, asked).Should(Receive())
		}, func(context.Context) {
			web.Replace(spec.CollectionURL, func(response http.ResponseWriter, _ *http.Request) { _, _ = response.Write(s.archive()) })
		}
}

// stopBeforeDeployment lets the installation fail at the last object.
func stopBeforeDeployment(ctx context.Context, _ *managerPair, namespace string, s *sample) (v2beta2.OperatorCollectionSpec, func(context.Context, client.Object), func(context.Context)) {
	allow := RefuseRealWrites(ctx, namespace, "deployments")
	return s.pinned(), func(ctx context.Context, oc client.Object) {
		ExpectFailure(ctx, defaultSOC(oc), v2beta2.ReasonObjectRefused, "", false)
		Eventually(ctx, Gone(ctx, customResourceDefinition(s.crdName()))).Should(BeFalse())
	}, allow
}
