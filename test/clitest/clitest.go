// Package clitest runs commands of kubectl-collection in tests.
package clitest

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
)

var update = flag.Bool("update", false, "rewrite golden files")

// FilesCollection is the folder of a collection, for packages in internal/cli.
const FilesCollection = "../../../test/collections/files"

// Run runs the tool with some of its commands and returns what it printed.
func Run(t *testing.T, commands []*cobra.Command, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = kit.Run(kit.Root(commands...), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// MustRun fails the test unless the tool ends with the code.
func MustRun(t *testing.T, commands []*cobra.Command, code int, args ...string) string {
	t.Helper()
	got, stdout, stderr := Run(t, commands, args...)
	if got != code {
		t.Fatalf("%q ended with %d instead of %d\n%s%s", args, got, code, stdout, stderr)
	}
	return stdout
}

// CopyCollection makes a copy of a collection's folder, which is the test's own.
func CopyCollection(t *testing.T, folder string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), filepath.Base(folder))
	if err := os.CopyFS(dir, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Edit replaces text in a file, which must be there.
func Edit(t *testing.T, file, old, replacement string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), old) {
		t.Fatalf("%s does not hold %q", file, old)
	}
	Write(t, file, strings.Replace(string(content), old, replacement, 1))
}

// Write writes a file, and makes its folder.
func Write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Golden compares text with a file below testdata.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		Write(t, file, got)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", file, diff)
	}
}

// ReadTree returns the files below a folder by path.
func ReadTree(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(folder, name))
		files[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Names are those of all that a folder holds.
func Names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	return found
}
