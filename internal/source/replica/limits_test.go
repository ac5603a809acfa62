package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// answer is that of a peer that has an archive.
func answer(content string) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader([]byte(content)))}
}

// newSlowPeers are those of a manager with one peer, which answers on the clock of the test.
func newSlowPeers(t *testing.T, respond roundTripper) *Peers {
	peers := newPeers(t, peer{name: "manager-1", uid: "manager-1", url: "http://manager-1.example"})
	peers.HTTP = &http.Client{Transport: respond}
	return peers
}

// A copy that fails costs a download of the whole archive, and the unused archives if the volume is full.
func TestFailedCopiesAreRepeatedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sends, asked := "another archive", 0
		peers := newSlowPeers(t, func(*http.Request) (*http.Response, error) {
			asked++
			return answer(sends), nil
		})
		var begin time.Time
		var pauses []time.Duration
		for begin = time.Now(); len(pauses) < 6; <-time.After(time.Second) {
			before := asked
			if err := peers.Pull(t.Context(), digest.FromString("an archive")); err == nil || errors.Is(err, errNoCopy) {
				t.Fatalf("got %v", err)
			}
			if asked > before {
				pauses = append(pauses, time.Since(begin))
				begin = time.Now()
			}
		}
		if want := []time.Duration{0, 5 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second, 30 * time.Second}; !slices.Equal(pauses, want) {
			t.Errorf("got %s, want %s", pauses, want)
		}
		sends = "an archive"
		<-time.After(maxAskAgain)
		if err := peers.Pull(t.Context(), digest.FromString("an archive")); err != nil || len(peers.failed) > 0 {
			t.Errorf("got %v, remembered: %v", err, peers.failed)
		}
	})
}

// Whoever waits does so as long as it wants. The copy goes on.
func TestPullEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		peers := newSlowPeers(t, func(*http.Request) (*http.Response, error) {
			<-proceed
			return answer("an archive"), nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		archive, begin := digest.FromString("an archive"), time.Now()
		if err := peers.Pull(ctx, archive); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("got %v after %s", err, time.Since(begin))
		}
		close(proceed)
		if synctest.Wait(); !peers.Store.Has(archive) {
			t.Error("it is not copied")
		}
	})
}

func TestCopiesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int64
		proceed := make(chan struct{})
		peers := newSlowPeers(t, func(*http.Request) (*http.Response, error) {
			running.Add(1)
			<-proceed
			return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody}, nil
		})
		gone, leave := context.WithCancel(t.Context())
		leave()
		for i := range 2 * maxPulls {
			_ = peers.Pull(gone, digest.FromString(fmt.Sprint(i)))
		}
		if synctest.Wait(); running.Load() != maxPulls {
			t.Errorf("%d copies run", running.Load())
		}
		close(proceed)
		if synctest.Wait(); running.Load() != 2*maxPulls {
			t.Errorf("%d copies ran", running.Load())
		}
	})
}

// stalledReader is an API server that does not answer.
type stalledReader struct{ client.Reader }

func (stalledReader) List(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestAnAPIServerThatStallsHoldsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peers := newSlowPeers(t, nil)
		peers.Reader, peers.listedAt = stalledReader{}, time.Time{}
		go func() { _, _ = peers.Missing(t.Context(), digest.FromString("an archive")) }()
		synctest.Wait()
		if !peers.mu.TryLock() {
			t.Fatal("what was asked before cannot be read")
		}
		peers.mu.Unlock()
	})
}

// Anybody in the cluster may ask for what they know the digest of. This must neither fill the volume nor keep what is not in use.
func TestServePullsOnlyWhatIsInUse(t *testing.T) {
	put := func(peers *Peers, content string) digest.Digest {
		t.Helper()
		file, err := fetch.Save(bytes.NewReader([]byte(content)), 100, peers.Store.TempDir())
		if err == nil {
			err = peers.Store.Put(file)
		}
		if err != nil {
			t.Fatal(err)
		}
		return file.Digest
	}
	first, second := newPeers(t), newPeers(t)
	first.listed = []peer{newPeer(t, "second", second.Store.Handler())}
	lacking, unused := put(second, "an archive"), put(first, "an unused archive")
	if err := first.Store.MarkUnused(unused, func() (bool, error) { return false, nil }); err != nil {
		t.Fatal(err)
	}
	var inUse []digest.Digest
	var lists int
	var problem error
	var served http.Handler
	start := func() { // It lists what is in use at the first request.
		served = first.Serve(first.Store.Handler(), func(context.Context) ([]digest.Digest, error) {
			lists++
			return inUse, problem
		})
	}
	expect := func(archive digest.Digest, want int) {
		t.Helper()
		response := httptest.NewRecorder()
		served.ServeHTTP(response, httptest.NewRequest(http.MethodGet, store.URLPath(archive), nil))
		if response.Code != want || first.Store.IsStored(archive) != (want == http.StatusOK) {
			t.Errorf("got %d, stored: %t", response.Code, first.Store.IsStored(archive))
		}
	}
	start()
	expect(lacking, http.StatusNotFound)
	expect(unused, http.StatusNotFound)
	if lists != 1 {
		t.Errorf("listed %d times", lists)
	}
	inUse = []digest.Digest{lacking, unused}
	slices.Sort(inUse)
	problem = errors.New("the caches are not synced")
	start()
	expect(lacking, http.StatusNotFound)
	problem = nil
	expect(lacking, http.StatusOK)
	expect(unused, http.StatusOK)
}
