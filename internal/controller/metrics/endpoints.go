package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Endpoint is what is known about a ZosEndpoint that is probed.
type Endpoint struct {
	Namespace, Name string
	// Reachable is true if the last probe was answered by the known host, and no run has failed to connect since.
	Reachable bool
	// Answered is when this manager's last successful probe ended, or zero, and Took the time that it took.
	Answered time.Time
	Took     time.Duration
	// Held is true if no run starts because of spec.hold.
	Held bool
	// Refused is true while the security domain refuses a credential.
	Refused bool
	// Limit is the maximum number of concurrent runs on the system, or zero if there is none. Only then Running is the number of
	// these, and Waiting that of the operators which wait for one of them to end.
	Limit, Running, Waiting int
}

var (
	endpointReachable = describe("endpoint_reachable", "1 if the ZosEndpoint answered the last probe and no run has failed to connect since, else 0.",
		labelNamespace, labelEndpoint)
	endpointSeconds = describe("endpoint_probe_duration_seconds", "Time that the last successful probe of the ZosEndpoint took.",
		labelNamespace, labelEndpoint)
	endpointAnswered = describe("endpoint_last_success_timestamp_seconds", "Time at which the ZosEndpoint last answered a probe of the present leader.",
		labelNamespace, labelEndpoint)
	endpointHeld = describe("endpoint_held", "1 for a ZosEndpoint with spec.hold: no run starts.",
		labelNamespace, labelEndpoint)
	endpointRefused = describe("endpoint_credential_refused", "1 while the security domain of the ZosEndpoint refuses a credential, else 0.",
		labelNamespace, labelEndpoint)
	endpointLimit = describe("endpoint_run_limit", "Maximum number of concurrent runs on the system of the ZosEndpoint, if it has one.",
		labelNamespace, labelEndpoint)
	endpointRunning = describe("endpoint_running_runs", "Runs on the system of the ZosEndpoint that count against its limit.",
		labelNamespace, labelEndpoint)
	endpointWaiting = describe("endpoint_waiting_operators", "Operators whose runs wait for a place on the system of the ZosEndpoint.",
		labelNamespace, labelEndpoint)
)

func (s *State) collectEndpoints(ctx context.Context, to chan<- prometheus.Metric) error {
	endpoints, err := s.Endpoints(ctx)
	if err != nil {
		return err
	}
	for _, e := range endpoints {
		e.send(to)
	}
	return nil
}

func (e *Endpoint) send(to chan<- prometheus.Metric) {
	set := func(description *prometheus.Desc, value float64) { gauge(to, description, value, e.Namespace, e.Name) }
	set(endpointReachable, number(e.Reachable))
	set(endpointRefused, number(e.Refused))
	if !e.Answered.IsZero() {
		set(endpointAnswered, seconds(e.Answered))
		set(endpointSeconds, e.Took.Seconds())
	}
	if e.Held {
		set(endpointHeld, 1)
	}
	if e.Limit > 0 {
		set(endpointLimit, float64(e.Limit))
		set(endpointRunning, float64(e.Running))
		set(endpointWaiting, float64(e.Waiting))
	}
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
