package author

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/test/clitest"
)

// anyDigest of an archive. It may change with the compressor.
var anyDigest = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// upgraded is a version of the files collection with changes of every area.
func upgraded(t *testing.T) string {
	t.Helper()
	folder := clitest.CopyCollection(t, clitest.FilesCollection)
	config := filepath.Join(folder, "operator-config.yml")
	clitest.Edit(t, config, "version: 1.0.0", "version: 1.1.0")
	clitest.Edit(t, config, "          - csv\n", "")
	clitest.Edit(t, config, "        type: number\n        default: 1.5", "        type: string")
	clitest.Edit(t, config, "    finalizer: playbooks/remove_copy.yml\n", "")
	clitest.Edit(t, config, "displayName: File copy", "displayName: Copy of a file")
	clitest.Edit(t, config, "    playbook: playbooks/discover.yml", "    playbook: playbooks/find.yml")
	clitest.Edit(t, config, "verbs: [get, list, watch, create]", "verbs: [get, list]")
	clitest.Edit(t, filepath.Join(folder, "galaxy.yml"), "version: 1.0.0", "version: 1.1.0")
	clitest.Edit(t, filepath.Join(folder, "galaxy.yml"), "dependencies: {}", "dependencies: {ibm.ibm_zos_core: '>=1.9.0'}")
	clitest.Write(t, filepath.Join(folder, "playbooks/find.yml"), "- {hosts: all, tasks: []}\n")
	clitest.Write(t, filepath.Join(folder, "roles/datafile/tasks/new.yml"), "[]\n")
	return folder
}

func TestDiffPrintsWhatAnUpgradeChanges(t *testing.T) {
	folder := upgraded(t)
	clitest.Golden(t, "diff.golden.txt", mustRun(t, kit.ExitFindings, "diff", clitest.FilesCollection, folder))
	printed := mustRun(t, kit.ExitFindings, "diff", clitest.FilesCollection, folder, "--output", "json")
	if digests := anyDigest.FindAllString(printed, -1); len(digests) != 2 || digests[0] == digests[1] {
		t.Errorf("the digests are %q", digests)
	}
	clitest.Golden(t, "diff.golden.json", anyDigest.ReplaceAllString(printed, "sha256:..."))
}

func TestDiffOfTheSame(t *testing.T) {
	if got := mustRun(t, kit.ExitClean, "diff", clitest.FilesCollection, clitest.CopyCollection(t, clitest.FilesCollection)); got != "No differences.\n" {
		t.Errorf("printed %q", got)
	}
	got := mustRun(t, kit.ExitClean, "diff", clitest.FilesCollection, clitest.FilesCollection, "--output", "json")
	if !strings.Contains(got, `"changes": []`) || !strings.Contains(got, `"breaking": 0`) {
		t.Errorf("printed %s", got)
	}
	if code, _, stderr := tool(t, "diff", clitest.FilesCollection, clitest.FilesCollection, "--output", "xml"); code != kit.ExitFailure || !strings.Contains(stderr, "--output") {
		t.Errorf("ended with %d: %s", code, stderr)
	}
}
