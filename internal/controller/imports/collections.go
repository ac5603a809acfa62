package imports

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/source/archive"
	"github.com/collection-operator/collection-operator/internal/source/replica"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// CollectionCache loads collections from the artifact store and remembers, by digest, those that were used last.
type CollectionCache struct {
	Store *store.Store
	// Peers have archives that the store lacks. Nil means that there are none.
	Peers *replica.Peers
	// Key signs what is recorded of an import.
	Key endpoint.Key
	// LoadedBytes is about how much memory the remembered collections may take; zero means DefaultLoadedBytes.
	LoadedBytes int64

	// small and large each let one archive be loaded at a time, which takes memory. Small archives do not wait for large ones.
	small, large sync.Mutex
	// loading lets all who ask for an archive at the same time wait for one load of it.
	loading singleflight.Group

	mu       sync.Mutex
	loaded   loadedCollections
	outlines outlines
	// forgotten is the number of calls of forget.
	forgotten atomic.Int64

	Signatures SignatureCache
}

// smallLimits are those of an archive that is loaded within some milliseconds.
var smallLimits = archive.Limits{TotalBytes: 4 << 20, KeptBytes: 128 << 10, Entries: 2000}

// Load reads the archive with this digest, which it pulls from another manager if the store lacks it. The collection is shared: callers do
// not change it. Errors are those of [store.Store.Open], [archive.Read] and [model.Load]; problems that [crd.Validate] finds are one of them.
// While the archive is being copied, which takes longer, the error has a reason of its own.
func (c *CollectionCache) Load(archived digest.Digest) (*model.Collection, error) {
	if loaded := c.loaded.get(archived); loaded != nil {
		return loaded, nil
	}
	result, err, _ := c.loading.Do(archived.String(), func() (any, error) {
		if loaded := c.loaded.get(archived); loaded != nil {
			return loaded, nil
		}
		if err := c.pull(archived); err != nil {
			return nil, err
		}
		forgotten := c.forgotten.Load()
		loaded, err := c.readInTurn(archived)
		if err == nil {
			c.remember(archived, loaded, forgotten)
		}
		return loaded, err
	})
	if err != nil {
		return nil, err
	}
	return result.(*model.Collection), nil
}

// pullWait is how long a load waits until an archive is copied from another manager: a bit longer than one that does not answer is waited for.
const pullWait = 6 * time.Second

// pull copies an archive that the store lacks. Without success, the store says that it lacks it.
func (c *CollectionCache) pull(archived digest.Digest) error {
	if c.Store.Has(archived) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), pullWait)
	defer cancel()
	err := c.Peers.Pull(ctx, archived)
	if err != nil && ctx.Err() != nil {
		return status.Waiting(v2beta2.ReasonProgressing, intervals.Poll, "archive %s is being copied from another manager", archived)
	}
	if err != nil {
		ctrl.Log.WithName("collections").V(1).Info("an archive is not here", "digest", archived, "reason", err.Error())
	}
	return nil
}

// remember keeps what was read, unless an archive was forgotten since the number of those was the one before: it may be this one.
func (c *CollectionCache) remember(archived digest.Digest, loaded *model.Collection, before int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forgotten.Load() == before {
		c.loaded.add(archived, loaded, cmp.Or(c.LoadedBytes, DefaultLoadedBytes))
		c.outlines.add(archived, loaded)
	}
}

// readInTurn reads an archive as a small one, and again in the turn of large ones if it is not.
func (c *CollectionCache) readInTurn(archived digest.Digest) (*model.Collection, error) {
	begin := time.Now()
	loaded, err := c.readSmall(archived)
	var refused *archive.Error
	isLarge := errors.As(err, &refused) && (refused.Reason == archive.TooLarge || refused.Reason == archive.TooManyEntries)
	if isLarge {
		loaded, err = c.readLarge(archived)
	}
	ctrl.Log.WithName("collections").V(1).Info("an archive was loaded", "digest", archived, "large", isLarge, "seconds", time.Since(begin).Seconds())
	return loaded, err
}

func (c *CollectionCache) readSmall(archived digest.Digest) (*model.Collection, error) {
	c.small.Lock()
	defer c.small.Unlock()
	return c.read(archived, smallLimits)
}

func (c *CollectionCache) readLarge(archived digest.Digest) (*model.Collection, error) {
	c.large.Lock()
	defer c.large.Unlock()
	return c.read(archived, archive.DefaultLimits)
}

func (c *CollectionCache) read(archived digest.Digest, limits archive.Limits) (*model.Collection, error) {
	content, _, err := c.Store.Open(archived)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	files, err := archive.Read(content, limits, model.Keep)
	if err != nil {
		return nil, err
	}
	loaded, err := model.Load(files)
	if err != nil {
		return nil, err
	}
	if loaded.Problems = findings.Merge(loaded.Problems, crd.Validate(loaded)); len(loaded.Problems.Refused()) > 0 {
		return nil, loaded.Problems
	}
	return loaded, nil
}

// forget drops an archive from memory. It is read again when it is needed.
func (c *CollectionCache) forget(archived digest.Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgotten.Add(1)
	c.loading.Forget(archived.String())
	c.Signatures.Forget(archived)
	c.loaded.remove(archived)
	c.outlines.remove(archived)
}

// Remove drops an archive from the store and from memory.
func (c *CollectionCache) Remove(archive digest.Digest) error {
	err := c.Store.Remove(archive)
	c.forget(archive)
	return err
}

// Imported returns what an OperatorCollection has imported according to its status, or else to its annotation. It is nil if it has
// imported nothing.
func (c *CollectionCache) Imported(oc *v2beta2.OperatorCollection) *Record {
	if oc.Status.Artifact != nil {
		return &Record{Artifact: oc.Status.Artifact, Collection: oc.Status.Collection, Signed: true}
	}
	return parseImportRecord(oc, c.Key)
}

// RecordedID is the identity of the collection that an OperatorCollection has imported, also before one that was restored without
// status is imported again. A record that the manager has not signed does not count: a deletion with the policy Finalize deletes custom
// resources.
func (c *CollectionCache) RecordedID(oc *v2beta2.OperatorCollection) model.ID {
	if record := c.Imported(oc); record != nil && record.Signed && record.Collection != nil {
		return model.ID{Domain: record.Collection.Domain, Name: record.Collection.Name}
	}
	return model.ID{}
}

// Outline is Load without what only CRDs and operators are made from: of the kinds it has only the names. It is remembered longer.
func (c *CollectionCache) Outline(archived digest.Digest) (*model.Collection, error) {
	if outline, ok := c.outlines.cache().Get(archived); ok {
		return outline.(*model.Collection), nil
	}
	return c.Load(archived)
}

const (
	// maxOutlines is the number of collections whose outlines are remembered.
	maxOutlines = 4096
	// maxOutlineBytes bounds an outline that is remembered, about.
	maxOutlineBytes = 8 << 10
)

// outlines remember what status and labels say of the collections that were loaded last.
type outlines struct {
	once sync.Once
	of   *lru.Cache
}

func (o *outlines) cache() *lru.Cache {
	o.once.Do(func() { o.of = lru.New(maxOutlines) })
	return o.of
}

func (o *outlines) add(archived digest.Digest, loaded *model.Collection) {
	if outline := outlineOf(loaded); sizeOf(outline) <= maxOutlineBytes {
		o.cache().Add(archived, outline)
	}
}

func (o *outlines) remove(archived digest.Digest) { o.cache().Remove(archived) }

// outlineOf returns the identity of a collection, its version, the names of its kinds, and its problems.
func outlineOf(c *model.Collection) *model.Collection {
	outline := &model.Collection{Domain: c.Domain, Name: c.Name, Version: c.Version, Replaces: c.Replaces, Problems: c.Problems}
	for _, resource := range c.Resources {
		outline.Resources = append(outline.Resources, model.Resource{Kind: resource.Kind})
	}
	return outline
}

// ProblemSummaryLines bounds how many problems of an archive a status message shows.
const ProblemSummaryLines = 10

// LoadFailure gives an error of Load its reason.
func LoadFailure(err error) error {
	var unreadable *archive.Error
	var problems findings.Problems
	switch {
	case status.Is(err):
		return err
	case errors.As(err, &unreadable) && unreadable.Reason == archive.Unreadable:
		return status.Retry(v2beta2.ReasonStorageFailed, err)
	case errors.As(err, &unreadable):
		return status.Stalled(archiveReason(unreadable.Reason), err)
	case errors.As(err, &problems):
		refused := problems.Refused()
		return status.Stalled(problemReason(refused), errors.New(refused.Summary(ProblemSummaryLines)))
	}
	return status.Retry(v2beta2.ReasonStorageFailed, err)
}

func archiveReason(reason archive.Reason) string {
	switch reason {
	case archive.NotGzip, archive.NotTar:
		return v2beta2.ReasonArchiveNotGzip
	case archive.Truncated:
		return v2beta2.ReasonArchiveTruncated
	case archive.TooLarge, archive.TooManyEntries, archive.TooDeep, archive.NameTooLong:
		return v2beta2.ReasonArchiveTooLarge
	case archive.PathEscapes, archive.InvalidName, archive.UnsafeLink, archive.UnsupportedEntry, archive.DuplicateEntry:
		return v2beta2.ReasonArchiveUnsafe
	}
	return v2beta2.ReasonArchiveCorrupt
}

// problemReasons has the rules with a reason of their own. All others share InvalidCollection.
var problemReasons = map[string]string{
	"missing-operator-config":   v2beta2.ReasonOperatorConfigMissing,
	"duplicate-operator-config": v2beta2.ReasonOperatorConfigAmbiguous,
	"yaml":                      v2beta2.ReasonInvalidYAML,
	"duplicate-key":             v2beta2.ReasonInvalidYAML,
	"missing-playbook":          v2beta2.ReasonPlaybookMissing,
	"missing-finalizer":         v2beta2.ReasonPlaybookMissing,
}

// problemReason is the reason that all problems share, or InvalidCollection.
func problemReason(problems findings.Problems) string {
	reason := ""
	for _, problem := range problems {
		of, ok := problemReasons[problem.Rule]
		if !ok || reason != "" && of != reason {
			return v2beta2.ReasonInvalidCollection
		}
		reason = of
	}
	return reason
}
