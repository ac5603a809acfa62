package doctor

import (
	"cmp"
	"fmt"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

// maxOLMMessage limits what is quoted of OLM.
const maxOLMMessage = 600

func checkOLM(d *diagnosis) {
	for _, source := range snapshot.Typed[operatorsv1alpha1.CatalogSource](d.Snapshot, snapshot.CatalogSource) {
		if state := source.Status.GRPCConnectionState; source.Name == snapshot.CatalogName && state != nil && state.LastObservedState != "READY" {
			d.reportOLM(v2beta2.ReasonCatalogUnhealthy, ref(snapshot.CatalogSource, source.Namespace, source.Name),
				"the connection of OLM to the catalog is in state "+state.LastObservedState, theManager)
		}
	}
	subscribed := map[string]bool{}
	for _, subscription := range d.olm.subscriptions {
		if !subscribed[subscription.Namespace] {
			subscribed[subscription.Namespace] = true
			checkOperatorGroups(d, subscription.Namespace)
		}
		checkSubscription(d, subscription)
	}
}

// reportOLM reports with the advice for a reason.
func (d *diagnosis) reportOLM(reason string, object Ref, message string, causes ...Ref) {
	severity, next := advise(reason, object)
	d.report(Finding{Severity: severity, Object: object, Reason: reason, Message: printable.Line(message, maxOLMMessage), Next: next}, causes...)
}

func checkOperatorGroups(d *diagnosis, namespace string) {
	names := d.olm.groups[namespace]
	group := groupsOf(namespace)
	switch {
	case len(names) > 1:
		d.reportOLM(v2beta2.ReasonOperatorGroupConflict, group, "the namespace has more than one OperatorGroup: "+strings.Join(names, ", "))
	case len(names) == 0 && d.IsComplete(snapshot.OperatorGroups, namespace):
		d.reportOLM(v2beta2.ReasonOperatorGroupMissing, group, "the namespace has no OperatorGroup")
	}
}

// groupsOf stands for the OperatorGroups of a namespace.
func groupsOf(namespace string) Ref { return ref(snapshot.OperatorGroup, namespace, "*") }

func checkSubscription(d *diagnosis, s *operatorsv1alpha1.Subscription) {
	object, groups := ref(snapshot.Subscription, s.Namespace, s.Name), groupsOf(s.Namespace)
	for _, c := range s.Status.Conditions {
		isProblem := c.Type == operatorsv1alpha1.SubscriptionResolutionFailed || c.Type == operatorsv1alpha1.SubscriptionCatalogSourcesUnhealthy
		if isProblem && c.Status == corev1.ConditionTrue {
			d.reportOLM(v2beta2.ReasonCatalogUnhealthy, object, fmt.Sprintf("%s: %s %s", c.Type, c.Reason, c.Message),
				groups, ref(snapshot.CatalogSource, s.Spec.CatalogSourceNamespace, snapshot.CatalogName))
		}
	}
	if s.Status.InstallPlanRef != nil {
		checkPlan(d, s, d.olm.plans[types.NamespacedName{Namespace: s.Namespace, Name: s.Status.InstallPlanRef.Name}])
	}
	checkVersion(d, s, d.olm.versions[types.NamespacedName{Namespace: s.Namespace, Name: s.Status.CurrentCSV}])
}

// checkPlan checks the InstallPlan of a Subscription, which may be nil.
func checkPlan(d *diagnosis, s *operatorsv1alpha1.Subscription, plan *operatorsv1alpha1.InstallPlan) {
	if plan == nil {
		return
	}
	object, groups := ref(snapshot.Subscription, s.Namespace, s.Name), groupsOf(s.Namespace)
	installPlan := ref(snapshot.InstallPlan, plan.Namespace, plan.Name)
	switch plan.Status.Phase {
	case operatorsv1alpha1.InstallPlanPhaseRequiresApproval:
		d.report(Finding{
			Severity: findings.SeverityInfo, Object: installPlan, Reason: v2beta2.ReasonWaitingForApproval,
			Message: "it installs " + strings.Join(plan.Spec.ClusterServiceVersionNames, ", "),
			Next: fmt.Sprintf("approve it: kubectl patch installplan %s -n %s --type=merge -p '{\"spec\":{\"approved\":true}}'",
				plan.Name, plan.Namespace),
		}, groups)
	case operatorsv1alpha1.InstallPlanPhaseFailed:
		var messages []string
		for _, c := range plan.Status.Conditions {
			messages = append(messages, c.Message)
		}
		d.reportOLM(v2beta2.ReasonInstallPlanFailed, installPlan, strings.Join(messages, "; "), groups)
	}
	d.affect(installPlan, object)
}

// checkVersion checks the ClusterServiceVersion that a Subscription installs, which may be nil.
func checkVersion(d *diagnosis, s *operatorsv1alpha1.Subscription, csv *operatorsv1alpha1.ClusterServiceVersion) {
	if csv == nil {
		return
	}
	object := ref(snapshot.ClusterServiceVersion, csv.Namespace, csv.Name)
	if csv.Status.Phase == operatorsv1alpha1.CSVPhaseFailed {
		// A pod that does not run is the cause, and is found with the operator.
		operator := ref(snapshot.Deployment, csv.Namespace, s.Spec.Package)
		if csv.Status.Reason != operatorsv1alpha1.CSVReasonComponentUnhealthy && csv.Status.Reason != operatorsv1alpha1.CSVReasonInstallCheckFailed {
			d.reportOLM(v2beta2.ReasonClusterServiceVersionFailed, object, string(csv.Status.Reason)+": "+csv.Status.Message, groupsOf(s.Namespace), operator)
		}
	}
	d.affect(object, ref(snapshot.Subscription, s.Namespace, s.Name))
}

// affect records that an object depends on another one that may have a finding.
func (d *diagnosis) affect(cause, object Ref) {
	if i, ok := d.found[cause]; ok && !d.has(object) {
		d.found[object] = i
	}
}

// olmObjects returns what OLM has for an installation, and nothing if it was installed by the manager.
func (d *diagnosis) olmObjects(i *installation) []Ref {
	var objects []Ref
	for _, s := range d.olm.ofPackage[types.NamespacedName{Namespace: i.namespace, Name: i.OperatorName()}] {
		objects = append(objects, groupsOf(s.Namespace), ref(snapshot.Subscription, s.Namespace, s.Name),
			ref(snapshot.ClusterServiceVersion, s.Namespace, cmp.Or(s.Status.CurrentCSV, s.Spec.StartingCSV)))
		if s.Status.InstallPlanRef != nil {
			objects = append(objects, ref(snapshot.InstallPlan, s.Namespace, s.Status.InstallPlanRef.Name))
		}
	}
	return objects
}
