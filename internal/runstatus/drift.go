package runstatus

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/collection-operator/collection-operator/internal/gate"
	"github.com/collection-operator/collection-operator/internal/printable"
)

// Reasons of ConditionDrifted.
const (
	// ReasonNoDrift means that no task would have changed the endpoint, or that a run was successful since.
	ReasonNoDrift = "NoDrift"
	// ReasonDrifted means that tasks would have changed the endpoint.
	ReasonDrifted = "Drifted"
	// ReasonUnchecked means that tasks were skipped because of check mode.
	ReasonUnchecked = "Unchecked"
	// ReasonCheckFailed means that the check did not end well.
	ReasonCheckFailed = "CheckFailed"
	// ReasonNotSupported means that the kind does not declare supportsCheckMode.
	ReasonNotSupported = "NotSupported"
)

// maxDiff is the maximum length in bytes of status.drift.diff.
const maxDiff = 4096

const messageNoDrift = "no drift is known since status.provedAt"

// Check is a drift check that has ended: a run in check mode.
type Check struct {
	Report   Report
	Outcome  gate.Outcome
	Finished time.Time
}

// DriftResult is what the condition Drifted says.
type DriftResult struct {
	Status  metav1.ConditionStatus
	Reason  string
	Message string
}

// Result judges a check. A check that found drift before it failed has found drift: a later task often fails because the
// earlier one has only been checked.
func (c Check) Result(r Resource) DriftResult {
	changed := 0
	if c.Report.Changes != nil {
		changed = c.Report.Changes.Tasks
	}
	finished := c.Outcome.Succeeded() || c.Outcome == gate.OutcomeFailed || c.Outcome == gate.OutcomeTimedOut
	switch {
	case finished && changed > 0:
		return DriftResult{metav1.ConditionTrue, ReasonDrifted, c.driftMessage(r, changed)}
	case !c.Outcome.Succeeded():
		return DriftResult{metav1.ConditionUnknown, ReasonCheckFailed, printable.Cut("the drift check failed: "+c.failure(), maxMessage)}
	case c.Report.Unchecked > 0:
		return DriftResult{metav1.ConditionUnknown, ReasonUnchecked, c.uncheckedMessage()}
	case c.Report.Changes == nil:
		return DriftResult{metav1.ConditionUnknown, ReasonCheckFailed, "the drift check failed: its report does not say what would change"}
	}
	return DriftResult{metav1.ConditionFalse, ReasonNoDrift, messageNoDrift}
}

func (c Check) driftMessage(r Resource, changed int) string {
	parts := []string{tasks(changed) + " would change the endpoint"}
	if c.Report.Unchecked > 0 {
		parts = append(parts, c.uncheckedMessage())
	}
	if !c.Outcome.Succeeded() {
		parts = append(parts, "then the drift check failed: "+c.failure())
	}
	next := "; to correct it, run the playbook: " + rerunCommand(r)
	return printable.Cut(strings.Join(parts, "; "), maxMessage-len(next)) + next
}

func (c Check) uncheckedMessage() string {
	if c.Report.Unchecked == 1 {
		return "1 task was skipped because it does not support check mode"
	}
	return tasks(c.Report.Unchecked) + " were skipped because they do not support check mode"
}

func (c Check) failure() string {
	return strings.ReplaceAll(failureOf(c.Outcome, c.Report).Message, "\n", "; ")
}

func tasks(n int) string {
	if n == 1 {
		return "1 task"
	}
	return fmt.Sprintf("%d tasks", n)
}

// EndCheck returns the status after a drift check: the condition Drifted, drift and provedAt may change. If the check
// did not take place, drift remains that of the last one.
func EndCheck(status map[string]any, r Resource, c Check) map[string]any {
	status = copyOf(status)
	result := c.Result(r)
	if c.Outcome.Checked() {
		drift := Drift{CheckedAt: metav1.NewTime(c.Finished), Unchecked: c.Report.Unchecked}
		if c.Report.Changes != nil {
			drift.Diff = printable.Cut(strings.TrimRight(printable.Lines(c.Report.Changes.Diff), "\n"), maxDiff)
		}
		status["drift"] = unstructured(&drift)
	}
	if result.Status == metav1.ConditionFalse {
		status["provedAt"] = text(c.Finished)
	}
	setDrifted(status, r, result)
	return status
}

// RefuseCheck returns the status of a resource whose kind does not support the check that was requested.
func RefuseCheck(status map[string]any, r Resource) map[string]any {
	status = copyOf(status)
	setDrifted(status, r, DriftResult{
		metav1.ConditionUnknown, ReasonNotSupported,
		fmt.Sprintf("%s does not declare supportsCheckMode for kind %s: its playbook cannot be checked", versionOf(r), r.Kind),
	})
	return status
}

func versionOf(r Resource) string {
	if r.Version == "" {
		return "the collection"
	}
	return fmt.Sprintf("version %s of the collection", printable.Line(r.Version, maxName))
}

// setDrifted sets the condition Drifted in status.
func setDrifted(status map[string]any, r Resource, result DriftResult) {
	conditions := conditionsOf(status, r.Now)
	conditions.setDrifted(r, result)
	status["conditions"] = conditions.items
}

func (l *conditionList) setDrifted(r Resource, result DriftResult) {
	fields := form(result.Status, result.Reason, result.Message)
	fields["observedGeneration"] = r.Generation
	l.set(ConditionDrifted, fields)
}

// proves reports whether a run has made the endpoint as the resource describes it. A migration need not do so.
func (run Run) proves() bool {
	return run.Outcome == gate.OutcomeSucceeded && run.Event == gate.EventCreate && run.Finished != nil && run.Reason != gate.ReasonMigrate
}

// provedSince reports whether status has a proof that is at least as late as a run.
func provedSince(status map[string]any, run Run) bool {
	proved, _ := status["provedAt"].(string)
	at, err := time.Parse(time.RFC3339, proved)
	return err == nil && !at.Before(run.Finished.Truncate(time.Second))
}

// setProved sets in status what a run proves. Drift that was found before is corrected.
func setProved(status map[string]any, conditions *conditionList, r Resource, run Run) {
	status["provedAt"] = text(run.Finished.Time)
	if drift := driftOf(status); drift != nil {
		status["drift"] = unstructured(&Drift{CheckedAt: drift.CheckedAt})
	}
	if conditions.get(ConditionDrifted) != nil {
		conditions.setDrifted(r, DriftResult{metav1.ConditionFalse, ReasonNoDrift, messageNoDrift})
	}
}

// driftOf returns status.drift, or nil if there is none that can be read.
func driftOf(status map[string]any) *Drift {
	fields, ok := status["drift"].(map[string]any)
	if !ok {
		return nil
	}
	var drift Drift
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &drift); err != nil {
		return nil
	}
	return &drift
}

// FoundDrift returns the message of the condition Drifted if it has become True, or "".
func FoundDrift(before, after map[string]any) string {
	isDrifted := func(status map[string]any) (map[string]any, bool) {
		c := conditionsOf(status, time.Time{}).get(ConditionDrifted)
		return c, c["status"] == string(metav1.ConditionTrue)
	}
	_, was := isDrifted(before)
	c, is := isDrifted(after)
	if was || !is {
		return ""
	}
	message, _ := c["message"].(string)
	return message
}
