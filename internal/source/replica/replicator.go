package replica

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/collection-operator/collection-operator/internal/source/store"
)

const (
	// roundInterval is how often a manager compares its store with what is in use, if nothing wakes it earlier.
	roundInterval = 30 * time.Second
	// maxCopies limits concurrent copies.
	maxCopies = 4
	// minDelay and maxDelay are the delays after a failed copy of an archive, which double.
	minDelay, maxDelay = 500 * time.Millisecond, 30 * time.Second
	// completeTimeout is how long a manager that starts waits for peers that do not answer.
	completeTimeout = time.Minute
)

// Replicator copies the archives in use that the store lacks from the peers. It runs in every manager. It never deletes one.
type Replicator struct {
	Peers *Peers
	Store *store.Store
	// InUse lists the archives in use.
	InUse func(context.Context) ([]digest.Digest, error)
	// MaxBytes is the maximum size of an archive.
	MaxBytes int64

	wake     chan struct{}
	complete atomic.Bool
	// began is the time of the first round.
	began time.Time
	// failed has the archives that could not be copied.
	failed map[digest.Digest]attempt
}

// attempt is a failed one.
type attempt struct {
	next  time.Time
	delay time.Duration
	err   string
	// none: no live peer has the archive.
	none bool
}

// NewReplicator makes one that is not started yet.
func NewReplicator(peers *Peers, store *store.Store, maxBytes int64, inUse func(context.Context) ([]digest.Digest, error)) *Replicator {
	return &Replicator{
		Peers: peers, Store: store, MaxBytes: maxBytes, InUse: inUse,
		wake: make(chan struct{}, 1), failed: map[digest.Digest]attempt{},
	}
}

// Wake makes the replicator compare now.
func (r *Replicator) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Complete says whether every archive in use that a live peer has was copied once since the start. Peers that do not answer are
// waited for, for at most a minute.
func (r *Replicator) Complete() bool { return r.complete.Load() }

// NeedLeaderElection implements manager.LeaderElectionRunnable: followers replicate too.
func (*Replicator) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. The caches must be synced.
func (r *Replicator) Start(ctx context.Context) error {
	for {
		timer := time.NewTimer(r.round(ctx))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-r.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// round copies what is lacking and due, and returns the delay until the next round.
func (r *Replicator) round(ctx context.Context) time.Duration {
	log := ctrl.LoggerFrom(ctx).WithName("replicas")
	inUse, err := r.InUse(ctx)
	if err != nil {
		log.Error(err, "cannot list the archives in use, retrying")
		return minDelay
	}
	failed, next := map[digest.Digest]attempt{}, roundInterval
	var mu sync.Mutex
	var unreachable sync.Map
	copies := errgroup.Group{}
	copies.SetLimit(maxCopies)
	for _, archive := range inUse {
		last, before := r.failed[archive]
		switch {
		case r.Store.Restore(archive) == nil:
			continue
		case before && time.Until(last.next) > 0:
			mu.Lock()
			failed[archive], next = last, min(next, time.Until(last.next))
			mu.Unlock()
			continue
		}
		copies.Go(func() error {
			err := r.Peers.fetch(ctx, r.Store, archive, r.MaxBytes, &unreachable)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				log.Info("copied an archive from another manager", "digest", archive)
				return nil
			}
			if err.Error() != last.err && !errors.Is(err, errNoCopy) && !errors.Is(err, errSilent) && ctx.Err() == nil {
				log.Error(err, "cannot copy an archive from another manager, retrying")
			}
			delay := min(max(2*last.delay, minDelay), maxDelay)
			failed[archive], next = attempt{
				next: time.Now().Add(delay), delay: delay, err: err.Error(), none: errors.Is(err, errNoCopy),
			}, min(next, delay)
			return nil
		})
	}
	_ = copies.Wait() // Failures are recorded.
	r.failed = failed
	r.checkComplete()
	return max(next, 0)
}

func (r *Replicator) checkComplete() {
	if r.began.IsZero() {
		r.began = time.Now()
	}
	for _, last := range r.failed {
		if !last.none && time.Since(r.began) < completeTimeout {
			return
		}
	}
	r.complete.Store(true)
}
