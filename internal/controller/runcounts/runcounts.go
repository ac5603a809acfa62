// Package runcounts reads from the Leases of operators how many playbooks they ran, for metrics.
package runcounts

import (
	"context"
	"fmt"
	"slices"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/run/runcount"
)

// RunCounts has the numbers of runs of installed operators, as these have written them into their Leases. The cache has no more than
// the names of Leases: anybody who may write them can write 256 KiB into each. The counts of an operator that is installed are read when
// its Lease changes.
type RunCounts struct {
	// Client reads from the cache, and Reader from the API server.
	Client client.Client
	Reader client.Reader

	mu    sync.Mutex
	known map[client.ObjectKey]knownCounts
}

// knownCounts are those of a version of a Lease, or nil if they cannot be read.
type knownCounts struct {
	version string
	counts  *runcount.Counts
}

// Of returns the counts in a Lease, or nil if there are none. They must not be changed.
func (r *RunCounts) Of(lease client.ObjectKey) *runcount.Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[lease].counts
}

func (r *RunCounts) keep(lease client.ObjectKey, counts *knownCounts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if counts == nil {
		delete(r.known, lease)
		return
	}
	if r.known == nil {
		r.known = map[client.ObjectKey]knownCounts{}
	}
	r.known[lease] = *counts
}

func (r *RunCounts) isCurrent(lease *metav1.PartialObjectMetadata) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[client.ObjectKeyFromObject(lease)].version == lease.ResourceVersion
}

// SetupWithManager registers the controller.
func (r *RunCounts) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("runcounts").
		WatchesMetadata(&coordinationv1.Lease{}, pace.LaterFor(func(_ context.Context, lease client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(lease)}}
		}), builder.WithPredicates(pace.WithoutRelists)).
		Watches(&v2beta2.SubOperatorConfig{}, pace.LaterFor(leasesOf), builder.WithPredicates(predicate.Funcs{UpdateFunc: install.OperatorsChanged})).
		WithOptions(pace.Options(1)).
		Complete(r)
}

// leasesOf returns the Leases of the operators that a SubOperatorConfig has installed.
func leasesOf(_ context.Context, object client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, operator := range install.OperatorsOf(object.(*v2beta2.SubOperatorConfig)) {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: operator.Namespace, Name: operator.Name}})
	}
	return requests
}

// Reconcile reads the counts in a Lease if an installed operator has it, and forgets them otherwise.
func (r *RunCounts) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cached := &metav1.PartialObjectMetadata{}
	cached.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
	isOperators, err := r.isInstalled(ctx, request.NamespacedName)
	if err == nil && isOperators {
		err = r.Client.Get(ctx, request.NamespacedName, cached)
		isOperators = !apierrors.IsNotFound(err)
	}
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("finding out whether Lease %s is an operator's: %w", request, err)
	}
	if !isOperators {
		r.keep(request.NamespacedName, nil)
		return reconcile.Result{}, nil
	}
	if r.isCurrent(cached) {
		return reconcile.Result{}, nil
	}
	lease := &coordinationv1.Lease{}
	if err := r.Reader.Get(ctx, request.NamespacedName, lease); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err) // Its deletion is an event of its own.
	}
	counts, err := runcount.Parse(lease.Annotations[runcount.Annotation])
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("the counters of runs cannot be read; they restart with the next run", "reason", err.Error())
	}
	r.keep(request.NamespacedName, &knownCounts{version: lease.ResourceVersion, counts: counts})
	return reconcile.Result{}, nil
}

// isInstalled reports whether a Lease is that of an operator that a SubOperatorConfig has installed.
func (r *RunCounts) isInstalled(ctx context.Context, lease client.ObjectKey) (bool, error) {
	socs := &v2beta2.SubOperatorConfigList{}
	if err := r.Client.List(ctx, socs, client.MatchingFields{imports.IndexNamespace: lease.Namespace}, client.UnsafeDisableDeepCopy); err != nil {
		return false, err
	}
	operator := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: lease.Namespace, Name: lease.Name}
	for i := range socs.Items {
		if slices.Contains(install.OperatorsOf(&socs.Items[i]), operator) {
			return true, nil
		}
	}
	return false, nil
}
