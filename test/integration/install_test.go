package integration

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

const (
	runtimeHash = "zoscb.ibm.com/runtime-hash"
	catalogHash = "zoscb.ibm.com/catalog-runtime-hash"
)

func (s *sample) csvName() string { return s.operator() + ".v" + s.version }

func (s *sample) labels() map[string]string {
	return map[string]string{
		"managed-by": "ibm-zos-cloud-broker", "operator-domain": domain, "operator-name": s.name, "operator-version": s.version,
	}
}

// importForOLM imports a sample and waits until it is in the catalog.
func importForOLM(ctx context.Context, namespace string, s *sample) *v2beta2.OperatorCollection {
	GinkgoHelper()
	oc := importSample(ctx, namespace, s)
	expectPublished(ctx, oc, s)
	return oc
}

// expectPublished waits until the sample's version is in the catalog.
func expectPublished(ctx context.Context, oc *v2beta2.OperatorCollection, s *sample) {
	GinkgoHelper()
	Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionPublished)).Should(And(ConditionTrue(), WithMessage("v"+s.version)))
}

func subscriptionOf(namespace string, s *sample) *operatorsv1alpha1.Subscription {
	return &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator()}}
}

// expectSubscription waits for the manager's Subscription to the sample's version.
func expectSubscription(ctx context.Context, namespace string, s *sample) *operatorsv1alpha1.Subscription {
	GinkgoHelper()
	subscription := subscriptionOf(namespace, s)
	Eventually(ctx, func(g Gomega) {
		Get(ctx, g, subscription)
		g.Expect(subscription.Spec.Channel).To(Equal("v" + s.version))
		g.Expect(subscription.Spec.StartingCSV).To(Equal(s.csvName()))
	}).Should(Succeed())
	return subscription
}

// changeSubscription writes the status of a Subscription as OLM does.
func changeSubscription(ctx context.Context, subscription *operatorsv1alpha1.Subscription, change func(*operatorsv1alpha1.SubscriptionStatus)) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		Get(ctx, g, subscription)
		change(&subscription.Status)
		subscription.Status.LastUpdated = metav1.Now()
		g.Expect(K8s.Status().Update(ctx, subscription)).To(Succeed())
	}).Should(Succeed())
}

func withCondition(kind operatorsv1alpha1.SubscriptionConditionType, reason, message string) func(*operatorsv1alpha1.SubscriptionStatus) {
	return func(status *operatorsv1alpha1.SubscriptionStatus) {
		status.SetCondition(operatorsv1alpha1.SubscriptionCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message})
	}
}

// plan makes an InstallPlan for a Subscription as OLM does.
func plan(ctx context.Context, subscription *operatorsv1alpha1.Subscription, s *sample, phase operatorsv1alpha1.InstallPlanPhase, message string) *operatorsv1alpha1.InstallPlan {
	GinkgoHelper()
	installPlan := &operatorsv1alpha1.InstallPlan{
		ObjectMeta: metav1.ObjectMeta{Namespace: subscription.Namespace, GenerateName: "install-"},
		Spec: operatorsv1alpha1.InstallPlanSpec{
			ClusterServiceVersionNames: []string{s.csvName()}, Approval: subscription.Spec.InstallPlanApproval,
			Approved: phase != operatorsv1alpha1.InstallPlanPhaseRequiresApproval,
		},
	}
	Create(ctx, installPlan)
	changePlan(ctx, installPlan, phase, message)
	changeSubscription(ctx, subscription, func(status *operatorsv1alpha1.SubscriptionStatus) {
		status.State, status.CurrentCSV = operatorsv1alpha1.SubscriptionStateUpgradePending, s.csvName()
		status.InstallPlanRef = &corev1.ObjectReference{Namespace: installPlan.Namespace, Name: installPlan.Name}
	})
	return installPlan
}

func changePlan(ctx context.Context, installPlan *operatorsv1alpha1.InstallPlan, phase operatorsv1alpha1.InstallPlanPhase, message string) {
	GinkgoHelper()
	installPlan.Status = operatorsv1alpha1.InstallPlanStatus{Phase: phase, Message: message, CatalogSources: []string{}}
	Expect(K8s.Status().Update(ctx, installPlan)).To(Succeed())
}

// operatorCSV is the ClusterServiceVersion of a sample as the catalog has it, as far as it matters here.
func operatorCSV(namespace string, s *sample) *operatorsv1alpha1.ClusterServiceVersion {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: s.csvName(), Labels: s.labels(), Annotations: map[string]string{"zoscb.ibm.com/digest": DigestOf(s.archive())},
	}}
	Expect(csv.Spec.Version.UnmarshalJSON(fmt.Appendf(nil, "%q", s.version))).To(Succeed())
	csv.Spec.DisplayName = s.kind
	csv.Spec.InstallStrategy.StrategyName = operatorsv1alpha1.InstallStrategyNameDeployment
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{{
		Name: s.operator(), Spec: deploymentSpec(s, "registry.invalid/runtime:integration"),
	}}
	return csv
}

func deploymentSpec(s *sample, image string) appsv1.DeploymentSpec {
	return appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"operator-name": s.name}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: s.labels()},
			Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "operator", Image: image, Env: []corev1.EnvVar{{Name: "ZOSCB_SETTINGS", Value: "/settings"}}},
			}},
		},
	}
}

// changeCSV writes the status of a ClusterServiceVersion as OLM does.
func changeCSV(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion, phase operatorsv1alpha1.ClusterServiceVersionPhase, reason operatorsv1alpha1.ConditionReason, requirements ...operatorsv1alpha1.RequirementStatus) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		Get(ctx, g, csv)
		csv.Status.Phase, csv.Status.Reason, csv.Status.RequirementStatus = phase, reason, requirements
		g.Expect(K8s.Status().Update(ctx, csv)).To(Succeed())
	}).Should(Succeed())
}

// runInOLM is what OLM does with a Subscription, to the end: ClusterServiceVersion and Deployment.
func runInOLM(ctx context.Context, subscription *operatorsv1alpha1.Subscription, s *sample) *operatorsv1alpha1.ClusterServiceVersion {
	GinkgoHelper()
	csv := operatorCSV(subscription.Namespace, s)
	Expect(client.IgnoreAlreadyExists(K8s.Create(ctx, csv))).To(Succeed())
	changeCSV(ctx, csv, operatorsv1alpha1.CSVPhaseSucceeded, operatorsv1alpha1.CSVReasonInstallSuccessful)
	changeSubscription(ctx, subscription, func(status *operatorsv1alpha1.SubscriptionStatus) {
		status.State, status.CurrentCSV, status.InstalledCSV = operatorsv1alpha1.SubscriptionStateAtLatest, s.csvName(), s.csvName()
	})
	rollInOLM(ctx, subscription, s)
	return csv
}

// rollInOLM gives the Deployment what the Subscription says about its pods, and runs it.
func rollInOLM(ctx context.Context, subscription *operatorsv1alpha1.Subscription, s *sample) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		Get(ctx, g, subscription)
		g.Expect(subscription.Spec.Config).NotTo(BeNil())
		d := deployment(subscription.Namespace, s.operator())
		err := K8s.Get(ctx, client.ObjectKeyFromObject(d), d)
		g.Expect(client.IgnoreNotFound(err)).To(Succeed())
		d.Labels = s.labels()
		d.Spec = deploymentSpec(s, "registry.invalid/runtime:integration")
		d.Spec.Template.Annotations = subscription.Spec.Config.Annotations
		if err != nil {
			g.Expect(K8s.Create(ctx, d)).To(Succeed())
		} else {
			g.Expect(K8s.Update(ctx, d)).To(Succeed())
		}
	}).Should(Succeed())
	makeAvailable(ctx, subscription.Namespace, s.operator())
}

// installInOLM installs a sample by OLM until all is Ready.
func installInOLM(ctx context.Context, namespace string, s *sample) (*v2beta2.OperatorCollection, *operatorsv1alpha1.Subscription) {
	GinkgoHelper()
	oc := importForOLM(ctx, namespace, s)
	subscription := expectSubscription(ctx, namespace, s)
	runInOLM(ctx, subscription, s)
	ExpectReady(ctx, defaultSOC(oc))
	return oc, subscription
}

// madeInOLM names everything of OLM in a namespace, as kind/name.
func madeInOLM(ctx context.Context, namespace string) []string {
	GinkgoHelper()
	var names []string
	for _, list := range []client.ObjectList{
		&operatorsv1alpha1.SubscriptionList{}, &operatorsv1alpha1.ClusterServiceVersionList{}, &operatorsv1.OperatorGroupList{},
	} {
		for _, object := range listObjects(ctx, list, client.InNamespace(namespace)) {
			names = append(names, object.GetObjectKind().GroupVersionKind().Kind+"/"+object.GetName())
		}
	}
	return names
}

// collectGarbage does what the garbage collector does after a ClusterServiceVersion is gone.
func collectGarbage(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion, s *sample) {
	GinkgoHelper()
	Eventually(ctx, Gone(ctx, csv)).Should(BeTrue())
	Remove(ctx, deployment(csv.Namespace, s.operator()))
}

// recordedMethods are those of a SubOperatorConfig's installations.
func recordedMethods(ctx context.Context, soc *v2beta2.SubOperatorConfig) func(Gomega) []v2beta2.InstallMethod {
	return func(g Gomega) []v2beta2.InstallMethod {
		Get(ctx, g, soc)
		var methods []v2beta2.InstallMethod
		for _, installation := range soc.Status.Installations {
			methods = append(methods, installation.Install)
		}
		return methods
	}
}

// makeTooLarge makes the sample one that can be installed, and that no catalog can hold.
func (s *sample) makeTooLarge() {
	var lines []string
	for i := range 1300 {
		lines = append(lines, fmt.Sprintf("{name: v%d, displayName: V %d, type: string, description: %s}", i, i, strings.Repeat("long ", 60)))
	}
	s.variables = strings.Join(lines, "\n      - ")
	s.permissions = "  - kind: " + s.kind + "Too\n    playbook: play.yml\n    vars:\n      - " + s.variables
}

var _ = Describe("An installation by OLM", Ordered, func() {
	BeforeAll(restartWithOLM)

	It("consists of a Subscription and what its pods read, and leaves nothing behind", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := importForOLM(ctx, namespace, s)
		soc := defaultSOC(oc)

		By("subscribing")
		subscription := expectSubscription(ctx, namespace, s)
		Expect(subscription.Spec.CatalogSource).To(Equal("collection-operator-catalog"))
		Expect(subscription.Spec.Package).To(Equal(s.operator()))
		ExpectFailure(ctx, soc, v2beta2.ReasonProgressing, "waiting for OLM", false)
		Expect(madeInOLM(ctx, namespace)).To(ConsistOf("Subscription/"+s.operator(), "OperatorGroup/collection-operator"))
		Expect(madeIn(ctx, namespace)).To(ConsistOf("SubOperatorConfig/oc-soc", "ConfigMap/"+s.operator()+"-runtime",
			"Secret/"+s.operator()+"-endpoints", "NetworkPolicy/"+s.operator()), "OLM makes the rest")
		Expect(recordedMethods(ctx, soc)(Default)).To(Equal([]v2beta2.InstallMethod{v2beta2.InstallOLM}))

		By("becoming Ready only with pods that know their configuration")
		csv := runInOLM(ctx, subscription, s)
		ExpectReady(ctx, soc)
		Get(ctx, Default, soc)
		Expect(soc.Status.ClusterServiceVersion.Metadata.Name).To(Equal(s.csvName()))
		Expect(soc.Status.Packages).To(Equal([]string{s.operator()}))
		Expect(soc.Status.CustomResourceDefinition).To(ConsistOf(HaveField("Metadata.Name", s.crdName())))
		Expect(soc.Status.Warnings).To(BeEmpty())

		By("coming to rest")
		ExpectReady(ctx, oc)
		expectRest(ctx, namespace, s.crdName())

		By("setting nothing in the Subscription that the ClusterServiceVersion sets")
		Get(ctx, Default, subscription)
		hash := subscription.Spec.Config.Annotations[runtimeHash]
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, csv)
			pods := &csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template
			pods.Annotations = map[string]string{catalogHash: hash}
			g.Expect(K8s.Update(ctx, csv)).To(Succeed())
		}).Should(Succeed())
		Eventually(ctx, func(g Gomega) *operatorsv1alpha1.SubscriptionConfig {
			Get(ctx, g, subscription)
			return subscription.Spec.Config
		}).Should(BeNil())
		Eventually(ctx, func(g Gomega) {
			operator := deployment(namespace, s.operator())
			Get(ctx, g, operator)
			operator.Spec.Template.Annotations = map[string]string{catalogHash: hash}
			g.Expect(K8s.Update(ctx, operator)).To(Succeed())
		}).Should(Succeed())
		makeAvailable(ctx, namespace, s.operator())
		poke(ctx, soc)
		ExpectReady(ctx, soc)
		Consistently(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).Should(ConditionTrue())

		By("going in order")
		Remove(ctx, soc)
		Eventually(ctx, Gone(ctx, subscription)).Should(BeTrue())
		Eventually(ctx, Gone(ctx, csv)).Should(BeTrue())
		ExpectFailure(ctx, soc, v2beta2.ReasonTerminating, "Subscription "+namespace+"/"+s.operator(), false)
		Expect(madeIn(ctx, namespace)).To(ContainElement("ConfigMap/"+s.operator()+"-runtime"), "pods that end still need it")
		Expect(madeInOLM(ctx, namespace)).To(ContainElement("OperatorGroup/collection-operator"))
		collectGarbage(ctx, csv, s)
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
		Expect(madeInOLM(ctx, namespace)).To(BeEmpty())
	})

	It("does not begin before the catalog has the version", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		s.makeTooLarge()
		oc := importSample(ctx, namespace, s)
		ExpectFailure(ctx, defaultSOC(oc), v2beta2.ReasonNotPublished, "use a smaller icon or shorter descriptions", false)
		Expect(madeInOLM(ctx, namespace)).To(BeEmpty())
	})

	It("says what OLM waits for, and why it failed", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := importForOLM(ctx, namespace, s)
		soc := defaultSOC(oc)
		subscription := expectSubscription(ctx, namespace, s)

		By("a catalog that OLM cannot read")
		changeSubscription(ctx, subscription, func(status *operatorsv1alpha1.SubscriptionStatus) {
			withCondition(operatorsv1alpha1.SubscriptionCatalogSourcesUnhealthy, operatorsv1alpha1.UnhealthyCatalogSourceFound, "")(status)
			now := metav1.Now()
			status.CatalogHealth = []operatorsv1alpha1.SubscriptionCatalogHealth{{
				CatalogSourceRef: &corev1.ObjectReference{Namespace: tileCatalog.namespace, Name: "collection-operator-catalog"}, LastUpdated: &now,
			}}
		})
		ExpectFailure(ctx, soc, v2beta2.ReasonCatalogUnhealthy, "it cannot read the CatalogSources "+tileCatalog.namespace+"/collection-operator-catalog", false)

		By("a Subscription that cannot be resolved")
		changeSubscription(ctx, subscription, withCondition(operatorsv1alpha1.SubscriptionResolutionFailed, "ConstraintsNotSatisfiable", "constraints not satisfiable: b, a"))
		ExpectFailure(ctx, soc, v2beta2.ReasonCatalogUnhealthy, "ConstraintsNotSatisfiable: to see the conflict, run kubectl describe", false)
		changeSubscription(ctx, subscription, func(status *operatorsv1alpha1.SubscriptionStatus) { status.Conditions = nil })

		By("an InstallPlan that fails")
		failed := plan(ctx, subscription, s, operatorsv1alpha1.InstallPlanPhaseFailed, "no such quota")
		ExpectFailure(ctx, soc, v2beta2.ReasonInstallPlanFailed, failed.Name+`" failed: no such quota`, false)
		Remove(ctx, failed)
		planned := plan(ctx, subscription, s, operatorsv1alpha1.InstallPlanPhaseComplete, "")

		By("requirements that are missing")
		csv := operatorCSV(namespace, s)
		Create(ctx, csv)
		changeCSV(ctx, csv, operatorsv1alpha1.CSVPhasePending, operatorsv1alpha1.CSVReasonRequirementsNotMet, operatorsv1alpha1.RequirementStatus{
			Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: s.crdName(), Status: operatorsv1alpha1.RequirementStatusReasonNotPresent,
		})
		ExpectFailure(ctx, soc, v2beta2.ReasonClusterServiceVersionFailed, "RequirementsNotMet: missing: CustomResourceDefinition "+s.crdName()+" (NotPresent)", false)

		By("an operator of another namespace with the same kinds")
		changeCSV(ctx, csv, operatorsv1alpha1.CSVPhaseFailed, operatorsv1alpha1.CSVReasonInterOperatorGroupOwnerConflict)
		ExpectFailure(ctx, soc, v2beta2.ReasonClusterServiceVersionFailed, "whose OperatorGroup includes this one, serves the same kinds", false)
		Remove(ctx, planned)
		runInOLM(ctx, subscription, s)
		ExpectReady(ctx, soc)
		Remove(ctx, soc)
		collectGarbage(ctx, csv, s)
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
	})

	It("changes nothing that runs before a person approves an upgrade", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc, subscription := installInOLM(ctx, namespace, s)
		soc := defaultSOC(oc)
		Patch(ctx, soc, `{"spec":{"installPlanApproval":"Manual"}}`)
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator() + "-runtime"}}
		Get(ctx, Default, config)
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, subscription)
			g.Expect(subscription.Spec.InstallPlanApproval).To(Equal(operatorsv1alpha1.ApprovalManual))
		}).Should(Succeed())
		hash, data, old := subscription.Spec.Config.Annotations[runtimeHash], config.Data, operatorCSV(namespace, s)

		s.version = "1.1.0"
		changeSpec(ctx, oc, s.pinned())
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(And(ConditionTrue(), WithMessage("1.1.0")))
		expectPublished(ctx, oc, s)
		subscription = expectSubscription(ctx, namespace, s)
		waiting := plan(ctx, subscription, s, operatorsv1alpha1.InstallPlanPhaseRequiresApproval, "")
		ExpectFailure(ctx, soc, v2beta2.ReasonWaitingForApproval, fmt.Sprintf("to install %s: kubectl patch installplans.operators.coreos.com %s -n %s", s.csvName(), waiting.Name, namespace), false)
		Get(ctx, Default, soc)
		Expect(soc.Status.Phase).To(Equal(v2beta2.PhasePending))
		Expect(soc.Status.Installations[0].Digest).To(Equal(data["digest"]), "the archive that the pods need")
		Get(ctx, Default, subscription)
		Expect(subscription.Spec.Config.Annotations).To(HaveKeyWithValue(runtimeHash, hash))
		Get(ctx, Default, config)
		Expect(config.Data).To(Equal(data))

		By("approving it")
		Patch(ctx, waiting, `{"spec":{"approved":true}}`)
		changePlan(ctx, waiting, operatorsv1alpha1.InstallPlanPhaseComplete, "")
		csv := operatorCSV(namespace, s)
		Create(ctx, csv)
		changeCSV(ctx, csv, operatorsv1alpha1.CSVPhasePending, operatorsv1alpha1.CSVReasonRequirementsNotMet)
		ExpectFailure(ctx, soc, v2beta2.ReasonClusterServiceVersionFailed, "RequirementsNotMet", false)
		Get(ctx, Default, config)
		Expect(config.Data).To(Equal(data), "the old pods may have to start again")
		changeCSV(ctx, csv, operatorsv1alpha1.CSVPhaseInstallReady, operatorsv1alpha1.CSVReasonRequirementsMet)
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, config)
			g.Expect(config.Data).To(HaveKeyWithValue("digest", oc.Spec.Digest))
			Get(ctx, g, subscription)
			g.Expect(subscription.Spec.Config.Annotations).NotTo(HaveKeyWithValue(runtimeHash, hash))
		}).Should(Succeed())
		runInOLM(ctx, subscription, s)
		Remove(ctx, old)
		ExpectReady(ctx, soc)
		Get(ctx, Default, soc)
		Expect(soc.Status.Version).To(Equal("1.1.0"))

		By("not going back")
		s.version = "1.0.0"
		changeSpec(ctx, oc, s.pinned())
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(And(ConditionTrue(), WithMessage("1.0.0")))
		expectPublished(ctx, oc, s)
		ExpectFailure(ctx, soc, v2beta2.ReasonClusterServiceVersionFailed, "version 1.1.0 is installed, and OLM does not go back to 1.0.0", false)
		Remove(ctx, soc)
		collectGarbage(ctx, csv, s)
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
	})

	It("starts new pods for other content of the same version, also if the old ones cannot start, and says that OLM takes no notice", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc, subscription := installInOLM(ctx, namespace, s)
		soc, csv := defaultSOC(oc), operatorCSV(namespace, s)
		hash := subscription.Spec.Config.Annotations[runtimeHash]
		changeCSV(ctx, csv, operatorsv1alpha1.CSVPhaseInstalling, operatorsv1alpha1.CSVReasonWaiting)
		s.files = map[string]string{"README.md": "# other\n"}
		changeSpec(ctx, oc, s.pinned())
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, subscription)
			g.Expect(subscription.Spec.Config.Annotations).NotTo(HaveKeyWithValue(runtimeHash, hash))
			Get(ctx, g, csv)
			g.Expect(csv.Status).To(And(HaveField("Phase", operatorsv1alpha1.CSVPhasePending), HaveField("Reason", operatorsv1alpha1.CSVReasonNeedsReinstall)))
		}).Should(Succeed())
		changeCSV(ctx, csv, operatorsv1alpha1.CSVPhaseSucceeded, operatorsv1alpha1.CSVReasonInstallSuccessful)
		ExpectFailure(ctx, soc, v2beta2.ReasonProgressing, "waiting for OLM to update Deployment", false)
		rollInOLM(ctx, subscription, s)
		ExpectReady(ctx, soc)
		Get(ctx, Default, soc)
		Expect(soc.Status.Warnings).To(ConsistOf(ContainSubstring("increase the version of the collection")))
		Remove(ctx, soc)
		collectGarbage(ctx, csv, s)
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
	})

	It("keeps running where OLM cannot be used as asked", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc, subscription := installInOLM(ctx, namespace, s)
		soc := defaultSOC(oc)
		before := versions(installed(ctx, soc))
		Patch(ctx, soc, `{"spec":{"runtime":{"image":"registry.invalid/other:1","podLabels":{"team":"a"}}}}`)
		ExpectFailure(ctx, soc, v2beta2.ReasonRuntimeNotSupported,
			"runtime.image, runtime.podLabels cannot be set with the Operator Lifecycle Manager: the catalog fixes the image of a version; a Subscription has no such field; remove it, or set install: Direct", false)
		Expect(versions(installed(ctx, soc))).To(Equal(before))
		Patch(ctx, soc, `{"spec":{"runtime":null}}`)
		ExpectReady(ctx, soc)

		By("a manager that may not use OLM any more")
		theManager.stop()
		flags := theManager.flags
		theManager.flags = usualFlags
		theManager.start(ctx)
		ExpectFailure(ctx, soc, v2beta2.ReasonOLMUnavailable, "or set install: Direct", false)
		Expect(versions(installed(ctx, soc))).To(Equal(before))
		theManager.stop()
		theManager.flags = flags
		theManager.start(ctx)
		ExpectReady(ctx, soc)
		Expect(versions(installed(ctx, soc))).To(Equal(before))
		Remove(ctx, soc)
		collectGarbage(ctx, operatorCSV(subscription.Namespace, s), s)
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
	})

	It("is replaced by one without OLM, and the other way round, with never two operators at once", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc, subscription := installInOLM(ctx, namespace, s)
		soc, csv, operator := defaultSOC(oc), operatorCSV(namespace, s), deployment(namespace, s.operator())
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator() + "-endpoints"}}
		Get(ctx, Default, secret)
		uid := secret.UID

		By("letting a playbook end that runs")
		thing := s.instance(namespace, "one")
		Create(ctx, thing)
		setRunning(ctx, thing, "True")
		Patch(ctx, soc, `{"spec":{"install":"Direct"}}`)
		ExpectFailure(ctx, soc, v2beta2.ReasonTerminating, "removed when these playbooks end: "+s.kind, false)
		Expect(Gone(ctx, subscription)(Default)).To(BeFalse())
		setRunning(ctx, thing, "False")
		Eventually(ctx, Gone(ctx, csv)).Should(BeTrue())
		Expect(Gone(ctx, subscription)(Default)).To(BeTrue())
		Consistently(ctx, func(g Gomega) {
			Get(ctx, g, operator)
			g.Expect(operator.Annotations).NotTo(HaveKey("zoscb.ibm.com/suboperatorconfig"))
			g.Expect(recordedMethods(ctx, soc)(g)).To(Equal([]v2beta2.InstallMethod{v2beta2.InstallOLM}))
		}).Should(Succeed(), "the Deployment of OLM is not gone")
		collectGarbage(ctx, csv, s)
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, soc)
		expectInstallation(ctx, soc, s)
		Expect(madeInOLM(ctx, namespace)).To(BeEmpty())
		Expect(recordedMethods(ctx, soc)(Default)).To(Equal([]v2beta2.InstallMethod{v2beta2.InstallDirect}))

		By("staying with what was chosen once")
		Patch(ctx, soc, `{"spec":{"install":"Auto"}}`)
		ExpectReady(ctx, soc)
		expectInstallation(ctx, soc, s)

		By("going back, past a manager that dies in between")
		hold(ctx, operator)
		Patch(ctx, soc, `{"spec":{"install":"OLM"}}`)
		ExpectFailure(ctx, soc, v2beta2.ReasonTerminating, "Deployment "+namespace+"/"+s.operator(), false)
		theManager.kill()
		theManager.start(ctx)
		Consistently(ctx, Gone(ctx, subscription)).Should(BeTrue(), "the Deployment is not gone")
		Patch(ctx, operator, `{"metadata":{"finalizers":null}}`)
		subscription = expectSubscription(ctx, namespace, s)
		runInOLM(ctx, subscription, s)
		ExpectReady(ctx, soc)
		Get(ctx, Default, secret)
		Expect(secret.UID).To(Equal(uid), "what both need stays")
		Expect(madeIn(ctx, namespace)).NotTo(ContainElement("ServiceAccount/" + s.operator()))
		Expect(soc.Status.Inventory).NotTo(BeEmpty())
		Remove(ctx, thing)
		Remove(ctx, soc)
		collectGarbage(ctx, csv, s)
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
	})

	It("uses the Subscription that a person made, and leaves it to him", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		mine := newSubscription(namespace, s)
		mine.Name = "by-hand"
		Create(ctx, mine)
		oc := importForOLM(ctx, namespace, s)
		soc := defaultSOC(oc)
		csv := runInOLM(ctx, mine, s)
		ExpectReady(ctx, soc)
		Expect(mine.Spec.Channel).To(Equal("stable"))
		Expect(mine.Spec.Config.Annotations).To(HaveKey(runtimeHash))
		Expect(madeInOLM(ctx, namespace)).To(ConsistOf("Subscription/by-hand", "ClusterServiceVersion/"+s.csvName(), "OperatorGroup/collection-operator"))

		By("saying that it has another version")
		other := *s
		other.version = "1.1.0"
		newer := operatorCSV(namespace, &other)
		Create(ctx, newer)
		Remove(ctx, csv)
		changeSubscription(ctx, mine, func(status *operatorsv1alpha1.SubscriptionStatus) { status.InstalledCSV = other.csvName() })
		ExpectFailure(ctx, soc, v2beta2.ReasonClusterServiceVersionFailed, "has installed version 1.1.0, and the OperatorCollection has 1.0.0", false)

		By("running nothing beside it")
		Patch(ctx, soc, `{"spec":{"install":"Direct"}}`)
		ExpectFailure(ctx, soc, v2beta2.ReasonForeignObject, "runs this operator already", false)

		By("leaving it where it is")
		Remove(ctx, soc)
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
		Expect(madeInOLM(ctx, namespace)).To(ConsistOf("Subscription/by-hand", "ClusterServiceVersion/"+other.csvName(), "OperatorGroup/collection-operator"))
		Remove(ctx, mine)
		Remove(ctx, newer)
		Remove(ctx, deployment(namespace, s.operator()))
	})

	It("shares the namespace's OperatorGroup, and says what is wrong with it", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		group := func(name string, spec operatorsv1.OperatorGroupSpec) *operatorsv1.OperatorGroup {
			return &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
		}
		own := operatorsv1.OperatorGroupSpec{TargetNamespaces: []string{namespace}}
		all := group("all", operatorsv1.OperatorGroupSpec{})
		Create(ctx, all)
		oc := importForOLM(ctx, namespace, s)
		soc := defaultSOC(oc)
		// Without one the manager makes its own.
		replace := func(former []*operatorsv1.OperatorGroup, groups ...*operatorsv1.OperatorGroup) []*operatorsv1.OperatorGroup {
			for _, g := range groups {
				Create(ctx, g)
			}
			for _, g := range former {
				Remove(ctx, g)
			}
			return groups
		}
		former := []*operatorsv1.OperatorGroup{all}
		for _, c := range []struct {
			groups []*operatorsv1.OperatorGroup
			says   string
		}{
			{nil, "its OperatorGroup all is for all namespaces"},
			{[]*operatorsv1.OperatorGroup{group("other", operatorsv1.OperatorGroupSpec{TargetNamespaces: []string{"default"}})}, "is for the namespaces default"},
			{[]*operatorsv1.OperatorGroup{group("a", own), group("b", own)}, "it has the OperatorGroups a, b"},
		} {
			if c.groups != nil {
				former = replace(former, c.groups...)
			}
			Patch(ctx, soc, fmt.Sprintf(`{"metadata":{"labels":{"touched":"%s"}}}`, former[0].Name))
			ExpectFailure(ctx, soc, v2beta2.ReasonOperatorGroupConflict, c.says, false)
			Expect(Gone(ctx, subscriptionOf(namespace, s))(Default)).To(BeTrue())
		}

		By("using the one that is there")
		limited := own
		limited.ServiceAccountName = "installer"
		replace(former, group("theirs", limited))
		Patch(ctx, soc, `{"metadata":{"labels":{"touched":"again"}}}`)
		subscription := expectSubscription(ctx, namespace, s)
		csv := runInOLM(ctx, subscription, s)
		ExpectReady(ctx, soc)
		Get(ctx, Default, soc)
		Expect(soc.Status.Warnings).To(ConsistOf(ContainSubstring("with the permissions of ServiceAccount installer")))
		Expect(madeInOLM(ctx, namespace)).NotTo(ContainElement("OperatorGroup/collection-operator"))
		Remove(ctx, soc)
		collectGarbage(ctx, csv, s)
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
		Expect(madeInOLM(ctx, namespace)).To(ConsistOf("OperatorGroup/theirs"))
	})

	It("goes from one namespace without disturbing others, and leaves the OperatorGroup to whoever needs it", func(ctx context.Context) {
		namespace, other, s, beside := newNamespace(ctx), newNamespace(ctx), newSample(), newSample()
		allowMapping(ctx, other, namespace)
		soc := newSOC(namespace, "soc", "oc", mapTo(namespace, other)...)
		Create(ctx, soc)
		importForOLM(ctx, namespace, s)
		second := newCollection(namespace, "second", beside.pinned())
		Create(ctx, second)
		for _, subscription := range []*operatorsv1alpha1.Subscription{expectSubscription(ctx, namespace, s), expectSubscription(ctx, other, s)} {
			runInOLM(ctx, subscription, s)
		}
		runInOLM(ctx, expectSubscription(ctx, namespace, beside), beside)
		ExpectReady(ctx, soc)
		ExpectReady(ctx, defaultSOC(second))

		By("unmapping one of two namespaces")
		setMapping(ctx, soc, namespace)
		collectGarbage(ctx, operatorCSV(other, s), s)
		ExpectReady(ctx, soc)
		Eventually(ctx, func(g Gomega) { g.Expect(madeInOLM(ctx, other)).To(BeEmpty()) }).Should(Succeed())
		Expect(madeIn(ctx, other)).To(BeEmpty())
		Expect(madeInOLM(ctx, namespace)).To(ConsistOf("OperatorGroup/collection-operator", "Subscription/"+s.operator(), "Subscription/"+beside.operator(),
			"ClusterServiceVersion/"+s.csvName(), "ClusterServiceVersion/"+beside.csvName()))

		By("removing one of two collections")
		Remove(ctx, soc)
		collectGarbage(ctx, operatorCSV(namespace, s), s)
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
		Expect(madeInOLM(ctx, namespace)).To(ConsistOf("OperatorGroup/collection-operator", "Subscription/"+beside.operator(), "ClusterServiceVersion/"+beside.csvName()))
		Remove(ctx, defaultSOC(second))
		collectGarbage(ctx, operatorCSV(namespace, beside), beside)
		Eventually(ctx, Gone(ctx, defaultSOC(second))).Should(BeTrue())
		Expect(madeInOLM(ctx, namespace)).To(BeEmpty())
	})

	It("installs again where somebody deleted its Subscription", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc, subscription := installInOLM(ctx, namespace, s)
		soc, uid := defaultSOC(oc), subscription.UID
		// Times of the API have whole seconds: a Subscription of the same second could have brought the ClusterServiceVersion about.
		csv := operatorCSV(namespace, s)
		Get(ctx, Default, csv)
		Eventually(ctx, func() time.Time { return time.Now().Truncate(time.Second) }).Should(BeTemporally(">", csv.CreationTimestamp.Time))
		Remove(ctx, subscription)
		collectGarbage(ctx, operatorCSV(namespace, s), s)
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, subscription)
			g.Expect(subscription.UID).NotTo(Equal(uid))
		}).Should(Succeed())
		runInOLM(ctx, subscription, s)
		ExpectReady(ctx, soc)
		Get(ctx, Default, soc)
		Expect(soc.Status.Installations).To(ConsistOf(HaveField("RemovalTime", BeNil())))
		Remove(ctx, soc)
		collectGarbage(ctx, operatorCSV(namespace, s), s)
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
	})

	It("is refused for a collection with long names, which is installed with a shorter name", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		Create(ctx, &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "group"},
			Spec: operatorsv1.OperatorGroupSpec{TargetNamespaces: []string{namespace}}})
		id := model.ID{Domain: "a-domain-with-many-letters." + domain, Name: s.name + "-" + strings.Repeat("x", 40)}
		Expect(id.OperatorName()).To(HaveLen(63))
		oc := newCollection(namespace, "oc", s.renamed(id.Domain, id.Name).pinned())
		Create(ctx, oc)
		soc := defaultSOC(oc)
		Eventually(ctx, Gone(ctx, deployment(namespace, id.OperatorName()))).Should(BeFalse())
		makeAvailable(ctx, namespace, id.OperatorName())
		ExpectReady(ctx, oc)
		Get(ctx, Default, oc)
		Expect(oc.Status.Warnings).To(ContainElement(And(ContainSubstring("is longer than 63 characters"), ContainSubstring("named "+id.OperatorName()))))
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionPublished)).Should(And(ConditionFalse(), WithMessage("OLM allows 63")))

		By("asking for OLM")
		Patch(ctx, soc, `{"spec":{"install":"OLM"}}`)
		ExpectFailure(ctx, soc, v2beta2.ReasonObjectRefused, "or set install: Direct", true)
		Expect(Gone(ctx, deployment(namespace, id.OperatorName()))(Default)).To(BeFalse())
		Patch(ctx, soc, `{"spec":{"install":"Direct"}}`)
		ExpectReady(ctx, soc)
	})

	It("of a collection that replaces another one begins when the former operator is gone, also one that a user has installed", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc, subscription := installInOLM(ctx, namespace, s)
		ExpectReady(ctx, oc)
		thing := s.instance(namespace, "one")
		Create(ctx, thing)
		key := recordKey(ctx, namespace, s)(Default)
		next := replacementOf(s)
		changeSpec(ctx, oc, next.pinned())
		Eventually(ctx, Gone(ctx, subscription)).Should(BeTrue())
		csv := operatorCSV(namespace, s)
		Eventually(ctx, Gone(ctx, csv)).Should(BeTrue())
		crd := customResourceDefinition(s.crdName())
		Get(ctx, Default, crd)
		Expect(crd.Labels).To(HaveKeyWithValue("operator-name", s.name), "its operator is still there")
		collectGarbage(ctx, csv, s)
		of := expectSubscription(ctx, namespace, next)

		By("waiting for another one")
		users := deployment(namespace, s.operator())
		users.Labels, users.Spec = s.labels(), deploymentSpec(s, "registry.invalid/runtime:integration")
		Create(ctx, users)
		Remove(ctx, of)
		ExpectFailure(ctx, defaultSOC(oc), v2beta2.ReasonReplaced, s.operator(), false)
		Remove(ctx, users)
		Eventually(ctx, Gone(ctx, users)).Should(BeTrue())
		of = expectSubscription(ctx, namespace, next)
		runInOLM(ctx, of, next)
		ExpectReady(ctx, oc)
		Expect(recordKey(ctx, namespace, next)(Default)).To(Equal(key))
		Expect(Live(ctx, Default, thing).GetUID()).To(Equal(thing.GetUID()))
		Remove(ctx, thing)
		Remove(ctx, oc)
		collectGarbage(ctx, operatorCSV(namespace, next), next)
		Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
	})
})

// hold keeps an object from going before its finalizer is removed, as the pods of a Deployment do.
func hold(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Patch(ctx, object, `{"metadata":{"finalizers":["example.com/hold"]}}`)
}
