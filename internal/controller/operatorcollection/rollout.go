package operatorcollection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/upgradecheck"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/install/rollout"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// planUpgrade decides which namespaces may get the installed version. Nothing else decides it: SubOperatorConfigs let a namespace keep its
// version until status says that it may begin. It is decided whatever the spec asks for meanwhile.
func (r *Reconciler) planUpgrade(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	usable := r.Namespaces.Check(oc.Namespace) == nil
	if !usable || oc.Status.Artifact == nil || oc.Status.Collection == nil {
		return nil
	}
	if scope.configs == nil {
		if err := r.readConfigs(ctx, oc, scope, r.Client); err != nil {
			return err
		}
	}
	plan := planOf(oc)
	plan.Namespaces = r.installationsOf(oc, scope.configs)
	outdated := func(n rollout.Namespace) bool { return n.Digest != plan.Digest }
	if oc.Status.Upgrade == nil && !slices.ContainsFunc(plan.Namespaces, outdated) {
		return nil // Whether they are ready does not matter without an upgrade.
	}
	if !scope.areLive { // The cache may not have what those that began do now.
		if err := r.readConfigs(ctx, oc, scope, r.Reader); err != nil {
			return err
		}
		plan.Namespaces = r.installationsOf(oc, scope.configs)
	}
	if plan.DependsOnResources() {
		if err := r.findRuns(ctx, oc, plan.Namespaces); err != nil {
			return err
		}
	}
	decision := rollout.Next(plan)
	scope.upgrade = &decision
	return nil
}

// planOf returns the plan without its namespaces.
func planOf(oc *v2beta2.OperatorCollection) rollout.Plan {
	plan := rollout.Plan{Digest: oc.Status.Artifact.Digest, Strategy: rollout.Strategy{MaxUnavailable: 1}, Now: time.Now(), Interval: intervals.Resources}
	if was := oc.Status.Upgrade; was != nil && was.Digest == plan.Digest {
		plan.Began = was.Namespaces
	} else if was != nil {
		plan.Interrupted = was.Namespaces
	}
	if oc.Spec.Upgrade == nil || oc.Spec.Upgrade.Strategy == nil {
		return plan
	}
	wanted := oc.Spec.Upgrade.Strategy
	plan.Strategy.Paused = wanted.Pause
	if wanted.MaxUnavailable != nil {
		plan.Strategy.MaxUnavailable = int(*wanted.MaxUnavailable)
	}
	if wanted.HealthyFor != nil {
		plan.Strategy.HealthyFor = wanted.HealthyFor.Duration
	}
	return plan
}

// installationsOf returns the namespaces in which SubOperatorConfigs have installed the collection and keep it. A namespace that is
// being unmapped, or that the manager may not use, is not among them. One whose operator is removed so that the version can be installed
// is.
func (r *Reconciler) installationsOf(oc *v2beta2.OperatorCollection, socs []v2beta2.SubOperatorConfig) []rollout.Namespace {
	var namespaces []rollout.Namespace
	for i := range socs {
		soc := &socs[i]
		if soc.DeletionTimestamp != nil || install.RecordedCollection(soc) != imports.ImportedID(oc) {
			continue
		}
		for _, installation := range soc.Status.Installations {
			known := slices.ContainsFunc(namespaces, func(n rollout.Namespace) bool { return n.Name == installation.Namespace })
			removed := installation.RemovalTime != nil && !rollout.HasBegun(oc, installation.Namespace)
			if known || installation.Digest == "" || removed || !mapping.Maps(soc, installation.Namespace) || r.Namespaces.Check(installation.Namespace) != nil {
				continue
			}
			namespaces = append(namespaces, namespaceIn(soc, installation))
		}
	}
	return namespaces
}

func namespaceIn(soc *v2beta2.SubOperatorConfig, installation v2beta2.InstallationStatus) rollout.Namespace {
	namespace := rollout.Namespace{
		Name: installation.Namespace, Digest: installation.Digest, Ready: installation.Ready, UserManaged: rollout.IsUserManaged(soc, installation),
	}
	if installation.ReadySince != nil {
		namespace.ReadySince = installation.ReadySince.Time
	}
	// That it waited for its turn is over once it begins.
	if reason := installation.Reason; reason != "" && reason != v2beta2.ReasonUpgradePending && reason != v2beta2.ReasonUpgradeStopped {
		namespace.NeedsAttention, namespace.Message = !status.IsProgress(reason), installation.Message
	}
	return namespace
}

// findRuns describes the playbooks of custom resources in those of the namespaces that run the version.
func (r *Reconciler) findRuns(ctx context.Context, oc *v2beta2.OperatorCollection, namespaces []rollout.Namespace) error {
	imported := oc.Status.Collection
	group, err := schema.ParseGroupVersion(imported.APIVersion)
	if err != nil {
		return fmt.Errorf("status.collection.apiVersion: %w", err)
	}
	finder := &instances.Finder{Client: r.Client, Reader: r.Reader}
	for i := range namespaces {
		if namespaces[i].Digest != oc.Status.Artifact.Digest {
			continue
		}
		runs, err := finder.DescribeRuns(ctx, group, imported.Kinds, namespaces[i].Name, imported.Version)
		if err != nil {
			return err
		}
		namespaces[i].Failing, namespaces[i].Running = runs.Failing, runs.Running
	}
	return nil
}

// describeUpgrade sets status.upgrade while the version is not in all namespaces.
func (f *importScope) describeUpgrade(oc *v2beta2.OperatorCollection) {
	if f.upgrade == nil {
		return
	}
	oc.Status.Upgrade = nil
	if f.upgrade.Over {
		return
	}
	reason := v2beta2.ReasonUpgradePending
	if f.upgrade.Stopped {
		reason = v2beta2.ReasonUpgradeStopped
	}
	oc.Status.Upgrade = &v2beta2.UpgradeStatus{
		Digest: oc.Status.Artifact.Digest, Total: int32(f.upgrade.Total), Upgraded: int32(f.upgrade.Upgraded),
		Namespaces: f.upgrade.Began, Reason: reason, Message: status.Message(f.upgrade.Message),
	}
}

// notUpgraded returns the reason why the version is not installed everywhere, or nil. During an upgrade of several namespaces it says
// how far that is.
func (f *importScope) notUpgraded(oc *v2beta2.OperatorCollection) error {
	if upgrade := oc.Status.Upgrade; upgrade != nil && upgrade.Total > 1 {
		return status.Waiting(upgrade.Reason, status.Watched, "%s", rollout.ProgressOf(oc))
	}
	return notInstalled(f.configs, oc.Status.Artifact.Digest)
}

// blocked returns why custom resources block the upgrade of the OperatorCollection, or of a namespace, or nil.
func (f *importScope) blocked(err error) error {
	if blocked := upgradecheck.UpgradeBlock(err); blocked != nil || f == nil {
		return blocked
	}
	for _, soc := range f.configs {
		if condition := meta.FindStatusCondition(soc.Status.Conditions, v2beta2.ConditionUpgradeBlocked); condition != nil {
			return fmt.Errorf("SubOperatorConfig %q: %s", soc.Name, condition.Message)
		}
	}
	return nil
}

// atLeast reconciles again when the upgrade is decided again, also after an error that would not be retried.
func (f *importScope) atLeast(result ctrl.Result, err error) (ctrl.Result, error) {
	if f == nil || f.upgrade == nil || f.upgrade.Again == 0 {
		return result, err
	}
	if err != nil && !errors.Is(err, reconcile.TerminalError(nil)) {
		return result, err
	}
	if result.RequeueAfter == 0 || result.RequeueAfter > f.upgrade.Again {
		result.RequeueAfter = f.upgrade.Again
	}
	return result, nil
}
