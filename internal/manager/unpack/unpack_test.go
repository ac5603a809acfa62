package unpack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/internal/platform/servingcert"
)

// The kubelet replaces the mounted settings while the pod still has the old archive.
func TestUnpackKeepsTheSettingsOfTheArchive(t *testing.T) {
	content := archiveOf(t, "playbook.yml", "- hosts: all\n")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }))
	defer server.Close()
	root := t.TempDir()
	runtimeDir, contentDir, collectionsDir := filepath.Join(root, "runtime"), filepath.Join(root, "content"), filepath.Join(root, "collections")
	unpack := func(revision, runs string) error {
		mount(t, runtimeDir, revision, map[string]string{
			"digest": digest.FromBytes(content).String(), "artifactURL": server.URL, "galaxyNamespace": "acme", "galaxyName": "demo", "runs.json": runs,
		})
		command := Command()
		command.SetArgs([]string{"--runtime-dir=" + runtimeDir, "--content-dir=" + contentDir, "--collections-dir=" + collectionsDir})
		return command.ExecuteContext(t.Context())
	}
	for _, revision := range []string{"first", "second"} {
		if err := unpack(revision, revision); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(collectionsDir, "runs.json")); string(got) != revision {
			t.Errorf("settings %q, %v", got, err)
		}
		if _, err := os.Stat(filepath.Join(contentDir, "playbook.yml")); err != nil {
			t.Error(err)
		}
	}
	mount(t, runtimeDir, "third", map[string]string{"runs.json": "third"})
	if got, _ := os.ReadFile(filepath.Join(collectionsDir, "runs.json")); string(got) != "second" {
		t.Errorf("settings %q before the pod is replaced", got)
	}
}

// A pod trusts the authorities of its settings and no others. When these change, it tries the new ones.
func TestUnpackTrustsTheAuthoritiesOfTheSettings(t *testing.T) {
	content := archiveOf(t, "playbook.yml", "- hosts: all\n")
	root := t.TempDir()
	runtimeDir, collectionsDir := filepath.Join(root, "runtime"), filepath.Join(root, "collections")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }))
	defer server.Close()
	revision := func(name string, authority []byte) {
		mount(t, runtimeDir, name, map[string]string{
			"digest": digest.FromBytes(content).String(), "artifactURL": "http://192.0.2.1", "artifactTLSURL": server.URL,
			"ca.crt":          string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority})),
			"galaxyNamespace": "acme", "galaxyName": "demo", "runs.json": name,
		})
	}
	state := &servingcert.State{}
	if _, err := state.Rotate(time.Now(), servingcert.Settings{Names: []string{"x"}, AuthorityValidity: time.Hour, CertificateValidity: time.Minute, Overlap: time.Minute}); err != nil {
		t.Fatal(err)
	}
	other, _ := pem.Decode(state.Bundle())
	server.Config.ErrorLog = log.New(writerFunc(func(line []byte) (int, error) { // The handshake failed.
		revision("second", server.Certificate().Raw)
		return len(line), nil
	}), "", 0)
	server.StartTLS()
	revision("first", other.Bytes)
	command := Command()
	command.SetArgs([]string{"--runtime-dir=" + runtimeDir, "--content-dir=" + filepath.Join(root, "content"), "--collections-dir=" + collectionsDir})
	if err := command.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(collectionsDir, "runs.json")); string(got) != "second" {
		t.Errorf("settings %q, %v", got, err)
	}
}

// The Operator Lifecycle Manager may start the pods of a version before the manager has replaced the settings of the one before.
func TestUnpackWaitsForTheSettingsOfItsVersion(t *testing.T) {
	content := archiveOf(t, "playbook.yml", "- hosts: all\n")
	root := t.TempDir()
	runtimeDir, collectionsDir := filepath.Join(root, "runtime"), filepath.Join(root, "collections")
	revision := func(name, url string) {
		mount(t, runtimeDir, name, map[string]string{
			"digest": digest.FromBytes(content).String(), "artifactURL": url, "galaxyNamespace": "acme", "galaxyName": "demo", "runs.json": `{"version":"` + name + `"}`,
		})
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }))
	defer server.Close()
	asked := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the archive of the other version is downloaded") }))
	defer asked.Close()
	revision("1.0.0", asked.URL)
	t.Setenv("ZOSCB_COLLECTION_VERSION", "2.0.0")
	command := Command()
	waits := make(chan struct{}, 1)
	command.SetErr(writerFunc(func(line []byte) (int, error) {
		if strings.Contains(string(line), "waiting for the settings of this version") {
			waits <- struct{}{}
		}
		return len(line), nil
	}))
	command.SetArgs([]string{"--runtime-dir=" + runtimeDir, "--content-dir=" + filepath.Join(root, "content"), "--collections-dir=" + collectionsDir})
	ended := make(chan error)
	go func() { ended <- command.ExecuteContext(t.Context()) }()
	<-waits
	revision("2.0.0", server.URL)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(collectionsDir, "runs.json")); string(got) != `{"version":"2.0.0"}` {
		t.Errorf("settings %q, %v", got, err)
	}
}

// Versions that have the same ClusterServiceVersion have the same pods.
func TestCheckVersion(t *testing.T) {
	for settings, fits := range map[string]bool{"2.0.0-rc.1": true, "2.0.0-RC.1": true, "2.0.0-rc.1+build.2": true, "2.0.0-rc.2": false, "2.0.0": false} {
		if err := checkVersion([]byte(`{"version":"`+settings+`"}`), "2.0.0-rc.1"); (err == nil) != fits {
			t.Errorf("%s: %v", settings, err)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A pod that starts with an old revision of the ConfigMap waits for an archive that the manager does not have any more.
func TestUnpackFollowsTheSettings(t *testing.T) {
	content := archiveOf(t, "playbook.yml", "- hosts: all\n")
	root := t.TempDir()
	runtimeDir, collectionsDir := filepath.Join(root, "runtime"), filepath.Join(root, "collections")
	revision := func(name, path string, server *httptest.Server) {
		mount(t, runtimeDir, name, map[string]string{
			"digest": digest.FromBytes(content).String(), "artifactURL": server.URL + path, "galaxyNamespace": "acme", "galaxyName": "demo", "runs.json": name,
		})
	}
	var server *httptest.Server
	var once sync.Once
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/new" {
			_, _ = w.Write(content)
			return
		}
		http.NotFound(w, r)
		once.Do(func() { revision("second", "/new", server) })
	}))
	defer server.Close()
	revision("first", "/old", server)
	command := Command()
	command.SetArgs([]string{"--runtime-dir=" + runtimeDir, "--content-dir=" + filepath.Join(root, "content"), "--collections-dir=" + collectionsDir})
	if err := command.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(collectionsDir, "runs.json")); string(got) != "second" {
		t.Errorf("settings %q, %v", got, err)
	}
}

// mount writes a revision of a ConfigMap as the kubelet does.
func mount(t *testing.T, dir, revision string, data map[string]string) {
	t.Helper()
	folder := filepath.Join(dir, ".."+revision)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range data {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_ = os.Remove(filepath.Join(dir, "..data"))
	if err := os.Symlink(".."+revision, filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

func archiveOf(t *testing.T, name, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	files := tar.NewWriter(compressed)
	if err := files.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	for _, closer := range []interface{ Close() error }{files, compressed} {
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}
