package integration

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("The manager", func() {
	It("knows what it made when it dies in the middle of an install, and finishes or removes it later", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		allow := RefuseRealWrites(ctx, namespace, "deployments")
		oc := importSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		ExpectFailure(ctx, soc, v2beta2.ReasonObjectRefused, "Deployment", false)
		theManager.kill()

		By("having recorded everything before the first write")
		Get(ctx, Default, soc)
		made := madeIn(ctx, namespace)
		var recorded []string
		for _, ref := range soc.Status.Inventory {
			recorded = append(recorded, ref.Kind+"/"+ref.Name)
		}
		Expect(made).To(ContainElement("ConfigMap/" + s.operator() + "-runtime"))
		Expect(made).NotTo(ContainElement("Deployment/" + s.operator()))
		Expect(append(recorded, "SubOperatorConfig/oc-soc")).To(ContainElements(made))
		Expect(recorded).To(ContainElement("Deployment/" + s.operator()))

		By("finishing after its restart")
		allow(ctx)
		theManager.start(ctx)
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		expectInstallation(ctx, soc, s)
	})

	It("converges from wherever a kill leaves it", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := newCollection(namespace, "oc", s.pinned())
		states := WatchStates(ctx, namespace, &v2beta2.OperatorCollectionList{}, &v2beta2.SubOperatorConfigList{}, &corev1.ConfigMapList{})
		Create(ctx, oc)
		for _, writes := range []int{2, 4, 6, 8} { // Each at another place of the installation.
			Eventually(ctx, func() int { return len(states.All()) }).WithPolling(time.Millisecond).Should(BeNumerically(">=", writes))
			theManager.kill()
			theManager.start(ctx)
		}
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		Expect(listObjects(ctx, &v2beta2.SubOperatorConfigList{}, client.InNamespace(namespace))).To(HaveLen(1))
		expectInstallation(ctx, defaultSOC(oc), s)

		By("finishing a deletion that a kill interrupted")
		Create(ctx, s.instance(namespace, "one"))
		Patch(ctx, oc, `{"spec":{"deletionPolicy":"Finalize"}}`)
		Remove(ctx, oc)
		theManager.kill()
		theManager.start(ctx)
		Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
		expectNothingLeft(ctx, namespace, s)
	})

	It("writes nothing when there is nothing to do, not even after a restart", func(ctx context.Context) {
		namespace, s, server := newNamespace(ctx), newSample(), startSSHServer()
		s.permissions = "clusterRoles: [{nonResourceURLs: [/version], verbs: [get]}]"
		s.variables = "{name: size, displayName: Size, type: object, objectVariables: [{name: inner, type: string, default: x}]}"
		Create(ctx, newEndpoint(namespace, "lpar1", server), newEndpoint(namespace, "lpar2", server))
		grantVersion(ctx)
		oc := importSample(ctx, namespace, s)
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).WithTimeout(InstallTimeout).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		for _, name := range []string{"lpar1", "lpar2"} {
			Eventually(ctx, Condition(ctx, newEndpoint(namespace, name, nil), v2beta2.ConditionReachable)).Should(ConditionTrue())
		}
		about := []string{namespace, s.crdName(), s.operator()}
		Eventually(ctx, func(g Gomega) {
			g.Consistently(markAudit().writesAbout(about...)).WithTimeout(3 * time.Second).Should(BeEmpty())
		}).Should(Succeed(), "it comes to rest")

		everything := func() map[string]string {
			objects := installed(ctx, defaultSOC(oc))
			for _, object := range []client.Object{
				oc, defaultSOC(oc), customResourceDefinition(s.crdName()), newEndpoint(namespace, "lpar1", nil), newEndpoint(namespace, "lpar2", nil),
			} {
				objects = append(objects, Live(ctx, Default, object))
			}
			return versions(objects)
		}
		before, mark := everything(), markAudit()
		Expect(before).To(HaveLen(9 + 5))
		theManager.stop()
		theManager.start(ctx)
		Consistently(mark.writesAbout(about...)).WithTimeout(2 * probeInterval).WithPolling(time.Second).Should(BeEmpty())
		Expect(everything()).To(Equal(before))
		AddReportEntry("writes of the idle manager, before and after a restart", fmt.Sprint(len(mark.writesAbout(about...)())))
	})

	It("writes nothing while something stays wrong in the same way", func(ctx context.Context) {
		namespace, s, server := newNamespace(ctx), newSample(), startSSHServer()
		server.down()
		Create(ctx, newEndpoint(namespace, "lpar1", server))
		oc := importSample(ctx, namespace, s) // Its Deployment never becomes available.
		ExpectFailure(ctx, defaultSOC(oc), v2beta2.ReasonProgressing, "", false)
		ExpectFailure(ctx, oc, v2beta2.ReasonProgressing, "", false)
		lost := newCollection(namespace, "lost", unverified(web.URL+"/absent"))
		Create(ctx, lost)
		ExpectFailure(ctx, lost, v2beta2.ReasonArchiveNotFound, "", false)
		Eventually(ctx, Condition(ctx, newEndpoint(namespace, "lpar1", nil), v2beta2.ConditionReachable)).Should(ConditionFalse())

		var mark *auditMark
		Eventually(ctx, func(g Gomega) {
			mark = markAudit()
			g.Consistently(mark.writesAbout(namespace)).WithTimeout(time.Second).Should(BeEmpty())
		}).Should(Succeed(), "it comes to rest")
		Consistently(mark.writesAbout(namespace)).WithTimeout(5*time.Second).WithPolling(time.Second).Should(BeEmpty(), "longer than every poll")
	})
})
