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

	"github.com/collection-operator/collection-operator/internal/dynamicconfig/source"
	"github.com/collection-operator/collection-operator/internal/printable"
)

const (
	// leaderDelay is how long the leader waits with new settings, so that another manager has started with them and serves meanwhile.
	leaderDelay = 10 * time.Second
	// retryInterval is the time between attempts to check or report settings while the API server does not answer.
	retryInterval = 10 * time.Second

	// trialTime is how long a manager must run until new settings are the last good ones.
	trialTime = 2 * time.Second

	// refusedVariable is the environment variable with the hash of settings with which the manager did not start, and the reason.
	refusedVariable = "MANAGER_REFUSED_SETTINGS"

	lastGoodUsed = "the last good settings are used"
	nothingUsed  = "the manager waits for correct settings, since no others were used before"
)

// errNewSettings is why a manager ends that is to start again with new settings.
var errNewSettings = errors.New("the settings have changed")

// process runs a manager with the settings of objects in its namespace. When these change, it ends the manager and executes its program again: the
// pod and its container stay, and no state of the former manager is left. Wrong settings change nothing.
type process struct {
	invocation *invocation
	source     *source.Source
	client     kubernetes.Interface
	log        logr.Logger
	// environ is the environment at the start, without refusedVariable, and refused the value of that.
	environ []string
	refused string

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
			p.refused = refused
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
		return p.execute("")
	case err != nil && !p.isProven():
		p.log.Error(err, "the manager did not start with new settings, and starts again with the last good ones")
		return p.execute(p.running.hash() + " " + printable.Line(err.Error(), 1024))
	}
	return err
}

// isProven is false if a manager has failed with settings of which it is not known that they are good, and others are.
func (p *process) isProven() bool {
	select {
	case <-p.proven:
		return true
	default:
		return !p.isTrial
	}
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
func (p *process) execute(refused string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	environ := slices.Clone(p.environ)
	if refused != "" {
		environ = append(environ, refusedVariable+"="+refused)
	}
	return fmt.Errorf("executing %s again: %w", program, syscall.Exec(program, os.Args, environ))
}
