package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runner/answer"
	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// driftCheck is a run in check mode.
type driftCheck struct{ recorder }

// run runs the playbook in check mode and writes the result to the resource. Nothing is written before: if the pod ends during a check, or the
// result cannot be written, the check is due again. If only its container ends, the check has failed. Its output, which shows the content of
// files, is neither logged nor kept.
func (r driftCheck) run(ctx context.Context, s situation, p permit, lock *os.File) (answer.Answer, error) {
	if err := prepareFolder(r.scope, r.supplyOf(s.live), nil); err != nil {
		return answer.Answer{}, errors.Join(err, endpoints{r.scope}.release(ctx, p.slot, r.call.Ident, runstatus.Report{}))
	}
	entry := podfiles.Entry{
		UID: s.live.GetUID(), Generation: s.live.GetGeneration(), Input: gate.Input{Record: s.input.Record, CheckAsked: s.input.CheckAsked},
		Check: true, Slot: p.slot, Run: runstatus.Run{ID: r.call.Ident, Started: metav1.Now()},
	}
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
	r.removeOutput(&entry)
	r.note(s, check)
	record := gate.Checked(s.input, outcome, check.Finished)
	if err := r.writeCheck(ctx, &entry, check, record); err != nil {
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
