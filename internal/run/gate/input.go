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
	// Defaults are those that the run would have. Accepts is true if AnnotationAcceptDefaults has the installed version.
	Defaults *Defaults
	Accepts  bool
	// Stale is true if the live resource differs from what ansible-operator hands over: in a declared variable, or in being
	// deleted.
	Stale bool
	// Running is true if another run of the resource has not ended.
	Running bool
	// Record of the resource, or nil if there is none with a valid signature.
	Record *Record
	// Baseline is true if status says that the present generation was successful. It only counts without a Record.
	Baseline bool
	// Applied is the version of the last success according to status, and Migrated the last migration. They only count without a
	// Record, Applied also for one that does not have it.
	Applied  string
	Migrated *Migrated
	// LastRun is the one in status, or nil if there is none.
	LastRun *LastRun
	// Installation is the UID of the operator's Lease.
	Installation types.UID
	// Abandon is true if the live resource has AnnotationAbandon.
	Abandon bool
	// RunNow is the value of endpoint.AnnotationRunNow, and CheckAsked that of AnnotationCheckRequestedAt.
	RunNow, CheckAsked string
	// UID, Asked (AnnotationRequestedAt) and Period (AnnotationReconcilePeriod, 0 if absent or not a duration) of the live
	// resource.
	UID       types.UID
	Requested string
	Period    time.Duration
}

// LastRun is the last run according to status, which only operators write.
type LastRun struct {
	ID      string
	Started time.Time
	// Version and Digest of the collection.
	Version, Digest string
}

// known returns the input without what is about another resource, or older than the last run.
func (in Input) known() Input {
	if in.recreated() {
		in.Baseline, in.Applied, in.Migrated = false, "", nil
	}
	in.Record = in.Last()
	return in
}

// Last returns the record of the last run of the resource. It is nil if the record is that of another resource or run.
func (in Input) Last() *Record {
	if in.recreated() || in.replayed() {
		return nil
	}
	return in.Record
}

// recreated reports whether the record is that of a resource of the same name that was deleted.
func (in Input) recreated() bool {
	r := in.Record
	return r != nil && r.UID != in.UID && r.Installation == in.Installation
}

// replayed reports whether the record is older than the last run: somebody has put an earlier annotation back. The record of
// a run is written before status is.
func (in Input) replayed() bool {
	r := in.Record
	return r != nil && in.LastRun != nil && r.RunID != in.LastRun.ID && !r.Finished.After(in.LastRun.Started)
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
	// ActionCheck runs the playbook in check mode, for a resource that is otherwise as after ActionSkip.
	ActionCheck Action = "Check"
	// ActionAbandon reports that the delete playbook has succeeded, without a run.
	ActionAbandon Action = "Abandon"
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
	// ReasonMigrate means that the resource is to be migrated from an older version of the collection.
	ReasonMigrate Reason = "Migrate"
)

// Decision is the result of Decide.
type Decision struct {
	Action Action
	// Reason of a run.
	Reason Reason
	// Attempt of a run, from 1.
	Attempt int
	// Migration is set if the run is one of the migration playbook, whatever the reason is for which it starts now.
	Migration *Migration `json:",omitempty"`
	// Canary is true if the endpoint was in an outage when the run started. Decide does not set it.
	Canary bool
	// Changed lists what differs from the last run, whether it starts a playbook or not. With ActionSkip and a last run that
	// was successful, the resource is outdated if Changed is not empty.
	Changed []Trigger
	// After is when ansible-operator must ask again. 0 means when the resource changes. It is always 0 with ActionRun,
	// ActionAbandon and ActionFinish. With ActionCheck it is for a check that does not take place now.
	After time.Duration
}

// StopsMigrations reports whether a run was a migration whose failure stops those of other resources: the playbook was the
// reason.
func (d Decision) StopsMigrations(outcome Outcome) bool {
	return d.Migration != nil && !outcome.Succeeded() && outcome.IsOfPlaybook()
}

// RunReason returns the reason of the run in status: that of all runs of the migration playbook is ReasonMigrate.
func (d Decision) RunReason() Reason {
	if d.Migration != nil {
		return ReasonMigrate
	}
	return d.Reason
}
