package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

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

// runProcess returns when the context ends, or with the manager's error.
func runProcess(ctx context.Context, i *invocation, environ []string) error {
	p := &process{invocation: i, started: make(chan struct{}), proven: make(chan struct{})}
	for _, variable := range environ {
		if refused, ok := strings.CutPrefix(variable, refusedVariable+"="); ok {
			p.refused = parseRefusal(refused)
		} else {
			p.environ = append(p.environ, variable)
		}
	}
	base, _ := i.with(nil) // Its problems are reported with those of the ConfigMap.
	p.log = zap.New(zap.UseFlagOptions(&base.settings.log)).WithName("settings")
	if err := p.connect(ctx, base.settings.render.ArtifactServer.Namespace); err != nil {
		return err
	}
	if err := p.choose(ctx, base.settings.probeAddress); err != nil || ctx.Err() != nil {
		return err
	}
	for key, value := range p.running.environment {
		if err := os.Setenv(key, value); err != nil {
			return fmt.Errorf("setting %s: %w", key, err)
		}
	}
	err := run(ctx, p.running.settings, p)
	switch {
	case ctx.Err() != nil:
		return err
	case errors.Is(err, errNewSettings):
		return p.execute(p.refused)
	case err != nil && !p.isProven() && !isTransient(err):
		p.log.Error(err, "the manager did not start with new settings, and starts again with the last good ones")
		return p.execute(p.refused.again(p.running.hash(), err, time.Now()))
	}
	return err
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
