package controller

import (
	"errors"
	"sync"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/archive"
	"github.com/collection-operator/collection-operator/internal/artifact"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/crd"
	"github.com/collection-operator/collection-operator/internal/findings"
	"github.com/collection-operator/collection-operator/internal/status"
)

// Library loads collections from the artifact store and remembers them by digest.
type Library struct {
	Store *artifact.Store

	// reading lets one archive be read at a time: it takes memory. What is loaded already does not wait for it.
	reading sync.Mutex
	mu      sync.Mutex
	loaded  map[string]*collection.Collection

	proofs proofs
}

// Load reads the stored archive with this digest. The collection is shared: callers do not change it. Errors are those
// of [artifact.Store.Open], [archive.Read] and [collection.Load]; problems that [crd.Validate] finds are one of them.
func (l *Library) Load(digest string) (*collection.Collection, error) {
	if c := l.remembered(digest); c != nil {
		return c, nil
	}
	l.reading.Lock()
	defer l.reading.Unlock()
	if c := l.remembered(digest); c != nil {
		return c, nil
	}
	c, err := l.read(digest)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loaded == nil {
		l.loaded = map[string]*collection.Collection{}
	}
	l.loaded[digest] = c
	return c, nil
}

func (l *Library) remembered(digest string) *collection.Collection {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loaded[digest]
}

func (l *Library) read(digest string) (*collection.Collection, error) {
	content, _, err := l.Store.Open(digest)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	files, err := archive.Read(content, archive.DefaultLimits, collection.Keep)
	if err != nil {
		return nil, err
	}
	c, err := collection.Load(files)
	if err != nil {
		return nil, err
	}
	if c.Problems = findings.Merge(c.Problems, crd.Validate(c)); len(c.Problems.Refused()) > 0 {
		return nil, c.Problems
	}
	return c, nil
}

// Remove drops an archive from the store and from memory.
func (l *Library) Remove(digest string) error {
	l.proofs.forget(digest)
	l.reading.Lock() // Else one that is being read would be remembered.
	defer l.reading.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.loaded, digest)
	return l.Store.Remove(digest)
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
