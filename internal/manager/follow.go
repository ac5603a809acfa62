package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/collection-operator/collection-operator/internal/controller/conflict"
	"github.com/collection-operator/collection-operator/internal/platform/settings/source"
	"github.com/collection-operator/collection-operator/internal/source/replica"
)

// manage runs a manager until the settings change.
func (p *process) manage(ctx context.Context, mgr manager.Manager, peers *replica.Peers, ready *readiness) error {
	if err := mgr.Add(trial{p}); err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if p.isTrial {
		time.AfterFunc(startLimit, func() {
			if !isClosed(p.started) {
				end(errNotSynced)
			}
		})
	}
	go (&follower{process: p, reader: mgr.GetAPIReader(), peers: peers, ready: ready}).run(ctx, end, mgr.Elected())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		if isClosed(p.started) {
			err = <-ended
		} // Else it has done nothing yet, and controller-runtime does not end a manager whose caches are not synced.
	}
	if cause := context.Cause(ctx); errors.Is(cause, errNewSettings) || errors.Is(cause, errNotSynced) {
		return cause
	}
	return err
}

// trial proves that a manager runs with its settings.
type trial struct{ *process }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (trial) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. The manager calls it when its caches are synced. Its servers may still fail: controller-runtime
// starts them without waiting for their errors.
func (t trial) Start(ctx context.Context) error {
	close(t.started)
	if t.isTrial {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(trialTime):
		}
	}
	close(t.proven)
	return nil
}

// follower ends the manager when the settings have changed and can be used. That of the leader reports what becomes of them.
type follower struct {
	*process
	reader client.Reader
	peers  *replica.Peers
	ready  *readiness

	leads bool
	// pending are settings to evaluate, or nil.
	pending *source.Settings
	// awaited is the hash of settings with which another manager is to start first, and awaitedSince when that began.
	awaited      string
	awaitedSince time.Time
	// announced is what this manager has announced to others.
	announced announcement
}

// announce says in the annotations of the pod with which settings this manager is ready, and which it has refused. It returns false as
// long as the manager is not ready.
func (f *follower) announce(ctx context.Context) (bool, error) {
	if f.peers == nil {
		return true, nil
	}
	if ready := f.ready.check() == nil; !ready {
		return false, nil
	}
	current := announcement{inUse: f.running.hash(), refused: f.refused.announced()}
	if current == f.announced {
		return true, nil
	}
	annotations := map[string]any{replica.AnnotationSettings: current.inUse, replica.AnnotationRefused: nil}
	if current.refused != "" {
		annotations[replica.AnnotationRefused] = current.refused
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return false, err
	}
	_, err = f.client.CoreV1().Pods(f.peers.Namespace).Patch(ctx, f.peers.Pod, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("writing the annotations of pod %q: %w", f.peers.Pod, err)
	}
	f.announced = current
	return true, nil
}

func (f *follower) run(ctx context.Context, end context.CancelCauseFunc, elected <-chan struct{}) {
	proven := f.proven
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-elected:
			f.leads, elected = true, nil
		case <-proven:
			proven = nil
		case f.pending = <-f.changes:
		case <-again:
		}
		delay, err := f.step(ctx, proven == nil)
		switch {
		case errors.Is(err, errNewSettings):
			end(err)
			return
		case err != nil:
			f.log.Error(err, "the settings could not be checked, trying again")
			delay = retryInterval
		}
		again = after(delay)
	}
}

// step returns the time after which to call it again if nothing changes, or 0. The error is errNewSettings if the manager is to end.
func (f *follower) step(ctx context.Context, isProven bool) (time.Duration, error) {
	delay, err := f.consider(ctx)
	if err != nil || !isProven {
		return delay, err
	}
	if f.leads {
		if err := f.source.Report(ctx, f.seen.Load().settings, f.status(f.running.data), lastGoodUsed); err != nil {
			return 0, err
		}
	}
	isAnnounced, err := f.announce(ctx)
	if !isAnnounced && (delay == 0 || delay > readyInterval) {
		delay = readyInterval
	}
	return delay, err
}

// consider evaluates pending settings, and forgets them unless they are to be evaluated again after the time that it returns.
func (f *follower) consider(ctx context.Context) (time.Duration, error) {
	if f.pending == nil {
		return 0, nil
	}
	c, problem, err := f.evaluate(ctx, f.pending)
	if err == nil && problem == nil && !c.equals(f.running) {
		c, problem, err = f.evaluateLive(ctx)
	}
	if err != nil {
		return 0, err
	}
	delay := f.retryTime(problem)
	switch {
	case problem != nil:
	case c.equals(f.running):
		f.running.data = c.data
	default:
		if delay, problem, err = f.handOver(ctx, c); err != nil {
			return 0, err
		}
		if problem == nil {
			return delay, nil
		}
	}
	if before := f.seen.Load().problem; problem != nil && (before == nil || before.Error() != problem.Error()) {
		f.log.Error(problem, lastGoodUsed)
	}
	f.see(f.pending, c, problem)
	if delay == 0 {
		f.pending = nil
	}
	return delay, nil
}

// evaluateLive evaluates the settings as they are. A watch may begin with older ones than those that the manager has read before.
func (f *follower) evaluateLive(ctx context.Context) (c *candidate, problem, err error) {
	live, err := f.source.Read(ctx)
	if err != nil {
		return nil, nil, err
	}
	f.pending = live
	return f.evaluate(ctx, live)
}

// handOver returns errNewSettings if the manager is to end now to use the settings. Else it returns when to try again, and a problem if
// that is worth a report.
func (f *follower) handOver(ctx context.Context, c *candidate) (delay time.Duration, problem, err error) {
	if f.leads && f.peers != nil {
		if delay, problem, err = f.awaitPeer(ctx, c); delay != 0 || err != nil {
			return delay, problem, err
		}
	}
	err = conflict.CheckNeighbors(ctx, f.reader)
	if err == nil {
		err = conflict.CheckPredecessor(ctx, f.reader, f.running.settings.render.ArtifactServer.Namespace)
	}
	if err != nil {
		return permissionInterval, fmt.Errorf("%w: %w", errOtherProduct, err), nil
	}
	f.log.Info("starting again with new settings", "resourceVersion", f.pending.ConfigMap.ResourceVersion)
	return 0, nil, errNewSettings
}

// awaitPeer returns no delay if another manager is ready with the settings, or there is none: one of several always serves.
func (f *follower) awaitPeer(ctx context.Context, c *candidate) (delay time.Duration, problem, err error) {
	hash := c.hash()
	if f.awaited != hash {
		f.awaited, f.awaitedSince = hash, time.Now()
	}
	others, err := f.peers.Successors(ctx, hash)
	switch {
	case err != nil || others.MayEnd:
		return 0, nil, err
	case others.Refused || time.Since(f.awaitedSince) >= awaitLimit:
		return permissionInterval, fmt.Errorf("the leader uses these settings when another manager is ready with them: %s; "+
			"to use them without waiting, delete the leader's pod", others.Message), nil
	}
	return readyInterval, nil, nil
}

// announcement is what the annotations of a manager's pod tell the leader.
type announcement struct{ inUse, refused string }
