package replica

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

func TestLivePods(t *testing.T) {
	now := time.Now()
	ready := func(status corev1.ConditionStatus, since time.Duration) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(now.Add(-since))}}
	}
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"ready":              {func(*corev1.Pod) {}, true},
		"being deleted":      {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }, false},
		"not scheduled":      {func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, false},
		"without an address": {func(p *corev1.Pod) { p.Status.PodIP = "" }, false},
		"not ready yet":      {func(p *corev1.Pod) { p.Status.Conditions = ready(corev1.ConditionFalse, time.Second) }, true},
		"not ready for long": {func(p *corev1.Pod) { p.Status.Conditions = ready(corev1.ConditionFalse, time.Hour) }, false},
		"on a node that is lost": {func(p *corev1.Pod) {
			p.Status.Conditions = ready(corev1.ConditionUnknown, time.Hour)
		}, false},
		"new": {func(p *corev1.Pod) { p.Status.Conditions = nil }, true},
		"old without a condition": {func(p *corev1.Pod) {
			p.Status.Conditions, p.CreationTimestamp = nil, metav1.NewTime(now.Add(-time.Hour))
		}, false},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now)}}
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "192.0.2.1", Conditions: ready(corev1.ConditionTrue, time.Hour)}
		tt.change(pod)
		if got := isLive(pod, now); got != tt.want {
			t.Errorf("%s: got %t, want %t", name, got, tt.want)
		}
	}
}

// newPeer is a live one, played by a handler.
func newPeer(t *testing.T, name string, handler http.Handler) peer {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return peer{name: name, uid: types.UID(name), url: server.URL}
}

// newPeers are those of a manager with an empty store.
func newPeers(t *testing.T, peers ...peer) *Peers {
	t.Helper()
	archives, err := store.Open(filepath.Join(t.TempDir(), "artifacts"))
	if err != nil {
		t.Fatal(err)
	}
	return &Peers{HTTP: http.DefaultClient, Store: archives, MaxBytes: 100, listed: peers, listedAt: time.Now().Add(time.Hour)}
}

// counted counts the requests to a handler.
func counted(handler http.HandlerFunc) (http.Handler, *atomic.Int64) {
	var asked atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		handler(w, r)
	}), &asked
}

func TestPullTakesOnlyTheArchiveItself(t *testing.T) {
	content := []byte("an archive")
	archive := digest.FromBytes(content)
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		max    int64
		stored bool
	}{
		"the archive": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }, 100, true},
		"another":     {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("another")) }, 100, false},
		"too large":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }, 5, false},
		"an endless one": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, io.LimitReader(bytes.NewReader(bytes.Repeat(content, 1<<20)), 10<<20))
		}, 1 << 10, false},
		"an error":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, 100, false},
		"a redirect": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusFound) }, 100, false},
		"nothing":    {http.NotFound, 100, false},
	} {
		t.Run(name, func(t *testing.T) {
			peers := newPeers(t, newPeer(t, "manager-1", tt.answer))
			peers.MaxBytes = tt.max
			err := peers.Pull(t.Context(), archive)
			if (err == nil) != tt.stored || peers.Store.Has(archive) != tt.stored {
				t.Errorf("got %v, stored: %t", err, peers.Store.Has(archive))
			}
			if errors.Is(err, errNoCopy) != (name == "nothing") {
				t.Errorf("got %v", err)
			}
			if left, err := os.ReadDir(peers.Store.TempDir()); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// A manager without an archive costs others no request for each that it gets.
func TestPeersAreNotAskedAgainAtOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		answer  http.HandlerFunc
		archive string
		want    error
	}{
		"for what they lack":              {http.NotFound, "a", errNoCopy},
		"for anything if they are silent": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "b", errUnresponsive},
	} {
		t.Run(name, func(t *testing.T) {
			handler, asked := counted(tt.answer)
			peers := newPeers(t, newPeer(t, "manager-1", handler))
			pull := func(archive string, requests int64) {
				t.Helper()
				if err := peers.Pull(t.Context(), digest.FromString(archive)); !errors.Is(err, tt.want) || asked.Load() != requests {
					t.Errorf("got %v after %d requests", err, asked.Load())
				}
			}
			pull("a", 1)
			pull(tt.archive, 1)
			for key, last := range peers.failed {
				last.until = time.Now()
				peers.failed[key] = last
			}
			pull("a", 2)
		})
	}
}

// Two managers ask each other. One has the archive, and the other pulls it when it is asked.
func TestServePullsWhatIsMissing(t *testing.T) {
	content := []byte("an archive")
	file, err := fetch.Save(bytes.NewReader(content), 100, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := store.URLPath(file.Digest)
	first, second := newPeers(t), newPeers(t)
	inUse := func(context.Context) ([]digest.Digest, error) { return []digest.Digest{file.Digest}, nil }
	handler, asked := counted(first.Serve(first.Store.Handler(), inUse).ServeHTTP)
	second.listed = []peer{newPeer(t, "first", handler)}
	first.listed = []peer{newPeer(t, "second", second.Serve(second.Store.Handler(), inUse))}
	get := func(url string, want int) {
		t.Helper()
		response, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		if _ = response.Body.Close(); response.StatusCode != want {
			t.Errorf("%s: got %d, want %d", url, response.StatusCode, want)
		}
	}
	missing := func(want ...Missing) {
		t.Helper()
		got, err := first.Missing(t.Context(), file.Digest)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v", got, err)
		}
	}
	get(first.listed[0].url+path, http.StatusNotFound) // Neither has it, and one question is not an endless one.
	if asked.Load() != 1 {
		t.Errorf("the first was asked %d times", asked.Load())
	}
	if err := first.Store.Put(file); err != nil {
		t.Fatal(err)
	}
	missing(Missing{Pod: "second"}) // It has just asked.
	second.failed = nil
	missing()
	if !second.Store.Has(file.Digest) {
		t.Error("a peer that was asked has not copied the archive")
	}
	if err := second.Store.Remove(file.Digest); err != nil {
		t.Fatal(err)
	}
	get(first.listed[0].url+path, http.StatusOK)
	get(first.listed[0].url+store.URLPath(digest.FromString("another")), http.StatusNotFound)
	get(first.listed[0].url+"/elsewhere", http.StatusNotFound)

	first.listed = []peer{newPeer(t, "silent", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))}
	missing(Missing{Pod: "silent", Unresponsive: true})
	var none *Peers
	if got, err := none.Missing(t.Context(), file.Digest); err != nil || len(got) > 0 {
		t.Errorf("without peers: %v, %v", got, err)
	}
}

func TestPullAllFailsIfPeersMayHaveMore(t *testing.T) {
	var content, other = []byte("an archive"), digest.FromString("another")
	var answer http.HandlerFunc
	peers := newPeers(t, newPeer(t, "manager-1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r) })))
	expect := func(stored, complete bool) {
		t.Helper()
		peers.failed = nil
		err := peers.PullAll(t.Context(), []digest.Digest{digest.FromBytes(content), other})
		if peers.Store.Has(digest.FromBytes(content)) != stored || (err == nil) != complete {
			t.Errorf("stored: %t, error: %v", !stored, err)
		}
	}
	answer = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	expect(false, false)
	answer = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }
	expect(true, false) // The peer sends something else as the other archive.
	answer = http.NotFound
	expect(true, true)
}
