package replica

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/internal/source/store"
)

// Who asks and does not wait for the answer says nothing about the peer, and a peer that does not answer nothing about others.
func TestPostponed(t *testing.T) {
	archive, answers := digest.FromString("x"), make(chan struct{})
	p := peersAt(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-answers:
			w.Header().Set("Retry-After", "1")
		case <-r.Context().Done():
		}
	})
	silent := p.listed[0]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p.Postponed(ctx, archive) || p.isSilent(silent.uid) {
		t.Error("the question was cancelled, and the peer counts as silent")
	}
	other := peersAt(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "1") }).listed[0]
	other.uid = "2"
	p.listed = append(p.listed, other)
	if !p.Postponed(t.Context(), archive) || !p.isSilent(silent.uid) || p.isSilent(other.uid) {
		t.Errorf("got silent peers %v", p.unresponsive)
	}
	delete(p.unresponsive, silent.uid)
	close(answers)
	p.listed = p.listed[:1]
	if !p.Postponed(t.Context(), archive) {
		t.Error("the peer answers")
	}
}

func TestUploadAnswer(t *testing.T) {
	for code, final := range map[int]bool{
		http.StatusUnauthorized: true, http.StatusConflict: true, http.StatusRequestEntityTooLarge: true, http.StatusNotFound: true,
		http.StatusTooManyRequests: false, http.StatusServiceUnavailable: false, http.StatusInsufficientStorage: false, http.StatusInternalServerError: false,
	} {
		if err := uploadAnswer(code); err == nil || errors.Is(err, ErrUploadRefused) != final {
			t.Errorf("%d: got %v", code, err)
		}
	}
	if err := uploadAnswer(http.StatusCreated); err != nil {
		t.Error(err)
	}
}

func TestSendUploadNeedsTLS(t *testing.T) {
	p := &Peers{Scheme: "http"}
	if err := p.SendUpload(context.Background(), store.Upload{}, "secret"); !errors.Is(err, ErrUploadRefused) {
		t.Errorf("got %v", err)
	}
}

// What another peer answers says nothing about the upload.
func TestSendUploadAsksTheLeader(t *testing.T) {
	upload := store.Upload{Name: "demo", Version: "1.0.0", Path: filepath.Join(t.TempDir(), "demo.tar.gz")}
	if err := os.WriteFile(upload.Path, []byte("archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	code := http.StatusServiceUnavailable
	p := peersAt(t, http.NotFound)
	p.Scheme = "https"
	if err := p.SendUpload(t.Context(), upload, "secret"); err == nil || errors.Is(err, ErrUploadRefused) || p.Leader(t.Context()) != "" {
		t.Errorf("nobody leads: got %v", err)
	}
	leader := peersAt(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }).listed[0]
	leader.uid, leader.leads = "2", true
	p.listed = append(p.listed, leader)
	if err := p.SendUpload(t.Context(), upload, "secret"); err == nil || errors.Is(err, ErrUploadRefused) || p.Leader(t.Context()) != "2" {
		t.Errorf("the leader cannot take it now: got %v", err)
	}
	code = http.StatusConflict
	if err := p.SendUpload(t.Context(), upload, "secret"); !errors.Is(err, ErrUploadRefused) {
		t.Errorf("the leader refuses it: got %v", err)
	}
	code = http.StatusCreated
	if err := p.SendUpload(t.Context(), upload, "secret"); err != nil {
		t.Errorf("the leader takes it: got %v", err)
	}
}
