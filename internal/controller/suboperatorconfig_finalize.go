package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/apply"
)

// runGrace is how long removing an operator waits for playbooks that run.
const runGrace = time.Minute

// finalize removes the operator from every namespace, from the inventory alone: neither the OperatorCollection nor the
// archive need to exist any more. Custom resources and CRDs stay.
func (r *SubOperatorConfigReconciler) finalize(ctx context.Context, soc *v2beta2.SubOperatorConfig) error {
	steps := []func(context.Context, *v2beta2.SubOperatorConfig) error{
		r.awaitCollection,
		r.awaitRuns,
		r.removeInventory,
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
	case oc.DeletionTimestamp == nil, oc.Spec.DeletionPolicy == v2beta2.DeletionOrphan, oc.Status.Collection == nil:
		return nil
	}
	existing := &instances{client: r.Client, reader: r.Reader}
	items, err := existing.list(ctx, keyOfCollection(oc), "")
	if err != nil || len(items) == 0 {
		return err
	}
	return waiting(v2beta2.ReasonCollectionTerminating, pollInterval,
		"the operator is kept until OperatorCollection %q has dealt with %s", oc.Name, describe(items))
}

// awaitRuns gives running playbooks up to runGrace to end.
func (r *SubOperatorConfigReconciler) awaitRuns(ctx context.Context, soc *v2beta2.SubOperatorConfig) error {
	left := runGrace - time.Since(soc.DeletionTimestamp.Time)
	key := keyOfLabels(soc)
	if left <= 0 || key == (collectionKey{}) {
		return nil
	}
	existing := &instances{client: r.Client, reader: r.Reader}
	for _, installation := range soc.Status.Installations {
		items, err := existing.list(ctx, key, installation.Namespace)
		if err != nil {
			return err
		}
		if busy := running(items); len(busy) > 0 {
			return waiting(v2beta2.ReasonTerminating, min(left, pollInterval), "waiting for the running playbooks of %s", describe(busy))
		}
	}
	return nil
}

func (r *SubOperatorConfigReconciler) removeInventory(ctx context.Context, soc *v2beta2.SubOperatorConfig) error {
	applier := &apply.Applier{Client: r.Client, Reader: r.Reader}
	remaining, err := applier.Prune(ctx, soc.Status.Inventory, ownedBy(soc))
	if saveErr := r.saveInventory(ctx, soc, remaining); saveErr != nil {
		err = errors.Join(err, saveErr)
	}
	if err == nil && len(remaining) > 0 {
		last := remaining[len(remaining)-1]
		return waiting(v2beta2.ReasonTerminating, pollInterval, "waiting until %s %s/%s is removed", last.Kind, last.Namespace, last.Name)
	}
	return err
}

func (r *SubOperatorConfigReconciler) removeFinalizer(ctx context.Context, soc *v2beta2.SubOperatorConfig) error {
	return removeFinalizer(ctx, r.Client, soc)
}
