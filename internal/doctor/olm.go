package doctor

import (
	"fmt"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/findings"
	"github.com/collection-operator/collection-operator/internal/printable"
	"github.com/collection-operator/collection-operator/internal/snapshot"
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
	for _, subscription := range d.subscriptions() {
		if !subscribed[subscription.Namespace] {
			subscribed[subscription.Namespace] = true
			d.checkOperatorGroups(subscription.Namespace)
		}
		d.checkSubscription(subscription)
	}
}

// subscriptions returns those to the manager's catalog.
func (d *diagnosis) subscriptions() []*operatorsv1alpha1.Subscription {
	all := snapshot.Typed[operatorsv1alpha1.Subscription](d.Snapshot, snapshot.Subscription)
	return slices.DeleteFunc(all, func(s *operatorsv1alpha1.Subscription) bool {
		return s.Spec == nil || s.Spec.CatalogSource != snapshot.CatalogName
	})
}

// reportOLM reports with the advice for a reason.
func (d *diagnosis) reportOLM(reason string, object Ref, message string, causes ...Ref) {
	severity, next := advise(reason, object)
	d.report(Finding{Severity: severity, Object: object, Reason: reason, Message: printable.Line(message, maxOLMMessage), Next: next}, causes...)
}

func (d *diagnosis) checkOperatorGroups(namespace string) {
	var names []string
	for _, group := range snapshot.Typed[operatorsv1.OperatorGroup](d.Snapshot, snapshot.OperatorGroup) {
		if group.Namespace == namespace {
			names = append(names, group.Name)
		}
	}
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

func (d *diagnosis) checkSubscription(s *operatorsv1alpha1.Subscription) {
	object, groups := ref(snapshot.Subscription, s.Namespace, s.Name), groupsOf(s.Namespace)
	for _, c := range s.Status.Conditions {
		isProblem := c.Type == operatorsv1alpha1.SubscriptionResolutionFailed || c.Type == operatorsv1alpha1.SubscriptionCatalogSourcesUnhealthy
		if isProblem && c.Status == corev1.ConditionTrue {
			d.reportOLM(v2beta2.ReasonCatalogUnhealthy, object, fmt.Sprintf("%s: %s %s", c.Type, c.Reason, c.Message),
				groups, ref(snapshot.CatalogSource, s.Spec.CatalogSourceNamespace, snapshot.CatalogName))
		}
	}
	for _, plan := range snapshot.Typed[operatorsv1alpha1.InstallPlan](d.Snapshot, snapshot.InstallPlan) {
		if s.Status.InstallPlanRef == nil || plan.Namespace != s.Namespace || plan.Name != s.Status.InstallPlanRef.Name {
			continue
		}
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
	d.checkVersion(s)
}

// checkVersion checks the ClusterServiceVersion that a Subscription installs.
func (d *diagnosis) checkVersion(s *operatorsv1alpha1.Subscription) {
	for _, csv := range snapshot.Typed[operatorsv1alpha1.ClusterServiceVersion](d.Snapshot, snapshot.ClusterServiceVersion) {
		if csv.Namespace != s.Namespace || csv.Name != s.Status.CurrentCSV {
			continue
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
}

// affect records that an object depends on another one that may have a finding.
func (d *diagnosis) affect(cause, object Ref) {
	if i, ok := d.found[cause]; ok && !d.has(object) {
		d.found[object] = i
	}
}
