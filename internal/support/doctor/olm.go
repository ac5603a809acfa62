package doctor

import (
	"fmt"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

// maxOLMMessage limits what is quoted of OLM.
const maxOLMMessage = 600

// olmView has what OLM installs from the manager's catalog.
type olmView struct {
	subscriptions []*operatorsv1alpha1.Subscription
	// ofPackage has the Subscriptions of a package in a namespace.
	ofPackage map[types.NamespacedName][]*operatorsv1alpha1.Subscription
	plans     map[types.NamespacedName]*operatorsv1alpha1.InstallPlan
	versions  map[types.NamespacedName]*operatorsv1alpha1.ClusterServiceVersion
	// groups has the names of the OperatorGroups of a namespace.
	groups map[string][]string
}

func olmViewOf(s *snapshot.Snapshot) olmView {
	v := olmView{
		ofPackage: map[types.NamespacedName][]*operatorsv1alpha1.Subscription{}, groups: map[string][]string{},
		plans:    byName(snapshot.Typed[operatorsv1alpha1.InstallPlan](s, snapshot.InstallPlan)),
		versions: byName(snapshot.Typed[operatorsv1alpha1.ClusterServiceVersion](s, snapshot.ClusterServiceVersion)),
	}
	for _, subscription := range snapshot.Typed[operatorsv1alpha1.Subscription](s, snapshot.Subscription) {
		if subscription.Spec == nil || subscription.Spec.CatalogSource != snapshot.CatalogName {
			continue
		}
		key := types.NamespacedName{Namespace: subscription.Namespace, Name: subscription.Spec.Package}
		v.subscriptions = append(v.subscriptions, subscription)
		v.ofPackage[key] = append(v.ofPackage[key], subscription)
	}
	for _, group := range snapshot.Typed[operatorsv1.OperatorGroup](s, snapshot.OperatorGroup) {
		v.groups[group.Namespace] = append(v.groups[group.Namespace], group.Name)
	}
	return v
}

func byName[T metav1.Object](objects []T) map[types.NamespacedName]T {
	named := make(map[types.NamespacedName]T, len(objects))
	for _, object := range objects {
		named[types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}] = object
	}
	return named
}

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
			d.checkOperatorGroups(subscription.Namespace)
		}
		d.checkSubscription(subscription)
	}
}

// reportOLM reports with the advice for a reason.
func (d *diagnosis) reportOLM(reason string, object Ref, message string, causes ...Ref) {
	severity, next := advise(reason, object)
	d.report(Finding{Severity: severity, Object: object, Reason: reason, Message: printable.Line(message, maxOLMMessage), Next: next}, causes...)
}

func (d *diagnosis) checkOperatorGroups(namespace string) {
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

func (d *diagnosis) checkSubscription(s *operatorsv1alpha1.Subscription) {
	object, groups := ref(snapshot.Subscription, s.Namespace, s.Name), groupsOf(s.Namespace)
	for _, c := range s.Status.Conditions {
		isProblem := c.Type == operatorsv1alpha1.SubscriptionResolutionFailed || c.Type == operatorsv1alpha1.SubscriptionCatalogSourcesUnhealthy
		if isProblem && c.Status == corev1.ConditionTrue {
			d.reportOLM(v2beta2.ReasonCatalogUnhealthy, object, fmt.Sprintf("%s: %s %s", c.Type, c.Reason, c.Message),
				groups, ref(snapshot.CatalogSource, s.Spec.CatalogSourceNamespace, snapshot.CatalogName))
		}
	}
	if s.Status.InstallPlanRef != nil {
		d.checkPlan(s, d.olm.plans[types.NamespacedName{Namespace: s.Namespace, Name: s.Status.InstallPlanRef.Name}])
	}
	d.checkVersion(s, d.olm.versions[types.NamespacedName{Namespace: s.Namespace, Name: s.Status.CurrentCSV}])
}

// checkPlan checks the InstallPlan of a Subscription, which may be nil.
func (d *diagnosis) checkPlan(s *operatorsv1alpha1.Subscription, plan *operatorsv1alpha1.InstallPlan) {
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
func (d *diagnosis) checkVersion(s *operatorsv1alpha1.Subscription, csv *operatorsv1alpha1.ClusterServiceVersion) {
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
