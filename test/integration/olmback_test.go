package integration

import (
	"context"
	"fmt"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// noNewRuns is what the manager announces on the Lease of an operator that it is about to remove.
const noNewRuns = "zoscb.ibm.com/no-new-runs"

// upgradeInOLM brings a sample to another version by OLM until all is Ready.
func upgradeInOLM(ctx context.Context, oc *v2beta2.OperatorCollection, from, to *sample) *operatorsv1alpha1.Subscription {
	GinkgoHelper()
	changeSpec(ctx, oc, to.pinned())
	Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(And(ConditionTrue(), WithMessage(to.version)))
	expectPublished(ctx, oc, to)
	subscription := expectSubscription(ctx, oc.Namespace, to)
	hash := subscription.Spec.Config.Annotations[runtimeHash]
	csv := operatorCSV(oc.Namespace, to)
	Create(ctx, csv)
	changeCSV(ctx, csv, operatorsv1alpha1.CSVPhaseInstallReady, operatorsv1alpha1.CSVReasonRequirementsMet)
	Eventually(ctx, func(g Gomega) {
		Get(ctx, g, subscription)
		g.Expect(subscription.Spec.Config.Annotations).NotTo(HaveKeyWithValue(runtimeHash, hash))
	}).Should(Succeed())
	runInOLM(ctx, subscription, to)
	Remove(ctx, operatorCSV(oc.Namespace, from))
	Eventually(ctx, func(g Gomega) {
		soc := defaultSOC(oc)
		Get(ctx, g, soc)
		g.Expect(soc.Status.Version).To(Equal(to.version))
	}).Should(Succeed())
	ExpectReady(ctx, defaultSOC(oc))
	return subscription
}

// uidOf is that of a Subscription, or "" if it does not exist.
func uidOf(ctx context.Context, subscription *operatorsv1alpha1.Subscription) func(Gomega) types.UID {
	return func(g Gomega) types.UID {
		live := subscriptionOf(subscription.Namespace, &sample{})
		live.Name = subscription.Name
		if Gone(ctx, live)(g) {
			return ""
		}
		Get(ctx, g, live)
		return live.UID
	}
}

var _ = Describe("An installation by OLM that goes back", Ordered, func() {
	BeforeAll(func(ctx context.Context) { restartWithOLM(ctx) })

	It("takes no permission from a playbook, and is never there twice", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		newer := s.at("1.1.0")
		oc, _ := installInOLM(ctx, namespace, s)
		soc := defaultSOC(oc)
		subscription := upgradeInOLM(ctx, oc, s, newer)
		csv, config, uid := operatorCSV(namespace, newer), &corev1.ConfigMap{}, subscription.UID
		config.Namespace, config.Name = namespace, s.operator()+"-runtime"
		Get(ctx, Default, config)
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator()},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("pod_uid")},
		}
		thing := newer.instance(namespace, "one")
		Create(ctx, lease, thing)
		setRunning(ctx, thing, "True")

		By("waiting until a playbook has ended, while no other one starts")
		web.Replace(oc.Spec.CollectionURL, http.NotFound)
		Patch(ctx, oc, fmt.Sprintf(`{"spec":{"digest":%q}}`, DigestOf(s.archive())))
		ExpectFailure(ctx, soc, v2beta2.ReasonTerminating, "removed when these playbooks end: "+s.kind, false)
		Expect(annotationOf(ctx, lease, noNewRuns)(Default)).To(HavePrefix("pod_uid 20"))
		Consistently(ctx, Gone(ctx, csv)).Should(BeFalse())
		Expect(uidOf(ctx, subscription)(Default)).To(Equal(uid))
		Get(ctx, Default, subscription)
		Expect(subscription.Spec.Channel).To(Equal("v1.1.0"))

		By("removing Subscription and ClusterServiceVersion, and waiting for the pods, past a manager that dies in between")
		operator := deployment(namespace, s.operator())
		hold(ctx, operator)
		setRunning(ctx, thing, "False")
		Eventually(ctx, Gone(ctx, csv)).Should(BeTrue())
		Expect(uidOf(ctx, subscription)(Default)).To(BeEmpty())
		theManager.kill()
		theManager.start(ctx)
		Consistently(ctx, uidOf(ctx, subscription)).WithTimeout(3 * time.Second).Should(BeEmpty())
		Expect(thing.GetName()).To(Equal(Live(ctx, Default, thing).GetName()))

		By("installing the older version when they are gone")
		Patch(ctx, operator, `{"metadata":{"finalizers":null}}`)
		Remove(ctx, operator)
		subscription = expectSubscription(ctx, namespace, s)
		Expect(subscription.UID).NotTo(Equal(uid))
		runInOLM(ctx, subscription, s)
		ExpectReady(ctx, oc)
		ExpectReady(ctx, soc)
		Get(ctx, Default, soc)
		Expect(soc.Status.Version).To(Equal("1.0.0"))
		Expect(soc.Status.Installations).To(ConsistOf(And(HaveField("RemovalTime", BeNil()), HaveField("Digest", DigestOf(s.archive())))))
		before := config.UID
		Get(ctx, Default, config)
		Expect(config.UID).To(Equal(before), "what both need stays")
		Expect(config.Data).To(HaveKeyWithValue("digest", DigestOf(s.archive())))
		Expect(historyOf(ctx, oc)(Default)).To(HaveExactElements(
			HaveField("Version", "1.0.0"), HaveField("Version", "1.1.0"), HaveField("Version", "1.0.0")))
		Remove(ctx, deployment(namespace, s.operator())) // Otherwise OLM would, with its ClusterServiceVersion.
	})

	It("leaves the Subscription of a user, and says what to do", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		older := s.at("0.9.0")
		mine := newSubscription(namespace, s)
		Create(ctx, mine)
		oc := importForOLM(ctx, namespace, s)
		runInOLM(ctx, mine, s)
		ExpectReady(ctx, defaultSOC(oc))
		uid := uidOf(ctx, mine)(Default)
		changeSpec(ctx, oc, older.pinned())
		ExpectFailure(ctx, defaultSOC(oc), v2beta2.ReasonClusterServiceVersionFailed, "create it again with channel v0.9.0", false)
		Consistently(ctx, uidOf(ctx, mine)).Should(Equal(uid))
		Expect(Gone(ctx, operatorCSV(namespace, s))(Default)).To(BeFalse())
		Remove(ctx, defaultSOC(oc))
		Remove(ctx, mine)
		Remove(ctx, operatorCSV(namespace, s))
		Remove(ctx, deployment(namespace, s.operator()))
	})
})
