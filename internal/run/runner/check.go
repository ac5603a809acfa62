package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// skippedModules is the variable with the modules that the engine does not run in a check, besides those that it knows.
const skippedModules = "ZOSCB_SKIPPED_MODULES"

// useCheckMode lets Ansible report what it would change without changing it. The options are one argument with --cmdline: alone,
// --check would be taken for one of ansible-runner.
func (r *runner) useCheckMode(command *exec.Cmd) {
	options := "--cmdline=--check"
	if r.files.kind.ShowDiff {
		options += " --diff"
	}
	command.Args = append(command.Args, options)
	command.Env = append(command.Env, skippedModules+"="+strings.Join(r.files.settings.DriftCheckSkipModules, ","))
}

// check runs the playbook in check mode and writes the result to the resource. Nothing is written before: if the pod ends
// during a check, or the result cannot be written, the check is due again. Its output, which shows the content of files, is
// neither logged nor kept.
func (r *runner) check(ctx context.Context, s situation, lock *os.File) (answer, error) {
	if err := r.prepareFolder(r.supplyOf(s.live), nil); err != nil {
		return answer{}, errors.Join(err, r.release(ctx, r.place, r.call.ident, runstatus.Report{}))
	}
	entry := journalEntry{UID: s.live.GetUID(), Check: true, Place: r.place, Run: runstatus.Run{ID: r.call.ident}}
	if err := r.journal.write(entry); err != nil {
		return answer{}, errors.Join(err, r.release(ctx, r.place, r.call.ident, runstatus.Report{}))
	}
	if err := r.tickets.remove(entry.UID, ""); err != nil {
		r.out.note("ticket: %v", err)
	}
	r.checking, r.out.quiet = true, true
	report, outcome := r.play(ctx, lock)
	r.checking, r.out.quiet = false, false
	if err := r.releaseCheck(ctx, &entry, report); err != nil {
		r.out.note("the endpoint learns later that the drift check has ended: %v", err)
	}
	check := runstatus.Check{Report: report, Outcome: outcome, Finished: time.Now()}
	if err := os.RemoveAll(filepath.Join(string(r.call.artifacts()), r.call.ident)); err != nil {
		r.out.note("remove the output of the drift check: %v", err)
	}
	r.noteCheck(s, check)
	record := gate.Checked(s.input, outcome, check.Finished)
	if err := r.recordCheck(ctx, s, check, record); err != nil {
		r.out.note("the result of the drift check cannot be written, it is checked again later: %v", err)
		return askAgain(gate.RecheckInterval), nil
	}
	return r.afterCheck(s, outcome, record), nil
}

// releaseCheck gives back the place of a check while the API server may be away. If it fails, the entry stays in the journal.
func (r *runner) releaseCheck(ctx context.Context, entry *journalEntry, report runstatus.Report) error {
	err := r.repeat(ctx, "the endpoint learns later that the drift check has ended", func() error {
		return r.release(ctx, entry.Place, entry.Run.ID, report)
	})
	if err != nil {
		return err
	}
	return r.journal.remove(entry.UID)
}

// settleCheck gives back the place of a check whose gate could not.
func (r *runner) settleCheck(ctx context.Context, entry *journalEntry) error {
	report, err := readReport(r.reportFile())
	if err != nil {
		report = runstatus.Report{} // The check ended before it learned anything.
	}
	if err := r.release(ctx, entry.Place, entry.Run.ID, report); err != nil {
		return fmt.Errorf("end the drift check %s: %w", entry.Run.ID, err)
	}
	return r.journal.remove(entry.UID)
}

// postponeCheck answers that a check waits for its endpoint. Until then the resource is as if no check were due: it is not less
// ready because of it.
func (r *runner) postponeCheck(ctx context.Context, s situation, after time.Duration) (answer, error) {
	s.decision.Action = gate.ActionSkip
	if s.decision.After == 0 || after < s.decision.After {
		s.decision.After = after
	}
	return r.skip(ctx, s)
}

// noteCheck writes one line about a check to the log.
func (r *runner) noteCheck(s situation, check runstatus.Check) {
	switch result := check.Result(r.statusResource(s.live)); result.Status {
	case metav1.ConditionUnknown:
		r.out.note("drift check: unknown: %s", result.Message)
	default:
		r.out.note("drift check: %s", result.Message)
	}
}

// recordCheck writes the result of a check, unless the resource has changed since it was read: then it is about something
// else. Status comes first: if the record cannot be written, the check is due again, and nothing is lost.
func (r *runner) recordCheck(ctx context.Context, s situation, check runstatus.Check, record gate.Record) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live, err := r.resource.get(ctx)
		if r.resource.isGone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		last := r.record(live)
		if live.GetUID() != s.live.GetUID() || live.GetGeneration() != s.live.GetGeneration() || deleting(live) ||
			last == nil || last.RunID != record.RunID {
			r.out.note("the result of the drift check does not count: the resource has changed since it started")
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

// afterCheck returns the answer after a check. One that did not take place because of the endpoint is tried again at the next
// look.
func (r *runner) afterCheck(s situation, outcome gate.Outcome, record gate.Record) answer {
	if !outcome.Checked() {
		return askAgain(gate.RecheckInterval)
	}
	in := s.input
	in.Record, in.Now = &record, time.Now()
	next := gate.Decide(in)
	if next.Action == gate.ActionRun || next.Action == gate.ActionCheck {
		return askAgain(time.Second)
	}
	return askAgain(next.After)
}

// refuseCheck answers a request for a drift check of a kind that does not support it, once.
func (r *runner) refuseCheck(ctx context.Context, s situation) (situation, error) {
	if !gate.RefusesCheck(s.input, s.decision) {
		return s, nil
	}
	live, err := r.writeStatus(ctx, s.live, runstatus.RefuseCheck(statusOf(s.live), r.statusResource(s.live)))
	if err != nil {
		return s, fmt.Errorf("write status: %w", err)
	}
	record := gate.ServeCheck(s.input)
	if live, err = r.setRecord(ctx, live, record); err != nil {
		return s, fmt.Errorf("write the record: %w", err)
	}
	s.live, s.input.Record = live, &record
	return s, nil
}
