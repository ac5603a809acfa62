package olm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// maxTextBytes is the maximum length of a text of OLM in a message.
const maxTextBytes = 1024

// reasonConstraintsNotSatisfiable is the reason of a Subscription's condition ResolutionFailed if requirements conflict. OLM
// lists the conflicting constraints in its message in random order.
const reasonConstraintsNotSatisfiable = "ConstraintsNotSatisfiable"

// progress returns what OLM still has to do before the collection's version runs, or nil once only the Deployment is left to
// check. It decides by fields of OLM's API. Texts of OLM are copied into messages, never parsed.
func (s *state) progress(c *model.Collection) error {
	csv := s.csv(c.CSVName())
	switch {
	case s.subscription == nil:
		return status.Waiting(v2beta2.ReasonProgressing, status.Watched, "waiting for OLM to process the Subscription")
	case s.installedCSV() == c.CSVName() && csv != nil && csv.Status.Phase == operatorsv1alpha1.CSVPhaseSucceeded:
		return nil
	case s.installedCSV() == c.CSVName() && csv != nil:
		return describeCSV(csv, s.plan)
	}
	for _, check := range []func() error{s.planProblem, func() error { return s.versionProblem(c) }, s.catalogProblem} {
		if err := check(); err != nil {
			return err
		}
	}
	if csv != nil && csv.Status.Phase != operatorsv1alpha1.CSVPhaseSucceeded {
		return describeCSV(csv, s.plan)
	}
	return status.Waiting(v2beta2.ReasonProgressing, intervals.Missing, "waiting for OLM to install %s%s", c.CSVName(), s.planMessage())
}

// planProblem returns a problem of the InstallPlan that a user must resolve, or nil.
func (s *state) planProblem() error {
	if s.plan == nil {
		return nil
	}
	switch {
	case s.plan.Status.Phase == operatorsv1alpha1.InstallPlanPhaseFailed:
		return status.Waiting(v2beta2.ReasonInstallPlanFailed, intervals.Missing,
			"InstallPlan %q failed%s; resolve the problem, then delete the InstallPlan", s.plan.Namespace+"/"+s.plan.Name, s.planMessage())
	case s.plan.Status.Phase == operatorsv1alpha1.InstallPlanPhaseRequiresApproval && !s.plan.Spec.Approved:
		return status.Waiting(v2beta2.ReasonWaitingForApproval, intervals.Missing,
			"InstallPlan %q waits for approval to install %s: kubectl patch installplans.operators.coreos.com %s -n %s --type merge -p '{\"spec\":{\"approved\":true}}'",
			s.plan.Namespace+"/"+s.plan.Name, status.JoinNames(slices.Sorted(slices.Values(s.plan.Spec.ClusterServiceVersionNames))), s.plan.Name, s.plan.Namespace)
	}
	return nil
}

// planMessage returns OLM's message about the InstallPlan as the end of a sentence, or "".
func (s *state) planMessage() string {
	if s.plan == nil || s.plan.Status.Message == "" {
		return ""
	}
	return ": " + printable.Stable(s.plan.Status.Message, maxTextBytes)
}

// catalogProblem returns the reason why OLM cannot resolve the Subscription, or nil.
func (s *state) catalogProblem() error {
	is := s.subscription.Status
	for _, kind := range []operatorsv1alpha1.SubscriptionConditionType{
		operatorsv1alpha1.SubscriptionResolutionFailed, operatorsv1alpha1.SubscriptionBundleUnpackFailed,
	} {
		condition := is.GetCondition(kind)
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		text := printable.Stable(condition.Message, maxTextBytes)
		if condition.Reason == reasonConstraintsNotSatisfiable {
			text = fmt.Sprintf("to see the conflict, run kubectl describe subscriptions.operators.coreos.com %s -n %s", s.subscription.Name, s.subscription.Namespace)
		}
		return status.Waiting(v2beta2.ReasonCatalogUnhealthy, intervals.Missing, "OLM cannot resolve Subscription %q: %s: %s",
			s.name(), cmp.Or(condition.Reason, string(kind)), text)
	}
	if is.GetCondition(operatorsv1alpha1.SubscriptionCatalogSourcesUnhealthy).Status != corev1.ConditionTrue {
		return nil
	}
	return status.Waiting(v2beta2.ReasonCatalogUnhealthy, intervals.Missing, "OLM cannot resolve Subscription %q: %s", s.name(), s.unhealthyCatalogs())
}

func (s *state) unhealthyCatalogs() string {
	known := false
	var unhealthy []string
	for _, health := range s.subscription.Status.CatalogHealth {
		ref := health.CatalogSourceRef
		if ref == nil {
			continue
		}
		known = known || ref.Namespace == s.subscription.Spec.CatalogSourceNamespace && ref.Name == s.subscription.Spec.CatalogSource
		if !health.Healthy {
			unhealthy = append(unhealthy, ref.Namespace+"/"+ref.Name)
		}
	}
	slices.Sort(unhealthy)
	if !known {
		return fmt.Sprintf("it does not know CatalogSource %s/%s", s.subscription.Spec.CatalogSourceNamespace, s.subscription.Spec.CatalogSource)
	}
	return "it cannot read the CatalogSources " + status.JoinNames(unhealthy)
}

// versionProblem returns an error if another version is installed and OLM will not replace it: OLM only upgrades, along the
// channel of the Subscription.
func (s *state) versionProblem(c *model.Collection) error {
	installed := s.csv(s.installedCSV())
	if installed == nil || installed.Name == c.CSVName() {
		return nil
	}
	version := installed.Spec.Version.String()
	if installed.Status.Reason == operatorsv1alpha1.CSVReasonOperatorConditionNotUpgradeable {
		return status.Waiting(v2beta2.ReasonClusterServiceVersionFailed, intervals.Missing,
			"Subscription %q leads to version %s, which OLM holds back because the OperatorCollection has %s: the running operator is unaffected; change the channel, or the version of the OperatorCollection",
			s.name(), version, c.Version)
	}
	if s.userManaged && s.newerCSV(c) != nil {
		return status.Waiting(v2beta2.ReasonClusterServiceVersionFailed, intervals.Missing,
			"Subscription %q has installed version %s, and the OperatorCollection has %s: OLM does not go back, and the manager does not delete a user-managed Subscription: "+
				"when no playbook runs, delete it and ClusterServiceVersion %q, and create it again with channel %s; the running operator is unaffected",
			s.name(), version, c.Version, installed.Name, render.ChannelName(c))
	}
	if s.userManaged {
		return status.Waiting(v2beta2.ReasonClusterServiceVersionFailed, intervals.Missing,
			"Subscription %q has installed version %s, and the OperatorCollection has %s: change its channel, or map the namespace from a SubOperatorConfig of version %s",
			s.name(), version, c.Version, version)
	}
	if s.newerCSV(c) != nil {
		return status.Waiting(v2beta2.ReasonClusterServiceVersionFailed, intervals.Missing,
			"version %s is installed, and OLM does not go back to %s: delete Subscription %q and ClusterServiceVersion %q for a new installation, which waits for approval, or set installPlanApproval: Automatic",
			version, c.Version, s.name(), installed.Name)
	}
	return nil
}

// describeCSV returns what a ClusterServiceVersion that has not succeeded waits for.
func describeCSV(csv *operatorsv1alpha1.ClusterServiceVersion, plan *operatorsv1alpha1.InstallPlan) error {
	name, is := csv.Namespace+"/"+csv.Name, csv.Status
	failed := func(text string) error {
		return status.Waiting(v2beta2.ReasonClusterServiceVersionFailed, intervals.Missing, "ClusterServiceVersion %q: %s: %s", name, is.Reason, text)
	}
	planned := plan == nil || plan.Status.Phase == operatorsv1alpha1.InstallPlanPhaseComplete
	switch is.Phase {
	case operatorsv1alpha1.CSVPhasePending:
		switch {
		case is.Reason == operatorsv1alpha1.CSVReasonRequirementsNotMet && planned:
			return failed(missingRequirements(is.RequirementStatus))
		case is.Reason == operatorsv1alpha1.CSVReasonOperatorConditionNotUpgradeable:
			return failed(printable.Stable(is.Message, maxTextBytes))
		}
	case operatorsv1alpha1.CSVPhaseFailed:
		return failed(cmp.Or(csvAdvice[is.Reason], printable.Stable(is.Message, maxTextBytes)))
	}
	return status.Waiting(v2beta2.ReasonProgressing, intervals.Missing, "ClusterServiceVersion %q is %s", name,
		cmp.Or(strings.TrimSpace(string(is.Phase)+" "+string(is.Reason)), "new"))
}

// csvAdvice explains reasons of OLM that a user can resolve.
var csvAdvice = map[operatorsv1alpha1.ConditionReason]string{
	operatorsv1alpha1.CSVReasonUnsupportedOperatorGroup:                    "the OperatorGroup of the namespace is for other namespaces than its own, which the operator does not support: correct the OperatorGroup",
	operatorsv1alpha1.CSVReasonNoTargetNamespaces:                          "the OperatorGroup of the namespace is for no namespace: correct the OperatorGroup",
	operatorsv1alpha1.CSVReasonNoOperatorGroup:                             "OLM finds no OperatorGroup in the namespace",
	operatorsv1alpha1.CSVReasonTooManyOperatorGroups:                       "the namespace has more than one OperatorGroup: delete all but one",
	operatorsv1alpha1.CSVReasonInterOperatorGroupOwnerConflict:             "an operator of another namespace, whose OperatorGroup includes this one, serves the same kinds: remove one of the two, or set install: Direct",
	operatorsv1alpha1.CSVReasonCannotModifyStaticOperatorGroupProvidedAPIs: "the OperatorGroup of the namespace has staticProvidedAPIs and lacks the collection's kinds: correct the OperatorGroup",
	operatorsv1alpha1.CSVReasonOwnerConflict:                               "another operator in the namespace serves the same kinds: remove one of the two",
}

// missingRequirements lists the requirements of a ClusterServiceVersion that are not met.
func missingRequirements(requirements []operatorsv1alpha1.RequirementStatus) string {
	var missing []string
	for _, r := range requirements {
		name := r.Kind + " " + r.Name
		if r.Status != operatorsv1alpha1.RequirementStatusReasonPresent && len(r.Dependents) == 0 {
			missing = append(missing, fmt.Sprintf("%s (%s)", name, r.Status))
		}
		for _, dependent := range r.Dependents {
			if dependent.Status != operatorsv1alpha1.DependentStatusReasonSatisfied {
				missing = append(missing, fmt.Sprintf("%s lacks %s %s", name, dependent.Kind, printable.Stable(dependent.Message, maxTextBytes)))
			}
		}
	}
	slices.Sort(missing)
	return "missing: " + printable.Cut(status.JoinNames(slices.Compact(missing)), maxTextBytes)
}

// contentWarnings warns if the installed ClusterServiceVersion was rendered from another archive or for another image than
// the current ones: OLM does not update a ClusterServiceVersion whose name is unchanged.
func (s *state) contentWarnings(c *model.Collection, digest, image string) []string {
	csv := s.csv(c.CSVName())
	if csv == nil {
		return nil
	}
	var warnings []string
	if withoutGate(csv) {
		warnings = append(warnings, fmt.Sprintf("ClusterServiceVersion %q was created by an earlier manager, whose operators run every playbook after each restart: "+
			"OLM replaces it with the next version of the collection; to replace it now, delete it and its Subscription", csv.Namespace+"/"+csv.Name))
	}
	if made := csv.Annotations[render.AnnotationArchiveDigest]; made != "" && made != digest {
		warnings = append(warnings, fmt.Sprintf("ClusterServiceVersion %q was created from other content of version %s: playbooks are updated, "+
			"permissions and descriptions are not; increase the version of the collection", csv.Namespace+"/"+csv.Name, c.Version))
	}
	if made := runtimeImageOf(csv); made != "" && made != image {
		warnings = append(warnings, fmt.Sprintf("ClusterServiceVersion %q runs the image %s, the manager's runtime image is %s: OLM changes it with the next version of the collection",
			csv.Namespace+"/"+csv.Name, made, image))
	}
	return warnings
}

// configWarnings warns if a user-managed Subscription does not have what runtime sets for the pods: only its user changes it.
func (s *state) configWarnings(wanted *operatorsv1alpha1.SubscriptionConfig) []string {
	live := cmp.Or(s.subscription.Spec.Config, &operatorsv1alpha1.SubscriptionConfig{})
	var missing []string
	for _, field := range []struct {
		name    string
		carried bool
	}{
		{"affinity", wanted.Affinity == nil || equality.Semantic.DeepEqual(live.Affinity, wanted.Affinity)},
		{"env", carriesAll(live.Env, wanted.Env)},
		{"envFrom", carriesAll(live.EnvFrom, wanted.EnvFrom)},
		{"nodeSelector", carriesKeys(live.NodeSelector, wanted.NodeSelector)},
		{"podAnnotations", carriesKeys(live.Annotations, wanted.Annotations)},
		{"resources", wanted.Resources == nil || equality.Semantic.DeepEqual(live.Resources, wanted.Resources)},
		{"tolerations", carriesAll(live.Tolerations, wanted.Tolerations)},
		{"volumeMounts", carriesAll(live.VolumeMounts, wanted.VolumeMounts)},
		{"volumes", carriesAll(live.Volumes, wanted.Volumes)},
	} {
		if !field.carried {
			missing = append(missing, "runtime."+field.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Subscription %q is user-managed, and its pods do not have %s: set it in spec.config of the Subscription", s.name(), strings.Join(missing, ", "))}
}

func carriesAll[T any](live, wanted []T) bool {
	return !slices.ContainsFunc(wanted, func(w T) bool {
		return !slices.ContainsFunc(live, func(l T) bool { return equality.Semantic.DeepEqual(l, w) })
	})
}

// carriesKeys ignores the annotation that the manager sets itself.
func carriesKeys(live, wanted map[string]string) bool {
	for key, value := range wanted {
		if key != render.RuntimeHashAnnotation && live[key] != value {
			return false
		}
	}
	return true
}
