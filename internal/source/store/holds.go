package store

import (
	"sync"

	"github.com/opencontainers/go-digest"
)

// holds has the archives that imports work with. An import stores its archive before status names it: until then only its hold says
// that the archive is needed. Its zero value is ready to use.
type holds struct {
	mu   sync.Mutex
	held map[digest.Digest]*heldArchive
	// removing has the last removal of each archive that is about to be removed. Whoever holds the archive prevents it, and a later
	// removal replaces it.
	removing map[digest.Digest]*removal
}

type removal struct{ archive digest.Digest }

type heldArchive struct {
	holders int
	// stored is true if the store had the archive before the first of them.
	stored bool
}

// Hold keeps an archive in the store. A nil Hold keeps nothing.
type Hold struct {
	holds   *holds
	remove  func(digest.Digest) error
	archive digest.Digest
	stored  bool
	once    sync.Once
}

func (h *holds) hold(archive digest.Digest, isStored func(digest.Digest) bool, remove func(digest.Digest) error) *Hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.removing, archive)
	entry := h.held[archive]
	if entry == nil {
		entry = &heldArchive{stored: isStored(archive)}
		if h.held == nil {
			h.held = map[digest.Digest]*heldArchive{}
		}
		h.held[archive] = entry
	}
	entry.holders++
	return &Hold{holds: h, remove: remove, archive: archive, stored: entry.stored}
}

// Release ends the hold. Only the first call has an effect.
func (h *Hold) Release() {
	if h == nil {
		return
	}
	h.once.Do(func() {
		h.holds.mu.Lock()
		defer h.holds.mu.Unlock()
		entry := h.holds.held[h.archive]
		if entry.holders--; entry.holders == 0 {
			delete(h.holds.held, h.archive)
		}
	})
}

// Discard ends the hold, and deletes the archive if it was stored during holds only. It keeps an archive that is used, or that
// others hold. Used is called without a lock; its error is returned.
func (h *Hold) Discard(used func() (bool, error)) error {
	if h == nil {
		return nil
	}
	h.Release()
	if h.stored {
		return nil
	}
	return h.holds.unlessUsed(h.archive, used, h.remove)
}

// unlessUsed calls a function that removes an archive, unless the archive is held, is used, or is held in the meantime: an import may
// end after used has looked.
func (h *holds) unlessUsed(archive digest.Digest, used func() (bool, error), remove func(digest.Digest) error) error {
	own := h.startRemoval(archive)
	if own == nil {
		return nil
	}
	is, err := used()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.removing[archive] != own {
		return err
	}
	delete(h.removing, archive)
	if err != nil || is {
		return err
	}
	return remove(archive)
}

// startRemoval returns nil if somebody holds the archive.
func (h *holds) startRemoval(archive digest.Digest) *removal {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[archive] != nil {
		return nil
	}
	if h.removing == nil {
		h.removing = map[digest.Digest]*removal{}
	}
	own := &removal{archive}
	h.removing[archive] = own
	return own
}
