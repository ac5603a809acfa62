package zosendpoint

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/metrics"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// answer is the last successful probe of an endpoint.
type answer struct {
	at   time.Time
	took time.Duration
}

// measure counts the probe of a scope.
func (r *Reconciler) measure(s *endpointScope, took time.Duration) {
	if s.probe.err != nil {
		metrics.Probed(status.AsError(probeFailure(s.probe.err)).Reason)
		return
	}
	metrics.Probed(metrics.ResultSucceeded)
	r.answers.Store(client.ObjectKeyFromObject(s.endpoint), answer{at: time.Now(), took: took})
}

// Measure returns what is known about the ZosEndpoints that are probed, from caches.
func (r *Reconciler) Measure(ctx context.Context) ([]metrics.Endpoint, error) {
	list, secrets := &v2beta2.ZosEndpointList{}, &corev1.SecretList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ZosEndpoints: %w", err)
	}
	if err := r.states.List(ctx, secrets, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the states of endpoints: %w", err)
	}
	states := map[client.ObjectKey]*endpoint.State{}
	for i := range secrets.Items {
		if state, err := parseState(&secrets.Items[i]); err == nil { // The ZosEndpoints report one that is not valid.
			states[client.ObjectKeyFromObject(&secrets.Items[i])] = state
		}
	}
	var measured []metrics.Endpoint
	for i := range list.Items {
		e := &list.Items[i]
		if e.Spec.EndpointType == v2beta2.EndpointLocal || !endpoint.IsProbed(e) {
			continue
		}
		one := metrics.Endpoint{
			Namespace: e.Namespace, Name: e.Name, Held: e.Spec.Hold != "",
			Reachable: meta.IsStatusConditionTrue(e.Status.Conditions, v2beta2.ConditionReachable),
			Refused:   isRefused(e.Status.Conditions),
		}
		if last, ok := r.answers.Load(client.ObjectKeyFromObject(e)); ok {
			one.Answered, one.Took = last.(answer).at, last.(answer).took
		}
		if state := states[client.ObjectKey{Namespace: e.Namespace, Name: endpoint.StateName(e)}]; state != nil {
			if system := state.Systems[endpoint.Address(e)]; system != nil {
				one.Limit, one.Running, one.Waiting = system.Limit, len(system.Running), len(system.Queue)
			}
		}
		measured = append(measured, one)
	}
	return measured, nil
}

func isRefused(conditions []metav1.Condition) bool {
	accepted := meta.FindStatusCondition(conditions, v2beta2.ConditionCredentialAccepted)
	return accepted != nil && accepted.Reason == v2beta2.ReasonCredentialRefused
}
