package author

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/author/lint"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/test/clitest"
)

// misspelt is a folder with a key that has one right spelling, in a file that its author keeps to himself.
func misspelt(t *testing.T) (folder, config string) {
	t.Helper()
	folder = clitest.CopyCollection(t, clitest.FilesCollection)
	config = filepath.Join(folder, "operator-config.yml")
	clitest.Edit(t, config, "    finalizer:", "    finaliser:")
	if err := os.Chmod(config, 0o600); err != nil {
		t.Fatal(err)
	}
	return folder, config
}

const fixedKey = "\n-    finaliser:"

func TestLintFix(t *testing.T) {
	folder, config := misspelt(t)
	before, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, stdout, stderr := tool(t, "lint", folder); !strings.Contains(stdout, "did you mean finalizer?") || !strings.Contains(stderr, " that --fix may correct") {
		t.Errorf("without --fix it printed %q and %q", stdout, stderr)
	}

	_, stdout, stderr := tool(t, "lint", folder, "--fix", "--dry-run")
	if !strings.Contains(stdout, fixedKey) || !strings.HasPrefix(stderr, "1 file would be corrected\n") {
		t.Errorf("--dry-run printed %q and %q", stdout, stderr)
	}
	if after, err := os.ReadFile(config); err != nil || !bytes.Equal(before, after) {
		t.Errorf("--dry-run changed the file: %v", err)
	}

	_, stdout, stderr = tool(t, "lint", folder, "--fix")
	if !strings.HasPrefix(stdout, "--- a/operator-config.yml\n+++ b/operator-config.yml\n@@ -") || !strings.Contains(stdout, fixedKey) ||
		strings.Contains(stdout, "did you mean") || !strings.HasPrefix(stderr, "1 file corrected\n") {
		t.Errorf("printed %q and %q", stdout, stderr)
	}
	after, err := os.ReadFile(config)
	if diff := cmp.Diff(strings.ReplaceAll(string(before), "finaliser:", "finalizer:"), string(after)); err != nil || diff != "" {
		t.Errorf("(-want +got): %v\n%s", err, diff)
	}
	if info, err := os.Stat(config); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v, %v", info.Mode(), err)
	}

	if _, stdout, stderr := tool(t, "lint", folder, "--fix"); strings.Contains(stdout, "---") || !strings.HasPrefix(stderr, "0 files corrected\n") {
		t.Errorf("a second time it printed %q and %q", stdout, stderr)
	}
}

func TestLintFixWantsAFolder(t *testing.T) {
	folder, _ := misspelt(t)
	archive := filepath.Join(folder, "galaxy.yml")
	for _, tt := range []struct {
		args   []string
		output string
	}{
		{[]string{archive, "--fix"}, "--fix is for folders"},
		{[]string{"https://user:secret@example.com/a.tar.gz", "--fix"}, "--fix is for folders"},
		{[]string{folder, "--fix", "--digest", "sha256:00"}, "--digest is for archives"},
		{[]string{folder, "--dry-run"}, "--dry-run is for --fix"},
		{[]string{folder, "--fix", "-o", "json"}, "--fix prints a diff"},
	} {
		if code, stdout, stderr := tool(t, append([]string{"lint"}, tt.args...)...); code != kit.ExitFailure || stdout != "" || !strings.Contains(stderr, tt.output) {
			t.Errorf("%q ended with %d and printed %q and %q", tt.args, code, stdout, stderr)
		}
	}
}

// A file that somebody changed meanwhile stays as it is.
func TestFixOverwritesNobody(t *testing.T) {
	dir := t.TempDir()
	clitest.Write(t, filepath.Join(dir, "a.yml"), "mine\n")
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := writeFixed(root, lint.Fixed{File: "a.yml", Old: []byte("old\n"), New: []byte("new\n")}); err == nil || !strings.Contains(err.Error(), "try again") {
		t.Errorf("got %v", err)
	}
	if content, err := root.ReadFile("a.yml"); err != nil || string(content) != "mine\n" {
		t.Errorf("the file holds %q, %v", content, err)
	}
	clitest.Write(t, filepath.Join(dir, "0.yml"), "old\n")
	both := []lint.Fixed{{File: "0.yml", Old: []byte("old\n"), New: []byte("new\n")}, {File: "a.yml", Old: []byte("old\n"), New: []byte("new\n")}}
	if written, err := writeAll(root, both); written != 0 || err == nil || !strings.Contains(err.Error(), "a.yml was changed meanwhile") {
		t.Errorf("wrote %d files, %v", written, err)
	}
	if content, err := root.ReadFile("0.yml"); err != nil || string(content) != "old\n" {
		t.Errorf("the other file holds %q, %v", content, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
}

func TestPrintDiff(t *testing.T) {
	number := func(changed ...string) []byte {
		lines := strings.Split("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20", " ")
		for _, line := range changed {
			lines[len(line)-1] = "\x1b" + lines[len(line)-1]
		}
		return []byte(strings.Join(lines, "\r\n"))
	}
	var b bytes.Buffer
	nth := func(n int) string { return strings.Repeat("x", n) }
	if err := printDiff(&b, lint.Fixed{File: "a\x1b.yml", Old: number(), New: number(nth(2), nth(5), nth(20))}); err != nil {
		t.Fatal(err)
	}
	want := "--- a/a\\x1b.yml\n+++ b/a\\x1b.yml\n@@ -1,8 +1,8 @@\n 1\n-2\n+\\x1b2\n 3\n 4\n-5\n+\\x1b5\n 6\n 7\n 8\n" +
		"@@ -17,4 +17,4 @@\n 17\n 18\n 19\n-20\n\\ No newline at end of file\n+\\x1b20\n\\ No newline at end of file\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
