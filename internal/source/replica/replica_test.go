package replica

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// peersAt have one live peer, which a server plays.
func peersAt(t *testing.T, handler http.HandlerFunc) *Peers {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(at.Host)
	number, _ := strconv.Atoi(port)
	return &Peers{
		Scheme: "http", Port: int32(number), HTTP: server.Client(), Timeout: time.Hour,
		listed: []peer{{name: "manager-1", uid: "1", url: "http://" + net.JoinHostPort(host, port)}}, listedAt: time.Now().Add(time.Hour),
	}
}

func TestFetchTakesOnlyTheArchiveItself(t *testing.T) {
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
			store, err := store.Open(filepath.Join(t.TempDir(), "artifacts"))
			if err != nil {
				t.Fatal(err)
			}
			err = peersAt(t, tt.answer).Fetch(t.Context(), store, archive, tt.max)
			if (err == nil) != tt.stored || store.Has(archive) != tt.stored {
				t.Errorf("got %v, stored: %t", err, store.Has(archive))
			}
			if errors.Is(err, errNoCopy) != (name == "nothing") {
				t.Errorf("got %v", err)
			}
			if left, err := os.ReadDir(store.TempDir()); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestCopies(t *testing.T) {
	archive, asked, has := digest.FromString("x"), 0, false
	peers := peersAt(t, func(w http.ResponseWriter, r *http.Request) {
		if asked++; !has || r.Method != http.MethodHead {
			http.NotFound(w, r)
		}
	})
	expect := func(awaited, reported, requests int) {
		t.Helper()
		copies, err := peers.Copies(t.Context(), archive)
		if err != nil || len(copies.Awaited) != awaited || len(copies.Reported) != reported || asked != requests {
			t.Errorf("got %+v, %v after %d requests", copies, err, asked)
		}
	}
	expect(1, 0, 1)
	peers.Timeout = 0
	expect(0, 1, 2)
	// An import that was refused long ago says nothing about the next one.
	peers.Timeout = time.Minute
	for key := range peers.lacking {
		peers.lacking[key] = lack{since: time.Now().Add(-time.Hour), asked: time.Now()}
	}
	expect(0, 1, 3)
	for key := range peers.lacking {
		peers.lacking[key] = lack{since: time.Now().Add(-time.Hour), asked: time.Now().Add(-lackInterval)}
	}
	expect(1, 0, 4)
	has = true
	expect(0, 0, 5)
	expect(0, 0, 5) // It is not asked again.
	var none *Peers
	if copies, err := none.Copies(t.Context(), archive); err != nil || copies.Missing() {
		t.Errorf("without peers: %+v, %v", copies, err)
	}
}

func TestPeersThatDoNotAnswerAreAskedOnce(t *testing.T) {
	var asked atomic.Int64
	peers := peersAt(t, func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		panic(http.ErrAbortHandler)
	})
	for _, content := range []string{"a", "b", "c"} {
		copies, err := peers.Copies(t.Context(), digest.FromString(content))
		if err != nil || len(copies.Awaited) != 1 || asked.Load() != 1 {
			t.Errorf("got %+v, %v after %d requests", copies, err, asked.Load())
		}
	}
}

func TestReplicatorIsCompleteWhenNoPeerHasMore(t *testing.T) {
	content := []byte("an archive")
	var aborts, lacks atomic.Bool
	aborts.Store(true)
	peers := peersAt(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case aborts.Load():
			panic(http.ErrAbortHandler)
		case lacks.Load():
			http.NotFound(w, r)
		default:
			_, _ = w.Write(content)
		}
	})
	store, err := store.Open(filepath.Join(t.TempDir(), "artifacts"))
	if err != nil {
		t.Fatal(err)
	}
	inUse := []digest.Digest{digest.FromBytes(content), digest.FromString("another")}
	replicator := NewReplicator(peers, store, 100, func(context.Context) ([]digest.Digest, error) { return inUse, nil })
	expect := func(stored, complete bool) {
		t.Helper()
		replicator.failed = nil // Nothing is delayed.
		replicator.round(t.Context())
		if store.Has(inUse[0]) != stored || replicator.Complete() != complete {
			t.Errorf("stored: %t, complete: %t", store.Has(inUse[0]), replicator.Complete())
		}
	}
	expect(false, false)
	aborts.Store(false)
	expect(true, false) // The peer sends something else as the other archive.
	lacks.Store(true)
	expect(true, true)

	replicator.complete.Store(false)
	aborts.Store(true)
	expect(true, false)
	replicator.began = time.Now().Add(-2 * completeTimeout)
	expect(true, true)
}
