package operatorcollection

import (
	"fmt"
	"slices"
	"strings"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/upgrade"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/upgradecheck"
	"github.com/collection-operator/collection-operator/internal/install/preflight"
)

func warnings(oc *v2beta2.OperatorCollection, s *importScope) []string {
	c := s.collection
	var texts []string
	if failure := s.CheckFailure(); failure != "" {
		texts = append(texts, "the source check failed, and will be tried again: "+failure)
	}
	texts = append(texts, s.unreplaced...)
	for _, missing := range s.missingCopies {
		texts = append(texts, missingCopy+missing)
	}
	if s.upload != "" && !imports.IsImported(oc, s.upload) && imports.PinnedVersion(oc) == "" {
		texts = append(texts, fmt.Sprintf("the archive with the digest %s, which was uploaded, is not on the manager's volume: upload it again", s.upload))
	}
	if oc.Spec.CollectionURLToken != "" {
		texts = append(texts, "spec.collectionURLToken can be read by everyone who may read this object: use spec.credentialsSecret")
	}
	texts = append(texts, s.upgradeWarnings...)
	if rewriting := crdplan.Rewritten(s.definitions); rewriting != "" {
		texts = append(texts, rewriting)
	}
	findings := c.Problems.Findings()
	for i, problem := range findings {
		if i == upgradecheck.MaxWarnings {
			texts = append(texts, fmt.Sprintf("%d more warnings", len(findings)-upgradecheck.MaxWarnings))
			break
		}
		texts = append(texts, problem.String())
	}
	return texts
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

// keepUpgradeWarnings sets the warnings of a version that was imported before: its custom resources were evaluated then.
func (s *importScope) keepUpgradeWarnings(oc *v2beta2.OperatorCollection) {
	if s.upgradeWarnings != nil || oc.Status.Artifact == nil || oc.Status.Artifact.Digest != s.Artifact.Digest {
		return
	}
	for _, warning := range oc.Status.Warnings {
		if strings.HasPrefix(warning, upgradeWarning+s.collection.Version.String()+": ") {
			s.upgradeWarnings = append(s.upgradeWarnings, warning)
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
