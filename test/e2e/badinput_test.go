//go:build e2e

package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

func operatorCollection(name string, spec v2beta2.OperatorCollectionSpec) *v2beta2.OperatorCollection {
	return &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: spec}
}

func badInputSpecs() {
	// All other reasons are told by the specs against an API server. Here, the cluster's own DNS answers.
	It("refuses an archive of a server that is not there, and installs nothing", func(ctx context.Context) {
		oc := operatorCollection("bad-server", v2beta2.OperatorCollectionSpec{
			CollectionURL: "http://nobody.e2e.svc.cluster.local/x.tar.gz", SkipSignatureVerification: true,
		})
		Create(ctx, oc)
		DeferCleanup(func(ctx context.Context) {
			Remove(ctx, oc)
			Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
		})
		ExpectFailure(ctx, oc, v2beta2.ReasonSourceUnreachable, "nobody.e2e", false)
		Eventually(ctx, Field(ctx, oc, "status", "phase")).Should(Equal(string(v2beta2.PhaseFailed)))
		var socs v2beta2.SubOperatorConfigList
		Expect(K8s.List(ctx, &socs, client.InNamespace(namespace))).To(Succeed())
		Expect(socs.Items).To(BeEmpty())
	})

	It("says that it does not find the host of an endpoint, which it accepts all the same", func(ctx context.Context) {
		endpoint := &v2beta2.ZosEndpoint{
			ObjectMeta: metav1.ObjectMeta{Name: "bad-host", Namespace: namespace}, Spec: v2beta2.ZosEndpointSpec{Host: "nobody.e2e.svc.cluster.local"},
		}
		Create(ctx, endpoint)
		DeferCleanup(Remove, endpoint)
		Eventually(ctx, Condition(ctx, endpoint, v2beta2.ConditionReachable)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonHostUnreachable)))
		Expect(Condition(ctx, endpoint, v2beta2.ConditionReady)(Default)).To(ConditionTrue())
	})

	It("says what is wrong with an endpoint, and kubectl wait sees it", func(ctx context.Context) {
		endpoint := &v2beta2.ZosEndpoint{
			ObjectMeta: metav1.ObjectMeta{Name: "bad-variables", Namespace: namespace},
			Spec:       v2beta2.ZosEndpointSpec{Host: lpar1.host(), Variables: Variables(`17`)},
		}
		Create(ctx, endpoint)
		DeferCleanup(Remove, endpoint)
		Eventually(ctx, Condition(ctx, endpoint, v2beta2.ConditionReady)).
			Should(And(ConditionFalse(), WithReason(v2beta2.ReasonInvalidVariables)))
		expectHealth(ctx, endpoint, "Degraded", "Failed")
		printed, err := kubectlWait(ctx, "zosendpoint/bad-variables", "3s")
		Expect(err).To(HaveOccurred())
		Expect(printed).To(ContainSubstring("timed out"))
	})
}
