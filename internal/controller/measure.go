package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/metrics"
	"github.com/collection-operator/collection-operator/internal/platform/budget"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
)

func becameReady(kind string) func(after time.Duration) {
	return func(after time.Duration) { metrics.BecameReady(kind, after) }
}

// fetchResult is the label of a download that ended with an error or nil.
func fetchResult(err error) string {
	switch {
	case err == nil:
		return metrics.ResultSucceeded
	case errors.Is(err, fetch.ErrNotModified):
		return metrics.ResultNotModified
	}
	return status.AsError(err).Reason
}

// answer is the last successful probe of an endpoint.
type answer struct {
	at   time.Time
	took time.Duration
}

// measure counts the probe of a scope.
func (r *ZosEndpointReconciler) measure(s *endpointScope, took time.Duration) {
	if s.probe.err != nil {
		metrics.Probed(status.AsError(probeError(s.probe.err)).Reason)
		return
	}
	metrics.Probed(metrics.ResultSucceeded)
	r.answers.Store(client.ObjectKeyFromObject(s.endpoint), answer{at: time.Now(), took: took})
}

// Measure returns what is known about the ZosEndpoints that are probed, from caches.
func (r *ZosEndpointReconciler) Measure(ctx context.Context) ([]metrics.Endpoint, error) {
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
		if e.Spec.EndpointType == v2beta2.EndpointLocal || !isProbed(e) {
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

// Measure returns how much is used of the budgets of OperatorCollections, and of that of probed ZosEndpoints, from the cache.
func (b *CollectionBudgets) Measure(ctx context.Context, reader client.Reader, probed budget.Limits) ([]metrics.Budget, error) {
	ocs, endpoints := &v2beta2.OperatorCollectionList{}, &v2beta2.ZosEndpointList{}
	for _, list := range []client.ObjectList{ocs, endpoints} {
		if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	collections, kinds := newUse("collections", b.Collections), newUse("kinds", b.Kinds)
	bytes, probes := newUse("stored_bytes", b.StoredBytes), newUse("probed_endpoints", probed)
	for i := range ocs.Items {
		oc := &ocs.Items[i]
		if oc.Status.Artifact == nil {
			continue
		}
		needs := importedNeeds(oc)
		collections.add(oc.Namespace, budget.Items{string(oc.UID): 1})
		kinds.add(oc.Namespace, needs.kinds)
		bytes.add(oc.Namespace, needs.archives)
	}
	for i := range endpoints.Items {
		if e := &endpoints.Items[i]; e.Spec.EndpointType != v2beta2.EndpointLocal && isProbed(e) {
			probes.add(e.Namespace, budget.Items{string(e.UID): 1})
		}
	}
	return []metrics.Budget{collections.sum(), kinds.sum(), bytes.sum(), probes.sum()}, nil
}

// use is what is used of a budget. What several objects share counts once, as in [budget.Budget].
type use struct {
	name   string
	limits budget.Limits
	total  budget.Items
	each   map[string]budget.Items
}

func newUse(name string, limits budget.Limits) *use {
	return &use{name: name, limits: limits, total: budget.Items{}, each: map[string]budget.Items{}}
}

func (u *use) add(namespace string, items budget.Items) {
	if u.each[namespace] == nil {
		u.each[namespace] = budget.Items{}
	}
	for name, amount := range items {
		u.each[namespace][name], u.total[name] = amount, amount
	}
}

func (u *use) sum() metrics.Budget {
	sum := metrics.Budget{
		Name: u.name, Used: u.total.Sum(), Limit: u.limits.Total, NamespaceLimit: u.limits.PerNamespace, PerNamespace: map[string]int64{},
	}
	for namespace, items := range u.each {
		sum.PerNamespace[namespace] = items.Sum()
	}
	return sum
}
