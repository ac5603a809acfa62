package controller

import (
	"errors"
	"sync"

	"github.com/opencontainers/go-digest"

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
