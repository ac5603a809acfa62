package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/podlock"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// runner handles one call for one resource.
type runner struct {
	call      call
	files     *files
	out       *output
	podLock   podlock.Lock
	client    dynamic.Interface
	resource  resource
	journal   journal
	tickets   tickets
	intervals Intervals
	// installation is the UID of the operator's Lease.
	installation types.UID
	// place is that of the run, or nil.
	place *place
	// personal is the credential of the user that the run uses, or nil.
	personal *personal
	// waited is how long the run has waited for its endpoint.
	waited time.Duration
	// checking is true during a drift check.
	checking bool
}

// situation is a resource at the time of a decision.
type situation struct {
	live     *unstructured.Unstructured
	input    gate.Input
	decision gate.Decision
}

// handle decides and acts. An error means that nothing was started, and that the decision has to be made again.
func (r *runner) handle(ctx context.Context) (answer, error) {
	var err error
	if r.installation, err = r.podLock.Take(ctx); err != nil {
		return answer{}, err
	}
	live, err := r.resource.get(ctx)
	if err != nil {
		// ansible-operator asks again if the resource is gone, and finds out.
		return answer{}, fmt.Errorf("read the resource: %w", err)
	}
	lock, err := lockFolder(r.call.dir)
	if err != nil {
		return answer{}, err
	}
	if lock != nil {
		defer func() { _ = lock.Close() }()
		if live, err = r.recoverJournal(ctx, live); err != nil {
			return answer{}, err
		}
	}
	s := situation{live: live}
	if s.input, err = r.input(ctx, live); err != nil {
		return answer{}, err
	}
	s.input.Running = lock == nil
	s.decision = gate.Decide(s.input)
	if s.decision.Action != gate.ActionRun && s.decision.Action != gate.ActionCheck {
		if err := r.tickets.remove(live.GetUID(), ""); err != nil {
			return answer{}, err
		}
		if s, err = r.refuseCheck(ctx, s); err != nil {
			return answer{}, err
		}
		if s.decision.Action == gate.ActionSkip {
			r.countSkip(ctx)
		}
		return r.skip(ctx, s)
	}
	if err := r.refuseIfTerminating(ctx); err != nil {
		return answer{}, err
	}
	wait, err := r.mayStart(ctx, &s)
	if err != nil {
		return answer{}, err
	}
	isCheck := s.decision.Action == gate.ActionCheck
	switch {
	case wait != nil && isCheck:
		return r.postponeCheck(ctx, s, wait.After)
	case wait != nil:
		return r.wait(ctx, s, *wait)
	case isCheck:
		return r.check(ctx, s, lock)
	}
	return r.run(ctx, s, lock)
}

// input reads what the decision depends on.
func (r *runner) input(ctx context.Context, live *unstructured.Unstructured) (gate.Input, error) {
	f, supply := r.files, r.supplyOf(live)
	handed, _ := supply.Declared(gate.ReceivedSpec(f.given))
	wanted, _ := supply.Declared(specOf(live))
	var err error
	facts := gate.Facts{Event: f.event, Variables: handed, Digest: f.settings.Digest}
	if facts.References, err = r.readReferences(ctx, f.kind.References(handed)); err != nil {
		return gate.Input{}, err
	}
	if facts.Secrets, err = r.readSecrets(ctx, f.kind.SecretNames(handed)); err != nil {
		return gate.Input{}, err
	}
	if facts.EndpointVariables, err = f.endpointVariables(text(handed["zosendpoint"])); err != nil {
		return gate.Input{}, err
	}
	annotations := live.GetAnnotations()
	period, err := time.ParseDuration(gate.Annotation(annotations, gate.AnnotationReconcilePeriod))
	if err != nil {
		period = 0
	}
	return gate.Input{
		Settings: f.settings, Kind: f.kind, Now: time.Now(), Event: f.event, Current: supply.Fingerprint(f.key, facts),
		Installation: r.installation, Defaults: supply.RanWith(handed), Accepts: r.accepts(live),
		Stale:  !reflect.DeepEqual(handed, wanted) || deleting(live) != (f.event == gate.EventDelete),
		Record: r.record(live), Baseline: runstatus.IsBaseline(statusOf(live), live.GetGeneration()), LastRun: runstatus.LastRun(statusOf(live)),
		Applied: runstatus.Applied(statusOf(live)), Migrated: runstatus.LastMigration(statusOf(live)),
		UID: live.GetUID(), Requested: annotations[gate.AnnotationRequestedAt], Period: period,
		CheckAsked: annotations[gate.AnnotationCheckRequestedAt],
		Abandon:    annotations[gate.AnnotationAbandon] == "true", RunNow: annotations[endpoint.AnnotationRunNow],
	}, nil
}

// record returns the record of a resource, or nil if it has none with a valid signature.
func (r *runner) record(live *unstructured.Unstructured) *gate.Record {
	annotation := live.GetAnnotations()[gate.AnnotationRecord]
	if annotation == "" {
		return nil
	}
	return r.files.key.Verify(r.files.identity(), annotation)
}

// setRecord writes a record to a resource.
func (r *runner) setRecord(ctx context.Context, live *unstructured.Unstructured, record gate.Record) (*unstructured.Unstructured, error) {
	return r.resource.setAnnotation(ctx, live, gate.AnnotationRecord, r.files.key.Sign(r.files.identity(), record))
}

// skip answers without a run.
func (r *runner) skip(ctx context.Context, s situation) (answer, error) {
	record, live := s.input.Record, s.live
	switch s.decision.Action {
	case gate.ActionFinish:
		return answer{done: true}, nil
	case gate.ActionAbandon:
		return r.abandon(ctx, s)
	case gate.ActionAdopt:
		adopted := gate.Baseline(s.input)
		record = &adopted
		var err error
		if live, err = r.setRecord(ctx, live, adopted); err != nil {
			return answer{}, fmt.Errorf("write the record: %w", err)
		}
	case gate.ActionSkip:
	default:
		return askAgain(s.decision.After), nil
	}
	status := statusOf(live)
	wanted := runstatus.Skip(status, r.statusResource(live), *record, s.decision)
	if !runstatus.Equal(status, wanted) {
		if _, err := r.writeStatus(ctx, live, wanted); err != nil {
			return answer{}, fmt.Errorf("write status: %w", err)
		}
	}
	return askAgain(s.decision.After), nil
}

// statusResource returns what status depends on.
func (r *runner) statusResource(live *unstructured.Unstructured) runstatus.Resource {
	spec, supply := specOf(live), r.supplyOf(live)
	_, ignored := supply.Declared(spec)
	return runstatus.Resource{
		Kind: live.GetKind(), Name: live.GetName(), Version: r.files.settings.Version, MaxRetries: r.files.settings.MaxRetries,
		Generation: live.GetGeneration(), Deleting: deleting(live), ShowDiff: r.files.kind.ShowDiff, Authors: runstatus.AuthorsOf(live.GetManagedFields()),
		Ignored: ignored, DefaultsKept: supply.Kept(spec), DefaultsNew: supply.New(r.files.key, spec), Now: time.Now(),
	}
}

// run runs the playbook and records what it did.
func (r *runner) run(ctx context.Context, s situation, lock *os.File) (answer, error) {
	entry, err := r.begin(ctx, s)
	if err != nil {
		return answer{}, errors.Join(err, r.release(ctx, r.place, r.call.ident, runstatus.Report{}))
	}
	if err := r.tickets.remove(entry.UID, ""); err != nil {
		r.out.note("ticket: %v", err)
	}
	if s.decision.Reason == gate.ReasonAsked {
		r.announce(ctx, s.live, corev1.EventTypeNormal, "RunRequested", fmt.Sprintf("run %s was requested by annotation", entry.Run.ID))
	}
	report, outcome := r.play(ctx, lock)
	complete(entry, report, outcome, time.Now())
	if err := r.journal.write(*entry); err != nil {
		r.out.note("journal: %v", err)
	}
	if err := r.persist(ctx, entry); err != nil {
		return answer{}, err
	}
	r.countRun(ctx, entry)
	r.announceFailure(ctx, s.live, entry)
	r.tidy(ctx, s.live)
	return r.after(s, entry.Record), nil
}

// after returns the answer once a run is recorded.
func (r *runner) after(s situation, record gate.Record) answer {
	if s.input.Event == gate.EventDelete && record.Deleted == s.input.UID {
		return answer{done: true}
	}
	in := s.input
	in.Record, in.LastRun, in.Now, in.Running, in.Stale = &record, nil, time.Now(), false, false
	next := gate.Decide(in)
	switch {
	case next.Action == gate.ActionRun || next.Action == gate.ActionCheck:
		return askAgain(time.Second)
	case next.After == 0 && record.Outcome == gate.OutcomeSucceeded && in.Event == gate.EventCreate:
		return answer{done: true}
	default:
		return askAgain(next.After)
	}
}
