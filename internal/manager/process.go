package manager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/collection-operator/collection-operator/internal/platform/settings"
	"github.com/collection-operator/collection-operator/internal/platform/settings/source"
)

const (
	// readyInterval is the time between checks whether this manager is ready, or another one, while that is awaited.
	readyInterval = time.Second
	// awaitLimit is how long the leader waits for another manager to be ready with new settings until it reports that.
	awaitLimit = time.Minute
	// permissionInterval is the time between checks whether settings can be used that wait for a change of something else in the cluster.
	permissionInterval = time.Minute
	// retryInterval is the time between attempts to check or report settings while the API server does not answer.
	retryInterval = 10 * time.Second

	// trialTime is how long a manager must run until new settings are the last good ones.
	trialTime = 2 * time.Second

	// startLimit is the time in which the caches must be synced with new settings.
	startLimit = 2 * time.Minute

	// refusedVariable is the environment variable with the refusal of settings.
	refusedVariable = "MANAGER_REFUSED_SETTINGS"

	lastGoodUsed = "the last good settings are used"
	nothingUsed  = "the manager waits for correct settings, since no others were used before"
)

var (
	// errNewSettings is why a manager ends that is to start again with new settings.
	errNewSettings = errors.New("the settings have changed")
	errNotSynced   = fmt.Errorf("the caches are not synced after %s", startLimit)
	// errOtherProduct means that a manager that starts now would find another product, or cannot find that out.
	errOtherProduct = errors.New("the manager cannot start again now")
)

// process runs a manager with the settings of objects in its namespace. When these change, it ends the manager and executes its program again: the
// pod and its container stay, and no state of the former manager is left. Wrong settings change nothing.
type process struct {
	invocation *invocation
	source     *source.Source
	client     kubernetes.Interface
	log        logr.Logger
	// environ is the environment at the start, without refusedVariable, and refused the value of that.
	environ []string
	refused refusal

	// changes has the settings after each change.
	changes <-chan *source.Settings
	// running are the settings of the manager. isTrial is true if others are known to be good, and these are not yet.
	running *candidate
	isTrial bool
	// started is closed when the caches of a manager are synced, and proven when it runs with these settings.
	started, proven chan struct{}
	// seen are the last settings.
	seen atomic.Pointer[seenSettings]
}

// seenSettings are settings and why they are not used, or nil.
type seenSettings struct {
	settings *source.Settings
	warnings []string
	problem  error
}

// isProven is false if a manager has failed with settings of which it is not known that they are good, and others are.
func (p *process) isProven() bool {
	return !p.isTrial || isClosed(p.proven)
}

// connect does not use a proxy: Go reads its variables once, and they may be among the settings.
func (p *process) connect(ctx context.Context, namespace string) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	if p.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	resources, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	p.source, err = source.New(ctx, p.client, resources, namespace)
	return err
}

// execute replaces this program by itself. It returns only an error.
func (p *process) execute(refused refusal) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	environ := append(slices.Clone(p.environ), refusedVariable+"="+refused.String())
	return fmt.Errorf("executing %s again: %w", program, syscall.Exec(program, os.Args, environ))
}

// retryTime is the time after which to evaluate settings again that have not changed, or 0 if that is of no use.
func (p *process) retryTime(problem error) time.Duration {
	switch {
	case errors.Is(problem, errRefused):
		return max(time.Until(p.refused.Until), retryInterval)
	case errors.Is(problem, errNotPermitted), errors.Is(problem, errOtherProduct):
		return permissionInterval
	}
	return 0
}

// see notes what is known of the settings.
func (p *process) see(objects *source.Settings, c *candidate, problem error) {
	p.seen.Store(&seenSettings{objects, c.warnings, problem})
}

// status says what became of the settings that were seen last.
func (p *process) status(inUse map[string]string) settings.Status {
	seen := p.seen.Load()
	return settings.Status{
		Problem: seen.problem, Warnings: seen.warnings, Observed: seen.settings.ConfigMap.ResourceVersion, InUse: inUse,
	}
}

// valid reports whether the manager runs with the settings of the ConfigMap.
func (p *process) valid() bool { return p.seen.Load().problem == nil }

func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

// after returns nil for no duration.
func after(duration time.Duration) <-chan time.Time {
	if duration == 0 {
		return nil
	}
	return time.After(duration)
}

// choose sets the settings to run with: those of the objects, or the last good ones. If there are none, it waits for correct ones.
// Without objects, the command line is wrong, which is an error.
func (p *process) choose(ctx context.Context, probeAddress string) error {
	objects, err := p.source.Read(ctx)
	if err != nil {
		return err
	}
	data, err := p.source.ReadStatus(ctx)
	if err != nil {
		return err
	}
	status, err := settings.ParseStatus(data)
	if err != nil {
		p.log.Error(err, "the last good settings are lost")
	}
	p.changes = p.source.Watch(ctx)
	problem, err := p.choosePossible(ctx, objects, status.InUse)
	if err != nil || problem == nil {
		return err
	}
	waiting := serveWaiting(probeAddress)
	defer waiting.Close()
	return p.wait(ctx, objects, problem, status.InUse)
}

// wait returns when there are settings to run with.
func (p *process) wait(ctx context.Context, objects *source.Settings, problem error, lastGood map[string]string) error {
	logged := ""
	for problem != nil {
		if !objects.Exist() {
			return problem
		}
		if problem.Error() != logged {
			logged = problem.Error()
			p.log.Error(problem, nothingUsed)
		}
		status := p.status(lastGood)
		status.Problem, status.Waiting = problem, true
		if err := p.source.Report(ctx, objects, status, nothingUsed); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case objects = <-p.changes:
		case <-after(p.retryTime(problem)):
		}
		var err error
		if problem, err = p.choosePossible(ctx, objects, lastGood); err != nil {
			return err
		}
	}
	return nil
}

// choosePossible sets the settings to run with if there are any, and else returns why the objects cannot be used. lastGood is nil if
// no manager has run yet.
func (p *process) choosePossible(ctx context.Context, objects *source.Settings, lastGood map[string]string) (problem, err error) {
	chosen, problem, err := p.evaluate(ctx, objects)
	if err != nil {
		return nil, err
	}
	p.see(objects, chosen, problem)
	if problem == nil {
		p.running, p.isTrial = chosen, !maps.Equal(lastGood, chosen.data)
		return nil, nil
	}
	if lastGood == nil {
		return problem, nil
	}
	last, lastProblem := p.invocation.with(lastGood)
	if lastProblem == nil {
		lastProblem = last.settings.namespaces.keepPermitted(ctx, p.client)
		if lastProblem != nil && !errors.Is(lastProblem, errNotPermitted) {
			return nil, lastProblem
		}
	}
	if lastProblem != nil {
		return fmt.Errorf("%w\nand the last good settings cannot be used any more: %w", problem, lastProblem), nil
	}
	p.log.Error(problem, lastGoodUsed)
	p.running, p.isTrial = last, false
	return nil, nil
}

// evaluate returns why the settings cannot be used, and an error if that cannot be found out.
func (p *process) evaluate(ctx context.Context, objects *source.Settings) (c *candidate, problem, err error) {
	c, problem = p.invocation.with(objects.Data())
	if problem != nil {
		return c, problem, nil
	}
	if problem := p.refused.of(c.hash(), time.Now()); problem != nil {
		return c, problem, nil
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
