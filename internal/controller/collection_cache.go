package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/archive"
	"github.com/collection-operator/collection-operator/internal/artifact"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/crd"
	"github.com/collection-operator/collection-operator/internal/findings"
	"github.com/collection-operator/collection-operator/internal/status"
)

// CollectionCache loads collections from the artifact store and remembers them by digest.
type CollectionCache struct {
	Store *artifact.Store

	// reading lets one archive be read at a time: it takes memory. Collections that are loaded already do not wait for it.
	reading sync.Mutex
	// loaded has a *collection.Collection by digest.
	loaded sync.Map

	signatures signatureCache
}

// Load reads the stored archive with this digest. The collection is shared: callers do not change it. Errors are those
// of [artifact.Store.Open], [archive.Read] and [collection.Load]; problems that [crd.Validate] finds are one of them.
func (c *CollectionCache) Load(archive digest.Digest) (*collection.Collection, error) {
	if loaded := c.cached(archive); loaded != nil {
		return loaded, nil
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	if loaded := c.cached(archive); loaded != nil {
		return loaded, nil
	}
	loaded, err := c.read(archive)
	if err != nil {
		return nil, err
	}
	c.loaded.Store(archive, loaded)
	return loaded, nil
}

func (c *CollectionCache) cached(archive digest.Digest) *collection.Collection {
	found, _ := c.loaded.Load(archive)
	loaded, _ := found.(*collection.Collection)
	return loaded
}

func (c *CollectionCache) read(stored digest.Digest) (*collection.Collection, error) {
	content, _, err := c.Store.Open(stored)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	files, err := archive.Read(content, archive.DefaultLimits, collection.Keep)
	if err != nil {
		return nil, err
	}
	loaded, err := collection.Load(files)
	if err != nil {
		return nil, err
	}
	if loaded.Problems = findings.Merge(loaded.Problems, crd.Validate(loaded)); len(loaded.Problems.Refused()) > 0 {
		return nil, loaded.Problems
	}
	return loaded, nil
}

// Remove drops an archive from the store and from memory.
func (c *CollectionCache) Remove(archive digest.Digest) error {
	c.signatures.forget(archive)
	c.reading.Lock() // Else one that is being read would be remembered.
	defer c.reading.Unlock()
	c.loaded.Delete(archive)
	return c.Store.Remove(archive)
}

// problemSummaryLines bounds how many problems of an archive a status message shows.
const problemSummaryLines = 10

// loadFailure gives an error of Load its reason.
func loadFailure(err error) error {
	var unreadable *archive.Error
	var problems findings.Problems
	switch {
	case errors.As(err, &unreadable) && unreadable.Reason == archive.Unreadable:
		return status.Retry(v2beta2.ReasonStorageFailed, err)
	case errors.As(err, &unreadable):
		return status.Stalled(archiveReason(unreadable.Reason), err)
	case errors.As(err, &problems):
		refused := problems.Refused()
		return status.Stalled(problemReason(refused), errors.New(refused.Summary(problemSummaryLines)))
	}
	return status.Retry(v2beta2.ReasonStorageFailed, err)
}

// archivesInUse says which archives are in use: OperatorCollections have imported them, or SubOperatorConfigs run them.
type archivesInUse struct {
	collections []v2beta2.OperatorCollection
	configs     []v2beta2.SubOperatorConfig
}

// listArchivesInUse needs a reader of live objects where an archive is to be deleted that is not in use.
func listArchivesInUse(ctx context.Context, reader client.Reader) (*archivesInUse, error) {
	collections, configs := &v2beta2.OperatorCollectionList{}, &v2beta2.SubOperatorConfigList{}
	if err := reader.List(ctx, collections); err != nil {
		return nil, fmt.Errorf("listing OperatorCollections: %w", err)
	}
	if err := reader.List(ctx, configs); err != nil {
		return nil, fmt.Errorf("listing SubOperatorConfigs: %w", err)
	}
	return &archivesInUse{collections: collections.Items, configs: configs.Items}, nil
}

// digests of all archives in use but for what only one OperatorCollection, which may be nil, has imported.
func (a *archivesInUse) digests(but *v2beta2.OperatorCollection) map[digest.Digest]bool {
	all := map[digest.Digest]bool{}
	for i := range a.collections {
		if oc := &a.collections[i]; oc.Status.Artifact != nil && (but == nil || oc.UID != but.UID) {
			all[digest.Digest(oc.Status.Artifact.Digest)] = true
		}
	}
	for i := range a.configs {
		for _, installed := range installedDigests(&a.configs[i]) {
			all[installed] = true
		}
	}
	return all
}

// installedFrom are the digests of what SubOperatorConfigs run of an OperatorCollection, sorted.
func (a *archivesInUse) installedFrom(oc *v2beta2.OperatorCollection) []digest.Digest {
	var digests []digest.Digest
	for i := range a.configs {
		if soc := &a.configs[i]; soc.Namespace == oc.Namespace && soc.Spec.OperatorCollection == oc.Name {
			digests = append(digests, installedDigests(soc)...)
		}
	}
	slices.Sort(digests)
	return slices.Compact(digests)
}

// installedDigests are the digests of the archives that a SubOperatorConfig runs, sorted.
func installedDigests(soc *v2beta2.SubOperatorConfig) []digest.Digest {
	var digests []digest.Digest
	for _, installation := range soc.Status.Installations {
		if installation.Digest != "" {
			digests = append(digests, digest.Digest(installation.Digest))
		}
	}
	slices.Sort(digests)
	return slices.Compact(digests)
}

// ArchivesInUse lists the digests of the archives that OperatorCollections have imported or SubOperatorConfigs run, sorted.
func ArchivesInUse(ctx context.Context, reader client.Reader) ([]digest.Digest, error) {
	inUse, err := listArchivesInUse(ctx, reader)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(inUse.digests(nil))), nil
}

// RemoveUnused deletes the archives that are not in use from the store of this manager. Those stored after a time are kept: they
// may belong to an import that has not written its status yet. The reader must read live objects.
func (c *CollectionCache) RemoveUnused(ctx context.Context, reader client.Reader, before time.Time) error {
	inUse, err := listArchivesInUse(ctx, reader)
	if err != nil {
		return err
	}
	return c.Store.RemoveUnused(inUse.digests(nil), before)
}

// removeUnlessUsed deletes an archive unless something else than this OperatorCollection uses it. The reader is of live
// objects: a cached status may be older than an import of the same archive.
func (c *CollectionCache) removeUnlessUsed(ctx context.Context, reader client.Reader, oc *v2beta2.OperatorCollection, archive digest.Digest) error {
	inUse, err := listArchivesInUse(ctx, reader)
	if err != nil || inUse.digests(oc)[archive] {
		return err
	}
	return c.Remove(archive)
}
