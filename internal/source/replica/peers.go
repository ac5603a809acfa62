// Package replica gets the archives that a manager lacks from the other managers in its namespace, by digest, when they are needed, and
// makes the others copy those that cannot be fetched again. The package also marks the leader's pod.
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
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
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
	// askAgain is how long a peer is not asked again for anything if it did not answer, and for an archive of which it gave no copy. The latter
	// doubles each time, up to maxAskAgain.
	askAgain, maxAskAgain = 5 * time.Second, 30 * time.Second
	// headTimeout limits one question to a peer, which has pullWait to copy the archive before it answers.
	headTimeout, pullWait = 5 * time.Second, 2 * time.Second
	// onlyStored is the Cache-Control of a request for what the store has, as RFC 9111 says it of caches.
	onlyStored = "only-if-cached"
	// pullTimeout limits the copy of one archive.
	pullTimeout = 5 * time.Minute
	// maxPulls limits the concurrent copies.
	maxPulls = 4
)

var (
	// errNoCopy: no live peer has the archive.
	errNoCopy = errors.New("no other manager that is live has the archive")
	// errUnresponsive: a live peer does not answer.
	errUnresponsive = errors.New("another manager does not answer")
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
	// Store is that of this manager, and MaxBytes the maximum size of an archive.
	Store    *store.Store
	MaxBytes int64

	// pulling lets all who need an archive at the same time wait for one copy of it.
	pulling singleflight.Group
	// places has room for maxPulls copies.
	places     chan struct{}
	makePlaces sync.Once

	mu       sync.Mutex
	listed   []peer
	listedAt time.Time
	// failed has the questions that are not asked again for now.
	failed map[question]failure
}

// peer is a live manager.
type peer struct {
	name, url string
	uid       types.UID
}

// question is whether a peer has an archive. Without one it is whether the peer answers.
type question struct {
	peer    types.UID
	archive digest.Digest
}

// failure is why a copy failed, or errUnresponsive, and when the question is asked again, after a pause.
type failure struct {
	err   error
	pause time.Duration
	until time.Time
}

// live returns the live peers, sorted by name.
func (p *Peers) live(ctx context.Context) ([]peer, error) {
	if p == nil {
		return nil, nil
	}
	p.mu.Lock()
	peers, age := p.listed, time.Since(p.listedAt)
	p.mu.Unlock()
	if age < listInterval {
		return peers, nil
	}
	now, pods := time.Now(), &corev1.PodList{}
	err := p.Reader.List(ctx, pods, client.InNamespace(p.Namespace), client.MatchingLabels{v2beta2.ManagerLabel: v2beta2.ManagerLabelValue})
	if err != nil {
		return nil, fmt.Errorf("listing the managers' pods in namespace %q: %w", p.Namespace, err)
	}
	peers = nil
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Name != p.Pod && isLive(pod, now) {
			address := net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(p.Port)))
			peers = append(peers, peer{name: pod.Name, uid: pod.UID, url: p.Scheme + "://" + address})
		}
	}
	slices.SortFunc(peers, func(a, b peer) int { return cmp.Compare(a.name, b.name) })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listed, p.listedAt = peers, now
	maps.DeleteFunc(p.failed, func(_ question, last failure) bool { return now.After(last.until.Add(maxAskAgain)) })
	return peers, nil
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

// Pull brings an archive that the store lacks into it, from a live peer that has it. A copy that has begun goes on when ctx ends.
func (p *Peers) Pull(ctx context.Context, archive digest.Digest) error {
	if p == nil {
		return errNoCopy
	}
	if p.Store.Restore(archive) == nil {
		return nil
	}
	p.makePlaces.Do(func() { p.places = make(chan struct{}, maxPulls) })
	done := p.pulling.DoChan(archive.String(), func() (any, error) {
		p.places <- struct{}{} // Each copy ends after pullTimeout.
		defer func() { <-p.places }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pullTimeout)
		defer cancel()
		return nil, p.pull(ctx, archive)
	})
	select {
	case <-ctx.Done():
		return ctx.Err()
	case result := <-done:
		return result.Err
	}
}

func (p *Peers) pull(ctx context.Context, archive digest.Digest) error {
	peers, err := p.live(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, each := range peers {
		err := p.lastFailure(each, archive)
		if err == nil {
			err = p.Store.WithRoom(p.MaxBytes, func() error { return p.copyFrom(ctx, each, archive) })
			if !errors.Is(err, errUnresponsive) { // This is remembered of all archives.
				p.remember(question{each.uid, archive}, err)
			}
		}
		if err == nil {
			ctrl.LoggerFrom(ctx).WithName("replicas").Info("copied an archive from another manager", "digest", archive, "pod", each.name)
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

func (p *Peers) copyFrom(ctx context.Context, from peer, archive digest.Digest) error {
	response, err := p.send(ctx, http.MethodGet, from, archive)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	file, err := fetch.Save(response.Body, p.MaxBytes, p.Store.TempDir())
	if err != nil {
		return err
	}
	if file.Digest != archive {
		return errors.Join(fmt.Errorf("what it sends has the digest %s", file.Digest), file.Remove())
	}
	return errors.Join(p.Store.Put(file), file.Remove())
}

// PullAll pulls what the store lacks of the archives. The error is about those that a live peer may have.
func (p *Peers) PullAll(ctx context.Context, archives []digest.Digest) error {
	var pulls errgroup.Group
	pulls.SetLimit(maxPulls)
	for _, archive := range archives {
		pulls.Go(func() error {
			if err := p.Pull(ctx, archive); !errors.Is(err, errNoCopy) {
				return err
			}
			return nil
		})
	}
	return pulls.Wait()
}

// Serve returns a handler that pulls an archive which is in use and which the store lacks before inner answers. All others stay where they
// are: whoever reaches the handler may ask for them. Peers get what the store has: two managers that lack an archive must not ask each other
// for ever. List returns what is in use, sorted.
func (p *Peers) Serve(inner http.Handler, list func(context.Context) ([]digest.Digest, error)) http.Handler {
	if p == nil {
		return inner
	}
	used := &usedArchives{list: list}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if archive, ok := store.DigestOf(r.URL.Path); ok && !p.Store.IsStored(archive) && r.Header.Get("Cache-Control") != onlyStored {
			p.pullFor(r, archive, used)
		}
		inner.ServeHTTP(w, r)
	})
}

// pullFor pulls an archive that is in use for a request. Who asks for it with HEAD gets an answer soon, and asks again.
func (p *Peers) pullFor(r *http.Request, archive digest.Digest, used *usedArchives) {
	ctx := r.Context()
	if r.Method == http.MethodHead {
		limited, cancel := context.WithTimeout(ctx, pullWait)
		defer cancel()
		ctx = limited
	}
	found, err := used.has(ctx, archive)
	if found {
		err = p.Pull(ctx, archive)
	}
	if err != nil && ctx.Err() == nil {
		ctrl.Log.WithName("replicas").V(1).Info("an archive that was asked for is not here", "digest", archive, "reason", err.Error())
	}
}

// usedArchives are those in use. They are listed once in listInterval, however many requests there are.
type usedArchives struct {
	list func(context.Context) ([]digest.Digest, error)

	mu       sync.Mutex
	archives []digest.Digest
	listedAt time.Time
}

func (u *usedArchives) has(ctx context.Context, archive digest.Digest) (bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if time.Since(u.listedAt) >= listInterval {
		archives, err := u.list(ctx)
		if err != nil {
			return false, err
		}
		u.archives, u.listedAt = archives, time.Now()
	}
	_, found := slices.BinarySearch(u.archives, archive)
	return found, nil
}

// Missing is a live peer that lacks an archive.
type Missing struct {
	Pod string
	// Unresponsive says that it does not answer.
	Unresponsive bool
}

// Name begins all that String returns of the pod.
func (m Missing) Name() string { return fmt.Sprintf("pod %q ", m.Pod) }

func (m Missing) String() string {
	if m.Unresponsive {
		return m.Name() + "does not answer"
	}
	return m.Name() + "does not have it"
}

// Missing asks the live peers for an archive, which they pull then, and returns those that do not have it yet, sorted by name.
func (p *Peers) Missing(ctx context.Context, archive digest.Digest) ([]Missing, error) {
	peers, err := p.live(ctx)
	var missing []Missing
	for _, each := range peers {
		err := p.lastFailure(each, "")
		if err == nil {
			err = p.head(ctx, each, archive)
		}
		if err != nil {
			missing = append(missing, Missing{Pod: each.name, Unresponsive: errors.Is(err, errUnresponsive)})
		}
	}
	return missing, err
}

func (p *Peers) head(ctx context.Context, of peer, archive digest.Digest) error {
	ctx, cancel := context.WithTimeout(ctx, headTimeout)
	defer cancel()
	response, err := p.send(ctx, http.MethodHead, of, archive)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// send asks a peer for an archive. With GET, the peer sends it if its store has it; with HEAD, it pulls it first. The error is errNoCopy if
// it does not have it.
func (p *Peers) send(ctx context.Context, method string, to peer, archive digest.Digest) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, to.url+store.URLPath(archive), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "collection-operator")
	if method == http.MethodGet {
		request.Header.Set("Cache-Control", onlyStored)
	}
	response, err := p.HTTP.Do(request)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			p.remember(question{to.uid, ""}, errUnresponsive)
		}
		return nil, fmt.Errorf("%w: %w", errUnresponsive, err)
	}
	if response.StatusCode != http.StatusOK {
		err = errNoCopy
		if response.StatusCode != http.StatusNotFound {
			err = fmt.Errorf("it answers with the status %d", response.StatusCode)
		}
		return nil, errors.Join(err, response.Body.Close())
	}
	return response, nil
}

// remember keeps the result of a question for a time.
func (p *Peers) remember(asked question, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		delete(p.failed, asked)
		return
	}
	pause := askAgain
	if last, known := p.failed[asked]; known && asked.archive != "" {
		pause = min(2*last.pause, maxAskAgain)
	}
	if p.failed == nil {
		p.failed = map[question]failure{}
	}
	p.failed[asked] = failure{err, pause, time.Now().Add(pause)}
}

// lastFailure returns why a peer is not to be asked for an archive, and nil if it is. Without an archive it returns only errUnresponsive.
func (p *Peers) lastFailure(of peer, archive digest.Digest) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, asked := range []question{{of.uid, ""}, {of.uid, archive}} {
		if last, known := p.failed[asked]; known && time.Now().Before(last.until) {
			return last.err
		}
	}
	return nil
}
