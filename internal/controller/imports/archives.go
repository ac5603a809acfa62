package imports

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/opencontainers/go-digest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// ArchivesInUse says which archives are in use: OperatorCollections have imported them and have them in their history, or
// SubOperatorConfigs run them.
type ArchivesInUse struct {
	Key         endpoint.Key
	Collections []v2beta2.OperatorCollection
	Configs     []v2beta2.SubOperatorConfig
}

// ListArchivesInUse needs a reader of live objects where an archive is to be deleted that is not in use.
func ListArchivesInUse(ctx context.Context, reader client.Reader, key endpoint.Key) (*ArchivesInUse, error) {
	collections, configs := &v2beta2.OperatorCollectionList{}, &v2beta2.SubOperatorConfigList{}
	if err := reader.List(ctx, collections); err != nil {
		return nil, fmt.Errorf("listing OperatorCollections: %w", err)
	}
	if err := reader.List(ctx, configs); err != nil {
		return nil, fmt.Errorf("listing SubOperatorConfigs: %w", err)
	}
	return &ArchivesInUse{Key: key, Collections: collections.Items, Configs: configs.Items}, nil
}

// digests of all archives in use but for what only one OperatorCollection, which may be nil, has imported or has in its history.
func (a *ArchivesInUse) digests(but *v2beta2.OperatorCollection) map[digest.Digest]bool {
	all := map[digest.Digest]bool{}
	for i := range a.Collections {
		oc := &a.Collections[i]
		if but != nil && oc.UID == but.UID {
			continue
		}
		if oc.Status.Artifact != nil {
			all[digest.Digest(oc.Status.Artifact.Digest)] = true
		} else if restored := parseImportRecord(oc, a.Key); restored != nil && restored.Signed {
			all[digest.Digest(restored.Artifact.Digest)] = true
		}
		for _, entry := range oc.Status.History {
			all[digest.Digest(entry.Digest)] = true
		}
	}
	for i := range a.Configs {
		for _, installed := range InstalledDigests(&a.Configs[i]) {
			all[installed] = true
		}
	}
	return all
}

// InstalledFrom are the digests of what SubOperatorConfigs run of an OperatorCollection, sorted.
func (a *ArchivesInUse) InstalledFrom(oc *v2beta2.OperatorCollection) []digest.Digest {
	var digests []digest.Digest
	for i := range a.Configs {
		if soc := &a.Configs[i]; soc.Namespace == oc.Namespace && soc.Spec.OperatorCollection == oc.Name {
			digests = append(digests, InstalledDigests(soc)...)
		}
	}
	slices.Sort(digests)
	return slices.Compact(digests)
}

// Of are the archives of a collection that are in use, or were: those of histories, too. Archives whose collection is not known count.
func (a *ArchivesInUse) Of(id model.ID) []crd.Use {
	var uses []crd.Use
	versions := map[digest.Digest]string{}
	for i := range a.Collections {
		oc := &a.Collections[i]
		foreign := ImportedID(oc) != id && oc.Status.Collection != nil
		for _, entry := range oc.Status.History {
			use := crd.Use{Digest: digest.Digest(entry.Digest), Version: apiVersionOf(entry.Version), Foreign: foreign}
			versions[use.Digest] = use.Version
			uses = append(uses, use)
		}
		if oc.Status.Artifact != nil && ImportedID(oc) == id {
			_, version, _ := strings.Cut(oc.Status.Collection.APIVersion, "/")
			use := crd.Use{Digest: digest.Digest(oc.Status.Artifact.Digest), Version: version}
			versions[use.Digest] = use.Version
			uses = append(uses, use)
		} else if restored := parseImportRecord(oc, a.Key); oc.Status.Artifact == nil && restored != nil && restored.Signed {
			uses = append(uses, crd.Use{Digest: digest.Digest(restored.Artifact.Digest)})
		}
	}
	for i := range a.Configs {
		if of := a.Configs[i].Status.Collection; of != nil && *of != (v2beta2.CollectionReference{Domain: id.Domain, Name: id.Name}) {
			continue
		}
		for _, installed := range InstalledDigests(&a.Configs[i]) {
			uses = append(uses, crd.Use{Digest: installed, Version: versions[installed]})
		}
	}
	return uses
}

// apiVersionOf is the name of the API version of a version of a collection, or "" if it is not valid.
func apiVersionOf(version string) string {
	parsed, err := semver.NewVersion(version)
	if err != nil {
		return ""
	}
	return (&model.Collection{Version: parsed}).APIVersion()
}

// ArchivesInUse lists the digests of the archives that OperatorCollections have imported or have in their history, or SubOperatorConfigs
// run, sorted.
func (c *CollectionCache) ArchivesInUse(ctx context.Context, reader client.Reader) ([]digest.Digest, error) {
	inUse, err := ListArchivesInUse(ctx, reader, c.Key)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(inUse.digests(nil))), nil
}

// RemoveUnused marks the archives unused, in the store of this manager, that are not in use, and deletes those that were marked before
// expired. Archives stored after a time are kept: they may belong to an import that has not written its status yet. The reader must
// read live objects.
func (c *CollectionCache) RemoveUnused(ctx context.Context, reader client.Reader, stored, expired time.Time) error {
	inUse, err := ListArchivesInUse(ctx, reader, c.Key)
	if err != nil {
		return err
	}
	used, errs := inUse.digests(nil), []error{}
	for archive := range used {
		if err := c.Store.Restore(archive); !errors.Is(err, fs.ErrNotExist) { // One that is lost is copied or fetched again.
			errs = append(errs, err)
		}
	}
	// What is marked now is deleted the next time at the earliest: an import may have begun to use it since the list was read.
	return errors.Join(append(errs, c.Store.RemoveExpired(expired), c.Store.RemoveUnused(used, stored))...)
}

// MarkUnusedUnlessUsed marks an archive unused unless something else than this OperatorCollection uses it. The reader must read live
// objects: a cached status may be older than an import of the same archive.
func (c *CollectionCache) MarkUnusedUnlessUsed(ctx context.Context, reader client.Reader, oc *v2beta2.OperatorCollection, archive digest.Digest) error {
	inUse := func() (*ArchivesInUse, error) { return ListArchivesInUse(ctx, reader, c.Key) }
	err := c.Store.MarkUnused(archive, usedBeside(oc, archive, inUse))
	c.forgetRemoved(archive)
	return err
}

// Discard deletes an archive that an import has stored and refused, unless it is in use by more than this OperatorCollection, or in its
// history.
func (c *CollectionCache) Discard(oc *v2beta2.OperatorCollection, archive digest.Digest, hold *store.Hold, inUse func() (*ArchivesInUse, error)) error {
	if InHistory(oc, archive) {
		hold.Release()
		return nil
	}
	err := hold.Discard(usedBeside(oc, archive, inUse))
	c.forgetRemoved(archive)
	return err
}

func (c *CollectionCache) forgetRemoved(archive digest.Digest) {
	if !c.Store.IsStored(archive) {
		c.forget(archive)
	}
}

// usedBeside returns a function that says whether something else than an OperatorCollection uses an archive.
func usedBeside(oc *v2beta2.OperatorCollection, archive digest.Digest, inUse func() (*ArchivesInUse, error)) func() (bool, error) {
	return func() (bool, error) {
		all, err := inUse()
		return err == nil && all.digests(oc)[archive], err
	}
}
