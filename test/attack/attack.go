// Package attack makes a table of the attacks that a suite of specs tries: what was tried, what was expected, and what
// was observed. docs/security.md promises that these attacks fail.
package attack

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
)

// Label marks the specs that hold attacks, and those that prepare them.
var Label = ginkgo.Label("attack")

const entryName = "attack"

type row struct{ Group, Attack, Expected, Observed string }

// String keeps the row out of Ginkgo's own report, where it would appear as a Go value.
func (r row) String() string {
	return fmt.Sprintf("%s: %s\n  expected: %s\n  observed: %s\n", r.Group, r.Attack, r.Expected, r.Observed)
}

// Repelled records, inside a spec, an attack that was tried and did not succeed. Call it after the assertions: what is
// recorded of a spec that fails is printed as such. Observed is what the attacker got to see, in one line.
func Repelled(group, attack, expected, observed string) {
	ginkgo.GinkgoHelper()
	observed = strings.Join(strings.Fields(observed), " ")
	ginkgo.AddReportEntry(entryName, row{group, attack, expected, observed}, types.ReportEntryVisibilityNever)
}

// Table is every attack of a run in the order of groups and specs, with the attacks of failed specs marked.
func Table(report types.Report) string {
	var b strings.Builder
	var rows []row
	for _, spec := range report.SpecReports {
		for _, entry := range spec.ReportEntries {
			tried, ok := entry.Value.GetRawValue().(row)
			if !ok {
				continue
			}
			if spec.Failed() {
				tried.Observed = "THE SPEC FAILED: " + tried.Observed
			}
			rows = append(rows, tried)
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return strings.Compare(a.Group, b.Group) })
	for i, r := range rows {
		fmt.Fprintf(&b, "%2d %s", i+1, r)
	}
	return b.String()
}
