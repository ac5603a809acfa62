package intake

import (
	"io"
	"sync"

	"github.com/opencontainers/go-digest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// maxBlockedBytes limits the size of all archives that are kept while custom resources block them. Others are fetched again with each
// attempt.
const maxBlockedBytes = 512 << 20

// blockedArchives has the archives, one for each OperatorCollection, that custom resources block, or that wait for the end of a collection
// that they replace. They stay in the store until they are accepted or the spec asks for another one. A manager that starts fetches them
// again.
type blockedArchives struct {
	mu    sync.Mutex
	kept  map[client.ObjectKey]BlockedArchive
	bytes int64
}

// BlockedArchive is one of them. Without an artifact there is none.
type BlockedArchive struct {
	Artifact *v2beta2.Artifact
	Hold     *store.Hold
}

// keep keeps the archive that the hold is of instead of the former one, which it returns. Without an artifact, and beyond
// maxBlockedBytes, it keeps none: then the caller has the hold still.
func (b *blockedArchives) keep(key client.ObjectKey, archive *v2beta2.Artifact, hold *store.Hold) (former BlockedArchive, kept bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if former = b.kept[key]; former.Artifact != nil {
		b.bytes -= former.Artifact.Size
		delete(b.kept, key)
	}
	if archive == nil || b.bytes+archive.Size > maxBlockedBytes {
		return former, false
	}
	if b.kept == nil {
		b.kept = map[client.ObjectKey]BlockedArchive{}
	}
	b.kept[key] = BlockedArchive{Artifact: archive, Hold: hold}
	b.bytes += archive.Size
	return former, true
}

// KeepBlocked keeps an archive, which a hold is of, for the next attempt to import it, instead of the former one, which it returns. Without
// an archive, or if there are too many, it keeps none: then the caller has the hold still.
func (a *Source) KeepBlocked(oc *v2beta2.OperatorCollection, archive *v2beta2.Artifact, hold *store.Hold) (former BlockedArchive, kept bool) {
	return a.blocked.keep(client.ObjectKeyFromObject(oc), archive, hold)
}

func (b *blockedArchives) of(oc *v2beta2.OperatorCollection) *v2beta2.Artifact {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept[client.ObjectKeyFromObject(oc)].Artifact
}

// verifyBlocked returns the archive that was blocked when it was fetched for the same spec, and nil if an archive has to be fetched. With
// spec.interval the source may have another one by now.
func (a *Source) verifyBlocked(oc *v2beta2.OperatorCollection, policy *imports.VerificationPolicy) *v2beta2.Artifact {
	blocked := a.blocked.of(oc)
	if blocked == nil || oc.Spec.Interval != nil || blocked.SourceHash != imports.SourceHash(&oc.Spec) || !a.Collections.Store.Has(digest.Digest(blocked.Digest)) {
		return nil
	}
	verified, err := a.accept(oc, policy, digest.Digest(blocked.Digest), blocked.Size, func() (io.ReadCloser, error) {
		content, _, err := a.Collections.Store.Open(digest.Digest(blocked.Digest))
		return content, err
	})
	if err != nil {
		return nil // What is fetched says what is wrong.
	}
	verified.ETag, verified.LastModified = blocked.ETag, blocked.LastModified
	return verified
}
