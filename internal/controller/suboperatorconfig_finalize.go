package controller

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/instances"
	"github.com/collection-operator/collection-operator/internal/intervals"
	"github.com/collection-operator/collection-operator/internal/status"
)

// awaitCollection keeps the operator while an OperatorCollection that is being deleted needs it to finalize custom
// resources.
func (r *SubOperatorConfigReconciler) awaitCollection(ctx context.Context, s *configScope) error {
	oc := &v2beta2.OperatorCollection{}
	err := r.Reader.Get(ctx, types.NamespacedName{Namespace: s.soc.Namespace, Name: s.soc.Spec.OperatorCollection}, oc)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading OperatorCollection %q: %w", s.soc.Spec.OperatorCollection, err)
	case oc.Spec.DeletionPolicy == v2beta2.DeletionOrphan, oc.Status.Collection == nil:
		return nil
	}
	// A namespace that is being deleted may delete this object before the OperatorCollection.
	terminating, err := instances.IsTerminating(ctx, r.Reader, s.soc.Namespace)
	if err != nil || oc.DeletionTimestamp == nil && !terminating {
		return err
	}
	if successor, err := waitingSuccessor(ctx, r.Reader, oc.Namespace, importedID(oc)); err != nil || successor != nil {
		return err
	}
	finder := &instances.Finder{Reader: r.Reader}
	for _, m := range s.mappings {
		terminating, err := instances.IsTerminating(ctx, r.Reader, m.Namespace)
		if err != nil {
			return err
		}
		if terminating || install.Recorded(s.soc, m.Namespace) == nil {
			continue // The operator is deleted with its namespace, or was never installed.
		}
		items, err := finder.List(ctx, importedID(oc), m.Namespace)
		if err != nil {
			return err
		}
		if len(items) > 0 {
			return status.Waiting(v2beta2.ReasonCollectionTerminating, intervals.Poll,
				"the operator is kept until OperatorCollection %q has finalized %s", oc.Name, instances.Describe(items))
		}
	}
	return nil
}

// uninstallAll removes the operator from every namespace. Custom resources and CRDs are kept, for the collection that waits in its
// place, if there is one.
func (r *SubOperatorConfigReconciler) uninstallAll(ctx context.Context, s *configScope) error {
	id := install.RecordedCollection(s.soc)
	successor, err := findIn(ctx, r.Reader, s.soc.Namespace, func(oc *v2beta2.OperatorCollection) bool {
		return isSuccessor(oc, id, s.soc.Namespace) && awaitsReplaced(oc) || oc.Name != s.soc.Spec.OperatorCollection && isInterrupted(oc, id)
	})
	if err != nil {
		return err
	}
	if successor != nil {
		return r.uninstallEverywhere(ctx, s, r.handOver)
	}
	return r.uninstallEverywhere(ctx, s, r.uninstall)
}

// uninstaller removes the operator from one namespace.
type uninstaller func(context.Context, *v2beta2.SubOperatorConfig, string) install.Result

func (r *SubOperatorConfigReconciler) uninstallEverywhere(ctx context.Context, s *configScope, uninstall uninstaller) error {
	s.results = nil
	var errs []error
	for _, namespace := range install.Namespaces(s.soc) {
		result := uninstall(ctx, s.soc, namespace)
		errs = append(errs, result.Err)
		result.Err = nil // It is in the error of this step.
		s.results = append(s.results, result)
	}
	return status.Join(errs...)
}

func (r *SubOperatorConfigReconciler) removeFinalizer(ctx context.Context, s *configScope) error {
	return removeFinalizer(ctx, r.Client, s.soc)
}
