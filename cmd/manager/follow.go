package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/collection-operator/collection-operator/internal/dynamicconfig"
	"github.com/collection-operator/collection-operator/internal/dynamicconfig/source"
	"github.com/collection-operator/collection-operator/internal/replica"
)

// seenSettings are settings and why they are not used, or nil.
type seenSettings struct {
	settings *source.Settings
	problem  error
}

// choose sets the settings to run with: those of the objects, or the last good ones. If there are none, it waits for correct ones.
// Without objects, the command line is wrong, which is an error.
func (p *process) choose(ctx context.Context, probeAddress string) error {
	objects, err := p.source.Read(ctx)
	if err != nil {
		return err
	}
	status, err := p.source.ReadStatus(ctx)
	if err != nil {
		return err
	}
	p.changes = p.source.Watch(ctx)
	problem, err := p.choosePossible(ctx, objects, status.InUse)
	if err != nil || problem == nil {
		return err
	}
	waiting := serveWaiting(probeAddress)
	defer waiting.Close()
	for problem != nil {
		if objects.ConfigMap.ResourceVersion == "" && len(objects.Brokers) == 0 {
			return problem
		}
		p.log.Error(problem, nothingUsed)
		waits := dynamicconfig.Status{Problem: problem, Observed: objects.ConfigMap.ResourceVersion, InUse: status.InUse}
		if err := p.source.Report(ctx, objects, waits, nothingUsed); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case objects = <-p.changes:
		}
		if problem, err = p.choosePossible(ctx, objects, nil); err != nil {
			return err
		}
	}
	return nil
}

// choosePossible sets the settings to run with if there are any, and else returns why the objects cannot be used. lastGood is nil if
// no manager has run yet.
func (p *process) choosePossible(ctx context.Context, objects *source.Settings, lastGood map[string]string) (problem, err error) {
	chosen, problem, err := p.judge(ctx, objects)
	if err != nil {
		return nil, err
	}
	p.seen.Store(&seenSettings{objects, problem})
	if problem == nil {
		p.running, p.isTrial = chosen, lastGood != nil && !maps.Equal(lastGood, chosen.data)
		return nil, nil
	}
	if lastGood == nil {
		return problem, nil
	}
	last, lastProblem := p.invocation.with(lastGood)
	if lastProblem != nil {
		return fmt.Errorf("%w\nand the last good settings are not valid for this version of the manager: %w", problem, lastProblem), nil
	}
	if err := last.settings.namespaces.keepPermitted(ctx, p.client); err != nil {
		return nil, err
	}
	p.log.Error(problem, lastGoodUsed)
	p.running = last
	return nil, nil
}

// judge returns why the settings cannot be used, and an error if that cannot be found out.
func (p *process) judge(ctx context.Context, objects *source.Settings) (c *candidate, problem, err error) {
	data, problem := objects.Data()
	c, candidateProblem := p.invocation.with(data)
	if problem = errors.Join(problem, candidateProblem); problem != nil {
		return c, problem, nil
	}
	if hash, reason, _ := strings.Cut(p.refused, " "); hash == c.hash() {
		return c, fmt.Errorf("the manager did not start with these settings: %s; correct them, or delete the manager's pods to try again", reason), nil
	}
	err = c.settings.namespaces.keepPermitted(ctx, p.client)
	if errors.Is(err, errNotPermitted) {
		return c, err, nil
	}
	return c, nil, err
}

// serveWaiting lets the pod live, but not be ready, while there are no settings to run with.
func serveWaiting(address string) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, nothingUsed, http.StatusServiceUnavailable)
	})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.ListenAndServe() }()
	return server
}

// manage runs a manager until the settings change.
func (p *process) manage(ctx context.Context, mgr manager.Manager, peers *replica.Peers) error {
	if err := mgr.Add(trial{p}); err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go p.follow(ctx, end, mgr.Elected(), peers)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case <-p.started:
			err = <-ended
		default: // controller-runtime does not end a manager whose caches are not synced. It has done nothing yet.
		}
	}
	if errors.Is(context.Cause(ctx), errNewSettings) {
		return errNewSettings
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

// follow ends the manager when the settings have changed and can be used. The leader reports what becomes of them.
func (p *process) follow(ctx context.Context, end context.CancelCauseFunc, elected <-chan struct{}, peers *replica.Peers) {
	leads, proven := false, p.proven
	var pending *source.Settings
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-elected:
			leads, elected = true, nil
		case <-proven:
			proven = nil
		case pending = <-p.changes:
		case <-again:
		}
		again = nil
		if pending != nil {
			restart, err := p.consider(ctx, pending)
			switch {
			case err != nil:
				p.log.Error(err, "the settings could not be checked, trying again")
				again = time.After(retryInterval)
				continue
			case restart:
				p.await(ctx, leads, peers)
				end(errNewSettings)
				return
			}
			pending = nil
		}
		if leads && proven == nil {
			if err := p.report(ctx); err != nil {
				p.log.Error(err, "the status of the settings is not written, trying again")
				again = time.After(retryInterval)
			}
		}
	}
}

// consider reports whether the manager must start again to use the settings.
func (p *process) consider(ctx context.Context, objects *source.Settings) (restart bool, err error) {
	c, problem, err := p.judge(ctx, objects)
	if err != nil {
		return false, err
	}
	before := p.seen.Swap(&seenSettings{objects, problem})
	if problem != nil {
		if before.problem == nil || before.problem.Error() != problem.Error() {
			p.log.Error(problem, lastGoodUsed)
		}
		return false, nil
	}
	if !c.equals(p.running) {
		p.log.Info("starting again with new settings", "resourceVersion", objects.ConfigMap.ResourceVersion)
		return true, nil
	}
	p.running.data = c.data
	return false, nil
}

// await gives another manager the time to start with the new settings, so that one of them always serves.
func (p *process) await(ctx context.Context, leads bool, peers *replica.Peers) {
	if !leads || !peers.Any(ctx) {
		return
	}
	timer := time.NewTimer(leaderDelay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// report writes what became of the settings.
func (p *process) report(ctx context.Context) error {
	seen := p.seen.Load()
	status := dynamicconfig.Status{Problem: seen.problem, Observed: seen.settings.ConfigMap.ResourceVersion, InUse: p.running.data}
	return p.source.Report(ctx, seen.settings, status, lastGoodUsed)
}

// valid reports whether the manager runs with the settings of the ConfigMap.
func (p *process) valid() bool { return p.seen.Load().problem == nil }
