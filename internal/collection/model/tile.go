package model

import (
	"slices"
	"strings"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// CapabilityLevels are the levels of the Operator Framework's capability model, from low to high.
var CapabilityLevels = []string{"Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"}

// Categories are those that OperatorHub groups tiles by (the standard categories of the Operator Framework's validators).
var Categories = []string{
	"AI/Machine Learning", "Application Runtime", "Big Data", "Cloud Provider", "Database", "Developer Tools", "Integration & Delivery",
	"Logging & Tracing", "Modernization & Migration", "Monitoring", "Networking", "Observability", "OpenShift Optional", "Security",
	"Storage", "Streaming & Messaging",
}

// readCapabilities reads the level that the author claims.
func readCapabilities(v findings.Value) string {
	if v.Blank() {
		return ""
	}
	s, _ := v.Scalar()
	level, known := spelled(s, CapabilityLevels)
	if !known {
		v.ReportFix(findings.Meant(s, CapabilityLevels), ruleCapabilities, "must be one of %s, not %s; it is ignored", strings.Join(CapabilityLevels, ", "), v.What())
	}
	return level
}

// readCategories reads a list of categories, or a text with commas between them, as it is in a ClusterServiceVersion.
func readCategories(v findings.Value) []string {
	var names []string
	for _, text := range v.TextOrList() {
		names = append(names, strings.Split(text, ",")...)
	}
	var found []string
	for _, name := range names {
		category, known := spelled(name, Categories)
		if known {
			found = append(found, category)
		} else if strings.TrimSpace(name) != "" {
			v.Report(ruleCategories, "%s is no category of OperatorHub, and is ignored: use %s", findings.Quote(name), strings.Join(Categories, ", "))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// spelled returns a name as it is spelled in a list, whatever its case.
func spelled(name string, list []string) (string, bool) {
	name = strings.TrimSpace(name)
	i := slices.IndexFunc(list, func(known string) bool { return strings.EqualFold(known, name) })
	if i < 0 {
		return "", false
	}
	return list[i], true
}
