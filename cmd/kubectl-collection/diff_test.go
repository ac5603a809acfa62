package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// anyDigest of an archive. It may change with the compressor.
var anyDigest = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// upgraded is a version of the files collection with changes of every area.
func upgraded(t *testing.T) string {
	t.Helper()
	folder := copyCollection(t, filesCollection)
	config := filepath.Join(folder, "operator-config.yml")
	edit(t, config, "version: 1.0.0", "version: 1.1.0")
	edit(t, config, "          - csv\n", "")
	edit(t, config, "        type: number\n        default: 1.5", "        type: string")
	edit(t, config, "    finalizer: playbooks/remove_copy.yml\n", "")
	edit(t, config, "displayName: File copy", "displayName: Copy of a file")
	edit(t, config, "    playbook: playbooks/discover.yml", "    playbook: playbooks/find.yml")
	edit(t, config, "verbs: [get, list, watch, create]", "verbs: [get, list]")
	edit(t, filepath.Join(folder, "galaxy.yml"), "version: 1.0.0", "version: 1.1.0")
	edit(t, filepath.Join(folder, "galaxy.yml"), "dependencies: {}", "dependencies: {ibm.ibm_zos_core: '>=1.9.0'}")
	write(t, filepath.Join(folder, "playbooks/find.yml"), "- {hosts: all, tasks: []}\n")
	write(t, filepath.Join(folder, "roles/datafile/tasks/new.yml"), "[]\n")
	return folder
}

func TestDiffPrintsWhatAnUpgradeChanges(t *testing.T) {
	folder := upgraded(t)
	expectGolden(t, "diff.golden.txt", mustRun(t, exitFindings, "diff", filesCollection, folder))
	printed := mustRun(t, exitFindings, "diff", filesCollection, folder, "--output", "json")
	if digests := anyDigest.FindAllString(printed, -1); len(digests) != 2 || digests[0] == digests[1] {
		t.Errorf("the digests are %q", digests)
	}
	expectGolden(t, "diff.golden.json", anyDigest.ReplaceAllString(printed, "sha256:..."))
}

func TestDiffOfTheSame(t *testing.T) {
	if got := mustRun(t, exitClean, "diff", filesCollection, copyCollection(t, filesCollection)); got != "No differences.\n" {
		t.Errorf("printed %q", got)
	}
	got := mustRun(t, exitClean, "diff", filesCollection, filesCollection, "--output", "json")
	if !strings.Contains(got, `"changes": []`) || !strings.Contains(got, `"breaking": 0`) {
		t.Errorf("printed %s", got)
	}
	if code, _, stderr := tool(t, "diff", filesCollection, filesCollection, "--output", "xml"); code != exitFailure || !strings.Contains(stderr, "--output") {
		t.Errorf("ended with %d: %s", code, stderr)
	}
}
