// Package zosendpoint probes z/OS endpoints, pins their host keys, and keeps the state that limits runs on them.
package zosendpoint

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"github.com/collection-operator/collection-operator/internal/controller/metrics"
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

// answer is the last successful probe of an endpoint.
type answer struct {
	at   time.Time
	took time.Duration
}

// Reconcile implements [reconcile.Reconciler].
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	e := &v2beta2.ZosEndpoint{}
	if err := r.Reader.Get(ctx, req.NamespacedName, e); err != nil {
		if apierrors.IsNotFound(err) {
			r.memories.Delete(req.NamespacedName)
			r.answers.Delete(req.NamespacedName)
			err = nil
		}
		return ctrl.Result{}, err
	}
	if e.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	if err := restorePinned(ctx, r.Client, e); err != nil {
		return ctrl.Result{}, err
	}
	found, _ := r.memories.LoadOrStore(req.NamespacedName, &probeMemory{})
	memory, o := found.(*probeMemory), &outcome{}
	memory.retarget(e)
	err := r.reconcile(ctx, e, memory, o)
	result, err := o.write(ctx, r.Client, r.Recorder, e, memory, err)
	if err == nil {
		err = recordPinned(ctx, r.Client, e)
	}
	return result, err
}

// reconcile lets operators use the endpoint, and probes it.
func (r *Reconciler) reconcile(ctx context.Context, e *v2beta2.ZosEndpoint, memory *probeMemory, o *outcome) error {
	err := r.Namespaces.Check(e.Namespace)
	if err != nil {
		return err
	}
	if o.spec, err = parseSpec(e); err != nil {
		return err
	}
	if o.users, err = findUsers(ctx, r.Client, e); err != nil {
		return err
	}
	o.accepted = true
	// A failure of one does not affect the others.
	o.exceeded = checkNumber(ctx, r.Client, r.Probed, e)
	states, access := r.stateStore(), &accessGranter{client: r.Client, reader: r.Reader}
	var updating error
	o.state, updating = states.update(ctx, e, o.settings.Address, o.installed, memory)
	leaving := states.leaveOthers(ctx, e)
	o.conflict = apierrors.IsConflict(updating) || apierrors.IsConflict(leaving)
	err = status.Join(exceptConflict(updating), exceptConflict(leaving), access.grant(ctx, e, o.operators))
	r.probe(ctx, e, memory, o)
	return err
}

// exceptConflict returns an error, or nil for a conflict with another write to a state.
func exceptConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// probe probes the endpoint unless there are too many, and counts the probe.
func (r *Reconciler) probe(ctx context.Context, e *v2beta2.ZosEndpoint, memory *probeMemory, o *outcome) {
	if e.Spec.EndpointType == v2beta2.EndpointLocal {
		return
	}
	if o.exceeded != nil {
		memory.due = time.Now().Add(pace.Jitter(exceededInterval))
		return
	}
	prober := &prober{Prober: r.Prober, slots: r.probes, interval: r.ProbeInterval}
	o.probe, o.postponed = prober.probe(ctx, e, o.spec, o.state, memory)
	switch {
	case o.probe == nil:
	case o.probe.err != nil:
		metrics.Probed(status.AsError(probeFailure(o.probe.err)).Reason)
	default:
		metrics.Probed(metrics.ResultSucceeded)
		r.answers.Store(client.ObjectKeyFromObject(e), answer{at: time.Now(), took: o.probe.took})
	}
}

// findUsers determines the SubOperatorConfigs that map the endpoint, and the operators that they have installed for it.
func findUsers(ctx context.Context, reader client.Reader, e *v2beta2.ZosEndpoint) (users, error) {
	list := &v2beta2.SubOperatorConfigList{}
	if err := reader.List(ctx, list, client.InNamespace(e.Namespace)); err != nil {
		return users{}, fmt.Errorf("listing SubOperatorConfigs: %w", err)
	}
	allows := func(m v2beta2.NamespaceMapping) bool { return mapping.Allows(m, e.Name) }
	operators := map[rbacv1.Subject]bool{}
	u := users{installed: map[string]bool{}}
	for i := range list.Items {
		soc := &list.Items[i]
		if slices.ContainsFunc(soc.Spec.Mapping, allows) {
			u.configs = append(u.configs, v2beta2.SubOperatorConfigReference{Name: soc.Name})
		}
		for _, operator := range install.OperatorsOf(soc) {
			u.installed[operator.Namespace+"/"+operator.Name] = true
			if slices.ContainsFunc(soc.Spec.Mapping, func(m v2beta2.NamespaceMapping) bool { return m.Namespace == operator.Namespace && allows(m) }) {
				operators[operator] = true
			}
		}
	}
	slices.SortFunc(u.configs, func(a, b v2beta2.SubOperatorConfigReference) int { return strings.Compare(a.Name, b.Name) })
	u.operators = slices.SortedFunc(maps.Keys(operators), func(a, b rbacv1.Subject) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return u, nil
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

func (r *Reconciler) stateStore() *stateStore {
	return &stateStore{client: r.Client, reader: r.Reader, cached: r.states}
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
		Watches(&v2beta2.ZosEndpoint{}, handler.EnqueueRequestsFromMapFunc(r.stateStore().neighborsOf), builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return false },
			UpdateFunc: func(event.UpdateEvent) bool { return false },
		})).
		Watches(&v2beta2.SubOperatorConfig{}, handler.EnqueueRequestsFromMapFunc(r.ofSubOperatorConfig),
			builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{UpdateFunc: install.OperatorsChanged}))).
		WatchesMetadata(&rbacv1.Role{}, owner).
		WatchesMetadata(&rbacv1.RoleBinding{}, owner).
		WatchesRawSource(source.Kind(states, &corev1.Secret{}, handler.TypedEnqueueRequestsFromMapFunc(r.stateStore().membersOfState), stateHasNews())).
		WithOptions(pace.Options(int(workers.Total))).
		Complete(pace.PacedWithin(r, workers))
}

func (r *Reconciler) ofSubOperatorConfig(ctx context.Context, object client.Object) []reconcile.Request {
	return pace.RequestsOf(ctx, r.Client, &v2beta2.ZosEndpointList{}, client.InNamespace(object.GetNamespace()))
}
