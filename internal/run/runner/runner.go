// Package runner is the gate's input and output: the program that ansible-operator starts as ansible-runner. It reads what a
// decision depends on, calls gate.Decide, runs the real ansible-runner if the playbook is to run, and writes what the run did
// to the resource. It never waits for something else to happen: "not now" is an answer to ansible-operator.
package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/podclient"
	"github.com/collection-operator/collection-operator/internal/run/podlock"
	"github.com/collection-operator/collection-operator/internal/run/runner/answer"
	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
	"github.com/collection-operator/collection-operator/internal/run/runner/process"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// Main handles one call of ansible-runner and returns the exit code. Only calls of the form that ansible-operator uses pass
// the gate; others go to the real program.
func Main(ctx context.Context, intervals Intervals, args []string) int {
	if len(args) == 0 || args[0] != "run" {
		return fail(execReal(args))
	}
	call, err := podfiles.ParseCall(args)
	if err != nil {
		return fail(err)
	}
	receiver, err := answer.NewReceiver(call)
	if err != nil {
		return fail(err)
	}
	out := process.OpenOutput(call.Ident)
	result := handle(ctx, intervals, call, out)
	if err := call.Artifacts().End(call.Ident); err != nil {
		out.Note("artifacts: %v", err)
	}
	return fail(receiver.Post(ctx, result))
}

func fail(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "gate:", err)
	return 1
}

// handle returns what to tell ansible-operator.
func handle(ctx context.Context, intervals Intervals, call podfiles.Call, out *process.Output) answer.Answer {
	r, err := open(intervals, call, out)
	if err != nil {
		out.Note("the gate cannot be used: %v", err)
		if err := showUnusable(ctx, intervals, call, err); err != nil {
			out.Note("status is not written: %v", err)
		}
		return answer.Again(intervals.Retry)
	}
	result, err := r.handle(ctx)
	if apierrors.IsConflict(err) {
		return answer.Again(intervals.Conflict)
	}
	if err != nil {
		r.out.Note("no run is started: %v", err)
		if r.installation == "" { // Another pod may have the lock.
			return answer.Again(intervals.Retry)
		}
		if err := r.show(ctx, err); err != nil {
			r.out.Note("status is not written: %v", err)
		}
		return answer.Again(intervals.Retry)
	}
	return result
}

// open reads everything but the cluster.
func open(intervals Intervals, call podfiles.Call, out *process.Output) (*runner, error) {
	files, err := podfiles.ReadFiles(call)
	if err != nil {
		return nil, err
	}
	out.SetResource(files.KindName, files.Namespace, files.Name)
	if err := process.AdoptOrphans(); err != nil {
		return nil, fmt.Errorf("become the parent of orphans: %w", err)
	}
	client, err := podclient.New()
	if err != nil {
		return nil, err
	}
	lock, err := podlock.FromEnvironment(client, files.Settings.Operator)
	if err != nil {
		return nil, err
	}
	return &runner{&scope{
		call: call, files: files, out: out, podLock: lock, client: client, resource: newResource(client, files),
		journal: podfiles.Journal{Dir: files.StateDir}, tickets: podfiles.NewTickets(files.StateDir, intervals.TicketGrace, intervals.TicketLifetime), intervals: intervals,
	}}, nil
}

// runner handles one call for one resource.
type runner struct{ *scope }

// handle decides and acts. An error means that nothing was started, and that the decision has to be made again.
func (r *runner) handle(ctx context.Context) (answer.Answer, error) {
	var err error
	if r.installation, err = r.podLock.Take(ctx); err != nil {
		return answer.Answer{}, err
	}
	live, err := r.resource.get(ctx)
	if err != nil {
		// ansible-operator asks again if the resource is gone, and finds out.
		return answer.Answer{}, fmt.Errorf("read the resource: %w", err)
	}
	lock, err := podfiles.LockFolder(r.call.Dir)
	if err != nil {
		return answer.Answer{}, err
	}
	if lock != nil {
		defer func() { _ = lock.Close() }()
		if live, err = (recorder{r.scope}).recover(ctx, live); err != nil {
			return answer.Answer{}, err
		}
	}
	s := situation{live: live}
	if s.input, err = readInput(ctx, r.scope, live); err != nil {
		return answer.Answer{}, err
	}
	s.input.Running = lock == nil
	s.decision = gate.Decide(s.input)
	if s.decision.Action != gate.ActionRun && s.decision.Action != gate.ActionCheck {
		if err := r.tickets.Remove(live.GetUID(), ""); err != nil {
			return answer.Answer{}, err
		}
		if s, err = (driftCheck{recorder{r.scope}}).refuse(ctx, s); err != nil {
			return answer.Answer{}, err
		}
		if s.decision.Action == gate.ActionSkip {
			counts{r.scope}.skip(ctx)
		}
		return r.skip(ctx, s)
	}
	if err := r.refuseIfTerminating(ctx); err != nil {
		return answer.Answer{}, err
	}
	permit, err := mayStart(ctx, r.scope, s)
	defer func() { _ = permit.shared.Close() }()
	var wait *waitError
	if err != nil && !errors.As(err, &wait) {
		return answer.Answer{}, err
	}
	s.decision.Canary = permit.slot != nil && permit.slot.Canary
	isCheck := s.decision.Action == gate.ActionCheck
	switch {
	case wait != nil && isCheck:
		return r.postponeCheck(ctx, s, wait.After)
	case wait != nil:
		return r.wait(ctx, s, wait)
	case isCheck:
		return driftCheck{recorder{r.scope}}.run(ctx, s, permit, lock)
	}
	return r.run(ctx, s, permit, lock)
}

// wait answers that a run waits. Status says why, unless that usually ends within seconds.
func (r *runner) wait(ctx context.Context, s situation, w *waitError) (answer.Answer, error) {
	if w.Brief && time.Since(w.since) < r.intervals.Visible {
		return answer.Again(w.After), nil
	}
	shown := runstatus.Waiting{Reason: string(w.Reason), Message: w.Message, Since: metav1.NewTime(w.since)}
	if !w.Until.IsZero() {
		shown.Until = new(metav1.NewTime(w.Until.UTC().Truncate(time.Second)))
	}
	status := statusOf(s.live)
	wanted := runstatus.Wait(status, r.statusResource(s.live), shown)
	if !runstatus.Equal(status, wanted) {
		if _, err := r.writeStatus(ctx, s.live, wanted); err != nil {
			return answer.Answer{}, fmt.Errorf("write status: %w", err)
		}
	}
	return answer.Again(w.After), nil
}

// postponeCheck answers that a check waits for its endpoint. Until then the resource is as if no check were due: it is not less
// ready because of it.
func (r *runner) postponeCheck(ctx context.Context, s situation, after time.Duration) (answer.Answer, error) {
	s.decision.Action = gate.ActionSkip
	if s.decision.After == 0 || after < s.decision.After {
		s.decision.After = after
	}
	return r.skip(ctx, s)
}

// skip answers without a run.
func (r *runner) skip(ctx context.Context, s situation) (answer.Answer, error) {
	record, live := s.input.Record, s.live
	switch s.decision.Action {
	case gate.ActionFinish:
		return answer.Answer{Done: true}, nil
	case gate.ActionAbandon:
		return endpoints{r.scope}.abandon(ctx, s)
	case gate.ActionAdopt:
		adopted := gate.Baseline(s.input)
		record = &adopted
		var err error
		if live, err = r.setRecord(ctx, live, adopted); err != nil {
			return answer.Answer{}, fmt.Errorf("write the record: %w", err)
		}
	case gate.ActionSkip:
	default:
		return answer.Again(s.decision.After), nil
	}
	status := statusOf(live)
	wanted := runstatus.Skip(status, r.statusResource(live), *record, s.decision)
	if !runstatus.Equal(status, wanted) {
		if _, err := r.writeStatus(ctx, live, wanted); err != nil {
			return answer.Answer{}, fmt.Errorf("write status: %w", err)
		}
	}
	return answer.Again(s.decision.After), nil
}

// run runs the playbook and records what it did.
func (r *runner) run(ctx context.Context, s situation, p permit, lock *os.File) (answer.Answer, error) {
	record := recorder{r.scope}
	entry, err := record.begin(ctx, s, p)
	if err != nil {
		return answer.Answer{}, errors.Join(err, endpoints{r.scope}.release(ctx, p.slot, r.call.Ident, runstatus.Report{}))
	}
	if err := r.tickets.Remove(entry.UID, ""); err != nil {
		r.out.Note("ticket: %v", err)
	}
	if s.decision.Reason == gate.ReasonAsked {
		r.announce(ctx, s.live, corev1.EventTypeNormal, "RunRequested", fmt.Sprintf("run %s was requested by annotation", entry.Run.ID))
	}
	report, outcome := (&play{scope: r.scope, permit: p}).run(ctx, lock)
	complete(entry, report, outcome, time.Now())
	if err := r.journal.Write(*entry); err != nil {
		r.out.Note("journal: %v", err)
	}
	if err := record.persist(ctx, entry); err != nil {
		return answer.Answer{}, err
	}
	counts{r.scope}.run(ctx, entry)
	record.announceFailure(ctx, s.live, entry)
	tidy(ctx, r.scope, s.live)
	return after(s, entry.Record), nil
}

// after returns the answer once a run is recorded.
func after(s situation, record gate.Record) answer.Answer {
	if s.input.Event == gate.EventDelete && record.Deleted == s.input.UID {
		return answer.Answer{Done: true}
	}
	in := s.input
	in.Record, in.LastRun, in.Now, in.Running, in.Stale = &record, nil, time.Now(), false, false
	next := gate.Decide(in)
	switch {
	case next.Action == gate.ActionRun || next.Action == gate.ActionCheck:
		return answer.Again(time.Second)
	case next.After == 0 && record.Outcome == gate.OutcomeSucceeded && in.Event == gate.EventCreate:
		return answer.Answer{Done: true}
	default:
		return answer.Again(next.After)
	}
}

func execReal(args []string) error {
	path, err := exec.LookPath(os.Getenv(realRunner))
	if err != nil {
		return fmt.Errorf("%s: %w", realRunner, err)
	}
	return syscall.Exec(path, append([]string{"ansible-runner"}, args...), os.Environ())
}

// Lock takes the lock of the operator's pod, and waits for it. Until then it answers probes at the port in ZOSCB_PROBE_PORT.
func Lock(ctx context.Context) error {
	settings, err := podfiles.ReadSettings()
	if err != nil {
		return err
	}
	client, err := podclient.New()
	if err != nil {
		return err
	}
	l, err := podlock.FromEnvironment(client, settings.Operator)
	if err != nil {
		return err
	}
	return podlock.AcquireWithProbes(ctx, l, ":"+os.Getenv("ZOSCB_PROBE_PORT"))
}

// KillChildren ends the run that this process has started, whatever it does at the moment.
func KillChildren() error { return process.KillOrphans(DefaultIntervals().Grace, true) }
