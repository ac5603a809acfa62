package store

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// smallArchive is a tar.gz with one file.
func smallArchive(t *testing.T, content string) []byte {
	t.Helper()
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressed)
	if err := archive.WriteHeader(&tar.Header{Name: "README.md", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	_, err := archive.Write([]byte(content))
	if err := errors.Join(err, archive.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func openFolder(t *testing.T, dir string) *UploadFolder {
	t.Helper()
	folder, err := NewUploadFolder(dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	folder.Warn = func(err error) { t.Error(err) }
	return folder
}

// watchedFolder returns an upload folder that is watched, and the names of the folders that change.
func watchedFolder(t *testing.T, dir string) (*UploadFolder, <-chan string) {
	t.Helper()
	changes := make(chan string, 100)
	folder := openFolder(t, dir)
	folder.Changed = func(_ context.Context, name, version string) { changes <- name + "/" + version }
	ended := make(chan error)
	go func() { ended <- folder.Start(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return folder, changes
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
		t.Fatal(err)
	}
}

func next(t *testing.T, changes <-chan string) string {
	t.Helper()
	select {
	case changed := <-changes:
		return changed
	case <-t.Context().Done():
		return "none"
	}
}

// An archive counts when it is complete, and a part of it never does.
func TestUploadFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "suboperator")
	path := filepath.Join(dir, "demo", "1.0.0", "demo.tar.gz")
	first, second := smallArchive(t, "first"), smallArchive(t, "second")
	write(t, path, first)
	folder, changes := watchedFolder(t, dir)
	before, err := folder.Latest("demo", "1.0.0")
	if err != nil || before.Arriving || before.Path != path || !before.Written.IsZero() || !folder.Is(before) {
		t.Fatalf("what is there at the start is complete, and asks for nothing: got %+v, %v", before, err)
	}

	write(t, path, second[:len(second)/2])
	if folder.Is(before) {
		t.Error("what is being written is not the archive that was there")
	}
	write(t, filepath.Join(dir, "other", "2.0.0", "my x.tar.gz"), first) // It is complete later, and reported.
	if changed := next(t, changes); changed != "other/2.0.0" {
		t.Errorf("got a change of %s", changed)
	}
	if is, err := folder.Latest("demo", "1.0.0"); err != nil || !is.Arriving {
		t.Errorf("half an archive: got %+v, %v", is, err)
	}
	write(t, path, second)
	if changed := next(t, changes); changed != "demo/1.0.0" {
		t.Errorf("got a change of %s", changed)
	}
	if later, err := folder.Latest("demo", "1.0.0"); err != nil || later.Arriving || time.Since(later.Written) < settleTime {
		t.Errorf("got %+v, %v", later, err)
	}

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if changed := next(t, changes); changed != "demo/1.0.0" {
		t.Errorf("got a change of %s", changed)
	}
	if _, err := folder.Latest("demo", "1.0.0"); !errors.Is(err, ErrNoUpload) {
		t.Errorf("got %v", err)
	}
}

// scanned is what a scan at a time knows of demo 1.0.0.
func scanned(t *testing.T, folder *UploadFolder, at time.Time) Upload {
	t.Helper()
	folder.update(func(string) {}, at)
	is, err := folder.Latest("demo", "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// An older file that is the newest one again was not written, but one that was renamed was.
func TestUploadFolderNewestRemoved(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, "demo", "1.0.0", name) }
	writtenAt := func(name string, at time.Time) {
		t.Helper()
		write(t, path(name), []byte(name))
		if err := os.Chtimes(path(name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now().Add(-time.Hour)
	writtenAt("first.tar.gz", began)
	folder := openFolder(t, dir)
	writtenAt("a fix.tar.gz", began.Add(time.Minute))
	if is := scanned(t, folder, time.Now()); !is.Arriving || is.Path != path("a fix.tar.gz") {
		t.Errorf("got %+v", is)
	}
	if err := os.Rename(path("a fix.tar.gz"), path("fix.tar.gz")); err != nil {
		t.Fatal(err)
	}
	if is := scanned(t, folder, time.Now()); !is.Arriving || is.Path != path("fix.tar.gz") {
		t.Errorf("renamed: got %+v", is)
	}
	if err := os.Remove(path("fix.tar.gz")); err != nil {
		t.Fatal(err)
	}
	if _, report := folder.update(func(string) {}, time.Now()); len(report) != 1 {
		t.Errorf("nobody is told that it is gone: got %v", report)
	}
	if is := scanned(t, folder, time.Now()); is.Arriving || !is.Written.IsZero() || is.Path != path("first.tar.gz") || !folder.Is(is) {
		t.Errorf("removed: got %+v", is)
	}
	writtenAt("fix.tar.gz", began.Add(2*time.Minute))
	if is := scanned(t, folder, time.Now()); !is.Arriving || is.Path != path("fix.tar.gz") {
		t.Errorf("written again: got %+v", is)
	}
}

// Files in a folder that cannot be read for a while were not written meanwhile.
func TestUploadFolderUnreadable(t *testing.T) {
	parent := t.TempDir()
	dir, aside := filepath.Join(parent, "suboperator"), filepath.Join(parent, "aside")
	write(t, filepath.Join(dir, "demo", "1.0.0", "demo.tar.gz"), nil)
	folder := openFolder(t, dir)
	var warnings int
	folder.Warn = func(error) { warnings++ }
	folder.Changed = func(_ context.Context, name, _ string) {
		if name == "demo" {
			t.Error("demo has not changed")
		}
	}
	before := scanned(t, folder, time.Now())
	if err := os.Rename(dir, aside); err != nil {
		t.Fatal(err)
	}
	write(t, dir, nil) // No directory.
	for range 2 {
		if next := folder.Scan(t.Context(), time.Now(), func(string) {}); next != rereadTime {
			t.Errorf("it is read again after %s", next)
		}
	}
	if warnings != 1 {
		t.Errorf("got %d warnings", warnings)
	}
	write(t, filepath.Join(aside, "other", "1.0.0", "other.tar.gz"), nil)
	if err := errors.Join(os.Remove(dir), os.Rename(aside, dir)); err != nil {
		t.Fatal(err)
	}
	if next := folder.Scan(t.Context(), time.Now(), func(string) {}); next != 0 {
		t.Errorf("it is read again after %s", next)
	}
	if is := scanned(t, folder, time.Now()); is != before {
		t.Errorf("got %+v, want %+v", is, before)
	}
	if is, err := folder.Latest("other", "1.0.0"); err != nil || is.Arriving || !is.Written.IsZero() {
		t.Errorf("got %+v, %v", is, err)
	}
}

// What is known of the folder can be asked while it is read.
func TestUploadFolderIsReadUnlocked(t *testing.T) {
	folder, reads := openFolder(t, t.TempDir()), 0
	folder.update(func(string) {
		if reads++; !folder.mu.TryLock() {
			t.Fatal("it is locked")
		}
		folder.mu.Unlock()
	}, time.Now())
	if reads != 1 {
		t.Errorf("got %d directories", reads)
	}
}

// No number of folders hides one.
func TestUploadFolderMany(t *testing.T) {
	dir := t.TempDir()
	for i := range 1200 {
		write(t, filepath.Join(dir, "demo", fmt.Sprintf("1.0.%d", i), "demo.tar.gz"), nil)
	}
	write(t, filepath.Join(dir, "zebra", "1.0.0", "zebra.tar.gz"), nil)
	folder := openFolder(t, dir)
	if _, err := folder.Latest("zebra", "1.0.0"); err != nil {
		t.Error(err)
	}
}
