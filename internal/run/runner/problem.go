package runner

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/run/podclient"
	"github.com/collection-operator/collection-operator/internal/run/podlock"
	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// errTerminating means that this pod starts no run any more.
var errTerminating = errors.New("is terminating: the next pod starts it")

// refuseIfTerminating returns an error if this pod is to end. ansible-operator goes on with the resources in its queue after SIGTERM.
func (r *scope) refuseIfTerminating(ctx context.Context) error {
	termination, err := r.podLock.Termination(ctx)
	if err != nil {
		return err
	}
	if termination.Deleted {
		return fmt.Errorf("pod %s %w", r.podLock.PodName, errTerminating)
	}
	return nil
}

// passes reports whether an error ends without anybody doing something: it is only logged.
func passes(err error) bool {
	var network *url.Error
	return errors.Is(err, errTerminating) || errors.As(err, &network) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || apierrors.IsConflict(err)
}

// showUnusable lets status say why the gate cannot be used. That this pod has the operator's lock was known when it started.
func showUnusable(ctx context.Context, intervals Intervals, call podfiles.Call, problem error) error {
	client, err := podclient.New()
	if err != nil {
		return err
	}
	kind, namespace, name := call.Resource()
	state := podfiles.StateDir()
	r := &scope{
		call: call, podLock: podlock.OfPod(client), resource: resource{client: client.Resource(kind.Resource).Namespace(namespace), name: name},
		journal: podfiles.Journal{Dir: state}, tickets: podfiles.NewTickets(state, intervals.TicketGrace, intervals.TicketLifetime), intervals: intervals,
	}
	if err := r.refuseIfTerminating(ctx); err != nil {
		return err
	}
	return r.show(ctx, problem)
}

// show lets status say why no run can start, once that has lasted, unless a run is in progress, or its outcome is not written yet.
func (r *scope) show(ctx context.Context, problem error) error {
	if passes(problem) {
		return nil
	}
	lock, err := podfiles.LockFolder(r.call.Dir)
	if lock == nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	live, err := r.resource.get(ctx)
	if err != nil {
		return err
	}
	now, status := time.Now(), statusOf(live)
	if run, _, _ := unstructured.NestedMap(status, "lastRun"); run != nil && run["outcome"] == nil {
		if entry, err := r.journal.Read(live.GetUID()); entry != nil || err != nil { // Otherwise its pod has ended.
			return err
		}
	}
	since := podfiles.Since(now, runstatus.WaitingSince(status, runstatus.ReasonCannotStart), r.tickets.Read(withError, live.GetUID()).Since)
	err = r.tickets.Write(withError, live.GetUID(), podfiles.Ticket{Since: since, Next: now.Add(r.intervals.Retry)})
	if err == nil && now.Sub(since) < r.intervals.Visible { // Without a ticket, nobody will know since when.
		return nil
	}
	about := runstatus.Resource{
		Kind: live.GetKind(), Name: live.GetName(), Generation: live.GetGeneration(), Deleting: deleting(live),
		Authors: runstatus.AuthorsOf(live.GetManagedFields()), Now: now,
	}
	message := fmt.Sprintf("no run can start: %s: if it stays so, see the log of the operator's pod", podfiles.ErrorText(problem))
	wanted := runstatus.CannotStart(status, about, message, metav1.NewTime(since))
	if runstatus.Equal(status, wanted) {
		return nil
	}
	_, err = r.resource.setStatus(ctx, live, wanted)
	return err
}
