package intake

import (
	"context"
	"time"

	"github.com/opencontainers/go-digest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
)

const (
	// postponeTime is how long pods that start wait for an archive that is being copied or imported, since its first write.
	postponeTime = time.Minute
	// replaceTime is how long they do not get an archive in whose place a copied one was imported: they are replaced, too.
	replaceTime = 30 * time.Second
)

// Postponed reports whether a pod that starts should wait with an archive, because another one is being copied into the manager's pod or
// imported in its place, or because it was just replaced by one. Nobody waits if an operator of others may need it. Everywhere asks the
// other managers, too.
func (a *Source) Postponed(ctx context.Context, archive digest.Digest, everywhere bool) bool {
	list := &v2beta2.OperatorCollectionList{}
	if a.Folder == nil || a.Client.List(ctx, list, client.UnsafeDisableDeepCopy) != nil {
		return false
	}
	isCopied, awaited := false, false
	for i := range list.Items {
		oc := &list.Items[i]
		switch has := imports.IsImported(oc, archive); {
		case a.takesPodCopies(oc) && !oc.Spec.Suspend:
			isCopied = isCopied || has
			awaited = awaited || has && a.isReplaced(oc) || a.wasReplaced(oc, archive)
		case has || imports.InHistory(oc, archive):
			return false
		}
	}
	return awaited || everywhere && isCopied && a.Peers.Postponed(ctx, archive)
}

// isReplaced reports whether an archive that is copied may take the place of the imported one soon.
func (a *Source) isReplaced(oc *v2beta2.OperatorCollection) bool {
	upload, awaited := a.awaitedPodCopy(oc)
	if !awaited || time.Since(upload.Since) > postponeTime {
		return false
	}
	return upload.Arriving || a.podCopies.last(oc).written != upload.Written && !a.HandOver.isDone(upload)
}

// replacedArchive is the one in whose place a copied one was imported.
type replacedArchive struct {
	digest digest.Digest
	at     time.Time
}

// Accept records, before status names an archive, that it is the one that is imported, what the check of its source said, and whether it
// takes the place of one over which it was copied.
func (a *Source) Accept(oc *v2beta2.OperatorCollection, archive *Archive) {
	archive.Accepted = true
	a.checks.record(oc, archive.check)
	if archive.podCopy != nil && archive.Replaced != "" {
		a.replaced.Store(client.ObjectKeyFromObject(oc), replacedArchive{digest: archive.Replaced, at: time.Now()})
	}
}

func (a *Source) wasReplaced(oc *v2beta2.OperatorCollection, archive digest.Digest) bool {
	found, _ := a.replaced.Load(client.ObjectKeyFromObject(oc))
	last, _ := found.(replacedArchive)
	if last.digest != archive || time.Since(last.at) >= replaceTime {
		return false
	}
	// It may have been imported again. The cache may also not have its replacement yet.
	return !imports.IsImported(oc, archive) || len(oc.Status.History) == 0 || !oc.Status.History[0].Time.After(last.at)
}
