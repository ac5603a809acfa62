package zosendpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	managercache "github.com/collection-operator/collection-operator/internal/controller/cache"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// stateStore has the states of security domains.
type stateStore struct {
	client client.Client
	reader client.Reader
	// cached reads the Secrets with states from a cache of their own.
	cached client.Reader
}

// update creates the state of the endpoint's security domain, or changes what the manager is responsible for in it, and returns it.
// Operators write it too. The write that loses is repeated. A conflict is the error if that was not enough. The state is nil if it could not
// be read.
func (r *stateStore) update(
	ctx context.Context, e *v2beta2.ZosEndpoint, address string, installed map[string]bool, memory *probeMemory,
) (known *endpoint.State, err error) {
	name := endpoint.StateName(e)
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		secret, state, err := r.read(ctx, e.Namespace, name)
		if err != nil {
			return err
		}
		before := secret.DeepCopy()
		members, err := r.membersOf(ctx, e, name)
		if err != nil {
			return err
		}
		if err := r.setMembers(secret, state, members); err != nil {
			return err
		}
		state.AllowRetry(e.Name, e.Annotations[endpoint.AnnotationRetry])
		if memory.mayRecover(e, state, address) {
			state.Recover(address, time.Now())
		}
		gone, err := r.goneHolders(ctx, installed, state)
		if err != nil {
			return err
		}
		state.Evict(time.Now(), gone)
		known = state
		return r.write(ctx, secret, before, state)
	})
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		err = nil
	}
	return known, err
}

// leaveOthers removes the endpoint from the security domains to which it belonged before.
func (r *stateStore) leaveOthers(ctx context.Context, e *v2beta2.ZosEndpoint) error {
	list := &corev1.SecretList{}
	if err := r.cached.List(ctx, list, client.InNamespace(e.Namespace)); err != nil {
		return fmt.Errorf("listing Secrets: %w", err)
	}
	var errs []error
	for i := range list.Items {
		if name := list.Items[i].Name; name != endpoint.StateName(e) && owns(e, &list.Items[i]) {
			errs = append(errs, retry.RetryOnConflict(retry.DefaultRetry, func() error { return r.leave(ctx, e, name) }))
		}
	}
	return errors.Join(errs...)
}

// leave removes an endpoint from one security domain. The last one deletes the state.
func (r *stateStore) leave(ctx context.Context, e *v2beta2.ZosEndpoint, name string) error {
	secret, err := r.readSecret(ctx, e.Namespace, name)
	if err != nil || secret == nil {
		return err
	}
	members, err := r.membersOf(ctx, e, name)
	if err != nil {
		return err
	}
	if len(members) == 0 {
		err := r.client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion})
		return client.IgnoreNotFound(err)
	}
	state, err := parseState(secret)
	if status.Is(err) { // The other ZosEndpoints report it.
		return nil
	}
	before := secret.DeepCopy()
	if err := r.setMembers(secret, state, members); err != nil {
		return err
	}
	return r.write(ctx, secret, before, state)
}

// read reads a state, or returns a new one in a Secret without a UID. A state that cannot be read is never replaced: what
// it says about refused credentials and running playbooks would be lost.
func (r *stateStore) read(ctx context.Context, namespace, name string) (*corev1.Secret, *endpoint.State, error) {
	secret, err := r.readSecret(ctx, namespace, name)
	switch {
	case err != nil:
		return nil, nil, err
	case secret == nil:
		return newStateSecret(namespace, name), &endpoint.State{}, nil
	}
	state, err := parseState(secret)
	return secret, state, err
}

// readSecret reads the Secret with a state. It is nil if it does not exist. One that was not created for ZosEndpoints is an
// error with a reason.
func (r *stateStore) readSecret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := r.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Secret %q: %w", name, err)
	case secret.Labels[endpoint.LabelState] != "true" && !slices.ContainsFunc(secret.OwnerReferences, isEndpoint):
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		return nil, accessError(&apply.ForeignObjectError{Object: apply.Name(secret)})
	}
	return secret, nil
}

func parseState(secret *corev1.Secret) (*endpoint.State, error) {
	state, err := endpoint.ParseState(secret.Data[endpoint.StateFile])
	if err != nil {
		return nil, status.Waiting(v2beta2.ReasonInvalidState, intervals.Missing,
			"Secret %q has no valid state: %w. No run starts until you delete it, which also forgets refused credentials and the runs in progress", secret.Name, err)
	}
	return state, nil
}

func newStateSecret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{}}
}

// write writes a Secret if it differs from before. It fails with a conflict if others changed it in the meantime.
func (r *stateStore) write(ctx context.Context, secret, before *corev1.Secret, state *endpoint.State) error {
	secret.Data[endpoint.StateFile] = state.Marshal()
	if before.UID == "" {
		err := r.client.Create(ctx, secret, client.FieldOwner(apply.FieldOwner))
		if apierrors.IsAlreadyExists(err) {
			return apierrors.NewConflict(corev1.Resource("secrets"), secret.Name, err)
		}
		return err
	}
	if equality.Semantic.DeepEqual(before, secret) {
		return nil
	}
	return r.client.Update(ctx, secret, client.FieldOwner(apply.FieldOwner))
}

// membersOf returns the ZosEndpoints of a state, sorted by name. They come from the cache, except the given one.
func (r *stateStore) membersOf(ctx context.Context, e *v2beta2.ZosEndpoint, name string) ([]v2beta2.ZosEndpoint, error) {
	list := &v2beta2.ZosEndpointList{}
	if err := r.client.List(ctx, list, client.InNamespace(e.Namespace), client.MatchingFields{imports.IndexState: name}); err != nil {
		return nil, fmt.Errorf("listing ZosEndpoints: %w", err)
	}
	members := slices.DeleteFunc(list.Items, func(other v2beta2.ZosEndpoint) bool {
		return other.Name == e.Name || other.DeletionTimestamp != nil
	})
	if endpoint.StateName(e) == name {
		members = append(members, *e)
	}
	slices.SortFunc(members, func(a, b v2beta2.ZosEndpoint) int { return strings.Compare(a.Name, b.Name) })
	return members, nil
}

// setMembers sets what a Secret with a state says about the ZosEndpoints of its security domain: its owners, the limits of
// their systems, and whose annotations were seen.
func (r *stateStore) setMembers(secret *corev1.Secret, state *endpoint.State, members []v2beta2.ZosEndpoint) error {
	metav1.SetMetaDataLabel(&secret.ObjectMeta, endpoint.LabelState, "true")
	metav1.SetMetaDataLabel(&secret.ObjectMeta, render.LabelManagedBy, render.ManagedBy)
	secret.OwnerReferences = slices.DeleteFunc(secret.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return isEndpoint(owner) && !slices.ContainsFunc(members, func(e v2beta2.ZosEndpoint) bool { return e.UID == owner.UID })
	})
	limits, names := map[string]int{}, map[string]bool{}
	for _, member := range members {
		if !owns(&member, secret) {
			if err := controllerutil.SetOwnerReference(&member, secret, r.client.Scheme()); err != nil {
				return err
			}
		}
		names[member.Name] = true
		member.Spec.RunWindows = nil // A limit also counts if the windows are invalid.
		settings, err := endpoint.SettingsOf(&member)
		if err != nil {
			return err
		}
		if limit, limited := limits[settings.Address]; settings.MaxRuns > 0 && (!limited || settings.MaxRuns < limit) {
			limits[settings.Address] = settings.MaxRuns
		}
	}
	state.SetLimits(limits)
	maps.DeleteFunc(state.Retries, func(name, _ string) bool { return !names[name] })
	return nil
}

// goneHolders returns the function for [endpoint.State.Evict]: pods that do not exist any more or have ended, and operators
// that are not installed any more. The pod of such an operator keeps its places until it has ended. Operators write the state, so
// names can be anything.
func (r *stateStore) goneHolders(ctx context.Context, installed map[string]bool, state *endpoint.State) (
	gone func(operator, podName string, pod types.UID) bool, err error) {
	pods := map[types.UID]bool{}
	for _, holder := range holdersOf(state) {
		if _, known := pods[holder.Pod]; known || !isPod(holder.Operator, holder.PodName) {
			continue
		}
		namespace, _, _ := strings.Cut(holder.Operator, "/")
		pod := &corev1.Pod{}
		err := r.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: holder.PodName}, pod)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading pod %q in namespace %q: %w", holder.PodName, namespace, err)
		}
		pods[holder.Pod] = err != nil || pod.UID != holder.Pod || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	}
	return func(operator, podName string, pod types.UID) bool {
		if podName == "" && pod == "" {
			return !installed[operator]
		}
		return !isPod(operator, podName) || pods[pod]
	}, nil
}

// isPod reports whether an operator, as namespace/name, can have a pod of that name.
func isPod(operator, podName string) bool {
	namespace, _, _ := strings.Cut(operator, "/")
	return len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(podName)) == 0
}

// holdersOf returns the runs that have a place on a system or try a credential.
func holdersOf(state *endpoint.State) []endpoint.Holder {
	var holders []endpoint.Holder
	for _, system := range state.Systems {
		holders = append(holders, system.Running...)
	}
	for _, logon := range state.Logons {
		if logon.Trying != nil {
			holders = append(holders, *logon.Trying)
		}
	}
	return holders
}

// statePrefix begins the name of each Secret with a state, see [endpoint.StateName].
const statePrefix = "zosendpoint-"

// stateCache has the Secrets with states. Of other Secrets the manager caches the metadata only, and one
// cache cannot do both.
type stateCache struct{ cache.Cache }

// GetCache makes the manager start the cache before the controllers.
func (c stateCache) GetCache() cache.Cache { return c.Cache }

func newStateCache(mgr ctrl.Manager, namespaces mapping.Selection) (stateCache, error) {
	c, err := cache.New(mgr.GetConfig(), managercache.LimitCache(cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {
			Label:     labels.SelectorFromSet(labels.Set{endpoint.LabelState: "true"}),
			Transform: onlyState,
		}},
	}, namespaces))
	if err != nil {
		return stateCache{}, fmt.Errorf("setting up the cache of endpoint states: %w", err)
	}
	return stateCache{c}, mgr.Add(stateCache{c})
}

// onlyState removes from a Secret what is not part of a state. Anybody can set the label on other Secrets.
func onlyState(object any) (any, error) {
	secret, ok := object.(*corev1.Secret)
	if !ok {
		return object, nil
	}
	isState := strings.HasPrefix(secret.Name, statePrefix) && slices.ContainsFunc(secret.OwnerReferences, isEndpoint)
	maps.DeleteFunc(secret.Data, func(key string, _ []byte) bool { return !isState || key != endpoint.StateFile })
	secret.StringData, secret.Annotations, secret.ManagedFields = nil, nil, nil
	return secret, nil
}

// stateHasNews accepts changes of a state that the manager reports or acts on. Places that are taken and given back are none.
func stateHasNews() predicate.TypedPredicate[*corev1.Secret] {
	return predicate.TypedFuncs[*corev1.Secret]{UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Secret]) bool {
		before, errBefore := endpoint.ParseState(e.ObjectOld.Data[endpoint.StateFile])
		after, errAfter := endpoint.ParseState(e.ObjectNew.Data[endpoint.StateFile])
		if errBefore != nil || errAfter != nil {
			return string(e.ObjectOld.Data[endpoint.StateFile]) != string(e.ObjectNew.Data[endpoint.StateFile])
		}
		return endpoint.HasNews(before, after)
	}}
}

// membersOfState maps a Secret with a state to the ZosEndpoints of its security domain, and to those that have left it.
func (r *stateStore) membersOfState(ctx context.Context, secret *corev1.Secret) []reconcile.Request {
	requests := pace.RequestsOf(ctx, r.client, &v2beta2.ZosEndpointList{}, client.InNamespace(secret.Namespace), client.MatchingFields{imports.IndexState: secret.Name})
	for _, owner := range secret.OwnerReferences {
		if isEndpoint(owner) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: secret.Namespace, Name: owner.Name}})
		}
	}
	return requests
}

// neighborsOf maps a ZosEndpoint that was deleted to the others of its security domain: limits may have changed.
func (r *stateStore) neighborsOf(ctx context.Context, object client.Object) []reconcile.Request {
	e, ok := object.(*v2beta2.ZosEndpoint)
	if !ok {
		return nil
	}
	return pace.RequestsOf(ctx, r.client, &v2beta2.ZosEndpointList{}, client.InNamespace(e.Namespace), client.MatchingFields{imports.IndexState: endpoint.StateName(e)})
}
