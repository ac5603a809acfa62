package suboperatorconfig

import (
	"context"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// uninstallReplaced removes the operators of a collection that the OperatorCollection's present one replaces. The CRDs pass after that,
// so that no two operators ever serve a kind.
func (r *Reconciler) uninstallReplaced(ctx context.Context, s *configScope) error {
	replaced := s.collection.Replaces
	if s.soc.Status.Collection == nil || replaced == (model.ID{}) || install.RecordedCollection(s.soc) != replaced {
		return nil
	}
	if err := r.uninstallFormer(ctx, s, r.handOver); err != nil {
		return err
	}
	// The change of labels triggers a reconcile of the CRDs, which can pass now.
	return r.addLabels(ctx, s)
}

// uninstallFormer removes the operators of the collection that the OperatorCollection had before.
func (r *Reconciler) uninstallFormer(ctx context.Context, s *configScope, uninstall uninstaller) error {
	if err := r.uninstallEverywhere(ctx, s, uninstall); err != nil {
		return err
	}
	before := s.soc.DeepCopy()
	s.soc.Status.Collection, s.results = nil, nil
	if err := status.Patch(ctx, r.Client, s.soc, before); err != nil {
		return err
	}
	return r.resolveNamespaces(ctx, s)
}

// handOver is uninstall for a collection that another one replaces.
func (r *Reconciler) handOver(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string) install.Result {
	if namespace == "" || r.Namespaces.Check(namespace) != nil {
		return r.uninstall(ctx, soc, namespace)
	}
	return r.installer().HandOver(ctx, soc, namespace)
}
