// Package replica keeps the archives of all managers in a namespace the same. Each manager copies the archives in use that it
// lacks from the others, by digest, and the leader knows who lacks one. The package also marks the leader's pod.
package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

const (
	// listInterval is how long a list of the managers' pods is used.
	listInterval = time.Second
	// notReadyGrace is how long a pod may be not ready and still be live: it may be starting.
	notReadyGrace = time.Minute
	// unreachableGrace is how long a live peer that does not answer is waited for.
	unreachableGrace = 10 * time.Second
	// heldInterval is how long a peer is not asked again for an archive that it has.
	heldInterval = 10 * time.Minute
	// lackInterval is how long it counts since when a peer lacks an archive, if nobody asks for it any more.
	lackInterval = time.Minute
	// silentInterval is how long a peer that did not answer is not asked again: each question would take its time.
	silentInterval = 3 * time.Second
	// headTimeout limits one question to a peer.
	headTimeout = 5 * time.Second
)

// Peers are the other managers in the namespace. Its methods are safe for concurrent use. Nil Peers are no peers.
type Peers struct {
	// Reader reads live Pods.
	Reader client.Reader
	// Namespace is that of the managers, and Pod the name of this one's pod.
	Namespace, Pod string
	// Scheme is http or https, and Port that of the archive server of each manager.
	Scheme string
	Port   int32
	// HTTP sends requests to the archive servers of the peers. It must not follow redirects.
	HTTP *http.Client
	// Timeout is how long an import waits for a live peer that answers and does not have the archive.
	Timeout time.Duration

	mu       sync.Mutex
	listed   []peer
	listedAt time.Time
	// held has the time of the answer of a peer that has an archive.
	held map[copyKey]time.Time
	// lacking has what is known of a peer that lacks an archive.
	lacking map[copyKey]lack
	// unresponsive has the time at which a peer did not answer.
	unresponsive map[types.UID]time.Time
}

// peer is a live manager.
type peer struct {
	name, url string
	uid       types.UID
}

// lack has the time since when a peer is known to lack an archive, and when it was asked last.
type lack struct {
	since, asked time.Time
}

type copyKey struct {
	pod    types.UID
	digest digest.Digest
}

// live returns the live peers, sorted by name.
func (p *Peers) live(ctx context.Context) ([]peer, error) {
	if p == nil {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.listedAt) < listInterval {
		return p.listed, nil
	}
	pods := &corev1.PodList{}
	err := p.Reader.List(ctx, pods, client.InNamespace(p.Namespace), client.MatchingLabels{v2beta2.ManagerLabel: v2beta2.ManagerLabelValue})
	if err != nil {
		return nil, fmt.Errorf("listing the managers' pods in namespace %q: %w", p.Namespace, err)
	}
	p.listed, p.listedAt = nil, time.Now()
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Name != p.Pod && isLive(pod, p.listedAt) {
			address := net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(p.Port)))
			p.listed = append(p.listed, peer{name: pod.Name, uid: pod.UID, url: p.Scheme + "://" + address})
		}
	}
	slices.SortFunc(p.listed, func(a, b peer) int { return cmp.Compare(a.name, b.name) })
	p.forget(pods.Items)
	return p.listed, nil
}

// isLive says whether a manager runs, and is ready or may soon be.
func isLive(pod *corev1.Pod, now time.Time) bool {
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" {
		return false
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue || now.Sub(condition.LastTransitionTime.Time) < notReadyGrace
		}
	}
	return now.Sub(pod.CreationTimestamp.Time) < notReadyGrace
}

// forget drops what is known of pods that do not exist any more, and what is too old to be used.
func (p *Peers) forget(pods []corev1.Pod) {
	exists := func(uid types.UID) bool {
		return slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.UID == uid })
	}
	maps.DeleteFunc(p.unresponsive, func(uid types.UID, _ time.Time) bool { return !exists(uid) })
	maps.DeleteFunc(p.held, func(key copyKey, at time.Time) bool { return !exists(key.pod) || time.Since(at) >= heldInterval })
	maps.DeleteFunc(p.lacking, func(key copyKey, last lack) bool { return !exists(key.pod) || time.Since(last.asked) >= lackInterval })
}

// Copies says which live peers lack an archive. The texts name the pods, and are sorted.
type Copies struct {
	// Awaited are those that an import waits for.
	Awaited []string
	// Reported are those that have lacked it for so long that an import does not wait for them any more.
	Reported []string
}

// Copies asks the live peers for an archive.
func (p *Peers) Copies(ctx context.Context, archive digest.Digest) (Copies, error) {
	peers, err := p.live(ctx)
	var copies Copies
	for _, each := range peers {
		key := copyKey{pod: each.uid, digest: archive}
		if p.isHeld(key) {
			continue
		}
		reached, has := p.ask(ctx, each, archive)
		if has {
			p.record(key, true)
			continue
		}
		text, grace := fmt.Sprintf("pod %q does not have it", each.name), p.Timeout
		if !reached {
			text, grace = fmt.Sprintf("pod %q does not answer", each.name), min(unreachableGrace, p.Timeout)
		}
		if time.Since(p.record(key, false)) < grace {
			copies.Awaited = append(copies.Awaited, text)
		} else {
			copies.Reported = append(copies.Reported, text)
		}
	}
	return copies, err
}

// Missing says whether a live peer lacks an archive.
func (c Copies) Missing() bool { return len(c.Awaited)+len(c.Reported) > 0 }

func (p *Peers) isHeld(key copyKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, known := p.held[key]
	return known && time.Since(at) < heldInterval
}

// record notes whether a peer has an archive, and returns since when it is known to lack it.
func (p *Peers) record(key copyKey, has bool) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held, p.lacking = map[copyKey]time.Time{}, map[copyKey]lack{}
	}
	if has {
		delete(p.lacking, key)
		p.held[key] = time.Now()
		return time.Time{}
	}
	delete(p.held, key)
	now := time.Now()
	last, known := p.lacking[key]
	if !known || now.Sub(last.asked) >= lackInterval {
		last.since = now
	}
	last.asked = now
	p.lacking[key] = last
	return last.since
}

// ask says whether a peer answers in time, and has an archive. One that just did not answer is not asked again. If ctx ends before, that
// says nothing about the peer.
func (p *Peers) ask(ctx context.Context, of peer, archive digest.Digest) (reached, has bool) {
	if p.isSilent(of.uid) {
		return false, false
	}
	limited, cancel := context.WithTimeout(ctx, headTimeout)
	defer cancel()
	answer, err := p.send(limited, http.MethodHead, of, archive)
	if err == nil {
		_ = answer.Body.Close() // It is empty.
		return true, answer.StatusCode == http.StatusOK
	}
	if ctx.Err() == nil {
		p.recordSilence(of.uid)
	}
	return false, false
}

func (p *Peers) isSilent(pod types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.unresponsive[pod]) < silentInterval
}

func (p *Peers) recordSilence(pod types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unresponsive == nil {
		p.unresponsive = map[types.UID]time.Time{}
	}
	p.unresponsive[pod] = time.Now()
}

func (p *Peers) send(ctx context.Context, method string, to peer, archive digest.Digest) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, to.url+store.URLPath(archive), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "collection-operator")
	return p.HTTP.Do(request)
}

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
