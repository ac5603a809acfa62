package operatorcollection

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// checkFollowers refuses an archive that was copied over the imported one, if another namespace has imported the same version with the same
// content: it would not be accepted there any more.
func (f *importScope) checkFollowers(oc *v2beta2.OperatorCollection) error {
	for i := range f.others {
		other := &f.others[i]
		if f.Replaced != "" && other.Namespace != oc.Namespace && imports.IsImported(other, f.Replaced) && other.Status.Collection.Version == f.collection.Version.String() {
			return status.Stalled(v2beta2.ReasonVersionConflict, fmt.Errorf(
				"OperatorCollection %q in namespace %q has version %s with the content that runs: give this archive another version",
				other.Name, other.Namespace, other.Status.Collection.Version))
		}
	}
	return nil
}

// reconcileWithFallback is reconcile. If an archive that was copied over the imported one is refused, it reports that with one event, and goes on
// without it.
func (r *Reconciler) reconcileWithFallback(ctx context.Context, oc *v2beta2.OperatorCollection) (*importScope, error) {
	scope, err := r.reconcile(ctx, oc)
	refused, isNews := r.Source.DecidePodCopy(oc, &scope.Archive, err)
	if refused == nil {
		return scope, err
	}
	if isNews {
		r.Recorder.Eventf(oc, nil, corev1.EventTypeWarning, refused.Reason, "Import", "%s", printable.Line(refused.Error(), status.MaxEventBytes))
	}
	if err := r.removeRefused(ctx, oc, scope, refused); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "an archive that was refused stays in the store until it is cleaned")
	}
	scope.Hold.Release()
	return r.reconcile(ctx, oc)
}
