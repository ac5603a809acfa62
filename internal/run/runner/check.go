package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runner/answer"
	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// driftCheck is a run in check mode.
type driftCheck struct{ recorder }

// run runs the playbook in check mode and writes the result to the resource. Nothing is written before: if the pod ends
// during a check, or the result cannot be written, the check is due again. Its output, which shows the content of files, is
// neither logged nor kept.
func (r driftCheck) run(ctx context.Context, s situation, p permit, lock *os.File) (answer.Answer, error) {
	if err := prepareFolder(r.scope, r.supplyOf(s.live), nil); err != nil {
		return answer.Answer{}, errors.Join(err, endpoints{r.scope}.release(ctx, p.slot, r.call.Ident, runstatus.Report{}))
	}
	entry := podfiles.Entry{UID: s.live.GetUID(), Check: true, Slot: p.slot, Run: runstatus.Run{ID: r.call.Ident}}
	if err := r.journal.Write(entry); err != nil {
		return answer.Answer{}, errors.Join(err, endpoints{r.scope}.release(ctx, p.slot, r.call.Ident, runstatus.Report{}))
	}
	if err := r.tickets.Remove(entry.UID, ""); err != nil {
		r.out.Note("ticket: %v", err)
	}
	r.out.Quiet = true
	report, outcome := (&play{scope: r.scope, permit: p, checking: true}).run(ctx, lock)
	r.out.Quiet = false
	if err := r.releaseCheck(ctx, &entry, report); err != nil {
		r.out.Note("the endpoint learns later that the drift check has ended: %v", err)
	}
	check := runstatus.Check{Report: report, Outcome: outcome, Finished: time.Now()}
	if err := os.RemoveAll(filepath.Join(string(r.call.Artifacts()), r.call.Ident)); err != nil {
		r.out.Note("remove the output of the drift check: %v", err)
	}
	r.note(s, check)
	record := gate.Checked(s.input, outcome, check.Finished)
	if err := r.write(ctx, s, check, record); err != nil {
		r.out.Note("the result of the drift check cannot be written, it is checked again later: %v", err)
		return answer.Again(gate.RecheckInterval), nil
	}
	return afterCheck(s, outcome, record), nil
}

// note writes one line about a check to the log.
func (r driftCheck) note(s situation, check runstatus.Check) {
	switch result := check.Result(r.statusResource(s.live)); result.Status {
	case metav1.ConditionUnknown:
		r.out.Note("drift check: unknown: %s", result.Message)
	default:
		r.out.Note("drift check: %s", result.Message)
	}
}

// write writes the result of a check, unless the resource has changed since it was read: then it is about something
// else. Status comes first: if the record cannot be written, the check is due again, and nothing is lost.
func (r driftCheck) write(ctx context.Context, s situation, check runstatus.Check, record gate.Record) error {
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

// afterCheck returns the answer after a check. One that did not take place because of the endpoint is tried again at the next
// look.
func afterCheck(s situation, outcome gate.Outcome, record gate.Record) answer.Answer {
	if !outcome.IsOfPlaybook() {
		return answer.Again(gate.RecheckInterval)
	}
	in := s.input
	in.Record, in.Now = &record, time.Now()
	next := gate.Decide(in)
	if next.Action == gate.ActionRun || next.Action == gate.ActionCheck {
		return answer.Again(time.Second)
	}
	return answer.Again(next.After)
}

// refuse answers a request for a drift check of a kind that does not support it, once.
func (r driftCheck) refuse(ctx context.Context, s situation) (situation, error) {
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
