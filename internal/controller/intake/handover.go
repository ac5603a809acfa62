package intake

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/source/replica"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// minUploadDelay and maxUploadDelay bound the delay, which doubles, after which an archive that was copied is handed over or imported again.
const minUploadDelay, maxUploadDelay = 5 * time.Second, 5 * time.Minute

// longerDelay follows a delay, or is the first one.
func longerDelay(last time.Duration) time.Duration {
	return min(max(2*last, minUploadDelay), maxUploadDelay)
}

// PeerToken is what managers show to each other: it follows from the key that only they have.
func PeerToken(key endpoint.Key) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("archives that were copied to another manager"))
	return hex.EncodeToString(mac.Sum(nil))
}

// HandOver gives the leader the archives that this manager, which does not lead, saw being copied into its pod. Nil hands over nothing.
type HandOver struct {
	folder *store.UploadFolder
	// give sends an archive to the leader. The error is replica.ErrUploadRefused if that is of no use again.
	give func(context.Context, store.Upload) error
	// leader returns the UID of the leader's pod, or "".
	leader func(context.Context) types.UID
	// elected is closed when this manager leads.
	elected <-chan struct{}

	wake chan struct{}
	mu   sync.Mutex
	// attempts are by path.
	attempts map[string]handOverAttempt
}

// handOverAttempt is the last one for an archive that was written at a time.
type handOverAttempt struct {
	written time.Time
	// done says that this leader has it, or refused it for good.
	done   bool
	leader types.UID
	// next is the time of the next attempt, or until when another leader is looked for.
	next  time.Time
	delay time.Duration
}

// leaderInterval is how often the next leader is looked for, during leaderTime: a leader may end before it has imported what it was given.
const leaderInterval, leaderTime = 10 * time.Second, time.Minute

// NewHandOver returns one that has not tried anything yet.
func NewHandOver(
	folder *store.UploadFolder, give func(context.Context, store.Upload) error, leader func(context.Context) types.UID, elected <-chan struct{},
) *HandOver {
	return &HandOver{folder: folder, give: give, leader: leader, elected: elected, wake: make(chan struct{}, 1), attempts: map[string]handOverAttempt{}}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*HandOver) NeedLeaderElection() bool { return false }

// Wake says that the folder has changed.
func (h *HandOver) Wake() {
	if h == nil {
		return
	}
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Start implements manager.Runnable. It ends when this manager leads.
func (h *HandOver) Start(ctx context.Context) error {
	for {
		var retry <-chan time.Time
		if delay := h.send(ctx); delay > 0 {
			retry = time.After(delay)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-h.elected:
			return nil
		case <-retry:
		case <-h.wake:
		}
	}
}

// send tries each archive that is due, and returns the delay before the next attempt, or zero.
func (h *HandOver) send(ctx context.Context) (next time.Duration) {
	for _, upload := range h.folder.Complete() {
		select {
		case <-h.elected:
			return 0
		default:
		}
		last, leader := h.last(upload), h.leader(ctx)
		if last.done && leader != "" && leader != last.leader {
			last = handOverAttempt{written: upload.Written}
		}
		if !last.done && !time.Now().Before(last.next) {
			last.leader = leader
			last = h.attempt(ctx, upload, last)
		}
		if delay := last.wait(); delay > 0 && (next == 0 || delay < next) {
			next = delay
		}
	}
	return next
}

// wait is the delay before an upload is looked at again, or zero if it is not.
func (a handOverAttempt) wait() time.Duration {
	left := time.Until(a.next)
	switch {
	case !a.done:
		return max(left, time.Millisecond)
	case left > 0:
		return min(left, leaderInterval)
	}
	return 0
}

func (h *HandOver) attempt(ctx context.Context, upload store.Upload, last handOverAttempt) handOverAttempt {
	log := ctrl.LoggerFrom(ctx).WithName("uploads").WithValues("path", upload.Path)
	err := h.give(ctx, upload)
	last.done, last.next = err == nil || errors.Is(err, replica.ErrUploadRefused), time.Now().Add(leaderTime)
	switch {
	case err == nil:
		log.Info("an archive that was copied into this pod was handed over to the leader")
	case last.done:
		log.Info("an archive that was copied into this pod is not imported: copy it into the pod with the label "+replica.LeaderLabel+"="+replica.LeaderLabelValue, "reason", err.Error())
	default:
		if last.delay == 0 {
			log.Info("an archive that was copied into this pod is not handed over to the leader yet", "reason", err.Error())
		}
		last.delay = longerDelay(last.delay)
		last.next = time.Now().Add(last.delay)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.attempts[upload.Path] = last
	return last
}

// last returns the last attempt for an archive as it is now.
func (h *HandOver) last(upload store.Upload) handOverAttempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last := h.attempts[upload.Path]; last.written.Equal(upload.Written) {
		return last
	}
	return handOverAttempt{written: upload.Written}
}

// isDone reports whether the leader decides about an archive.
func (h *HandOver) isDone(upload store.Upload) bool { return h != nil && h.last(upload).done }
