package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/dialguard"
	"github.com/collection-operator/collection-operator/internal/mapping"
	"github.com/collection-operator/collection-operator/internal/probe"
	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/status"
)

// ZosEndpointReconciler checks a ZosEndpoint, reads the host key of its SSH server and pins the first one.
type ZosEndpointReconciler struct {
	// Client reads through the cache and writes.
	Client client.Client
	// Reader reads live objects.
	Reader client.Reader
	// Recorder records events.
	Recorder events.EventRecorder
	// Prober probes endpoints.
	Prober *probe.Prober
	// ProbeInterval is how often a reachable endpoint is probed, give or take a tenth. One that is not reachable is
	// probed a little more often at first.
	ProbeInterval time.Duration

	probes *namespaceLimit
}

const (
	// maxProbes limits concurrent probes. Each probe is one connection, for at most probe.Timeout.
	maxProbes = 64
	// maxProbesPerNamespace limits those of one namespace.
	maxProbesPerNamespace = 16
	// maxConcurrentEndpoints limits concurrent reconciles of ZosEndpoints that do not probe.
	maxConcurrentEndpoints = 8
)

// endpointScope is what the status of a ZosEndpoint is computed from.
type endpointScope struct {
	// known are the host keys of the spec.
	known []ssh.PublicKey
	// shown is the host key that the server proved to hold, nil unless it was reached.
	shown ssh.PublicKey
	// unreachable says why the probe failed.
	unreachable error
	// postponed says that too many probes run, so that the result of the last one remains in status.
	postponed bool
	// users are the SubOperatorConfigs that map the endpoint.
	users []v2beta2.SubOperatorConfigReference
}

// Reconcile implements [reconcile.Reconciler].
func (r *ZosEndpointReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	endpoint := &v2beta2.ZosEndpoint{}
	if err := r.Reader.Get(ctx, req.NamespacedName, endpoint); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if endpoint.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	scope := &endpointScope{}
	err := r.check(endpoint, scope)
	if err == nil {
		err = r.findUsers(ctx, endpoint, scope)
	}
	if err == nil {
		r.probe(ctx, endpoint, scope)
	}
	return r.patchStatus(ctx, endpoint, scope, err)
}

// check parses what the API server could not check. All problems are in the error.
func (r *ZosEndpointReconciler) check(endpoint *v2beta2.ZosEndpoint, scope *endpointScope) error {
	if _, err := render.Variables(endpoint.Spec.Variables); err != nil {
		return status.Stalled(v2beta2.ReasonInvalidVariables, err)
	}
	var errs []error
	for i, line := range endpoint.Spec.HostKeys {
		key, err := probe.ParseHostKey(line)
		if err != nil {
			errs = append(errs, fmt.Errorf("spec.hostKeys[%d]: %w", i, err))
			continue
		}
		scope.known = append(scope.known, key)
	}
	if len(errs) > 0 {
		return status.Stalled(v2beta2.ReasonInvalidHostKeys, errors.Join(errs...))
	}
	return nil
}

func (r *ZosEndpointReconciler) findUsers(ctx context.Context, endpoint *v2beta2.ZosEndpoint, scope *endpointScope) error {
	list := &v2beta2.SubOperatorConfigList{}
	if err := r.Client.List(ctx, list, client.InNamespace(endpoint.Namespace)); err != nil {
		return fmt.Errorf("listing SubOperatorConfigs: %w", err)
	}
	for _, soc := range list.Items {
		if slices.ContainsFunc(soc.Spec.Mapping, func(m v2beta2.NamespaceMapping) bool { return mapping.Allows(m, endpoint.Name) }) {
			scope.users = append(scope.users, v2beta2.SubOperatorConfigReference{Name: soc.Name})
		}
	}
	slices.SortFunc(scope.users, func(a, b v2beta2.SubOperatorConfigReference) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

func (r *ZosEndpointReconciler) probe(ctx context.Context, endpoint *v2beta2.ZosEndpoint, scope *endpointScope) {
	if endpoint.Spec.EndpointType == v2beta2.EndpointLocal {
		return
	}
	release := r.probes.tryAcquire(endpoint.Namespace)
	if release == nil {
		scope.postponed = true
		return
	}
	defer release()
	known := scope.known
	if len(known) == 0 && endpoint.Status.PinnedFor == mapping.Address(endpoint) {
		for _, line := range endpoint.Status.HostKeys {
			if key, err := probe.ParseHostKey(line); err == nil {
				known = append(known, key)
			}
		}
	}
	scope.shown, scope.unreachable = r.Prober.Probe(ctx, endpoint.Spec.Host, endpoint.Spec.EffectivePort(), known)
}

// patchStatus writes the status that follows from the scope, and an event when Ready changed.
func (r *ZosEndpointReconciler) patchStatus(ctx context.Context, endpoint *v2beta2.ZosEndpoint, scope *endpointScope, err error) (ctrl.Result, error) {
	before := endpoint.DeepCopy()
	now := &endpoint.Status
	now.ObservedGeneration = endpoint.Generation
	status.SetReady(&now.Conditions, endpoint.Generation, err, "the endpoint is accepted")
	now.Message = status.ReadyMessage(now.Conditions)
	if err == nil {
		now.SubOperatorConfigs = scope.users
		if !scope.postponed {
			describeReachable(endpoint, scope)
		}
		if reachable := meta.FindStatusCondition(now.Conditions, v2beta2.ConditionReachable); reachable != nil {
			now.Message = reachable.Message
		}
	} else {
		meta.RemoveStatusCondition(&now.Conditions, v2beta2.ConditionReachable)
	}
	now.Phase = status.Phase(now.Conditions, v2beta2.ConditionReady)
	writer := status.Writer{Client: r.Client, Recorder: r.Recorder, Action: "Probe"}
	result, err := writer.Write(ctx, endpoint, before, err)
	if err == nil && result.RequeueAfter == 0 && endpoint.Spec.EndpointType != v2beta2.EndpointLocal {
		result.RequeueAfter = r.nextProbe(scope)
	}
	return result, err
}

// describeReachable sets Reachable and pins the host key of an endpoint whose spec has none.
func describeReachable(endpoint *v2beta2.ZosEndpoint, scope *endpointScope) {
	now := &endpoint.Status
	set := func(err error, message string) {
		status.SetCondition(&now.Conditions, v2beta2.ConditionReachable, endpoint.Generation, err, message)
	}
	var mismatch *probe.HostKeyMismatchError
	var forbidden *dialguard.Error
	switch {
	case endpoint.Spec.EndpointType == v2beta2.EndpointLocal:
		set(nil, "playbooks run in the operator's own pod")
	case errors.As(scope.unreachable, &mismatch):
		set(status.Retry(v2beta2.ReasonHostKeyMismatch, fmt.Errorf(
			"%w: if the key was changed on purpose, put the new one into spec.hostKeys", scope.unreachable)), "")
	case errors.As(scope.unreachable, &forbidden):
		set(status.Retry(v2beta2.ReasonHostForbidden, scope.unreachable), "")
	case scope.unreachable != nil:
		set(status.Retry(v2beta2.ReasonHostUnreachable, scope.unreachable), "")
	default:
		set(nil, fmt.Sprintf("%s answers with host key %s", mapping.Address(endpoint), ssh.FingerprintSHA256(scope.shown)))
	}
	switch {
	case len(endpoint.Spec.HostKeys) > 0 || endpoint.Spec.EndpointType == v2beta2.EndpointLocal:
		now.HostKeys, now.PinnedFor = nil, ""
	case scope.shown != nil:
		now.HostKeys, now.PinnedFor = []string{probe.FormatHostKey(scope.shown)}, mapping.Address(endpoint)
	}
}

// nextProbe spreads probes over time.
func (r *ZosEndpointReconciler) nextProbe(scope *endpointScope) time.Duration {
	interval := r.ProbeInterval
	if scope.unreachable != nil || scope.postponed {
		interval = min(interval, unreachableInterval)
	}
	return jitter(interval)
}

// unreachableInterval is the delay before an endpoint that did not answer, or was not probed, is probed again.
const unreachableInterval = 30 * time.Second

// SetupWithManager registers the controller.
func (r *ZosEndpointReconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.probes = newNamespaceLimit(maxProbes, maxProbesPerNamespace)
	return ctrl.NewControllerManagedBy(mgr).
		For(&v2beta2.ZosEndpoint{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&v2beta2.SubOperatorConfig{}, handler.EnqueueRequestsFromMapFunc(r.ofSubOperatorConfig),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(options(maxProbes + maxConcurrentEndpoints)).
		Complete(r)
}

func (r *ZosEndpointReconciler) ofSubOperatorConfig(ctx context.Context, object client.Object) []reconcile.Request {
	return requestsOf(ctx, r.Client, &v2beta2.ZosEndpointList{}, client.InNamespace(object.GetNamespace()))
}
