package gate

import (
	"slices"
	"time"
)

// Times after which ansible-operator must ask again.
const (
	// RecheckInterval is how often the gate looks for changes that ansible-operator is not told of: of Secrets, of
	// referenced resources and of endpoints.
	RecheckInterval = 5 * time.Minute

	afterRunning = 10 * time.Second
	afterStale   = time.Second

	// clockSkew is by how much clocks may differ. Times that are later than they can be are ignored.
	clockSkew = time.Minute
)

const (
	firstRetryDelay = 10 * time.Second
	maxRetryDelay   = 30 * time.Minute

	// maxRequeueAfter limits requeue_after.
	maxRequeueAfter = 7 * 24 * time.Hour
)

// RetryDelay returns how long after the given failed attempt, from 1, the next one starts: 10 s, 30 s, 90 s and so on, at
// most 30 minutes.
func RetryDelay(attempt int) time.Duration {
	delay := firstRetryDelay
	for range attempt - 1 {
		delay *= 3
		if delay >= maxRetryDelay {
			return maxRetryDelay
		}
	}
	return delay
}

func run(reason Reason, changed []Trigger) Decision {
	return Decision{Action: ActionRun, Reason: reason, Attempt: 1, Changed: changed}
}

// changed lists what differs from the last run. Another event is a change of the resource, as are other defaults that it accepts.
func (in Input) changed() []Trigger {
	changed := in.Current.changedSince(in.Record.Fingerprint, in.Accepts, in.Record.Migration == nil && in.Record.OfMigration())
	other := in.Event != in.Record.Event || in.Accepts && in.Defaults.differFrom(in.Record.Defaults)
	if other && !slices.Contains(changed, TriggerSpec) {
		changed = append([]Trigger{TriggerSpec}, changed...)
	}
	return changed
}

// starts reports whether the changes start the playbook.
func (in Input) starts(changed []Trigger) bool {
	if in.Event != in.Record.Event {
		return true
	}
	return slices.ContainsFunc(changed, func(t Trigger) bool {
		return slices.Contains(in.Settings.RerunOn, t) || in.Event == EventDelete && t == TriggerSpec
	})
}

// asks reports whether a run is requested that was not served.
func (in Input) asks() bool {
	return in.Requested != "" && in.Requested != in.Record.Requested
}

// retry decides about a resource whose last run failed.
func (in Input) retry(changed []Trigger) Decision {
	next, outcome := in.Record.NextRetry, in.Record.Outcome
	if outcome == OutcomeCancelled || next.IsZero() && !outcome.AwaitsEndpoint() {
		return Decision{Action: ActionSkip, Changed: changed, After: in.wait(0)}
	}
	if next.After(in.Now.Add(maxRetryDelay + clockSkew)) {
		next = in.Now
	}
	d := in.runAt(next, ReasonRetry, changed)
	if d.Action == ActionRun {
		d.Attempt = in.Record.Attempt
		if outcome.IsOfPlaybook() {
			d.Attempt++
		}
	}
	return d
}

// repeat decides about a resource whose last run was successful.
func (in Input) repeat(changed []Trigger) Decision {
	period := in.period()
	if period == 0 {
		return Decision{Action: ActionSkip, Changed: changed, After: in.wait(0)}
	}
	due := in.Record.Finished.Add(period)
	if due.After(in.Now.Add(period + clockSkew)) {
		due = in.Now
	}
	return in.runAt(due, ReasonDue, changed)
}

func (in Input) runAt(due time.Time, reason Reason, changed []Trigger) Decision {
	if !due.After(in.Now) {
		return run(reason, changed)
	}
	return Decision{Action: ActionSkip, Changed: changed, After: in.wait(due.Sub(in.Now))}
}

// period returns the interval between runs without a change, or 0.
func (in Input) period() time.Duration {
	period := in.Period
	if period <= 0 {
		period = time.Duration(in.Kind.ReconcilePeriodSeconds) * time.Second
	}
	if period <= 0 {
		return 0
	}
	return max(period, MinReconcilePeriod)
}

// wait returns when ansible-operator must ask again if a run is due after the given time, or none if that is 0.
func (in Input) wait(due time.Duration) time.Duration {
	untold := slices.Contains(in.Settings.RerunOn, TriggerEndpoint) || slices.ContainsFunc(in.Kind.Variables, Variable.namesOther)
	if untold && (due == 0 || due > RecheckInterval) {
		return RecheckInterval
	}
	return (due + time.Second - 1).Truncate(time.Second)
}

// namesOther reports whether a variable names something of whose changes ansible-operator is not told.
func (v Variable) namesOther() bool {
	return v.Secret || v.Reference != "" || slices.ContainsFunc(v.Fields, Variable.namesOther)
}

// sooner returns the shorter duration. 0 means never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
