package intake

import (
	"context"

	"github.com/opencontainers/go-digest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
)

// restore copies an archive that was imported, and that this manager lost, from another manager: its origin may be gone.
// Without success it is fetched. It counts as a download.
func (a *Source) restore(ctx context.Context, oc *v2beta2.OperatorCollection) error {
	known, lost := a.Collections.Imported(oc), imports.PinnedVersion(oc)
	if known.IsOf(oc) && known.Signed {
		lost = digest.Digest(known.Artifact.Digest)
	}
	if a.Peers == nil || lost == "" || a.Collections.Store.Has(lost) {
		return nil
	}
	release, err := a.startDownload(oc)
	if err != nil {
		return err
	}
	defer release()
	a.working.Leave(oc.Namespace)
	// Reconcile leaves again, also if ctx ends.
	defer a.working.EnterAgain(context.WithoutCancel(ctx), oc.Namespace)
	if err := a.Peers.Fetch(ctx, a.Collections.Store, lost, a.Fetcher.MaxBytes); err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("the archive is fetched again", "digest", lost, "reason", err.Error())
	}
	return nil
}
