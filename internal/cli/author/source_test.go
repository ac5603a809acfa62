package author

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/test/clitest"
)

func TestPathsThatAreNoCollections(t *testing.T) {
	dir := t.TempDir()
	clitest.Write(t, filepath.Join(dir, "text"), "text")
	for _, command := range [][]string{{"build"}, {"render", "--namespace", "zos"}, {"explain"}, {"diff", clitest.FilesCollection}} {
		for path, want := range map[string]string{
			filepath.Join(dir, "absent"): "no such file or directory",
			filepath.Join(dir, "text"):   "text",
			os.DevNull:                   os.DevNull,
		} {
			code, stdout, stderr := tool(t, append(command, path)...)
			if code != kit.ExitFailure || stdout != "" || !strings.HasPrefix(stderr, "error: ") || !strings.Contains(stderr, want) {
				t.Errorf("%s %s: ended with %d, printed %q and %q", command[0], path, code, stdout, stderr)
			}
		}
	}
}

// A galaxy.yml may do for a cluster, but not for an archive.
func TestFoldersThatCannotBeBuilt(t *testing.T) {
	folder := clitest.CopyCollection(t, clitest.FilesCollection)
	clitest.Edit(t, filepath.Join(folder, "galaxy.yml"), "readme: README.md\n", "")
	for _, args := range [][]string{{"build", folder}, {"explain", folder}} {
		code, stdout, stderr := tool(t, args...)
		if code != kit.ExitFindings || stdout != "" || !strings.HasPrefix(stderr, "galaxy.yml:1:1: error ") || !strings.Contains(stderr, "readme") ||
			!strings.Contains(stderr, "no archive can be built") {
			t.Errorf("%q ended with %d, printed %q and %q", args, code, stdout, stderr)
		}
	}
}

// A collection that a cluster refuses is told in the author's lines, and nothing else is done. For diff it is a failure:
// its exit code 1 means differences.
func TestRefusedCollections(t *testing.T) {
	folder := clitest.CopyCollection(t, clitest.FilesCollection)
	clitest.Edit(t, filepath.Join(folder, "operator-config.yml"), "playbook: provision.yml", "playbook: absent.yml")
	for _, test := range []struct {
		args []string
		code int
	}{
		{[]string{"build", folder, "--output", filepath.Join(t.TempDir(), "x.tar.gz")}, kit.ExitFindings},
		{[]string{"render", folder, "--namespace", "zos"}, kit.ExitFindings},
		{[]string{"explain", folder}, kit.ExitFindings},
		{[]string{"diff", folder, clitest.FilesCollection}, kit.ExitFailure},
		{[]string{"diff", clitest.FilesCollection, folder}, kit.ExitFailure},
	} {
		code, stdout, stderr := tool(t, test.args...)
		if code != test.code || stdout != "" {
			t.Errorf("%q ended with %d and printed %q", test.args, code, stdout)
		}
		if want := "operator-config.yml:18:15: error missing-playbook: "; !strings.HasPrefix(stderr, want) {
			t.Errorf("%q printed %q, which does not begin with %q", test.args, stderr, want)
		}
	}
}
