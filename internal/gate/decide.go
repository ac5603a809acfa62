package gate

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Input is everything that a decision depends on.
type Input struct {
	Settings *Settings
	Kind     KindSettings
	Now      time.Time
	// Event of the run that ansible-operator wants to start.
	Event Event
	// Current is the fingerprint of what would be handed over.
	Current Fingerprint
	// Stale is true if the live resource differs from what ansible-operator hands over: in a declared variable, in its UID,
	// or in being deleted.
	Stale bool
	// Running is true if another run of the resource has not ended.
	Running bool
	// Record of the resource, or nil if there is none with a valid signature.
	Record *Record
	// Baseline is true if status says that the present generation was successful. It only counts without a Record.
	Baseline bool
	// UID, Asked (AnnotationRequestedAt) and Period (AnnotationReconcilePeriod, 0 if absent or not a duration) of the live
	// resource.
	UID    types.UID
	Asked  string
	Period time.Duration
}

// Action is what the gate does.
type Action string

// The actions.
const (
	// ActionRun starts the playbook.
	ActionRun Action = "Run"
	// ActionSkip does not start it: nothing that starts it has changed. Status is written if it does not say so.
	ActionSkip Action = "Skip"
	// ActionWait does not start it now, and writes nothing.
	ActionWait Action = "Wait"
	// ActionAdopt records a successful resource without a run.
	ActionAdopt Action = "Adopt"
	// ActionFinish reports that the delete playbook has succeeded already.
	ActionFinish Action = "Finish"
)

// Reason is why a run starts.
type Reason string

// The reasons.
const (
	// ReasonNew means that there was no run yet.
	ReasonNew Reason = "New"
	// ReasonChanged means that something that starts playbooks has changed. Decision.Changed says what.
	ReasonChanged Reason = "Changed"
	ReasonRetry   Reason = "Retry"
	// ReasonAsked means that a user asked for it.
	ReasonAsked Reason = "Asked"
	// ReasonDue means that the reconcile period or requeue_after is over.
	ReasonDue Reason = "Due"
)

// Decision is the result of Decide.
type Decision struct {
	Action Action
	// Reason of a run.
	Reason Reason
	// Attempt of a run, from 1.
	Attempt int
	// Changed lists what differs from the last run, whether it starts a playbook or not. With ActionSkip and a last run that
	// was successful, the resource is outdated if Changed is not empty.
	Changed []Trigger
	// After is when ansible-operator must ask again. 0 means when the resource changes. It is always 0 with ActionRun and
	// ActionFinish.
	After time.Duration
}
