package operatorcollection

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/upgrade"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/upgradecheck"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/install/preflight"
	"github.com/collection-operator/collection-operator/internal/install/rollout"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// upgrades decides whether a version may replace the one that is imported, and which namespaces may get it now.
type upgrades struct {
	Client      client.Client
	Reader      client.Reader
	Collections *imports.CollectionCache
	Namespaces  mapping.Selection
}

// checkUpgrade keeps the version that is imported while custom resources do not fit the one that the spec asks for, unless the spec
// accepts that. Another collection is evaluated in the same way if it replaces the one that is imported. Those decide which the operators
// of this OperatorCollection work on: others are served by other versions.
func (u *upgrades) checkUpgrade(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	record, id := u.Collections.Imported(oc), u.Collections.RecordedID(oc)
	replaces := id == scope.collection.Replaces && id != model.ID{}
	if record == nil || record.Artifact.Digest == scope.Artifact.Digest || id != scope.collection.ID() && !replaces {
		return nil
	}
	socs, err := imports.SubOperatorConfigsOf(ctx, u.Reader, oc)
	if err != nil {
		return err
	}
	planned := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, p := range scope.plan {
		planned[p.CRD.Spec.Names.Kind] = p.CRD
	}
	preflighter := upgradecheck.Preflighter{Reader: u.Reader, Collections: u.Collections}
	installed := namespacesByDigest(socs, scope.Artifact.Digest, u.Namespaces)
	var all preflight.Report
	var changes []upgrade.Change
	for _, archive := range slices.Sorted(maps.Keys(installed)) {
		report, evaluator, err := preflighter.Check(ctx, archive, scope.loaded, imports.GroupOf(oc, scope.collection), planned, installed[archive])
		if err != nil {
			return err
		}
		all.Merge(report)
		changes = append(changes, evaluator.Changes()...)
	}
	if replaces { // What becomes of the resources of these kinds is said elsewhere.
		changes = slices.DeleteFunc(changes, func(c upgrade.Change) bool { return c.Type == upgrade.Removed && c.Field == "" })
	}
	if !upgradecheck.AcceptsBreaking(oc) {
		if err := all.Err(); err != nil {
			return err
		}
	}
	scope.upgradeWarnings = upgradeWarnings(scope.collection.Version.String(), all, changes)
	return nil
}

// namespacesByDigest returns the namespaces, sorted, in which SubOperatorConfigs have installed other archives than one, by archive. Those
// that the manager may not use any more are not among them: their operators stay as they are.
func namespacesByDigest(socs []v2beta2.SubOperatorConfig, but string, usable mapping.Selection) map[digest.Digest][]string {
	found := map[digest.Digest][]string{}
	for i := range socs {
		for _, installation := range socs[i].Status.Installations {
			if installation.Digest != "" && installation.Digest != but && usable.Check(installation.Namespace) == nil {
				archive := digest.Digest(installation.Digest)
				found[archive] = append(found[archive], installation.Namespace)
			}
		}
	}
	for archive := range found {
		slices.Sort(found[archive])
	}
	return found
}

// planUpgrade decides which namespaces may get the installed version. Nothing else decides it: SubOperatorConfigs let a namespace keep its
// version until status says that it may begin. It is decided whatever the spec asks for meanwhile.
func (u *upgrades) planUpgrade(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	usable := u.Namespaces.Check(oc.Namespace) == nil
	if !usable || oc.Status.Artifact == nil || oc.Status.Collection == nil {
		return nil
	}
	if scope.configs == nil {
		if err := scope.readConfigs(ctx, oc, u.Client, false); err != nil {
			return err
		}
	}
	plan := planOf(oc)
	plan.Namespaces = u.installationsOf(oc, scope.configs)
	outdated := func(n rollout.Namespace) bool { return n.Digest != plan.Digest }
	if oc.Status.Upgrade == nil && !slices.ContainsFunc(plan.Namespaces, outdated) {
		return nil // Whether they are ready does not matter without an upgrade.
	}
	if !scope.areLive { // The cache may not have what those that began do now.
		if err := scope.readConfigs(ctx, oc, u.Reader, true); err != nil {
			return err
		}
		plan.Namespaces = u.installationsOf(oc, scope.configs)
	}
	if plan.DependsOnResources() {
		if err := u.findRuns(ctx, oc, plan.Namespaces); err != nil {
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
func (u *upgrades) installationsOf(oc *v2beta2.OperatorCollection, socs []v2beta2.SubOperatorConfig) []rollout.Namespace {
	var namespaces []rollout.Namespace
	for i := range socs {
		soc := &socs[i]
		if soc.DeletionTimestamp != nil || install.RecordedCollection(soc) != imports.ImportedID(oc) {
			continue
		}
		for _, installation := range soc.Status.Installations {
			known := slices.ContainsFunc(namespaces, func(n rollout.Namespace) bool { return n.Name == installation.Namespace })
			removed := installation.RemovalTime != nil && !rollout.HasBegun(oc, installation.Namespace)
			if known || installation.Digest == "" || removed || !mapping.Maps(soc, installation.Namespace) || u.Namespaces.Check(installation.Namespace) != nil {
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
func (u *upgrades) findRuns(ctx context.Context, oc *v2beta2.OperatorCollection, namespaces []rollout.Namespace) error {
	imported := oc.Status.Collection
	group, err := schema.ParseGroupVersion(imported.APIVersion)
	if err != nil {
		return fmt.Errorf("status.collection.apiVersion: %w", err)
	}
	finder := &instances.Finder{Client: u.Client, Reader: u.Reader}
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
