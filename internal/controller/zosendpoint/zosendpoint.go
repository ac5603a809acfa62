// Package zosendpoint probes z/OS endpoints, pins their host keys, and keeps the state that limits runs on them.
package zosendpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/budget"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/probe"
)

// Reconciler checks a ZosEndpoint, probes its SSH server and pins the first host key. For the operators that use
// the endpoint it creates the state of the endpoint's security domain and access to both, and it reports in status what
// their runs have learned.
type Reconciler struct {
	// Client reads through the cache and writes.
	Client client.Client
	// Reader reads live objects.
	Reader client.Reader
	// Recorder records events.
	Recorder events.EventRecorder
	// Prober probes endpoints.
	Prober *probe.Prober
	// Probed limits the number of ZosEndpoints that are probed.
	Probed budget.Limits
	// ProbeInterval is how often a reachable endpoint is probed, give or take a tenth. One that is not reachable is
	// probed a little more often at first.
	ProbeInterval time.Duration
	// Namespaces has those that the manager may use.
	Namespaces mapping.Selection

	probes *pace.NamespaceLimit
	// states reads the Secrets with states from a cache of their own.
	states client.Reader
	// memories has the *probeMemory of each endpoint by its [types.NamespacedName].
	memories sync.Map
	// answers has the last answer of each endpoint by its [types.NamespacedName].
	answers sync.Map
}

const (
	// maxProbes limits concurrent probes. Each probe is one connection, for at most probe.Timeout.
	maxProbes = 64
	// maxProbesPerNamespace limits those of one namespace.
	maxProbesPerNamespace = 16
	// maxConcurrentEndpoints limits concurrent reconciles of ZosEndpoints that do not probe.
	maxConcurrentEndpoints = 8
)

// endpointScope is shared by the steps of one reconciliation. The status of the ZosEndpoint is computed from it.
type endpointScope struct {
	endpoint *v2beta2.ZosEndpoint
	// settings of the spec.
	settings endpoint.Settings
	// known are the host keys of the spec.
	known []ssh.PublicKey
	// accepted is true if the spec is valid, and its users are known.
	accepted bool
	// users are the SubOperatorConfigs that map the endpoint.
	users []v2beta2.SubOperatorConfigReference
	// operators has the ServiceAccounts of the operators that may use the endpoint.
	operators []rbacv1.Subject
	// installed has all operators of the namespace's SubOperatorConfigs, as namespace/name.
	installed map[string]bool
	// state of the security domain, nil if it could not be read.
	state *endpoint.State
	// conflict is true if others changed the state at the same time: the reconciliation is repeated.
	conflict bool
	// probe is the result of the probe, nil if there was none.
	probe *probeResult
	// exceeded is not nil if the endpoint is not probed because there are too many.
	exceeded error
	// postponed is true if a probe was due, but too many others run.
	postponed bool
}

// Reconcile implements [reconcile.Reconciler].
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s := &endpointScope{endpoint: &v2beta2.ZosEndpoint{}}
	if err := r.Reader.Get(ctx, req.NamespacedName, s.endpoint); err != nil {
		if apierrors.IsNotFound(err) {
			r.memories.Delete(req.NamespacedName)
			r.answers.Delete(req.NamespacedName)
			err = nil
		}
		return ctrl.Result{}, err
	}
	if s.endpoint.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	if err := r.restorePinned(ctx, s.endpoint); err != nil {
		return ctrl.Result{}, err
	}
	memory := r.remember(s.endpoint)
	err := r.Namespaces.Check(s.endpoint.Namespace)
	if err == nil {
		err = r.check(s)
	}
	if err == nil {
		err = r.findUsers(ctx, s)
	}
	if err == nil {
		s.accepted = true
		// A failure of one does not affect the others.
		s.exceeded = r.checkNumber(ctx, s.endpoint)
		err = status.Join(r.updateState(ctx, s, memory), r.leaveStates(ctx, s), r.grantAccess(ctx, s))
		r.probe(ctx, s, memory)
	}
	result, err := r.patchStatus(ctx, s, memory, err)
	if err == nil {
		err = r.recordPinned(ctx, s.endpoint)
	}
	return result, err
}

// check parses what the API server could not check. All problems are in the error.
func (r *Reconciler) check(s *endpointScope) error {
	stalled := func(reason string, err error) error {
		if err == nil {
			return nil
		}
		return status.Stalled(reason, err)
	}
	_, variables := render.Variables(s.endpoint.Spec.Variables)
	var hostKeys []error
	for i, line := range s.endpoint.Spec.HostKeys {
		key, err := probe.ParseHostKey(line)
		if err != nil {
			hostKeys = append(hostKeys, fmt.Errorf("spec.hostKeys[%d]: %w", i, err))
			continue
		}
		s.known = append(s.known, key)
	}
	settings, windows := endpoint.SettingsOf(s.endpoint)
	s.settings = settings
	return status.Join(stalled(v2beta2.ReasonInvalidVariables, variables),
		stalled(v2beta2.ReasonInvalidHostKeys, errors.Join(hostKeys...)), stalled(v2beta2.ReasonInvalidRunWindows, windows))
}

// findUsers determines the SubOperatorConfigs that map the endpoint, and the operators that they have installed for it.
func (r *Reconciler) findUsers(ctx context.Context, s *endpointScope) error {
	list := &v2beta2.SubOperatorConfigList{}
	if err := r.Client.List(ctx, list, client.InNamespace(s.endpoint.Namespace)); err != nil {
		return fmt.Errorf("listing SubOperatorConfigs: %w", err)
	}
	allows := func(m v2beta2.NamespaceMapping) bool { return mapping.Allows(m, s.endpoint.Name) }
	operators := map[rbacv1.Subject]bool{}
	s.installed = map[string]bool{}
	for i := range list.Items {
		soc := &list.Items[i]
		if slices.ContainsFunc(soc.Spec.Mapping, allows) {
			s.users = append(s.users, v2beta2.SubOperatorConfigReference{Name: soc.Name})
		}
		for _, operator := range install.OperatorsOf(soc) {
			s.installed[operator.Namespace+"/"+operator.Name] = true
			if slices.ContainsFunc(soc.Spec.Mapping, func(m v2beta2.NamespaceMapping) bool { return m.Namespace == operator.Namespace && allows(m) }) {
				operators[operator] = true
			}
		}
	}
	slices.SortFunc(s.users, func(a, b v2beta2.SubOperatorConfigReference) int { return strings.Compare(a.Name, b.Name) })
	s.operators = slices.SortedFunc(maps.Keys(operators), func(a, b rbacv1.Subject) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return nil
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.probes = pace.NewNamespaceLimit(maxProbes, maxProbesPerNamespace)
	workers := budget.Limits{PerNamespace: maxProbesPerNamespace + maxConcurrentEndpoints/2, Total: maxProbes + maxConcurrentEndpoints}
	states, err := newStateCache(mgr, r.Namespaces)
	if err != nil {
		return err
	}
	r.states = states
	owner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &v2beta2.ZosEndpoint{})
	return ctrl.NewControllerManagedBy(mgr).
		For(&v2beta2.ZosEndpoint{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&v2beta2.ZosEndpoint{}, handler.EnqueueRequestsFromMapFunc(r.neighborsOf), builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return false },
			UpdateFunc: func(event.UpdateEvent) bool { return false },
		})).
		Watches(&v2beta2.SubOperatorConfig{}, handler.EnqueueRequestsFromMapFunc(r.ofSubOperatorConfig),
			builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{UpdateFunc: install.OperatorsChanged}))).
		WatchesMetadata(&rbacv1.Role{}, owner).
		WatchesMetadata(&rbacv1.RoleBinding{}, owner).
		WatchesRawSource(source.Kind(states, &corev1.Secret{}, handler.TypedEnqueueRequestsFromMapFunc(r.ofState), stateHasNews())).
		WithOptions(pace.Options(int(workers.Total))).
		Complete(pace.PacedWithin(r, workers))
}

func (r *Reconciler) ofSubOperatorConfig(ctx context.Context, object client.Object) []reconcile.Request {
	return pace.RequestsOf(ctx, r.Client, &v2beta2.ZosEndpointList{}, client.InNamespace(object.GetNamespace()))
}
