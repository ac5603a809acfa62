package gate

import (
	"slices"
	"time"

	"github.com/Masterminds/semver/v3"
)

// Migration is a run of the migration playbook for a resource whose last success was by an older version of the collection.
type Migration struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Fingerprint of the last other run. What has changed since starts the usual playbook after the migration.
	Fingerprint Fingerprint `json:"fingerprint"`
	// Defaults that the last other run had.
	Defaults *Defaults `json:"defaults,omitempty"`
	// Owed is true if the usual playbook has to run after the migration in any case: its last run was not successful, or a run
	// was requested.
	Owed bool `json:"owed,omitempty"`
}

// Migrated is a migration that succeeded.
type Migrated struct {
	From     string    `json:"from"`
	To       string    `json:"to"`
	RunID    string    `json:"run,omitempty"`
	Finished time.Time `json:"finished"`
}

// migrates reports whether the resource has to be migrated before anything else runs.
func (in Input) migrates() bool {
	return in.Settings.MigrationPlaybook != "" && in.Event == EventCreate && IsOlder(in.applied(), in.Settings.Version)
}

// applied returns the version of the last run or migration that was successful, or "" if there is none, or if it is not known.
func (in Input) applied() string {
	switch r := in.Record; {
	case r == nil && in.Applied == "" && in.Baseline && in.LastRun != nil:
		return in.LastRun.Version
	case r == nil:
		return in.Applied
	case r.Applied != "":
		return r.Applied
	case r.Outcome.Succeeded() && r.Event == EventCreate:
		return r.Version // Earlier versions of the gate did not record it.
	}
	return in.Applied
}

// IsOlder reports whether a version of a collection is older than another one. It is false if one of them is no semantic version.
func IsOlder(version, than string) bool {
	a, errA := semver.NewVersion(version)
	b, errB := semver.NewVersion(than)
	return errA == nil && errB == nil && a.LessThan(b)
}

// migrate decides when the migration playbook runs: at once, and after a failure like any other playbook.
func (in Input) migrate() Decision {
	last := in.Record
	if last == nil || last.Migration == nil || last.Migration.To != in.Settings.Version {
		return in.asMigration(run(ReasonMigrate, nil))
	}
	changed := in.changed()
	switch {
	case in.asks():
		return in.asMigration(run(ReasonAsked, changed))
	case in.starts(changed):
		return in.asMigration(run(ReasonChanged, changed))
	case last.Outcome == OutcomeRequeued:
		return in.asMigration(in.runAt(last.Due, ReasonDue, changed))
	}
	return in.asMigration(in.retry(changed))
}

// asMigration makes a run that of the migration playbook.
func (in Input) asMigration(d Decision) Decision {
	if d.Action != ActionRun {
		return d
	}
	m := Migration{From: in.applied(), To: in.Settings.Version, Fingerprint: in.Current, Defaults: in.Defaults, Owed: !in.Baseline}
	if last := in.Record; last != nil {
		m.Fingerprint, m.Defaults = last.Fingerprint, last.Defaults
		m.Owed = last.owes() || last.Outcome != OutcomeSucceeded || in.asks()
		if last.Migration != nil { // Not the first attempt, which has kept them.
			m.Fingerprint, m.Defaults, m.Owed = last.Migration.Fingerprint, last.Migration.Defaults, last.Migration.Owed
		}
		m.Owed = m.Owed || in.Accepts && in.Defaults.differFrom(last.Defaults) // Fingerprints do not tell for lists.
	}
	d.Migration = &m
	return d
}

// startsSince reports whether something that starts the playbook has changed since a fingerprint was made.
func (in Input) startsSince(last Fingerprint) bool {
	return slices.ContainsFunc(in.Current.changedSince(last, in.Accepts, false), func(t Trigger) bool { return slices.Contains(in.Settings.RerunOn, t) })
}

// asks reports whether a run is requested that was not served.
func (in Input) asks() bool {
	return in.Requested != "" && in.Requested != in.Record.Requested
}

// OfMigration reports whether the last run was one of the migration playbook.
func (r *Record) OfMigration() bool {
	return r.Migration != nil || r.Migrated != nil && r.RunID != "" && r.Migrated.RunID == r.RunID
}

// ran returns the fingerprint of the last run of the usual playbook.
func (r *Record) ran() Fingerprint {
	if r.Migration != nil {
		return r.Migration.Fingerprint
	}
	return r.Fingerprint
}

// owes reports whether the usual playbook has to run: after a migration, or after one that is not needed any more.
func (r *Record) owes() bool { return r.Owed || r.Migration != nil }

// setVersions sets what the record says about versions and migrations, after a run that in and d led to.
func (r *Record) setVersions(in Input, d Decision) {
	in = in.known()
	r.Applied, r.Migrated = in.applied(), in.Migrated
	if in.Record != nil {
		r.Migrated = in.Record.Migrated
	}
	switch m := d.Migration; {
	case m == nil && r.Outcome.Succeeded() && r.Event == EventCreate:
		r.Applied = r.Version
		if r.Migrated != nil && IsOlder(r.Version, r.Migrated.To) {
			r.Migrated = nil
		}
	case m != nil && r.Outcome == OutcomeSucceeded:
		r.Applied, r.Owed = r.Version, m.Owed
		r.Migrated = &Migrated{From: m.From, To: m.To, RunID: r.RunID, Finished: r.Finished}
		r.Fingerprint, r.Defaults = m.Fingerprint, m.Defaults
		if !slices.Contains(in.Settings.RerunOn, TriggerCollection) {
			r.Fingerprint.Collection = in.Current.Collection
		}
		r.Owed = r.Owed || in.startsSince(m.Fingerprint)
	case m != nil:
		r.Migration = m
	}
}

// StopsMigrations reports whether a run was a migration whose failure stops those of other resources: the playbook was the
// reason.
func (d Decision) StopsMigrations(outcome Outcome) bool {
	return d.Migration != nil && !outcome.Succeeded() && outcome.usesRetry()
}

// RunReason returns the reason of the run in status: that of all runs of the migration playbook is ReasonMigrate.
func (d Decision) RunReason() Reason {
	if d.Migration != nil {
		return ReasonMigrate
	}
	return d.Reason
}
