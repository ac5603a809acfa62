package collections

import (
	"bytes"
	"io/fs"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/archive"
	"github.com/collection-operator/collection-operator/internal/collection"
)

// The folder and the archive made of it are the same collection, and nothing in it deserves a warning.
func TestFilesCollection(t *testing.T) {
	folder := os.DirFS("files")
	var built bytes.Buffer
	if err := collection.Build(folder, &built); err != nil {
		t.Fatal(err)
	}
	everything := func(string, int64) bool { return true }
	unpacked, err := archive.Read(&built, archive.DefaultLimits, everything)
	if err != nil {
		t.Fatal(err)
	}
	for name, fsys := range map[string]fs.FS{"folder": folder, "archive": unpacked} {
		t.Run(name, func(t *testing.T) { checkFilesCollection(t, fsys) })
	}
}

func checkFilesCollection(t *testing.T, fsys fs.FS) {
	c, err := collection.Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	if findings := c.Problems.Findings(); len(findings) > 0 {
		t.Errorf("problems:\n%v", findings)
	}
	var kinds []string
	for _, resource := range c.Resources {
		kinds = append(kinds, resource.Kind)
	}
	if diff := cmp.Diff([]string{"DataFile", "FileCopy", "FileDiscovery"}, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}
