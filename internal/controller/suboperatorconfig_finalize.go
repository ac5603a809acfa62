package controller

import (
	"context"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/instances"
	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/status"
)

// finalize removes the operator from every namespace, from the inventory alone: neither the OperatorCollection nor the
// archive need to exist any more. Custom resources and CRDs stay.
func (r *SubOperatorConfigReconciler) finalize(ctx context.Context, soc *v2beta2.SubOperatorConfig) error {
	steps := []func(context.Context, *v2beta2.SubOperatorConfig) error{
		r.awaitCollection,
		r.awaitRuns,
		r.removeUnsubscribed,
		r.removeInventory,
		r.reportInstances,
		r.removeFinalizer,
	}
	for _, step := range steps {
		if err := step(ctx, soc); err != nil {
			return err
		}
	}
	return nil
}

// awaitCollection keeps the operator for as long as an OperatorCollection that is being deleted needs it to finalize
// custom resources.
func (r *SubOperatorConfigReconciler) awaitCollection(ctx context.Context, soc *v2beta2.SubOperatorConfig) error {
	oc := &v2beta2.OperatorCollection{}
	err := r.Reader.Get(ctx, types.NamespacedName{Namespace: soc.Namespace, Name: soc.Spec.OperatorCollection}, oc)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading OperatorCollection %q: %w", soc.Spec.OperatorCollection, err)
	case oc.Spec.DeletionPolicy == v2beta2.DeletionOrphan, oc.Status.Collection == nil:
		return nil
	}
	// A namespace that is being deleted may delete this object before the OperatorCollection.
	terminating, err := instances.IsTerminating(ctx, r.Reader, soc.Namespace)
	if err != nil || oc.DeletionTimestamp == nil && !terminating {
		return err
	}
	for _, installation := range soc.Status.Installations {
		terminating, err := instances.IsTerminating(ctx, r.Reader, installation.Namespace)
		if err != nil {
			return err
		}
		if terminating {
			continue // The operator is being deleted with its namespace; waiting for it would be in vain.
		}
		allowed, err := consents(ctx, r.Reader, soc.Namespace, installation.Namespace)
		if err != nil {
			return err
		}
		if !allowed {
			continue // The OperatorCollection leaves alone what is there.
		}
		items, err := (&instances.Finder{Client: r.Client, Reader: r.Reader}).List(ctx, importedID(oc), installation.Namespace)
		if err != nil {
			return err
		}
		if len(items) > 0 {
			return status.Waiting(v2beta2.ReasonCollectionTerminating, status.PollInterval,
				"the operator is kept until OperatorCollection %q has dealt with %s", oc.Name, instances.Describe(items))
		}
	}
	return nil
}

// awaitRuns gives running playbooks up to runGrace to end.
func (r *SubOperatorConfigReconciler) awaitRuns(ctx context.Context, soc *v2beta2.SubOperatorConfig) error {
	for _, installation := range soc.Status.Installations {
		busy, err := r.busy(ctx, render.IDOf(soc.GetLabels()), installation.Namespace, soc.DeletionTimestamp.Time)
		if err != nil {
			return err
		}
		if busy != nil {
			return busy
		}
	}
	return nil
}

// removeUnsubscribed removes the operators that a person's Subscriptions installed and that are left when these are gone: OLM
// leaves them running, and their pods would not start again without what is removed next.
func (r *SubOperatorConfigReconciler) removeUnsubscribed(ctx context.Context, soc *v2beta2.SubOperatorConfig) error {
	key := render.IDOf(soc.GetLabels())
	packageName := render.PackageName(&collection.Collection{Domain: key.Domain, Name: key.Name})
	for _, installation := range soc.Status.Installations {
		ours := slices.ContainsFunc(soc.Status.Inventory, func(ref v2beta2.ObjectReference) bool {
			return ref.Kind == operatorsv1alpha1.SubscriptionKind && ref.Namespace == installation.Namespace
		})
		if ours || installation.Install != v2beta2.InstallOLM || !r.OLM.Available() {
			continue
		}
		gone, err := r.removeFromOLM(ctx, soc, installation.Namespace, packageName)
		if err != nil {
			return err
		}
		if !gone {
			return status.Waiting(v2beta2.ReasonTerminating, status.PollInterval, "namespace %q: waiting until OLM has removed the operator", installation.Namespace)
		}
	}
	return nil
}

func (r *SubOperatorConfigReconciler) removeInventory(ctx context.Context, soc *v2beta2.SubOperatorConfig) error {
	remaining, err := r.remove(ctx, soc, soc.Status.Inventory)
	if err == nil && len(remaining) > 0 {
		return removing(remaining)
	}
	return err
}

// reportInstances says how many custom resources are left behind.
func (r *SubOperatorConfigReconciler) reportInstances(ctx context.Context, soc *v2beta2.SubOperatorConfig) error {
	for _, installation := range soc.Status.Installations {
		if err := r.sayWhatIsLeft(ctx, soc, render.IDOf(soc.GetLabels()), installation.Namespace); err != nil {
			return err
		}
	}
	return nil
}

func (r *SubOperatorConfigReconciler) removeFinalizer(ctx context.Context, soc *v2beta2.SubOperatorConfig) error {
	return removeFinalizer(ctx, r.Client, soc)
}
