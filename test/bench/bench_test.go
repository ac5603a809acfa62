package main

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"testing"

	"github.com/collection-operator/collection-operator/internal/author/galaxy"
	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// What is measured is the same each time, holds as many files as the table says, and becomes objects.
func TestShapes(t *testing.T) {
	small := shape{name: "test", files: 50, wheels: 3, textBytes: 100 << 10, wheelBytes: 30 << 10}
	path, _, err := small.build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := galaxy.Build(small.folder(), &again); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(content, again.Bytes()) {
		t.Error("two archives of one shape differ")
	}
	files := 0
	err = archive.Walk(bytes.NewReader(content), archive.Limits{}, func(_ string, mode fs.FileMode, _ int64, _ io.Reader) error {
		if mode.IsRegular() {
			files++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files != small.files {
		t.Errorf("the archive holds %d files, want %d", files, small.files)
	}
	if objects, err := manifests(path); err != nil || objects < 5 {
		t.Errorf("got %d objects, %v", objects, err)
	}
	if memory, err := peakMemory(); err != nil || memory < 1<<20 {
		t.Errorf("got a peak of %d bytes, %v", memory, err)
	}
}
