package zosendpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/budget"
	"github.com/collection-operator/collection-operator/internal/platform/dialguard"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/probe"
)

const (
	// unreachableInterval is the maximum delay before an endpoint that did not answer, or was not probed, is probed again.
	unreachableInterval = 30 * time.Second
	// outageInterval is the maximum delay between probes while runs wait for the end of an outage, and between looks for
	// pods that are gone while runs wait for each other.
	outageInterval = 10 * time.Second
	// exceededInterval is the delay, give or take a tenth, before a ZosEndpoint that is not probed checks whether it may be.
	exceededInterval = time.Minute
	// recoveryInterval is the delay before the manager tries again to end an outage that a probe has found to be over.
	recoveryInterval = time.Second
)

// spec is what the spec of an endpoint says.
type spec struct {
	settings endpoint.Settings
	hostKeys []ssh.PublicKey
}

// parseSpec parses what the API server could not check. All problems are in the error.
func parseSpec(e *v2beta2.ZosEndpoint) (s spec, err error) {
	stalled := func(reason string, err error) error {
		if err == nil {
			return nil
		}
		return status.Stalled(reason, err)
	}
	_, variables := render.Variables(e.Spec.Variables)
	var problems []error
	for i, line := range e.Spec.HostKeys {
		key, err := probe.ParseHostKey(line)
		if err != nil {
			problems = append(problems, fmt.Errorf("spec.hostKeys[%d]: %w", i, err))
			continue
		}
		s.hostKeys = append(s.hostKeys, key)
	}
	settings, windows := endpoint.SettingsOf(e)
	s.settings = settings
	return s, status.Join(stalled(v2beta2.ReasonInvalidVariables, variables),
		stalled(v2beta2.ReasonInvalidHostKeys, errors.Join(problems...)), stalled(v2beta2.ReasonInvalidRunWindows, windows))
}

// checkNumber returns an error if the ZosEndpoint must not be probed because there are too many. One that was probed before is
// probed again, whatever the limits are.
func checkNumber(ctx context.Context, reader client.Reader, limits budget.Limits, e *v2beta2.ZosEndpoint) error {
	if endpoint.IsProbed(e) || e.Spec.EndpointType == v2beta2.EndpointLocal {
		return nil
	}
	list := &v2beta2.ZosEndpointList{}
	if err := reader.List(ctx, list); err != nil {
		return fmt.Errorf("listing ZosEndpoints: %w", err)
	}
	all := append(slices.DeleteFunc(list.Items, func(other v2beta2.ZosEndpoint) bool {
		return other.UID == e.UID || other.Spec.EndpointType == v2beta2.EndpointLocal
	}), *e)
	slices.SortFunc(all, func(a, b v2beta2.ZosEndpoint) int {
		if mapping.Older(&a, &b) {
			return -1
		}
		return 1
	})
	claims, own := make([]budget.Claim, len(all)), 0
	for i := range all {
		one := budget.Items{string(all[i].UID): 1}
		claims[i] = budget.Claim{Namespace: all[i].Namespace, Wanted: one}
		if endpoint.IsProbed(&all[i]) {
			claims[i].Held = one
		}
		if all[i].UID == e.UID {
			own = i
		}
	}
	return status.BudgetExceeded(budget.Budget{Limits: limits, Name: "probed ZosEndpoints", Flag: "--max-probed-endpoints"}.Check(claims, own))
}

// probeResult is the result of a probe.
type probeResult struct {
	// shown is the host key that the server proved to hold, nil unless it was reached.
	shown ssh.PublicKey
	// err says why the probe failed.
	err error
	// latency is the text for status.
	latency string
	// took is the time that the probe took.
	took time.Duration
}

// prober probes endpoints.
type prober struct {
	*probe.Prober
	// slots limit concurrent probes.
	slots *pace.NamespaceLimit
	// interval is how often a reachable endpoint is probed.
	interval time.Duration
}

// probeMemory is what the manager knows of an endpoint between reconciles, one of which uses it at a time. After a restart each endpoint is probed.
type probeMemory struct {
	// target is what the result of a probe depends on. If it changes, the endpoint is probed at once.
	target string
	// due is when the next probe is due. It is zero before the first.
	due time.Time
	// outage is when the outage began that the last reconcile saw, or zero if there was none or a probe found it to be over.
	outage time.Time
	// over is when the outage began that a successful probe has found to be over, or zero.
	over time.Time
	// failed is when a probe last ended that did not reach the system, or the endpoint was changed.
	failed time.Time
	// latencies of the last successful probes, the latest last.
	latencies []time.Duration
	// shown is when the latency in status was last changed, or first seen.
	shown time.Time
}

// retarget makes an endpoint be probed at once if what the result of a probe depends on has changed.
func (memory *probeMemory) retarget(e *v2beta2.ZosEndpoint) {
	target := strings.Join(append([]string{
		string(e.UID), string(e.Spec.EndpointType), mapping.Address(e), e.Annotations[endpoint.AnnotationRetry],
	}, e.Spec.HostKeys...), "\n")
	if memory.target != target {
		memory.target, memory.due, memory.failed = target, time.Time{}, time.Now()
	}
}

// outageOf returns the outage of a system that its state records, or nil.
func outageOf(state *endpoint.State, address string) *endpoint.Outage {
	if state == nil || state.Systems[address] == nil {
		return nil
	}
	return state.Systems[address].Outage
}

// outageOf returns the outage of a system that its state records, or nil if there is none or a probe has found it to be over.
func (memory *probeMemory) outageOf(state *endpoint.State, address string) *endpoint.Outage {
	outage := outageOf(state, address)
	if outage == nil || memory.over.Equal(outage.Since) {
		return nil
	}
	return outage
}

// probe probes the endpoint if a probe is due, and returns nil if it did not. An outage that runs have noticed and status does not show yet is
// shown first. The probe is postponed if too many others run.
func (p *prober) probe(ctx context.Context, e *v2beta2.ZosEndpoint, s spec, state *endpoint.State, memory *probeMemory) (result *probeResult, postponed bool) {
	now, address := time.Now(), s.settings.Address
	outage := memory.outageOf(state, address)
	if state != nil {
		var since time.Time
		if outage != nil {
			since = outage.Since
		}
		if !since.Equal(memory.outage) {
			memory.outage, memory.due = since, now
		}
	}
	if now.Before(memory.due) || outage != nil && !meta.IsStatusConditionFalse(e.Status.Conditions, v2beta2.ConditionReachable) {
		return nil, false
	}
	release := p.slots.TryAcquire(e.Namespace)
	if release == nil {
		memory.due = now.Add(p.atMost(unreachableInterval))
		return nil, true
	}
	defer release()
	result = &probeResult{}
	result.shown, result.err = p.Probe(ctx, e.Spec.Host, e.Spec.EffectivePort(), s.knownKeys(e))
	answered := isAnswer(result.err)
	if outage != nil && answered && memory.failed.Before(outage.Since) && state.IsFlapping(address, now) {
		memory.due = now.Add(p.atMost(outageInterval))
		return nil, false // The manager can connect, but runs cannot: status keeps what they said.
	}
	result.took = time.Since(now)
	if !answered {
		memory.failed = time.Now().Add(time.Second) // The condition that follows has its time in seconds.
	}
	if outage != nil && answered {
		memory.outage, memory.over = time.Time{}, outage.Since
	}
	switch {
	case result.err == nil:
		memory.due = now.Add(p.atMost(p.interval))
		result.latency = memory.latency(e.Status.Latency, result.took, now)
	case outage != nil && !answered:
		memory.due = now.Add(p.atMost(outageInterval))
	default:
		memory.due = now.Add(p.atMost(unreachableInterval))
	}
	return result, false
}

// isAnswer reports whether a probe with that result has reached the system, if only to find another host key.
func isAnswer(err error) bool {
	var mismatch *probe.HostKeyMismatchError
	return err == nil || errors.As(err, &mismatch)
}

// knownKeys returns the host keys of the spec, or else the one that was pinned for the present host and port.
func (s spec) knownKeys(e *v2beta2.ZosEndpoint) []ssh.PublicKey {
	known := s.hostKeys
	if len(known) > 0 || e.Status.PinnedFor != mapping.Address(e) {
		return known
	}
	for _, line := range e.Status.HostKeys {
		if key, err := probe.ParseHostKey(line); err == nil {
			known = append(known, key)
		}
	}
	return known
}

// atMost spreads probes over time.
func (p *prober) atMost(most time.Duration) time.Duration {
	return pace.Jitter(min(p.interval, most))
}

// mayRecover reports whether the outage of the endpoint's system has ended: a probe that began later was answered, and
// status says so. Status is written before the state, by the reconcile before: runs regard a system as unreachable if either
// says so, and in the other order a run could begin another outage in between.
func (memory *probeMemory) mayRecover(e *v2beta2.ZosEndpoint, state *endpoint.State, address string) bool {
	outage := outageOf(state, address)
	reachable := meta.FindStatusCondition(e.Status.Conditions, v2beta2.ConditionReachable)
	return outage != nil && memory.over.Equal(outage.Since) && reachable != nil &&
		(reachable.Status == metav1.ConditionTrue || reachable.Reason == v2beta2.ReasonHostKeyMismatch)
}

// steadyLatencies is the number of successive probes that must differ from the recorded latency before it is written again.
const steadyLatencies = 3

// latencyInterval is the least time between changes of a recorded latency.
const latencyInterval = time.Hour

// latencyChange is the least difference between a latency and the recorded one that matters.
const latencyChange = 100 * time.Millisecond

// latency adds the latency of a probe, and returns the text for status: the recorded one, unless it is an hour old, and the
// last probes all took at least twice as long, or at most half as long, and differ by at least 100 ms.
func (memory *probeMemory) latency(recorded string, measured time.Duration, now time.Time) string {
	memory.latencies = append(memory.latencies, measured)
	memory.latencies = memory.latencies[max(0, len(memory.latencies)-steadyLatencies):]
	known, err := time.ParseDuration(recorded)
	if err != nil {
		memory.shown = now
		return roundLatency(measured).String()
	}
	if memory.shown.IsZero() {
		memory.shown = now
	}
	if len(memory.latencies) < steadyLatencies || now.Sub(memory.shown) < latencyInterval {
		return recorded
	}
	low, high := slices.Min(memory.latencies), slices.Max(memory.latencies)
	if low >= max(2*known, known+latencyChange) || high <= min(known/2, known-latencyChange) {
		memory.shown = now
		return roundLatency(measured).String()
	}
	return recorded
}

// latencySteps are the latencies that status shows. The first one means that or less.
var latencySteps = []time.Duration{
	20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
}

// roundLatency returns the nearest of latencySteps.
func roundLatency(latency time.Duration) time.Duration {
	for i, step := range latencySteps[1:] {
		if before := latencySteps[i]; latency < (before+step)/2 {
			return before
		}
	}
	return latencySteps[len(latencySteps)-1]
}

// probeFailure gives an error of a probe its reason.
func probeFailure(err error) error {
	var mismatch *probe.HostKeyMismatchError
	var forbidden *dialguard.Error
	switch {
	case errors.As(err, &mismatch):
		return status.Retry(v2beta2.ReasonHostKeyMismatch, fmt.Errorf("%w: if the key was changed on purpose, put the new one into spec.hostKeys", err))
	case errors.As(err, &forbidden):
		return status.Retry(v2beta2.ReasonHostForbidden, err)
	}
	return status.Retry(v2beta2.ReasonHostUnreachable, err)
}
