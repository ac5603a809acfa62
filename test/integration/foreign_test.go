package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("An object that somebody else made", func() {
	It("is never taken over, nor deleted, and nothing is half-installed around it", attack.Label, func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		// It even carries the collection's labels: only the annotation that names its maker makes an object ours.
		foreign := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: s.operator() + "-runtime",
				Labels: map[string]string{"operator-domain": domain, "operator-name": s.name, "managed-by": "ibm-zos-cloud-broker"},
			},
			Data: map[string]string{"mine": "yes"},
		}
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator()}}
		Create(ctx, foreign, account)
		version := foreign.ResourceVersion
		oc := importSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		ExpectFailure(ctx, soc, v2beta2.ReasonForeignObject, `ConfigMap "`+namespace+"/"+foreign.Name+`"`, false)
		Expect(Condition(ctx, soc, v2beta2.ConditionReady)(Default)).To(WithMessage(`ServiceAccount "`), "all of them are named")
		ExpectFailure(ctx, oc, v2beta2.ReasonForeignObject, foreign.Name, false)
		Expect(madeIn(ctx, namespace)).To(ConsistOf(
			"SubOperatorConfig/oc-soc", "ConfigMap/"+foreign.Name, "ServiceAccount/"+account.Name))

		attack.Repelled("Tenancy", "wait with an object under a name and with the labels that the operator's will have", "it is neither used nor changed, and nothing is installed around it", seen(ctx, soc))

		By("staying when the collection is deleted")
		removeCollections(ctx, namespace)
		Get(ctx, Default, foreign)
		Expect(foreign.ResourceVersion).To(Equal(version))
		Expect(madeIn(ctx, namespace)).To(ConsistOf("ConfigMap/"+foreign.Name, "ServiceAccount/"+account.Name))
	})
})
