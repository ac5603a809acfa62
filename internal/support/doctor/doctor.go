// Package doctor finds out why a collection, its operator or a custom resource does not work. It is a list of checks over a snapshot
// of objects, in the order in which causes come before their consequences: what a check reports about an object suppresses what later
// checks would say about the objects that depend on it. It is pure.
package doctor

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

const (
	// maxMessage limits the message of a finding in bytes. Conditions may have a manifest, which is 4 KiB at most.
	maxMessage = 8 << 10
	// maxAffected limits the objects that a finding names. Affected counts all.
	maxAffected = 100
)

// Ref names an object.
type Ref struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns the form in which kubectl takes an object, and its namespace.
func (r Ref) String() string {
	text := strings.ToLower(r.Kind) + "/" + r.Name
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

func compareRefs(a, b Ref) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// Finding is a cause: something that a user has to change, or that runs wait for.
type Finding struct {
	// Check that found it.
	Check    string            `json:"check"`
	Severity findings.Severity `json:"severity"`
	Object   Ref               `json:"object"`
	// Reason is that of the object's condition where it has one.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Next is the next step.
	Next string `json:"next"`
	// Affected is the number of objects that do not work because of it, and Affects names the first of them.
	Affected int   `json:"affected"`
	Affects  []Ref `json:"affects,omitempty"`
}

// Report is the result of all checks.
type Report struct {
	ServerVersion string    `json:"serverVersion"`
	Managers      []Manager `json:"managers"`
	// Objects is the number of objects that were looked at.
	Objects  int       `json:"objects"`
	Findings []Finding `json:"findings"`
	// Failed is the number of requests that the API server did not answer as it should. What may not be read is none.
	Failed int `json:"failed"`
	// Unread has a sentence for all that could not be read: findings may be missing.
	Unread []string `json:"unread,omitempty"`
}

// Manager is a manager of the cluster.
type Manager struct {
	Ref
	Image string `json:"image"`
	Ready int32  `json:"ready"`
	Want  int32  `json:"want"`
}

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

// diagnosis is a run of the checks.
type diagnosis struct {
	*view
	check    string
	findings []Finding
	// found has, for each object with a finding or affected by one, the index of that finding.
	found map[Ref]int
	seen  map[[2]Ref]bool
}

// ranks of severities. What waits as it should does not hide an error.
var ranks = map[findings.Severity]int{findings.SeverityInfo: 0, findings.SeverityWarning: 1, findings.SeverityError: 2}

// report adds a finding, unless one of its possible causes has a finding already that is at least as severe: then the object is affected
// by that one.
func (d *diagnosis) report(f Finding, causes ...Ref) {
	for _, cause := range causes {
		i, isFound := d.found[cause]
		if !isFound || d.findings[i].Object == f.Object || ranks[d.findings[i].Severity] < ranks[f.Severity] {
			continue
		}
		if _, known := d.found[f.Object]; !known {
			d.found[f.Object] = i
		}
		if pair := [2]Ref{d.findings[i].Object, f.Object}; !d.seen[pair] {
			d.seen[pair] = true
			d.findings[i].Affected++
			d.findings[i].Affects = append(d.findings[i].Affects, f.Object)
		}
		return
	}
	d.add(f, f.Object)
}

// add adds a finding that is the cause of others under a key.
func (d *diagnosis) add(f Finding, key Ref) {
	f.Check = d.check
	f.Message = strings.TrimSpace(printable.Cut(printable.Lines(f.Message), maxMessage))
	f.Next = printable.Lines(f.Next)
	if _, known := d.found[key]; !known {
		d.found[key] = len(d.findings)
	}
	d.findings = append(d.findings, f)
}

// has reports whether an object has a finding or is affected by one.
func (d *diagnosis) has(object Ref) bool {
	_, ok := d.found[object]
	return ok
}

func ref(kind schema.GroupKind, namespace, name string) Ref {
	return Ref{Kind: kind.Kind, Namespace: namespace, Name: name}
}
