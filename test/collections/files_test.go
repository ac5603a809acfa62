package collections

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/author/galaxy"
	"github.com/collection-operator/collection-operator/internal/author/lint"
	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// The folder and the archive made of it are the same collection, and nothing in it deserves a warning. That the
// endpoints have to say where files lie is a hint.
func TestFilesCollection(t *testing.T) {
	folder := os.DirFS("files")
	var built bytes.Buffer
	if err := galaxy.Build(folder, &built); err != nil {
		t.Fatal(err)
	}
	unpacked, err := archive.Read(&built, archive.DefaultLimits, lint.NewKeep())
	if err != nil {
		t.Fatal(err)
	}
	for name, fsys := range map[string]fs.FS{"folder": folder, "archive": unpacked} {
		t.Run(name, func(t *testing.T) { checkFilesCollection(t, fsys) })
	}
}

func checkFilesCollection(t *testing.T, fsys fs.FS) {
	c, _, err := lint.Check(fsys)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"operator-config.yml:45: optional-object: the",
		"operator-config.yml:55: extension: integer",
		"playbooks/copy.yml:27: undeclared-var: zos_files_base",
		"playbooks/discover.yml:8: undeclared-var: zos_files_base",
		"roles/datafile/tasks/main.yml:3: undeclared-var: zos_files_base",
	}
	var got []string
	for _, p := range c.Problems {
		subject, _, _ := strings.Cut(p.Message, " ")
		got = append(got, fmt.Sprintf("%s:%d: %s: %s", p.File, p.Line, p.Rule, subject))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	var kinds []string
	for _, resource := range c.Resources {
		kinds = append(kinds, resource.Kind)
	}
	if diff := cmp.Diff([]string{"DataFile", "FileCopy", "FileDiscovery"}, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}

// Nothing in the collection of the specs about runs deserves a finding, but what other brokers may not know.
func TestRunsCollection(t *testing.T) {
	c, _, err := lint.Check(os.DirFS("runs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Problems {
		if p.Rule != "extension" {
			t.Error(p)
		}
	}
}
