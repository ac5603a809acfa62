package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/internal/source/fetch"
)

func receive(t *testing.T, p *Pushes, namespace, name, content string) (digest.Digest, error) {
	t.Helper()
	file, err := fetch.Save(bytes.NewReader([]byte(content)), 1<<20, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return file.Digest, p.Put(namespace, name, file)
}

func TestPushes(t *testing.T) {
	p := &Pushes{Dir: filepath.Join(t.TempDir(), "uploads"), MaxBytes: 20, MaxBytesPerNamespace: 15}
	found := func(namespace, name string, archive digest.Digest) bool {
		t.Helper()
		path, err := p.Find(namespace, name, archive)
		if err != nil {
			t.Error(err)
		}
		return path != ""
	}
	first, err := receive(t, p, "a", "oc", "0123456789")
	if err != nil || !found("a", "oc", first) || found("b", "oc", first) || found("a", "other", first) {
		t.Fatalf("the first: %v", err)
	}
	// It replaces the first, whose size does not count.
	second, err := receive(t, p, "a", "oc", "9876543210")
	if err != nil || found("a", "oc", first) || !found("a", "oc", second) {
		t.Errorf("the second: %v", err)
	}
	if _, err := receive(t, p, "a", "other", "123456"); !errors.Is(err, ErrPushesFull) {
		t.Errorf("too much for a namespace: %v", err)
	}
	if _, err := receive(t, p, "b", "oc", "01234567890"); !errors.Is(err, ErrPushesFull) {
		t.Errorf("too much for all: %v", err)
	}
	third, err := receive(t, p, "b", "oc", "0123456789")
	if err != nil || !found("a", "oc", second) {
		t.Errorf("the third: %v", err)
	}
	if names, err := p.List(); err != nil || len(names) != 2 || names[0].String() != "a/oc" || names[1].String() != "b/oc" {
		t.Errorf("got %v, %v", names, err)
	}
	soon := time.Now().Add(time.Minute)
	if err := errors.Join(p.RemoveFormer("a", "oc", second, soon), p.RemoveFormer("b", "oc", "", soon.Add(-time.Hour)), p.RemoveFormer("c", "oc", "", soon)); err != nil ||
		!found("a", "oc", second) || !found("b", "oc", third) {
		t.Errorf("a present upload was removed: %v", err)
	}
	if err := p.RemoveFormer("b", "oc", second, soon); err != nil || found("b", "oc", third) {
		t.Errorf("a former upload was kept: %v", err)
	}
	if err := errors.Join(p.Done("a", "oc", first), p.Done("a", "oc", second), p.Done("a", "oc", second), p.Remove("b", "oc"), p.Remove("b", "oc")); err != nil {
		t.Error(err)
	}
	if found("a", "oc", second) || found("b", "oc", third) {
		t.Error("an archive is left")
	}
}

func TestPushesStayInTheirFolder(t *testing.T) {
	root := t.TempDir()
	p := &Pushes{Dir: filepath.Join(root, "uploads")}
	for _, names := range [][2]string{{"..", "oc"}, {"a", ".."}, {"a", "../../oc"}, {"", "oc"}, {"a", ""}, {"a/b", "oc"}, {"A", "oc"}} {
		if _, err := receive(t, p, names[0], names[1], "x"); err == nil {
			t.Errorf("%q is accepted", names)
		}
		if path, err := p.Find(names[0], names[1], digest.FromString("x")); path != "" || err == nil {
			t.Errorf("%q: got %q, %v", names, path, err)
		}
	}
	if path, err := p.Find("a", "oc", "sha256:../../../etc/passwd"); path != "" || err == nil {
		t.Errorf("got %q, %v", path, err)
	}
	entries, err := os.ReadDir(root)
	if err != nil || slices.ContainsFunc(entries, func(entry os.DirEntry) bool { return entry.Name() != "uploads" }) {
		t.Errorf("got %v, %v", entries, err)
	}
}
