package controller

import (
	"cmp"
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
	"github.com/collection-operator/collection-operator/internal/endpoint"
	"github.com/collection-operator/collection-operator/internal/findings"
	"github.com/collection-operator/collection-operator/internal/status"
)

// CollectionCache loads collections from the artifact store and remembers, by digest, those that were used last.
type CollectionCache struct {
	Store *artifact.Store
	// Key signs what is recorded of an import.
	Key endpoint.Key
	// LoadedBytes is about how much memory the remembered collections may take; zero means DefaultLoadedBytes.
	LoadedBytes int64

	// reading lets one archive be read at a time: it takes memory. Collections that are loaded already do not wait for it.
	reading sync.Mutex
	loaded  loadedCollections

	signatures signatureCache
}

// Load reads the stored archive with this digest. The collection is shared: callers do not change it. Errors are those
// of [artifact.Store.Open], [archive.Read] and [collection.Load]; problems that [crd.Validate] finds are one of them.
func (c *CollectionCache) Load(archive digest.Digest) (*collection.Collection, error) {
	if loaded := c.loaded.get(archive); loaded != nil {
		return loaded, nil
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	if loaded := c.loaded.get(archive); loaded != nil {
		return loaded, nil
	}
	loaded, err := c.read(archive)
	if err != nil {
		return nil, err
	}
	c.loaded.add(archive, loaded, cmp.Or(c.LoadedBytes, DefaultLoadedBytes))
	return loaded, nil
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
	err := c.Store.Remove(archive)
	c.forget(archive)
	return err
}

// forget drops an archive from memory. It is read again when it is needed.
func (c *CollectionCache) forget(archive digest.Digest) {
	c.signatures.forget(archive)
	c.reading.Lock() // Else one that is being read would be remembered.
	defer c.reading.Unlock()
	c.loaded.remove(archive)
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
	key         endpoint.Key
	collections []v2beta2.OperatorCollection
	configs     []v2beta2.SubOperatorConfig
}

// listArchivesInUse needs a reader of live objects where an archive is to be deleted that is not in use.
func listArchivesInUse(ctx context.Context, reader client.Reader, key endpoint.Key) (*archivesInUse, error) {
	collections, configs := &v2beta2.OperatorCollectionList{}, &v2beta2.SubOperatorConfigList{}
	if err := reader.List(ctx, collections); err != nil {
		return nil, fmt.Errorf("listing OperatorCollections: %w", err)
	}
	if err := reader.List(ctx, configs); err != nil {
		return nil, fmt.Errorf("listing SubOperatorConfigs: %w", err)
	}
	return &archivesInUse{key: key, collections: collections.Items, configs: configs.Items}, nil
}

// digests of all archives in use but for what only one OperatorCollection, which may be nil, has imported.
func (a *archivesInUse) digests(but *v2beta2.OperatorCollection) map[digest.Digest]bool {
	all := map[digest.Digest]bool{}
	for i := range a.collections {
		oc := &a.collections[i]
		if but != nil && oc.UID == but.UID {
			continue
		}
		if oc.Status.Artifact != nil {
			all[digest.Digest(oc.Status.Artifact.Digest)] = true
		} else if restored := parseImportRecord(oc, a.key); restored != nil && restored.signed {
			all[digest.Digest(restored.artifact.Digest)] = true
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
func (c *CollectionCache) ArchivesInUse(ctx context.Context, reader client.Reader) ([]digest.Digest, error) {
	inUse, err := listArchivesInUse(ctx, reader, c.Key)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(inUse.digests(nil))), nil
}

// ChangesArchives says whether an update of an OperatorCollection or SubOperatorConfig may change which archives are in use.
func ChangesArchives(before, after any) bool {
	switch is := after.(type) {
	case *v2beta2.OperatorCollection:
		was, ok := before.(*v2beta2.OperatorCollection)
		return !ok || importedDigest(was) != importedDigest(is)
	case *v2beta2.SubOperatorConfig:
		was, ok := before.(*v2beta2.SubOperatorConfig)
		return !ok || !slices.Equal(installedDigests(was), installedDigests(is))
	}
	return true
}

// importedDigest returns what is recorded of an import: in the status, or else in the annotation.
func importedDigest(oc *v2beta2.OperatorCollection) string {
	if oc.Status.Artifact != nil {
		return oc.Status.Artifact.Digest
	}
	return oc.Annotations[annotationArtifact]
}

// RemoveUnused sets the archives aside, in the store of this manager, that are not in use, and deletes those that were set aside before
// expired. Archives stored after a time are kept: they may belong to an import that has not written its status yet. The reader must
// read live objects.
func (c *CollectionCache) RemoveUnused(ctx context.Context, reader client.Reader, stored, expired time.Time) error {
	inUse, err := listArchivesInUse(ctx, reader, c.Key)
	if err != nil {
		return err
	}
	used := inUse.digests(nil)
	for archive := range used {
		c.Store.Has(archive) // That brings it back.
	}
	// What is set aside now is deleted the next time at the earliest: an import may have begun to use it since the list was read.
	return errors.Join(c.Store.RemoveExpired(expired), c.Store.RemoveUnused(used, stored))
}

// setAsideUnlessUsed sets an archive aside unless something else than this OperatorCollection uses it.
func (c *CollectionCache) setAsideUnlessUsed(ctx context.Context, reader client.Reader, oc *v2beta2.OperatorCollection, archive digest.Digest) error {
	err := c.Store.SetAside(archive, c.usedBy(ctx, reader, oc, archive))
	c.forgetRemoved(archive)
	return err
}

// discard deletes an archive that an import has stored and refused, unless something else than this OperatorCollection uses it.
func (c *CollectionCache) discard(ctx context.Context, reader client.Reader, oc *v2beta2.OperatorCollection, archive digest.Digest, hold *artifact.Hold) error {
	err := hold.Discard(c.usedBy(ctx, reader, oc, archive))
	c.forgetRemoved(archive)
	return err
}

func (c *CollectionCache) forgetRemoved(archive digest.Digest) {
	if !c.Store.IsStored(archive) {
		c.forget(archive)
	}
}

// usedBy returns a function that says whether something else than this OperatorCollection uses an archive. The reader is of live
// objects: a cached status may be older than an import of the same archive.
func (c *CollectionCache) usedBy(ctx context.Context, reader client.Reader, but *v2beta2.OperatorCollection, archive digest.Digest) func() (bool, error) {
	return func() (bool, error) {
		inUse, err := listArchivesInUse(ctx, reader, c.Key)
		return err == nil && inUse.digests(but)[archive], err
	}
}
