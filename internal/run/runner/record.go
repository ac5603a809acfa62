package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// recorder writes what becomes of runs: to the journal, so that another process of the pod can go on, and to the resource.
type recorder struct{ *scope }

// begin prepares the run folder and writes that a run starts: to the journal, to the record and to status, in this order.
// Until the run ends, its record says Interrupted, so that the next pod starts it again if this one does not see the end. The
// record comes before status, because one that is older than status does not count. If a write fails, no run starts. If the record may
// have been written by then, the next call writes what became of the run.
func (r recorder) begin(ctx context.Context, s situation, p permit) (*podfiles.Entry, error) {
	if err := prepareFolder(r.scope, r.supplyOf(s.live), s.decision.Migration); err != nil {
		return nil, err
	}
	now := metav1.Now()
	settings := *s.input.Settings
	settings.Kinds = nil
	entry := &podfiles.Entry{
		UID: s.live.GetUID(), Generation: s.live.GetGeneration(), Input: s.input, Decision: s.decision, Slot: p.slot, Waited: p.waited,
		Run: runstatus.Run{
			ID: r.call.Ident, Event: s.input.Event, Reason: s.decision.RunReason(), Attempt: s.decision.Attempt, Started: now,
			Version: settings.Version, Digest: settings.Digest, Endpoint: endpointOf(specOf(s.live)),
		},
	}
	entry.Input.Settings = &settings
	if err := r.journal.Write(*entry); err != nil {
		return nil, err
	}
	record := gate.Lost(s.input, s.decision, entry.Run.ID, now.Time)
	live, err := r.setRecord(ctx, s.live, record)
	if apierrors.IsConflict(err) {
		return nil, errors.Join(err, r.journal.Remove(entry.UID)) // Nothing is written.
	}
	if err != nil {
		return nil, r.dropStart(entry, fmt.Errorf("write the record: %w", err))
	}
	if err := r.writeStart(ctx, live, entry); err != nil {
		return nil, r.dropStart(entry, fmt.Errorf("write status: %w", err))
	}
	return entry, nil
}

// writeStart writes to status that a run starts, whose record says so already. Somebody may change the resource at the same time: the
// run is one of the resource as it was when the record was written.
func (r recorder) writeStart(ctx context.Context, live *unstructured.Unstructured, entry *podfiles.Entry) error {
	return r.repeat(ctx, "the run starts later", func() (err error) {
		if live == nil {
			if live, err = r.readStarting(ctx, entry); err != nil {
				return err
			}
		}
		about := r.statusResource(live)
		about.Generation = entry.Generation
		_, err = r.writeStatus(ctx, live, runstatus.Start(statusOf(live), about, entry.Run))
		live = nil
		return err
	})
}

// errOvertaken means that a run must not start any more.
var errOvertaken = errors.New("the resource has another run, or is deleted")

// readStarting returns a resource as it is now if its run may still start. While the API server was away, another pod may have started one.
func (r recorder) readStarting(ctx context.Context, entry *podfiles.Entry) (*unstructured.Unstructured, error) {
	if _, err := r.podLock.Take(ctx); passes(err) {
		return nil, err
	} else if err != nil {
		return nil, errors.Join(errOvertaken, err)
	}
	live, err := r.resource.get(ctx)
	if err != nil {
		return nil, err
	}
	record := r.record(live)
	isDeletion := entry.Run.Event == gate.EventDelete
	if live.GetUID() != entry.UID || record == nil || record.RunID != entry.Run.ID || deleting(live) != isDeletion {
		return nil, errOvertaken
	}
	return live, nil
}

// dropStart lets the next call write why a run has not started. It returns the error with which this call ends.
func (r recorder) dropStart(entry *podfiles.Entry, err error) error {
	report := runstatus.Report{Failures: []runstatus.Failure{{Message: "the run did not start: " + podfiles.ErrorText(err)}}}
	complete(entry, report, gate.OutcomeInterrupted, time.Now())
	entry.Slot = nil // The caller gives it back.
	return errors.Join(err, r.journal.Write(*entry))
}

// complete adds the end of a run to its entry.
func complete(e *podfiles.Entry, report runstatus.Report, outcome gate.Outcome, finished time.Time) {
	var again time.Duration
	if outcome.Succeeded() {
		again, _ = time.ParseDuration(report.RequeueAfter) // It is valid or empty: evaluate has checked it.
	}
	at := metav1.NewTime(finished)
	e.Report, e.Ended = report, true
	e.Record = gate.Next(e.Input, e.Decision, e.Run.ID, outcome, finished, again)
	e.Run.Outcome, e.Run.Finished = e.Record.Outcome, &at
}

// recover writes the outcome of an earlier run that could not be written, or whose gate ended before the run. The caller has
// the lock of the folder, so that run has ended. It returns the resource as it is now.
func (r recorder) recover(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	entry, err := r.journal.Read(live.GetUID())
	if err != nil { // It will never be readable: the record says that the run may have been interrupted.
		r.out.Note("journal: %v", err)
		if record := r.record(live); record != nil {
			if err := os.RemoveAll(r.files.PersonalFolder(live.GetUID(), record.RunID)); err != nil {
				return nil, fmt.Errorf("remove the credential of an earlier run: %w", err)
			}
		}
		return live, r.journal.Remove(live.GetUID())
	}
	if entry == nil {
		return live, nil
	}
	if err := os.RemoveAll(r.files.PersonalFolder(entry.UID, entry.Run.ID)); err != nil {
		return nil, fmt.Errorf("remove the credential of an earlier run: %w", err)
	}
	if entry.Check {
		return r.settleCheck(ctx, entry)
	}
	if !entry.Ended {
		r.completeLost(ctx, entry)
	}
	live, err = r.conclude(ctx, entry)
	if err != nil {
		return nil, fmt.Errorf("write the outcome of run %s: %w", entry.Run.ID, err)
	}
	if err := r.journal.Remove(entry.UID); err != nil {
		return nil, err
	}
	if live == nil {
		return nil, errors.New("the resource is gone")
	}
	counts(r).run(ctx, entry)
	r.announceFailure(ctx, live, entry)
	return live, nil
}

// completeLost adds the end of a run whose gate has ended before it to its entry.
func (r recorder) completeLost(ctx context.Context, entry *podfiles.Entry) {
	now := time.Now()
	report, err := r.call.Report()
	if err == nil && report.Ended != "" {
		report, outcome := runstatus.Evaluate(report, "")
		complete(entry, report, outcome, endpoints(r).reportedAt())
		return
	}
	report.Failures = append(report.Failures, runstatus.Failure{Message: r.lostMessage(ctx, entry)})
	complete(entry, report, gate.OutcomeInterrupted, now)
	entry.Record = gate.Lost(entry.Input, entry.Decision, entry.Run.ID, now)
}

// lostMessage says why a run ended without a report, if that is known.
func (r recorder) lostMessage(ctx context.Context, entry *podfiles.Entry) string {
	if reason := r.podLock.ContainerEnded(ctx, entry.Run.Started.Time); reason != "" {
		return "the operator's container ended during the run: " + reason
	}
	return "the run ended without a report"
}

// persist writes an outcome while the API server may be away. If it fails, the entry stays in the journal.
func (r recorder) persist(ctx context.Context, entry *podfiles.Entry) error {
	err := r.repeat(ctx, "the outcome is written later", func() error {
		_, err := r.conclude(ctx, entry)
		return err
	})
	if err != nil {
		return fmt.Errorf("write the outcome of run %s: %w", entry.Run.ID, err)
	}
	return r.journal.Remove(entry.UID)
}

// repeat calls write until it succeeds, until its error is one that stays, or for as long as Intervals says. It logs errors once.
func (r recorder) repeat(ctx context.Context, note string, write func() error) error {
	deadline := time.Now().Add(r.intervals.Persist)
	reported := ""
	for delay := r.intervals.PersistRetry; ; delay = min(2*delay, r.intervals.PersistMaxRetry) {
		err := write()
		permanent := apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || r.resource.isGone(err) || errors.Is(err, errOvertaken)
		if err == nil || permanent || time.Now().After(deadline) {
			return err
		}
		if apierrors.IsConflict(err) {
			delay = r.intervals.PersistRetry
		} else if err.Error() != reported {
			reported = err.Error()
			r.out.Note("%s: %v", note, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(delay):
		}
	}
}

// conclude releases the slot of a run, and writes its outcome. It can be repeated. That a migration has failed is known to the
// others before its record says that the run has ended.
func (r recorder) conclude(ctx context.Context, entry *podfiles.Entry) (*unstructured.Unstructured, error) {
	err := endpoints(r).release(ctx, entry.Slot, entry.Run.ID, entry.Report)
	if err == nil {
		entry.Slot = nil
	}
	if stopErr := migrations(r).stop(ctx, entry); stopErr != nil {
		return nil, errors.Join(err, stopErr)
	}
	live, writeErr := r.writeOutcome(ctx, entry)
	if writeErr == nil {
		migrations(r).resume(ctx, entry)
	}
	return live, errors.Join(err, writeErr)
}

// writeOutcome writes record and status, as far as they are not written yet, and unless another run has begun since. It
// returns the resource as it is now, or nil if it is gone.
func (r recorder) writeOutcome(ctx context.Context, entry *podfiles.Entry) (*unstructured.Unstructured, error) {
	live, err := r.resource.get(ctx)
	if r.resource.isGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	record := r.record(live)
	other := record != nil && record.RunID != entry.Run.ID
	if live.GetUID() != entry.UID || other && record.Finished.After(entry.Run.Started.Time) {
		return live, nil
	}
	if record == nil || other || record.Outcome != entry.Record.Outcome || !record.Finished.Equal(entry.Record.Finished) {
		if live, err = r.setRecord(ctx, live, entry.Record); err != nil {
			return nil, err
		}
	}
	status := statusOf(live)
	id, _, _ := unstructured.NestedString(status, "lastRun", "id")
	outcome, _, _ := unstructured.NestedString(status, "lastRun", "outcome")
	if id == entry.Run.ID && outcome == string(entry.Run.Outcome) {
		return live, nil
	}
	about := r.statusResource(live)
	about.Generation = entry.Generation
	return r.writeStatus(ctx, live, runstatus.End(status, about, entry.Run, entry.Report, entry.Record))
}

// releaseCheck gives back the slot of a check while the API server may be away. If it fails, the entry stays in the journal.
func (r recorder) releaseCheck(ctx context.Context, entry *podfiles.Entry, report runstatus.Report) error {
	err := r.repeat(ctx, "the endpoint learns later that the drift check has ended", func() error {
		return endpoints(r).release(ctx, entry.Slot, entry.Run.ID, report)
	})
	if err != nil {
		return err
	}
	return r.journal.Remove(entry.UID)
}

// settleCheck ends a check whose gate could not. One without a report may have ended the container: it has failed, so that it is not due
// again at once. It returns the resource as it is now.
func (r recorder) settleCheck(ctx context.Context, entry *podfiles.Entry) (*unstructured.Unstructured, error) {
	report, err := r.call.Report()
	if err != nil {
		report = runstatus.Report{} // The check ended before it learned anything.
	}
	if err := endpoints(r).release(ctx, entry.Slot, entry.Run.ID, report); err != nil {
		return nil, fmt.Errorf("end the drift check %s: %w", entry.Run.ID, err)
	}
	r.removeOutput(entry)
	if report.Ended == "" {
		report.Failures = append(report.Failures, runstatus.Failure{Message: r.lostMessage(ctx, entry)})
		check := runstatus.Check{Report: report, Outcome: gate.OutcomeFailed, Finished: time.Now()}
		if err := r.writeCheck(ctx, entry, check, gate.Checked(entry.Input, check.Outcome, check.Finished)); err != nil {
			return nil, fmt.Errorf("write the result of the drift check %s: %w", entry.Run.ID, err)
		}
	}
	if err := r.journal.Remove(entry.UID); err != nil {
		return nil, err
	}
	return r.resource.get(ctx)
}

// removeOutput removes the output of a check, which shows the content of files.
func (r recorder) removeOutput(entry *podfiles.Entry) {
	if err := os.RemoveAll(filepath.Join(string(r.call.Artifacts()), entry.Run.ID)); err != nil {
		r.out.Note("remove the output of the drift check: %v", err)
	}
}

// writeCheck writes the result of a check, unless the resource has changed since it was read: then it is about something
// else. Status comes first: if the record cannot be written, the check is due again, and nothing is lost.
func (r recorder) writeCheck(ctx context.Context, entry *podfiles.Entry, check runstatus.Check, record gate.Record) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live, err := r.resource.get(ctx)
		if r.resource.isGone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		last := r.record(live)
		if live.GetUID() != entry.UID || live.GetGeneration() != entry.Generation || deleting(live) ||
			last == nil || last.RunID != record.RunID {
			r.out.Note("the result of the drift check does not count: the resource has changed since it started")
			return nil
		}
		status := statusOf(live)
		wanted := runstatus.EndCheck(status, r.statusResource(live), check)
		if !runstatus.Equal(status, wanted) {
			if live, err = r.writeStatus(ctx, live, wanted); err != nil {
				return fmt.Errorf("write status: %w", err)
			}
			if message := runstatus.FoundDrift(status, wanted); message != "" {
				r.announce(ctx, live, corev1.EventTypeWarning, runstatus.ReasonDrifted, message)
			}
		}
		if last.CheckAsked == record.CheckAsked && last.Checked.Equal(record.Checked) {
			return nil
		}
		if _, err = r.setRecord(ctx, live, record); err != nil {
			return fmt.Errorf("write the record: %w", err)
		}
		return nil
	})
}

func (r recorder) announceFailure(ctx context.Context, live *unstructured.Unstructured, entry *podfiles.Entry) {
	if !entry.Run.Outcome.Succeeded() {
		message := fmt.Sprintf("run %s: %s: %s", entry.Run.ID, entry.Run.Outcome, entry.Report.Messages())
		r.announce(ctx, live, corev1.EventTypeWarning, "RunFailed", message)
	}
}
