package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/internal/source/archive"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
)

func digestOf(content []byte) digest.Digest { return digest.FromBytes(content) }

func openStore(t *testing.T) *Store {
	t.Helper()
	store, err := Open(filepath.Join(t.TempDir(), "artifacts"))
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// put stores content that lies in dir first.
func put(t *testing.T, store *Store, dir string, content []byte) digest.Digest {
	t.Helper()
	file, err := fetch.Save(bytes.NewReader(content), 1<<20, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Put(file); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the source is still there: %v", err)
	}
	return file.Digest
}

func TestStore(t *testing.T) {
	store := openStore(t)
	first := put(t, store, store.TempDir(), []byte("first"))
	second := put(t, store, store.TempDir(), []byte("second"))
	put(t, store, store.TempDir(), []byte("second")) // again

	reopened, err := Open(store.dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reopened.Has(first) || reopened.Has(digestOf([]byte("third"))) || reopened.Has("sha256:../../etc") || reopened.Has(first[7:]) {
		t.Error("Has is wrong")
	}
	content, size, err := reopened.Open(first)
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	if got, err := io.ReadAll(content); err != nil || string(got) != "first" || size != 5 {
		t.Errorf("got %q, %v, %d bytes", got, err, size)
	}
	inUse := map[digest.Digest]bool{second: true}
	if err := reopened.RemoveUnused(inUse, time.Now().Add(-time.Hour)); err != nil || !reopened.Has(first) {
		t.Errorf("what is newer was removed: %v", err)
	}
	if err := reopened.RemoveUnused(inUse, time.Now().Add(time.Hour)); err != nil || reopened.IsStored(first) || !reopened.IsStored(second) {
		t.Errorf("the wrong one was set aside: %v", err)
	}
	if err := reopened.RemoveExpired(time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
	if _, _, err := reopened.Open(first); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open a removed archive: got %v, want %v", err, fs.ErrNotExist)
	}
	for range 2 {
		if err := reopened.Remove(second); err != nil || reopened.Has(second) {
			t.Errorf("remove: %v", err)
		}
	}
	if err := reopened.Put(&fetch.File{Path: "/etc/passwd", Digest: "sha256:../x"}); err == nil {
		t.Error("stored under an invalid digest")
	}
}

func TestStoreForgetsUnfinishedFiles(t *testing.T) {
	store := openStore(t)
	whole := put(t, store, store.TempDir(), []byte("whole"))
	leftover := filepath.Join(store.TempDir(), "archive-1.tmp")
	if err := os.WriteFile(leftover, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A download that makes no progress may still be in progress.
	if err := store.RemoveUnused(map[digest.Digest]bool{whole: true}, time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(leftover); err != nil || !store.Has(whole) {
		t.Errorf("while the store is open: %v, archive kept: %t", err, store.Has(whole))
	}
	store, err := Open(store.dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(leftover); !errors.Is(err, fs.ErrNotExist) || !store.Has(whole) {
		t.Errorf("when it is opened again: %v, archive kept: %t", err, store.Has(whole))
	}
}

func TestCheckWritable(t *testing.T) {
	store, err := Open(filepath.Join(t.TempDir(), "artifacts"))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.CheckWritable(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(store.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := os.RemoveAll(store.TempDir()); err != nil {
		t.Fatal(err)
	}
	if err := store.CheckWritable(); err == nil {
		t.Error("a store without its folder passes")
	}
	for err, want := range map[error]bool{syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EROFS: false, syscall.EACCES: false} {
		if got := IsFull(&fs.PathError{Op: "write", Err: err}); got != want {
			t.Errorf("%v: full: %t", err, got)
		}
	}
}

func TestStage(t *testing.T) {
	store := openStore(t)
	upload := filepath.Join(t.TempDir(), "a.tar.gz")
	if err := os.WriteFile(upload, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := store.Stage(upload, 7)
	if err != nil {
		t.Fatal(err)
	}
	if file.Digest != digestOf([]byte("content")) || filepath.Dir(file.Path) != store.TempDir() {
		t.Errorf("got %+v", file)
	}
	if _, err := os.Stat(upload); err != nil {
		t.Errorf("the upload is gone: %v", err)
	}
	var failed *fetch.Error
	if _, err := store.Stage(upload, 6); !errors.As(err, &failed) || failed.Reason != fetch.TooLarge {
		t.Errorf("got %v, want reason %s", err, fetch.TooLarge)
	}
	if _, err := store.Stage(t.TempDir(), 6); err == nil {
		t.Error("staged a directory")
	}
}

func TestHandler(t *testing.T) {
	store := openStore(t)
	known := put(t, store, store.TempDir(), []byte("content"))
	hex := known.Encoded()
	server := httptest.NewServer(store.Handler())
	t.Cleanup(server.Close)
	tests := []struct {
		method, path string
		status       int
		body         string
	}{
		{http.MethodGet, URLPath(known), 200, "content"},
		{http.MethodHead, URLPath(known), 200, ""},
		{http.MethodPost, URLPath(known), 405, "method not allowed\n"},
		{http.MethodDelete, URLPath(known), 405, "method not allowed\n"},
		{http.MethodGet, URLPath(digestOf([]byte("other"))), 404, "404 page not found\n"},
		{http.MethodGet, "/", 404, "404 page not found\n"},
		{http.MethodGet, "/artifacts/sha256/", 404, "404 page not found\n"},
		{http.MethodGet, "/artifacts/sha256/" + hex, 404, "404 page not found\n"},
		{http.MethodGet, "/artifacts/sha256/" + strings.ToUpper(hex) + ".tar.gz", 404, "404 page not found\n"},
		{http.MethodGet, "/artifacts/sha256/../tmp/" + hex + ".tar.gz", 404, "404 page not found\n"},
		{http.MethodGet, "/artifacts/sha256/..%2f" + hex + ".tar.gz", 404, "404 page not found\n"},
		{http.MethodGet, "/" + hex + ".tar.gz", 404, "404 page not found\n"},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), tt.method, server.URL+tt.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != tt.status || string(body) != tt.body {
				t.Errorf("got %d %q, %v, want %d %q", response.StatusCode, body, err, tt.status, tt.body)
			}
			immutable := strings.Contains(response.Header.Get("Cache-Control"), "immutable")
			if immutable != (tt.status == 200) {
				t.Errorf("Cache-Control is %q", response.Header.Get("Cache-Control"))
			}
		})
	}
}

// TestHandlerTellsNothing tries what a pod may try that knows the digest of its own archive and wants to learn about
// others. Requests are written by hand: clients tidy paths up.
func TestHandlerTellsNothing(t *testing.T) {
	store := openStore(t)
	own := put(t, store, store.TempDir(), []byte("own"))
	other := put(t, store, store.TempDir(), []byte("other"))
	if err := os.WriteFile(filepath.Join(store.TempDir(), "secret.tar.gz"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(store.dir, algorithm.String(), strings.Repeat("0", 64)+suffix), 0o755); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(store.Handler())
	t.Cleanup(server.Close)
	hex := other.Encoded()
	unknown := answer(t, server, "GET "+URLPath(digestOf([]byte("unknown"))))
	if !strings.Contains(unknown, "404 page not found") {
		t.Fatalf("an unknown digest: %s", unknown)
	}
	for _, path := range []string{
		"/", "//", "/artifacts", "/artifacts/", "/artifacts/sha256", "/artifacts/sha256/", "/artifacts/sha256/.", "/artifacts/sha256/*",
		"/artifacts/sha256/?list=1", "/artifacts/sha256/index.html", "/artifacts/tmp/secret.tar.gz", "/tmp/secret.tar.gz",
		"/artifacts/sha256/../tmp/secret.tar.gz", "/artifacts/sha256/..%2ftmp%2fsecret.tar.gz", "/artifacts/sha256/%2e%2e/tmp/secret.tar.gz",
		"/artifacts/sha256/..%5ctmp%5csecret.tar.gz", "/artifacts/sha256/....//tmp/secret.tar.gz", "/../../../../etc/passwd",
		"/artifacts/sha256//" + hex + ".tar.gz", "/artifacts//sha256/" + hex + ".tar.gz", "/artifacts/sha256/./" + hex + ".tar.gz",
		"/artifacts/sha256/" + hex, "/artifacts/sha256/" + hex + ".tar", "/artifacts/sha256/" + hex + ".tar.gz/", "/artifacts/sha256/" + hex + ".tar.gz%00",
		"/artifacts/sha256/" + hex + "%0a.tar.gz", "/artifacts/sha256/" + hex[:63] + "*.tar.gz", "/artifacts/sha256/" + hex[:8] + ".tar.gz",
		"/artifacts/sha256/" + strings.ToUpper(hex) + ".tar.gz", "/artifacts/SHA256/" + hex + ".tar.gz", "/artifacts/sha512/" + hex + ".tar.gz",
		"/artifacts/sha256/sha256:" + hex + ".tar.gz", "/artifacts/sha256/" + strings.Repeat("0", 64) + ".tar.gz",
	} {
		if got := answer(t, server, "GET "+path); got != unknown {
			t.Errorf("GET %s is answered in another way than an unknown digest:\n%s", path, got)
		}
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "CONNECT"} {
		known, unknown := answer(t, server, method+" "+URLPath(other)), answer(t, server, method+" "+URLPath(digestOf([]byte("unknown"))))
		if known != unknown || strings.Contains(known, "200 OK") {
			t.Errorf("%s tells whether an archive is there:\n%s\n%s", method, known, unknown)
		}
	}
	if got := answer(t, server, "GET "+URLPath(own)); !strings.HasSuffix(got, "own") {
		t.Errorf("its own archive: %s", got)
	}
}

// answer sends one request line and returns all that comes back but the date.
func answer(t *testing.T, server *httptest.Server, request string) string {
	t.Helper()
	connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := fmt.Fprintf(connection, "%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", request); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(connection)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`Date: [^\r]*\r\n`).ReplaceAllString(string(got), "")
}

func collection(t *testing.T, playbook string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	err := archive.Write(&buffer, fstest.MapFS{
		"MANIFEST.json":        {Data: []byte("{}")},
		"playbooks/create.yml": {Data: []byte(playbook)},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func TestInstall(t *testing.T) {
	store := openStore(t)
	old := put(t, store, store.TempDir(), collection(t, "old"))
	current := put(t, store, store.TempDir(), collection(t, "new"))
	broken := put(t, store, store.TempDir(), []byte("no archive"))
	server := httptest.NewServer(store.Handler())
	t.Cleanup(server.Close)

	base := t.TempDir()
	temp := t.TempDir()
	options := func(known digest.Digest) InstallOptions {
		return InstallOptions{
			DownloadOptions: DownloadOptions{URL: server.URL + URLPath(known), Digest: known, Dir: temp},
			ContentDir:      filepath.Join(base, "content"),
			CollectionsDir:  filepath.Join(base, "collections"),
			Namespace:       "acme",
			Name:            "zos_demo",
		}
	}
	playbook := filepath.Join(base, "collections/ansible_collections/acme/zos_demo/playbooks/create.yml")
	for _, step := range []struct {
		digest digest.Digest
		want   string
	}{{old, "old"}, {current, "new"}} {
		if err := os.MkdirAll(filepath.Join(base, "content", "stale"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := Install(t.Context(), options(step.digest)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(playbook); err != nil || string(got) != step.want {
			t.Errorf("the playbook is %q, %v, want %q", got, err, step.want)
		}
		if _, err := os.Stat(filepath.Join(base, "content", "stale")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("old content is still there: %v", err)
		}
	}
	var refused *archive.Error
	if err := Install(t.Context(), options(broken)); !errors.As(err, &refused) || refused.Reason != archive.NotGzip {
		t.Errorf("got %v, want reason %s", err, archive.NotGzip)
	}
	if entries, err := os.ReadDir(temp); err != nil || len(entries) != 0 {
		t.Errorf("left in the temporary folder: %v, %v", entries, err)
	}
}

func TestInstallRefusesBadTargets(t *testing.T) {
	for _, name := range []string{"", "..", "a/b", "a-b", "Acme"} {
		if err := Install(t.Context(), InstallOptions{ContentDir: "/nowhere", Namespace: name, Name: "x"}); err == nil {
			t.Errorf("accepted the namespace %q", name)
		}
	}
	if err := Install(t.Context(), InstallOptions{ContentDir: "relative", Namespace: "a", Name: "x"}); err == nil {
		t.Error("accepted a relative content directory")
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "ansible_collections/a/x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := linkCollection(InstallOptions{ContentDir: "/c", CollectionsDir: dir, Namespace: "a", Name: "x"}); err == nil {
		t.Error("replaced a directory by a link")
	}
}

func TestDownloadWaitsForTheManager(t *testing.T) {
	content := []byte("content")
	answers := []int{503, 503, 404, 404, 500, 200}
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(answers[asked.Add(1)-1])
		_, _ = w.Write(content)
	}))
	t.Cleanup(server.Close)
	var log bytes.Buffer
	file, err := Download(t.Context(), DownloadOptions{
		URL: server.URL, Digest: digestOf(content), Dir: t.TempDir(), MinWait: time.Microsecond, MaxWait: time.Millisecond,
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if file.Digest != digestOf(content) || int(asked.Load()) != len(answers) {
		t.Errorf("got %+v after %d attempts", file, asked.Load())
	}
	if lines := strings.Count(log.String(), "\n"); lines != 3 {
		t.Errorf("logged %d lines, want one for each of 503, 404 and 500:\n%s", lines, log.String())
	}
}

func TestDownloadGivesUp(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/missing" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, "other content")
	}))
	t.Cleanup(server.Close)
	known := digestOf([]byte("content"))
	for name, options := range map[string]DownloadOptions{
		"other digest": {URL: server.URL, Digest: known},
		"invalid URL":  {URL: "ftp://x", Digest: known},
		"too large":    {URL: server.URL, Digest: known, MaxBytes: 3},
	} {
		options.Dir = t.TempDir()
		if _, err := Download(t.Context(), options); err == nil || !strings.Contains(err.Error(), known.String()) {
			t.Errorf("%s: got %v", name, err)
		}
		if entries, err := os.ReadDir(options.Dir); err != nil || len(entries) != 0 {
			t.Errorf("%s: left %v, %v", name, entries, err)
		}
	}
	ctx, log := contextEndingAfterFirstLog(t)
	_, err := Download(ctx, DownloadOptions{URL: server.URL + "/missing", Digest: known, Dir: t.TempDir(), Log: log})
	if err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("canceled: got %v, want the last failure", err)
	}
}

func TestLatestUpload(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "demo", "1.0.0")
	if _, err := LatestUpload(dir, "demo", "1.0.0"); !errors.Is(err, ErrNoUpload) {
		t.Errorf("no folder: got %v, want %v", err, ErrNoUpload)
	}
	if _, err := LatestUpload(filepath.Join(dir, "missing"), "demo", "1.0.0"); !errors.Is(err, ErrNoUpload) {
		t.Errorf("no upload folder at all: got %v, want %v", err, ErrNoUpload)
	}
	if err := os.MkdirAll(filepath.Join(folder, "dir.tar.gz"), 0o755); err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, age := range map[string]time.Duration{
		"old.tar.gz": 3 * time.Hour, "b.tar.gz": time.Hour, "a.tar.gz": time.Hour, ".part.tar.gz": 0, "notes.txt": 0,
	} {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, start.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(folder, "z.tar.gz")); err != nil {
		t.Fatal(err)
	}
	if got, err := LatestUpload(dir, "demo", "1.0.0"); err != nil || got != filepath.Join(folder, "b.tar.gz") {
		t.Errorf("got %q, %v", got, err)
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "outside")); err != nil {
		t.Fatal(err)
	}
	for _, names := range [][2]string{{"..", "1"}, {"demo", ".."}, {"", "1"}, {"a/b", "1"}, {"demo", "1\x00"}, {".artifacts", "1"}, {"outside", "1"}} {
		if got, err := LatestUpload(dir, names[0], names[1]); err == nil || errors.Is(err, ErrNoUpload) {
			t.Errorf("%q: got %q, %v, want it refused", names, got, err)
		}
	}
}

// contextEndingAfterFirstLog gives a logger and a context that is canceled as soon as something is logged.
func contextEndingAfterFirstLog(t *testing.T) (context.Context, *slog.Logger) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, slog.New(cancelingHandler{slog.DiscardHandler, cancel})
}

type cancelingHandler struct {
	slog.Handler
	cancel context.CancelFunc
}

func (cancelingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h cancelingHandler) Handle(context.Context, slog.Record) error {
	h.cancel()
	return nil
}
