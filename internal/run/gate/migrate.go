package gate

import (
	"slices"

	"github.com/Masterminds/semver/v3"
)

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
		since := in.Current.changedSince(m.Fingerprint, in.Accepts, false)
		r.Owed = r.Owed || slices.ContainsFunc(since, func(t Trigger) bool { return slices.Contains(in.Settings.RerunOn, t) })
	case m != nil:
		r.Migration = m
	}
}
