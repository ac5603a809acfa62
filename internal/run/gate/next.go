package gate

import (
	"time"
)

// Next returns the record after a run that in and d led to. requeueAfter is what the playbook asked for, or 0. It counts
// only if the run was successful, is at least a second, and at most 7 days.
func Next(in Input, d Decision, id string, outcome Outcome, finished time.Time, requeueAfter time.Duration) Record {
	r := recordOf(in, finished)
	r.RunID = id
	r.Outcome = outcome
	if in.Event == EventDelete && in.Record != nil {
		r.Deleted = in.Record.Deleted
	}
	switch {
	case outcome.Succeeded() && requeueAfter > 0:
		r.Outcome = OutcomeRequeued
		r.Due = r.Finished.Add(min(max(requeueAfter, time.Second), maxRequeueAfter))
	case outcome.Succeeded():
		r.Outcome = OutcomeSucceeded
		if in.Event == EventDelete {
			r.Deleted = in.UID
		}
	default:
		r.Attempt = max(d.Attempt, 1)
		r.fail(in, d)
	}
	r.setVersions(in, d)
	if !outcome.IsOfPlaybook() {
		// What was requested has not happened yet.
		r.RunNow = ""
		if in.Record != nil {
			r.RunNow = in.Record.RunNow
		}
	}
	return r
}

// MaxLost is the number of runs in a row that end for an unknown reason after which a resource rests: it may end its container or its pod.
const MaxLost = 3

// Lost returns the record after a run that in and d led to, and of which nobody knows how it ended.
func Lost(in Input, d Decision, id string, finished time.Time) Record {
	r := Next(in, d, id, OutcomeInterrupted, finished, 0)
	if r.Lost++; r.Lost >= MaxLost {
		r.NextRetry = time.Time{}
	}
	return r
}

// RunsAlone reports whether a run that the input leads to is to be the only one in progress: runs that ended for an unknown reason more than
// once ended together with others, of which one may be the reason. If it ends like this again, it is, unless it has waited for that in vain.
func RunsAlone(in Input, d Decision) bool {
	return d.Reason == ReasonRetry && in.Record != nil && in.Record.Lost > 1
}

// fail sets when a failed run is tried again.
func (r *Record) fail(in Input, d Decision) {
	unreached, refused, lost := 0, 0, 0
	if in.Record != nil && d.Reason == ReasonRetry {
		unreached, refused, lost = in.Record.Unreached, in.Record.Refused, in.Record.Lost
	}
	switch {
	case r.Outcome == OutcomeInterrupted: // The playbook is not the reason, as far as known.
		r.Unreached, r.Refused, r.Lost = unreached, refused, lost
		r.NextRetry = r.Finished.Add(firstRetryDelay)
	case r.Outcome == OutcomeUnreachable && d.Canary:
		r.Unreached = unreached
	case r.Outcome == OutcomeUnreachable:
		// The first time it is an outage, whose end is noticed. Later it may be the run itself that cannot connect.
		r.Unreached = unreached + 1
		if r.Unreached > 1 {
			r.NextRetry = r.Finished.Add(RetryDelay(r.Unreached - 1))
		}
	case r.Outcome == OutcomeRefused:
		// The first time the endpoint is asked again as soon as it has another credential. Later something may try many of them.
		r.Refused = refused + 1
		if r.Refused > 1 {
			r.NextRetry = r.Finished.Add(RetryDelay(r.Refused - 1))
		}
	case r.Outcome.IsOfPlaybook() && r.Outcome != OutcomeCancelled && r.Attempt <= in.Settings.MaxRetries:
		r.NextRetry = r.Finished.Add(RetryDelay(r.Attempt))
	}
}

// Baseline returns the record of a successful resource that has none.
func Baseline(in Input) Record {
	r := recordOf(in, in.Now)
	r.Outcome = OutcomeSucceeded
	r.CheckAsked = in.CheckAsked
	switch last := in.LastRun; {
	case last == nil:
		r.Requested, r.CheckAsked = "", "" // No gate has served a request yet.
	case last.Digest != r.Digest:
		r.Version, r.Digest, r.Fingerprint.Collection = last.Version, last.Digest, ""
	}
	r.Applied, r.Migrated = r.Version, in.Migrated
	return r
}

// recordOf returns the record of a run that in led to, with what the last one says about drift checks.
func recordOf(in Input, finished time.Time) Record {
	r := Record{
		Fingerprint:  in.Current,
		Defaults:     in.Defaults,
		Event:        in.Event,
		Finished:     finished.UTC().Truncate(time.Second), // As in status.
		Version:      in.Settings.Version,
		Digest:       in.Settings.Digest,
		Requested:    in.Requested,
		RunNow:       in.RunNow,
		UID:          in.UID,
		Installation: in.Installation,
	}
	if in.Record != nil {
		r.CheckAsked, r.Checked = in.Record.CheckAsked, in.Record.Checked
	}
	return r
}
