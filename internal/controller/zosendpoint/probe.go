package zosendpoint

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/probe"
)

const (
	// unreachableInterval is the maximum delay before an endpoint that did not answer, or was not probed, is probed again.
	unreachableInterval = 30 * time.Second
	// outageInterval is the maximum delay between probes while runs wait for the end of an outage, and between looks for
	// pods that are gone while runs wait for each other.
	outageInterval = 10 * time.Second
	// recoveryInterval is the delay before the manager tries again to end an outage that a probe has found to be over.
	recoveryInterval = time.Second
)

// probeResult is the result of a probe.
type probeResult struct {
	// shown is the host key that the server proved to hold, nil unless it was reached.
	shown ssh.PublicKey
	// err says why the probe failed.
	err error
	// latency is the text for status.
	latency string
}

// probeMemory is what the manager knows of an endpoint between reconciles. After a restart each endpoint is probed.
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

// remember returns the memory of an endpoint. Only one reconcile at a time uses it.
func (r *Reconciler) remember(e *v2beta2.ZosEndpoint) *probeMemory {
	found, _ := r.memories.LoadOrStore(client.ObjectKeyFromObject(e), &probeMemory{})
	memory := found.(*probeMemory)
	target := strings.Join(append([]string{
		string(e.UID), string(e.Spec.EndpointType), mapping.Address(e), e.Annotations[endpoint.AnnotationRetry],
	}, e.Spec.HostKeys...), "\n")
	if memory.target != target {
		memory.target, memory.due, memory.failed = target, time.Time{}, time.Now()
	}
	return memory
}

// outageOf returns the outage of a system that its state records, or nil.
func outageOf(state *endpoint.State, address string) *endpoint.Outage {
	if state == nil || state.Systems[address] == nil {
		return nil
	}
	return state.Systems[address].Outage
}

// outage returns the outage of the endpoint's system, or nil if there is none or a probe has found it to be over.
func (s *endpointScope) outage(memory *probeMemory) *endpoint.Outage {
	outage := outageOf(s.state, s.settings.Address)
	if outage == nil || memory.over.Equal(outage.Since) {
		return nil
	}
	return outage
}

// probe probes the endpoint if a probe is due. An outage that runs have noticed and status does not show yet is shown first.
func (r *Reconciler) probe(ctx context.Context, s *endpointScope, memory *probeMemory) {
	if s.endpoint.Spec.EndpointType == v2beta2.EndpointLocal {
		return
	}
	now := time.Now()
	if s.exceeded != nil {
		memory.due = now.Add(pace.Jitter(exceededInterval))
		return
	}
	outage := s.outage(memory)
	if s.state != nil {
		var since time.Time
		if outage != nil {
			since = outage.Since
		}
		if !since.Equal(memory.outage) {
			memory.outage, memory.due = since, now
		}
	}
	if now.Before(memory.due) || outage != nil && !meta.IsStatusConditionFalse(s.endpoint.Status.Conditions, v2beta2.ConditionReachable) {
		return
	}
	release := r.probes.TryAcquire(s.endpoint.Namespace)
	if release == nil {
		s.postponed = true
		memory.due = now.Add(r.interval(unreachableInterval))
		return
	}
	defer release()
	result := &probeResult{}
	result.shown, result.err = r.Prober.Probe(ctx, s.endpoint.Spec.Host, s.endpoint.Spec.EffectivePort(), s.knownKeys())
	answered := isAnswer(result.err)
	if outage != nil && answered && memory.failed.Before(outage.Since) && s.state.IsFlapping(s.settings.Address, now) {
		memory.due = now.Add(r.interval(outageInterval))
		return // The manager can connect, but runs cannot: status keeps what they said.
	}
	s.probe = result
	r.measure(s, time.Since(now))
	if !answered {
		memory.failed = time.Now().Add(time.Second) // The condition that follows has its time in seconds.
	}
	if outage != nil && answered {
		memory.outage, memory.over = time.Time{}, outage.Since
	}
	switch {
	case result.err == nil:
		memory.due = now.Add(r.interval(r.ProbeInterval))
		result.latency = memory.latency(s.endpoint.Status.Latency, time.Since(now), now)
	case outage != nil && !answered:
		memory.due = now.Add(r.interval(outageInterval))
	default:
		memory.due = now.Add(r.interval(unreachableInterval))
	}
}

// isAnswer reports whether a probe with that result has reached the system, if only to find another host key.
func isAnswer(err error) bool {
	var mismatch *probe.HostKeyMismatchError
	return err == nil || errors.As(err, &mismatch)
}

// knownKeys returns the host keys of the spec, or else the one that was pinned for the present host and port.
func (s *endpointScope) knownKeys() []ssh.PublicKey {
	known := s.known
	if len(known) > 0 || s.endpoint.Status.PinnedFor != mapping.Address(s.endpoint) {
		return known
	}
	for _, line := range s.endpoint.Status.HostKeys {
		if key, err := probe.ParseHostKey(line); err == nil {
			known = append(known, key)
		}
	}
	return known
}

// interval spreads probes over time.
func (r *Reconciler) interval(most time.Duration) time.Duration {
	return pace.Jitter(min(r.ProbeInterval, most))
}

// after returns the delay before the next reconcile, or zero.
func (r *Reconciler) after(s *endpointScope, memory *probeMemory) time.Duration {
	var delays []time.Duration
	if s.endpoint.Spec.EndpointType != v2beta2.EndpointLocal {
		delays = append(delays, time.Until(memory.due))
	}
	if s.conflict {
		delays = append(delays, recoveryInterval)
	}
	if s.state != nil {
		system := s.state.Systems[s.settings.Address]
		if system != nil && len(system.Queue) > 0 || isTried(s.state) {
			delays = append(delays, outageInterval)
		}
		switch over := system != nil && system.Outage != nil && memory.over.Equal(system.Outage.Since); {
		case over && s.probe != nil:
			delays = append(delays, 0)
		case over:
			delays = append(delays, recoveryInterval)
		}
	}
	if len(delays) == 0 {
		return 0
	}
	return max(slices.Min(delays), time.Millisecond)
}

// isTried reports whether a run tries a credential of the security domain: others wait for it.
func isTried(state *endpoint.State) bool {
	for _, logon := range state.Logons {
		if logon.Trying != nil {
			return true
		}
	}
	return false
}

// mayRecover reports whether the outage of the endpoint's system has ended: a probe that began later was answered, and
// status says so. Status is written before the state, by the reconcile before: runs regard a system as unreachable if either
// says so, and in the other order a run could begin another outage in between.
func (memory *probeMemory) mayRecover(s *endpointScope, state *endpoint.State) bool {
	outage := outageOf(state, s.settings.Address)
	reachable := meta.FindStatusCondition(s.endpoint.Status.Conditions, v2beta2.ConditionReachable)
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
