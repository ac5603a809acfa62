package operatorcollection

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/upgrade"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/upgradecheck"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/install/preflight"
)

// checkUpgrade keeps the version that is imported while custom resources do not fit the one that the spec asks for, unless the spec
// accepts that. Another collection is judged in the same way if it replaces the one that is imported. Those decide which the operators
// of this OperatorCollection work on: others are served by other versions.
func (r *Reconciler) checkUpgrade(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	record, id := r.Collections.Imported(oc), r.Collections.RecordedID(oc)
	replaces := id == scope.collection.Replaces && id != model.ID{}
	if record == nil || record.Artifact.Digest == scope.Artifact.Digest || id != scope.collection.ID() && !replaces {
		return nil
	}
	socs, err := imports.SubOperatorConfigsOf(ctx, r.Reader, oc)
	if err != nil {
		return err
	}
	planned := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, p := range scope.plan {
		planned[p.CRD.Spec.Names.Kind] = p.CRD
	}
	judges := upgradecheck.Preflighter{Reader: r.Reader, Collections: r.Collections}
	installed := namespacesByDigest(socs, scope.Artifact.Digest, r.Namespaces)
	var all preflight.Report
	var changes []upgrade.Change
	for _, archive := range slices.Sorted(maps.Keys(installed)) {
		report, judge, err := judges.Check(ctx, archive, scope.loaded, imports.GroupOf(oc, scope.collection), planned, installed[archive])
		if err != nil {
			return err
		}
		all.Merge(report)
		changes = append(changes, judge.Changes()...)
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

// maxUpgradeWarnings bounds the warnings about an upgrade in status.
const maxUpgradeWarnings = 10

// upgradeWarning begins each of them, followed by the version.
const upgradeWarning = "upgrade to version "

// upgradeWarnings say which custom resources a version breaks or changes, and what else may concern those who write them.
func upgradeWarnings(version string, report preflight.Report, changes []upgrade.Change) []string {
	var texts []string
	if report.Blocked > 0 {
		texts = append(texts, fmt.Sprintf("it does not fit %d of %d custom resources", report.Blocked, report.Resources))
	}
	for _, problem := range slices.Concat(report.Problems, report.Warnings) {
		texts = append(texts, problem.String())
	}
	for _, change := range changes {
		if text := changeText(change); isWorthWarning(change) && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	var warnings []string
	for i, text := range texts {
		if i == maxUpgradeWarnings {
			return append(warnings, fmt.Sprintf("%s%s: %d more warnings", upgradeWarning, version, len(texts)-i))
		}
		warnings = append(warnings, fmt.Sprintf("%s%s: %s", upgradeWarning, version, text))
	}
	return warnings
}

// keepUpgradeWarnings sets the warnings of a version that was imported before: its custom resources were judged then.
func (f *importScope) keepUpgradeWarnings(oc *v2beta2.OperatorCollection) {
	if f.upgradeWarnings != nil || oc.Status.Artifact == nil || oc.Status.Artifact.Digest != f.Artifact.Digest {
		return
	}
	for _, warning := range oc.Status.Warnings {
		if strings.HasPrefix(warning, upgradeWarning+f.collection.Version.String()+": ") {
			f.upgradeWarnings = append(f.upgradeWarnings, warning)
		}
	}
}

// changeText describes a change of a kind for people who have custom resources of it.
func changeText(change upgrade.Change) string {
	text := change.Kind
	if change.Field != "" {
		text += ": " + change.Field
	}
	if change.Property != "" {
		text += ": " + change.Property
	}
	if change.Type != upgrade.Changed {
		return fmt.Sprintf("%s is %s", text, change.Type)
	}
	return fmt.Sprintf("%s changed from %q to %q", text, change.Old, change.New)
}

// isWorthWarning reports whether a change may concern custom resources although it breaks none that exists.
func isWorthWarning(change upgrade.Change) bool {
	return change.Breaking || change.Property == "default"
}
