package operatorcondition

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/internal/install/rollout"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

const (
	// workLimit is the time after which work that has not advanced no longer keeps OLM from replacing the manager.
	workLimit = time.Hour
	// maxWorkDescribed is the maximum number of pieces of work that a condition names.
	maxWorkDescribed = 3
)

// work is something that the manager has begun and that ends by itself.
type work struct {
	text string
	// since is when it began or last advanced, by what is in status: it is the same for a manager that has just started.
	since time.Time
}

// managerUpgradeable returns the condition for the OperatorCondition of the manager, and after which time it may be another one without a
// change of an object, or 0. It is False while work is under way. What has failed, and what waits for a user, is not under way: a newer
// manager may be its repair.
func managerUpgradeable(ocs []v2beta2.OperatorCollection, socs []v2beta2.SubOperatorConfig, selected mapping.Selection, now time.Time) (metav1.Condition, time.Duration) {
	var texts []string
	var again time.Duration
	for _, w := range workOf(ocs, socs, selected) {
		left := workLimit - now.Sub(w.since)
		if left <= 0 {
			continue
		}
		texts = append(texts, w.text)
		if again == 0 || left < again {
			again = left
		}
	}
	if len(texts) == 0 {
		return olm.Upgradeable("no operator is being upgraded or removed, and no custom resources are being migrated"), 0
	}
	slices.Sort(texts)
	more := ""
	if number := len(texts) - maxWorkDescribed; number > 0 {
		texts, more = texts[:maxWorkDescribed], fmt.Sprintf("; and %d more", number)
	}
	return olm.NotUpgradeable(v2beta2.ReasonProgressing, "the manager is replaced when this is done: %s%s", strings.Join(texts, "; "), more), again
}

// workOf returns what is under way in the namespaces that the manager may use.
func workOf(ocs []v2beta2.OperatorCollection, socs []v2beta2.SubOperatorConfig, selected mapping.Selection) []work {
	users := map[string][]*v2beta2.SubOperatorConfig{}
	var all []work
	for i := range socs {
		soc := &socs[i]
		if selected.Check(soc.Namespace) != nil {
			continue
		}
		all = append(all, removalsOf(soc, selected)...)
		if soc.DeletionTimestamp == nil {
			oc := soc.Namespace + "/" + soc.Spec.OperatorCollection
			users[oc] = append(users[oc], soc)
		}
	}
	for i := range ocs {
		oc := &ocs[i]
		if oc.DeletionTimestamp != nil || oc.Spec.Suspend || oc.Status.Collection == nil || oc.Status.Artifact == nil || selected.Check(oc.Namespace) != nil {
			continue
		}
		using := users[oc.Namespace+"/"+oc.Name]
		all = append(all, upgradesOf(oc, using, selected)...)
		all = append(all, migrationsOf(oc, using)...)
	}
	return all
}

// removalsOf returns the removals of operators that have begun. They wait for playbooks for a minute, and for the pods.
func removalsOf(soc *v2beta2.SubOperatorConfig, selected mapping.Selection) []work {
	var all []work
	for _, i := range soc.Status.Installations {
		if i.RemovalTime != nil && isUnderWay(i) && selected.Check(i.Namespace) == nil {
			all = append(all, work{fmt.Sprintf("the operator of SubOperatorConfig %q is removed from namespace %q", soc.Namespace+"/"+soc.Name, i.Namespace), i.RemovalTime.Time})
		}
	}
	return all
}

// upgradesOf returns the namespaces that get another version, newer or older. Between two namespaces that follow each other at once, it
// returns the upgrade as a whole. One that is paused, stopped or lets each version prove itself for a time is not under way then.
func upgradesOf(oc *v2beta2.OperatorCollection, socs []*v2beta2.SubOperatorConfig, selected mapping.Selection) []work {
	upgrade := oc.Status.Upgrade
	if upgrade == nil {
		return nil
	}
	subject := fmt.Sprintf("version %s of OperatorCollection %q", oc.Status.Collection.Version, oc.Namespace+"/"+oc.Name)
	advanced := advancedAt(oc, socs)
	isBetween := upgrade.Reason == v2beta2.ReasonUpgradePending && int(upgrade.Total) > len(upgrade.Namespaces) && followsAtOnce(oc)
	var all []work
	for _, soc := range socs {
		for _, i := range soc.Status.Installations {
			isDone := i.Ready && i.Digest == upgrade.Digest
			waitsForUser := i.Digest != upgrade.Digest && rollout.IsUserManaged(soc, i)
			if isDone || waitsForUser || !rollout.HasBegun(oc, i.Namespace) || selected.Check(i.Namespace) != nil {
				continue
			}
			isBetween = false
			if isUnderWay(i) && i.RemovalTime == nil {
				all = append(all, work{fmt.Sprintf("namespace %q gets %s", i.Namespace, subject), advanced})
			}
		}
	}
	if isBetween {
		return []work{{"further namespaces get " + subject, advanced}}
	}
	return all
}

// followsAtOnce reports whether a namespace is upgraded as soon as the one before it is ready.
func followsAtOnce(oc *v2beta2.OperatorCollection) bool {
	if oc.Spec.Upgrade == nil || oc.Spec.Upgrade.Strategy == nil {
		return true
	}
	strategy := oc.Spec.Upgrade.Strategy
	return !strategy.Pause && (strategy.HealthyFor == nil || strategy.HealthyFor.Duration == 0)
}

// migrationsOf returns the SubOperatorConfigs in whose namespaces an operator migrates custom resources.
func migrationsOf(oc *v2beta2.OperatorCollection, socs []*v2beta2.SubOperatorConfig) []work {
	var all []work
	for _, soc := range socs {
		migrated := meta.FindStatusCondition(soc.Status.Conditions, v2beta2.ConditionMigrated)
		runs := slices.ContainsFunc(soc.Status.Installations, func(i v2beta2.InstallationStatus) bool {
			return i.Ready && i.Digest == oc.Status.Artifact.Digest
		})
		if migrated == nil || migrated.Status == metav1.ConditionTrue || migrated.Reason != v2beta2.ReasonMigrating || !runs {
			continue
		}
		since := pace.Later(migrated.LastTransitionTime.Time, advancedAt(oc, []*v2beta2.SubOperatorConfig{soc}))
		all = append(all, work{fmt.Sprintf("custom resources of SubOperatorConfig %q are migrated to version %s", soc.Namespace+"/"+soc.Name, oc.Status.Collection.Version), since})
	}
	return all
}

// isUnderWay reports whether nothing is known that keeps an installation from what it is to become. That it waited for its turn is over
// once it has begun.
func isUnderWay(i v2beta2.InstallationStatus) bool {
	return i.Reason == "" || i.Reason == v2beta2.ReasonUpgradeStopped || status.IsProgress(i.Reason)
}

// advancedAt returns when the version of an OperatorCollection was imported, or became ready in another namespace since.
func advancedAt(oc *v2beta2.OperatorCollection, socs []*v2beta2.SubOperatorConfig) time.Time {
	var at time.Time
	digest := oc.Status.Artifact.Digest
	if len(oc.Status.History) > 0 && oc.Status.History[0].Digest == digest {
		at = oc.Status.History[0].Time.Time
	}
	for _, soc := range socs {
		for _, i := range soc.Status.Installations {
			if i.Digest == digest && i.ReadySince != nil {
				at = pace.Later(at, i.ReadySince.Time)
			}
		}
	}
	return at
}
