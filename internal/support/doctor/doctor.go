// Package doctor finds out why a collection, its operator or a custom resource does not work. It is a list of checks over a snapshot
// of objects, in the order in which causes come before their consequences: what a check reports about an object suppresses what later
// checks would say about the objects that depend on it. It is pure.
package doctor

import (
	"slices"

	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

// check looks for one sort of problem.
type check struct {
	name string
	run  func(*diagnosis)
}

// checks in the order of causes: what comes later depends on what comes before.
var checks = []check{
	{"api", checkAPI},
	{"settings", checkSettings},
	{"manager", checkManager},
	{"namespaces", checkNamespaces},
	{"crds", checkDefinitions},
	{"secrets", checkSecrets},
	{"labels", checkLabels},
	{"imports", checkImports},
	{"endpoints", checkEndpoints},
	{"olm", checkOLM},
	{"operators", checkOperators},
	{"installations", checkConfigs},
	{"resources", checkResources},
	{"collections", checkCollections},
}

// Diagnose runs all checks. The same snapshot gives the same report.
func Diagnose(s *snapshot.Snapshot) *Report {
	d := &diagnosis{view: viewOf(s), found: map[Ref]int{}, seen: map[[2]Ref]bool{}}
	for _, c := range checks {
		d.check = c.name
		c.run(d)
	}
	s.Finish()
	report := &Report{
		ServerVersion: s.ServerVersion, Managers: d.managers, Objects: s.Len(), Findings: d.findings, Failed: s.Failed, Unread: s.Unread,
	}
	for i := range report.Findings {
		finding := &report.Findings[i]
		slices.SortFunc(finding.Affects, compareRefs)
		finding.Affects = finding.Affects[:min(len(finding.Affects), maxAffected)]
	}
	return report
}
