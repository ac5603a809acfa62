//go:build e2e

package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// olmReturns goes from version 1.2.0 to 1.1.0 and forward again. OLM itself does not go back.
func olmReturns(e *olmEnvironment) {
	It("comes back when the playbook that runs has ended, with all its permissions", func(ctx context.Context) {
		slow, later, first := e.page(e.namespace, "slow", "slow page"), e.page(e.namespace, "later", "after that"), e.page(e.namespace, "first", "")
		uid, alive := Live(ctx, Default, subscription(e.namespace)).GetUID(), Live(ctx, Default, first).GetUID()
		Create(ctx, slow)
		Eventually(ctx, Field(ctx, slow, "status", "phase")).WithTimeout(OLMTimeout).Should(BeEquivalentTo(runstatus.PhaseRunning))

		e.pinTo(ctx, "1.1.0")
		Eventually(ctx, Condition(ctx, e.soc, v2beta2.ConditionReady)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonTerminating)))
		Create(ctx, later)
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: pagesPackage}}
		Consistently(ctx, func(g Gomega) {
			g.Expect(Gone(ctx, clusterServiceVersion(e.namespace, "1.2.0"))(g)).To(BeFalse())
			g.Expect(Gone(ctx, account)(g)).To(BeFalse())
			g.Expect(Gone(ctx, subscription(e.namespace))(g)).To(BeFalse())
		}).Should(Succeed(), "Subscription, ClusterServiceVersion and ServiceAccount stay while a playbook runs")
		e.zos.shell(ctx, "touch /tmp/go-on")
		Eventually(ctx, lastRun(ctx, slow)).Should(withOutcome(gate.OutcomeSucceeded))
		e.expectPage(ctx, "slow", "1.2.0 slow page")

		Eventually(ctx, Gone(ctx, clusterServiceVersion(e.namespace, "1.2.0"))).Should(BeTrue())
		succeeded(ctx, clusterServiceVersion(e.namespace, "1.1.0"))
		e.expectRunning(ctx, "1.1.0")
		Expect(Live(ctx, Default, subscription(e.namespace)).GetUID()).NotTo(Equal(uid))
		Expect(Live(ctx, Default, first).GetUID()).To(Equal(alive))
		e.expectPage(ctx, "later", "1.1.0 after that")
		Expect(lastRun(ctx, slow)(Default)).To(withOutcome(gate.OutcomeSucceeded))
		e.pods.expectOneAtATime()
	})

	It("goes forward again", func(ctx context.Context) {
		e.pinTo(ctx, "1.2.0")
		succeeded(ctx, clusterServiceVersion(e.namespace, "1.2.0"))
		e.expectRunning(ctx, "1.2.0")
		for _, name := range []string{"slow", "later"} {
			page := e.page(e.namespace, name, "")
			Remove(ctx, page)
			Eventually(ctx, Gone(ctx, page)).Should(BeTrue())
		}
		e.pods.expectOneAtATime()
		Eventually(ctx, func(g Gomega) []string {
			history, _, err := unstructured.NestedSlice(Live(ctx, g, e.collection).Object, "status", "history")
			g.Expect(err).NotTo(HaveOccurred())
			var versions []string
			for _, entry := range history {
				versions = append(versions, entry.(map[string]any)["version"].(string))
			}
			return versions
		}).Should(HaveExactElements("1.2.0", "1.1.0", "1.2.0", "1.1.0", "1.0.0"))
	})
}

// pinTo names the archive of a version that the OperatorCollection had, whatever its URL serves.
func (e *olmEnvironment) pinTo(ctx context.Context, version string) {
	GinkgoHelper()
	digest := DigestOf(e.archives[pagesArchive(version)])
	Patch(ctx, e.collection.DeepCopy(), MustJSON(map[string]any{"spec": map[string]any{"digest": digest}}))
}
