package gate

import (
	"time"
)

// Decide decides whether the playbook runs now. The order of the cases is their precedence.
func Decide(in Input) Decision {
	in = in.known()
	last := in.Record
	switch {
	case in.Running:
		return Decision{Action: ActionWait, After: afterRunning}
	case in.Stale:
		return Decision{Action: ActionWait, After: afterStale}
	case last != nil && in.Event == EventDelete && in.UID != "" && last.Deleted == in.UID:
		return Decision{Action: ActionFinish}
	case in.Event == EventDelete && in.Abandon:
		return Decision{Action: ActionAbandon}
	case in.migrates():
		return in.migrate()
	case last == nil && in.Event == EventCreate && in.Baseline:
		return Decision{Action: ActionAdopt, After: in.wait(sooner(in.period(), in.checkPeriod()))}
	case last == nil:
		return run(ReasonNew, nil)
	}

	changed := in.changed()
	switch {
	case in.asks():
		return run(ReasonAsked, changed)
	case in.starts(changed):
		return run(ReasonChanged, changed)
	case last.owes():
		return run(ReasonRetry, changed)
	case last.Outcome == OutcomeRequeued:
		return in.runAt(last.Due, ReasonDue, changed)
	case !last.Outcome.Succeeded():
		return in.retry(changed)
	case in.Event == EventDelete:
		return run(ReasonNew, changed)
	}
	return in.orCheck(in.repeat(changed))
}

// orCheck returns a decision about a resource whose last run was successful, or ActionCheck if it is not to run and a drift
// check is requested or due. Outdated resources are only checked if somebody asks: they are known to need a run.
func (in Input) orCheck(d Decision) Decision {
	if d.Action != ActionSkip || !in.Kind.CheckMode {
		return d
	}
	check := d
	check.Action = ActionCheck
	if in.asksCheck() {
		return check
	}
	period := in.checkPeriod()
	if period == 0 || len(d.Changed) > 0 {
		return d
	}
	due := in.lastProof().Add(period)
	if !due.After(in.Now) {
		return check
	}
	d.After = sooner(d.After, in.wait(due.Sub(in.Now)))
	return d
}

// asksCheck reports whether a drift check is requested that was not served.
func (in Input) asksCheck() bool {
	return in.CheckAsked != "" && in.CheckAsked != in.Record.CheckAsked
}

// checkPeriod returns the interval between drift checks, or 0.
func (in Input) checkPeriod() time.Duration {
	period := time.Duration(in.Settings.DriftCheckPeriodSeconds) * time.Second
	if period <= 0 || !in.Kind.CheckMode {
		return 0
	}
	return max(period, MinReconcilePeriod)
}

// lastProof returns when the last run or drift check ended. A time that is later than it can be is ignored.
func (in Input) lastProof() time.Time {
	var last time.Time
	for _, ended := range []time.Time{in.Record.Finished, in.Record.Checked} {
		if ended.After(last) && !ended.After(in.Now.Add(clockSkew)) {
			last = ended
		}
	}
	return last
}

// RefusesCheck reports whether a drift check is requested for a resource whose kind does not support it. Such a request is
// served by saying so.
func RefusesCheck(in Input, d Decision) bool {
	return d.Action == ActionSkip && in.Event == EventCreate && in.Record != nil && !in.Kind.CheckMode && in.asksCheck()
}

// ServeCheck returns the record after RefusesCheck.
func ServeCheck(in Input) Record {
	r := *in.Record
	r.CheckAsked = in.CheckAsked
	return r
}

// Checked returns the record after a drift check that in led to. It differs from the one before only in CheckAsked and Checked,
// and not at all if the check did not take place.
func Checked(in Input, outcome Outcome, finished time.Time) Record {
	if !outcome.IsOfPlaybook() {
		return *in.Record
	}
	r := ServeCheck(in)
	r.Checked = finished.UTC().Truncate(time.Second)
	return r
}
