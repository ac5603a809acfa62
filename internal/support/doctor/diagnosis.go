package doctor

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// theManager stands for the manager, wherever it is: what nobody reconciles depends on it.
var theManager = Ref{Kind: "Manager", Name: snapshot.ManagerName}

// startTime is how long something may take to start before it is a problem.
const startTime = 5 * time.Minute

// noticeTime is how long the manager and operators may take to notice a change.
const noticeTime = time.Minute

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

// object is one of the three kinds.
type object interface {
	metav1.Object
	StatusConditions() *[]metav1.Condition
}

// unnoticed reports an object whose present generation the manager has not seen, and whether that is so.
func (d *diagnosis) unnoticed(o object, conditionType string, self Ref) bool {
	c := meta.FindStatusCondition(*o.StatusConditions(), conditionType)
	if c != nil && c.ObservedGeneration >= o.GetGeneration() {
		return false
	}
	if !d.has(theManager) && d.Taken.Sub(o.GetCreationTimestamp().Time) < noticeTime {
		return true
	}
	message := "the manager has not noticed the object yet"
	if c != nil && c.ObservedGeneration > 0 {
		message = "the manager has not noticed the last change of the object yet"
	}
	d.report(Finding{
		Severity: findings.SeverityWarning, Object: self, Reason: "NotNoticed", Message: message,
		Next: "wait a minute; if it stays so, see the log of the manager",
	}, theManager)
	return true
}

// condition reports a condition that is not as it should be. It reports whether that is so.
func (d *diagnosis) condition(o object, conditionType string, self Ref, causes ...Ref) bool {
	c := meta.FindStatusCondition(*o.StatusConditions(), conditionType)
	if c == nil || c.Status != metav1.ConditionFalse {
		return false
	}
	severity, next := advise(c.Reason, self)
	d.report(Finding{Severity: severity, Object: self, Reason: c.Reason, Message: c.Message, Next: next}, causes...)
	return true
}
