package replica

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// fetchTimeout limits the copy of one archive from one peer.
const fetchTimeout = 5 * time.Minute

var (
	// errNoCopy: no live peer has the archive.
	errNoCopy = errors.New("no other manager that is live has the archive")
	// errSilent: a live peer was not asked, because it has just not answered.
	errSilent = errors.New("another manager does not answer")
)

// Fetch copies an archive of at most maxBytes from a live peer that has it into the store.
func (p *Peers) Fetch(ctx context.Context, store *store.Store, archive digest.Digest, maxBytes int64) error {
	return p.fetch(ctx, store, archive, maxBytes, &sync.Map{})
}

// fetch skips the peers in unreachable, and adds those that do not answer.
func (p *Peers) fetch(ctx context.Context, store *store.Store, archive digest.Digest, maxBytes int64, unreachable *sync.Map) error {
	peers, err := p.live(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, each := range peers {
		if _, skip := unreachable.Load(each.uid); skip {
			errs = append(errs, errSilent)
			continue
		}
		err := store.WithRoom(maxBytes, func() error { return p.fetchFrom(ctx, each, store, archive, maxBytes, unreachable) })
		if err == nil {
			return nil
		}
		if !errors.Is(err, errNoCopy) {
			errs = append(errs, fmt.Errorf("copying archive %s from the manager in pod %q: %w", archive, each.name, err))
		}
	}
	if len(errs) == 0 {
		return errNoCopy
	}
	return errors.Join(errs...)
}

func (p *Peers) fetchFrom(ctx context.Context, from peer, store *store.Store, archive digest.Digest, maxBytes int64, unreachable *sync.Map) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	response, err := p.send(ctx, http.MethodGet, from, archive)
	if err != nil {
		unreachable.Store(from.uid, true)
		return err
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNotFound:
		return errNoCopy
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("it answers with the status %d", response.StatusCode)
	}
	file, err := fetch.Save(response.Body, maxBytes, store.TempDir())
	if err != nil {
		return err
	}
	if file.Digest != archive {
		return errors.Join(fmt.Errorf("what it sends has the digest %s", file.Digest), file.Remove())
	}
	return errors.Join(store.Put(file), file.Remove())
}
