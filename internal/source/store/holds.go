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
	store   *Store
	archive digest.Digest
	stored  bool
	once    sync.Once
}

// Hold keeps an archive from being removed until Release or Discard. The archive need not be stored yet.
func (s *Store) Hold(archive digest.Digest) *Hold {
	s.holds.mu.Lock()
	defer s.holds.mu.Unlock()
	delete(s.holds.removing, archive)
	entry := s.holds.held[archive]
	if entry == nil {
		entry = &heldArchive{stored: s.IsStored(archive)}
		if s.holds.held == nil {
			s.holds.held = map[digest.Digest]*heldArchive{}
		}
		s.holds.held[archive] = entry
	}
	entry.holders++
	return &Hold{store: s, archive: archive, stored: entry.stored}
}

// Release ends the hold. Only the first call has an effect.
func (h *Hold) Release() {
	if h == nil {
		return
	}
	h.once.Do(func() {
		h.store.holds.mu.Lock()
		defer h.store.holds.mu.Unlock()
		entry := h.store.holds.held[h.archive]
		if entry.holders--; entry.holders == 0 {
			delete(h.store.holds.held, h.archive)
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
	return h.store.unlessUsed(h.archive, used, h.store.Remove)
}

// unlessUsed calls a function that removes an archive, unless the archive is held, is used, or is held in the meantime: an import may
// end after used has looked.
func (s *Store) unlessUsed(archive digest.Digest, used func() (bool, error), remove func(digest.Digest) error) error {
	own := s.startRemoval(archive)
	if own == nil {
		return nil
	}
	is, err := used()
	s.holds.mu.Lock()
	defer s.holds.mu.Unlock()
	if s.holds.removing[archive] != own {
		return err
	}
	delete(s.holds.removing, archive)
	if err != nil || is {
		return err
	}
	return remove(archive)
}

// startRemoval returns nil if somebody holds the archive.
func (s *Store) startRemoval(archive digest.Digest) *removal {
	s.holds.mu.Lock()
	defer s.holds.mu.Unlock()
	if s.holds.held[archive] != nil {
		return nil
	}
	if s.holds.removing == nil {
		s.holds.removing = map[digest.Digest]*removal{}
	}
	own := &removal{archive}
	s.holds.removing[archive] = own
	return own
}
