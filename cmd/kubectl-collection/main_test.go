package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestMain(m *testing.M) {
	asGate() // The tests are the tool.
	os.Exit(m.Run())
}

const filesCollection = "../../test/collections/files"

// tool runs the tool and returns what it printed.
func tool(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(rootCommand(allCommands()...), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// mustRun fails the test unless the tool ends with the code.
func mustRun(t *testing.T, code int, args ...string) string {
	t.Helper()
	got, stdout, stderr := tool(t, args...)
	if got != code {
		t.Fatalf("%q ended with %d instead of %d\n%s%s", args, got, code, stdout, stderr)
	}
	return stdout
}

// copyCollection makes a copy of a collection's folder, which is the test's own.
func copyCollection(t *testing.T, folder string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), filepath.Base(folder))
	if err := os.CopyFS(dir, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// edit replaces text in a file, which must be there.
func edit(t *testing.T, file, old, replacement string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), old) {
		t.Fatalf("%s does not hold %q", file, old)
	}
	write(t, file, strings.Replace(string(content), old, replacement, 1))
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// expectGolden compares text with a file below testdata.
func expectGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		write(t, file, got)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", file, diff)
	}
}

// The guide tells of every command, and of the archive that the collection it begins with really gives.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile("../../docs/kubectl-collection.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, command := range allCommands() {
		if seen[command.Name()] {
			t.Errorf("there are two commands %q", command.Name())
		}
		seen[command.Name()] = true
		if want := "kubectl collection " + command.Name(); !strings.Contains(string(guide), want) {
			t.Errorf("docs/kubectl-collection.md does not say what %q does", want)
		}
	}
	dir := t.TempDir()
	folder := filepath.Join(dir, "zos_users")
	mustRun(t, exitClean, "init", folder, "--domain", "acme", "--kind", "ZosUser")
	built := filepath.Base(mustRun(t, exitClean, "build", folder, "--output", dir))
	if !strings.Contains(string(guide), "\n"+built) {
		t.Errorf("docs/kubectl-collection.md does not show what build prints: %s", built)
	}
}

// Somebody who gives too much or too little learns what the command takes.
func TestArguments(t *testing.T) {
	for _, command := range allCommands() {
		if _, arguments, _ := strings.Cut(command.Use, " "); arguments == "" || strings.HasPrefix(arguments, "[") {
			continue
		}
		code, _, stderr := tool(t, command.Name())
		if want := ", not 0: kubectl collection " + command.Use; code != exitFailure || !strings.Contains(stderr, want) {
			t.Errorf("%s without arguments: %d, %q; want %q", command.Name(), code, stderr, want)
		}
	}
}
