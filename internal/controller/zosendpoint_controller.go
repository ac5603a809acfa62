package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
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

// ZosEndpointReconciler checks a ZosEndpoint, asks its SSH server for its host key and pins the first one it sees.
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

	probes *shares
}

const (
	// maxProbes is how many endpoints are probed at once. Each probe is one connection, for at most probe.Timeout.
	maxProbes = 64
	// maxProbesPerNamespace is how many of them one namespace can have.
	maxProbesPerNamespace = 16
	// maxEndpointsAtOnce is how many endpoints are worked on at once beside those that are probed.
	maxEndpointsAtOnce = 8
)

// endpointFacts is what was found out about a ZosEndpoint.
type endpointFacts struct {
	// known are the host keys of the spec.
	known []ssh.PublicKey
	// shown is the host key that the server proved to hold, nil unless it was reached.
	shown ssh.PublicKey
	// unreachable says why the probe failed.
	unreachable error
	// postponed says that the namespace has too many probes that run, so that the last one counts a little longer.
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
	facts := &endpointFacts{}
	err := r.check(endpoint, facts)
	if err == nil {
		err = r.findUsers(ctx, endpoint, facts)
	}
	if err == nil {
		r.probe(ctx, endpoint, facts)
	}
	return r.conclude(ctx, endpoint, facts, err)
}

// check parses what the API server could not check. All problems are in the error.
func (r *ZosEndpointReconciler) check(endpoint *v2beta2.ZosEndpoint, facts *endpointFacts) error {
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
		facts.known = append(facts.known, key)
	}
	if len(errs) > 0 {
		return status.Stalled(v2beta2.ReasonInvalidHostKeys, errors.Join(errs...))
	}
	return nil
}

func (r *ZosEndpointReconciler) findUsers(ctx context.Context, endpoint *v2beta2.ZosEndpoint, facts *endpointFacts) error {
	list := &v2beta2.SubOperatorConfigList{}
	if err := r.Client.List(ctx, list, client.InNamespace(endpoint.Namespace)); err != nil {
		return fmt.Errorf("listing SubOperatorConfigs: %w", err)
	}
	for _, soc := range list.Items {
		if slices.ContainsFunc(soc.Spec.Mapping, func(m v2beta2.NamespaceMapping) bool { return mapping.Allows(m, endpoint.Name) }) {
			facts.users = append(facts.users, v2beta2.SubOperatorConfigReference{Name: soc.Name})
		}
	}
	slices.SortFunc(facts.users, func(a, b v2beta2.SubOperatorConfigReference) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

func (r *ZosEndpointReconciler) probe(ctx context.Context, endpoint *v2beta2.ZosEndpoint, facts *endpointFacts) {
	if endpoint.Spec.EndpointType == v2beta2.EndpointLocal {
		return
	}
	if !r.probes.take(endpoint.Namespace) {
		facts.postponed = true
		return
	}
	defer r.probes.give(endpoint.Namespace)
	known := facts.known
	if len(known) == 0 && endpoint.Status.PinnedFor == mapping.Address(endpoint) {
		for _, line := range endpoint.Status.HostKeys {
			if key, err := probe.ParseHostKey(line); err == nil {
				known = append(known, key)
			}
		}
	}
	facts.shown, facts.unreachable = r.Prober.Probe(ctx, endpoint.Spec.Host, endpoint.Spec.EffectivePort(), known)
}

func address(endpoint *v2beta2.ZosEndpoint) string {
	return net.JoinHostPort(endpoint.Spec.Host, strconv.Itoa(int(endpoint.Spec.EffectivePort())))
}

// conclude writes the status that follows from the facts, and an event when Ready changed.
func (r *ZosEndpointReconciler) conclude(ctx context.Context, endpoint *v2beta2.ZosEndpoint, facts *endpointFacts, err error) (ctrl.Result, error) {
	before := endpoint.DeepCopy()
	now := &endpoint.Status
	now.ObservedGeneration = endpoint.Generation
	status.SetReady(&now.Conditions, endpoint.Generation, err, "the endpoint is accepted")
	now.Message = status.ReadyMessage(now.Conditions)
	if err == nil {
		now.SubOperatorConfigs = facts.users
		if !facts.postponed {
			describeReachable(endpoint, facts)
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
		result.RequeueAfter = r.nextProbe(facts)
	}
	return result, err
}

// describeReachable sets Reachable and pins the host key of an endpoint whose spec has none.
func describeReachable(endpoint *v2beta2.ZosEndpoint, facts *endpointFacts) {
	now := &endpoint.Status
	set := func(err error, message string) {
		status.SetCondition(&now.Conditions, v2beta2.ConditionReachable, endpoint.Generation, err, message)
	}
	var mismatch *probe.HostKeyMismatchError
	var forbidden *dialguard.Error
	switch {
	case endpoint.Spec.EndpointType == v2beta2.EndpointLocal:
		set(nil, "playbooks run in the operator's own pod")
	case errors.As(facts.unreachable, &mismatch):
		set(status.Retry(v2beta2.ReasonHostKeyMismatch, fmt.Errorf(
			"%w: if the key was changed on purpose, put the new one into spec.hostKeys", facts.unreachable)), "")
	case errors.As(facts.unreachable, &forbidden):
		set(status.Retry(v2beta2.ReasonHostForbidden, facts.unreachable), "")
	case facts.unreachable != nil:
		set(status.Retry(v2beta2.ReasonHostUnreachable, facts.unreachable), "")
	default:
		set(nil, fmt.Sprintf("%s answers with host key %s", mapping.Address(endpoint), ssh.FingerprintSHA256(facts.shown)))
	}
	switch {
	case len(endpoint.Spec.HostKeys) > 0 || endpoint.Spec.EndpointType == v2beta2.EndpointLocal:
		now.HostKeys, now.PinnedFor = nil, ""
	case facts.shown != nil:
		now.HostKeys, now.PinnedFor = []string{probe.FormatHostKey(facts.shown)}, mapping.Address(endpoint)
	}
}

// nextProbe spreads probes so that many endpoints are not probed at once.
func (r *ZosEndpointReconciler) nextProbe(facts *endpointFacts) time.Duration {
	interval := r.ProbeInterval
	if facts.unreachable != nil || facts.postponed {
		interval = min(interval, unreachableInterval)
	}
	return jitter(interval)
}

// unreachableInterval is how soon an endpoint that did not answer, or could not be asked yet, is probed again.
const unreachableInterval = 30 * time.Second

// SetupWithManager registers the controller.
func (r *ZosEndpointReconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.probes = &shares{total: maxProbes, each: maxProbesPerNamespace}
	return ctrl.NewControllerManagedBy(mgr).
		For(&v2beta2.ZosEndpoint{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&v2beta2.SubOperatorConfig{}, handler.EnqueueRequestsFromMapFunc(r.ofSubOperatorConfig),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(options(maxProbes + maxEndpointsAtOnce)).
		Complete(r)
}

func (r *ZosEndpointReconciler) ofSubOperatorConfig(ctx context.Context, object client.Object) []reconcile.Request {
	list := &v2beta2.ZosEndpointList{}
	if err := r.Client.List(ctx, list, client.InNamespace(object.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot list ZosEndpoints")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
