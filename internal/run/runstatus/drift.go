package runstatus

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// Reasons of ConditionDrifted.
const (
	// ReasonNoDrift means that all tasks were checked and none would have changed the endpoint, or that a run was successful since.
	ReasonNoDrift = "NoDrift"
	// ReasonDrifted means that tasks would have changed the endpoint.
	ReasonDrifted = "Drifted"
	// ReasonUnchecked means that no difference was found, and that not all tasks were checked.
	ReasonUnchecked = "Unchecked"
	// ReasonCheckFailed means that the check did not end well.
	ReasonCheckFailed = "CheckFailed"
	// ReasonNotSupported means that the kind does not declare supportsCheckMode.
	ReasonNotSupported = "NotSupported"
)

// maxDiff is the maximum length in bytes of status.drift.diff.
const maxDiff = 4096

// maxDrifted is how many tasks that would change the endpoint a message names.
const maxDrifted = 3

const messageCorrected = "the playbook has run successfully since the last drift check"

// fieldProvedAt is a field of earlier versions, whose drift checks proved what they had not looked at.
const fieldProvedAt = "provedAt"

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

// Result evaluates a check. A check that found drift before it failed has found drift: a later task often fails because the
// earlier one has only been checked.
func (c Check) Result(r Resource) DriftResult {
	finished := c.Outcome.Succeeded() || c.Outcome == gate.OutcomeFailed || c.Outcome == gate.OutcomeTimedOut
	switch changes := c.Report.Changes; {
	case finished && changes != nil && changes.Tasks > 0:
		return DriftResult{metav1.ConditionTrue, ReasonDrifted, c.driftMessage(r, *changes)}
	case !c.Outcome.Succeeded():
		return DriftResult{metav1.ConditionUnknown, ReasonCheckFailed, printable.Cut("the drift check failed: "+c.failure(), maxMessage)}
	case changes == nil:
		return DriftResult{metav1.ConditionUnknown, ReasonCheckFailed, "the drift check failed: its report does not say what would change"}
	case c.Report.Checked == 0:
		return DriftResult{metav1.ConditionUnknown, ReasonUnchecked, "nothing is known: " + c.extent() + " was checked"}
	case c.Report.Unchecked > 0:
		return DriftResult{metav1.ConditionUnknown, ReasonUnchecked, "no difference found in " + c.extent() + "; the others were not checked"}
	}
	return DriftResult{metav1.ConditionFalse, ReasonNoDrift, "no difference found in " + c.extent()}
}

// extent is how many tasks were checked of how many, such as "5 of 7 tasks".
func (c Check) extent() string {
	all := c.Report.Checked + c.Report.Unchecked
	if c.Report.Checked == 0 {
		return "none of " + tasks(all)
	}
	return fmt.Sprintf("%d of %s", c.Report.Checked, tasks(all))
}

func (c Check) driftMessage(r Resource, changes Changes) string {
	parts := []string{tasks(changes.Tasks) + " would change the endpoint" + named(changes)}
	if c.Report.Unchecked > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s checked", c.Report.Checked, tasks(c.Report.Checked+c.Report.Unchecked)))
	}
	if !c.Outcome.Succeeded() {
		parts = append(parts, "then the drift check failed: "+c.failure())
	}
	next := "; to correct it, run the playbook: " + rerunCommand(r)
	return printable.Cut(strings.Join(parts, "; "), maxMessage-len(next)) + next
}

// named names the first tasks that would change the endpoint, after a colon.
func named(changes Changes) string {
	if len(changes.Names) == 0 {
		return ""
	}
	names := make([]string, 0, maxDrifted)
	for _, name := range changes.Names[:min(len(changes.Names), maxDrifted)] {
		names = append(names, printable.Line(name, maxName))
	}
	text := ": " + strings.Join(names, ", ")
	if more := changes.Tasks - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
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

// EndCheck returns the status after a drift check: the condition Drifted and drift may change. If the check did not take place,
// drift remains that of the last one.
func EndCheck(status map[string]any, r Resource, c Check) map[string]any {
	status = copyOf(status)
	delete(status, fieldProvedAt)
	if c.Outcome.IsOfPlaybook() {
		drift := Drift{CheckedAt: metav1.NewTime(c.Finished), Checked: c.Report.Checked, Unchecked: c.Report.Unchecked}
		if c.Report.Changes != nil && r.ShowDiff {
			drift.Diff = printable.Cut(strings.TrimRight(printable.Lines(c.Report.Changes.Diff), "\n"), maxDiff)
		}
		status["drift"] = unstructured(&drift)
	}
	setDrifted(status, r, c.Result(r))
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

// setDrifted sets the condition Drifted in status.
func setDrifted(status map[string]any, r Resource, result DriftResult) {
	conditions := conditionsOf(status, r.Now)
	conditions.setDrifted(r, result)
	status["conditions"] = conditions.items
}

func (l *conditionList) setDrifted(r Resource, result DriftResult) {
	l.setOwn(r, ConditionDrifted, result.Status, result.Reason, result.Message)
}

// corrects reports whether a run has made the endpoint as the resource describes it. A migration need not do so.
func (run Run) corrects() bool {
	return run.Outcome == gate.OutcomeSucceeded && run.Event == gate.EventCreate && run.Reason != gate.ReasonMigrate
}

// setCorrected removes from status the drift that was found before a run that corrects it.
func setCorrected(status map[string]any, conditions *conditionList, r Resource) {
	if drift := decode[Drift](status["drift"]); drift != nil {
		status["drift"] = unstructured(&Drift{CheckedAt: drift.CheckedAt})
	}
	if conditions.get(ConditionDrifted) != nil {
		conditions.setDrifted(r, DriftResult{metav1.ConditionFalse, ReasonNoDrift, messageCorrected})
	}
}

// dropProof removes what drift checks of earlier versions proved.
func dropProof(status map[string]any, conditions *conditionList) {
	if status[fieldProvedAt] == nil {
		return
	}
	delete(status, fieldProvedAt)
	if conditions.get(ConditionDrifted)["status"] == string(metav1.ConditionFalse) {
		conditions.remove(ConditionDrifted)
	}
}

// hideDiff removes a difference that an earlier version of the operator or of the collection has shown.
func hideDiff(status map[string]any, r Resource) {
	if drift := decode[Drift](status["drift"]); drift != nil && drift.Diff != "" && !r.ShowDiff {
		drift.Diff = ""
		status["drift"] = unstructured(drift)
	}
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
