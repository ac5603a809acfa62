package author

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/test/ansible"
	"github.com/collection-operator/collection-operator/test/clitest"
)

func TestBuildNamesTheArchiveAndItsDigest(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "example-zos_files-1.0.0.tar.gz")
	for _, test := range []struct{ output, want string }{
		{dir, file},
		{filepath.Join(dir, "other.tar.gz"), filepath.Join(dir, "other.tar.gz")},
	} {
		printed := mustRun(t, kit.ExitClean, "build", clitest.FilesCollection, "--output", test.output)
		content, err := os.ReadFile(test.want)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%s sha256:%x\n", test.want, sha256.Sum256(content)); printed != want {
			t.Errorf("printed %q, want %q", printed, want)
		}
		if info, err := os.Stat(test.want); err != nil || info.Mode() != 0o644 {
			t.Errorf("%s has mode %v, %v", test.want, info.Mode(), err)
		}
	}
	folder := clitest.CopyCollection(t, clitest.FilesCollection)
	t.Chdir(t.TempDir())
	if got := mustRun(t, kit.ExitClean, "build", folder); !strings.HasPrefix(got, "example-zos_files-1.0.0.tar.gz sha256:") {
		t.Errorf("printed %q", got)
	}
}

func TestBuildOverwritesOnlyWithForce(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "example-zos_files-1.0.0.tar.gz")
	clitest.Write(t, file, "mine")
	code, _, stderr := tool(t, "build", clitest.FilesCollection, "--output", dir)
	content, err := os.ReadFile(file)
	if code != kit.ExitFailure || err != nil || string(content) != "mine" || !strings.Contains(stderr, "--force") {
		t.Errorf("ended with %d, %v, the file says %q: %s", code, err, content, stderr)
	}
	mustRun(t, kit.ExitClean, "build", clitest.FilesCollection, "--output", dir, "--force")
	mustRun(t, kit.ExitClean, "explain", file)

	link := filepath.Join(dir, "link.tar.gz")
	if err := os.Symlink("elsewhere", link); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := tool(t, "build", clitest.FilesCollection, "--output", link, "--force"); code != kit.ExitFailure || !strings.Contains(stderr, "is not a file") {
		t.Errorf("a link was replaced: %d %s", code, stderr)
	}
	if names := namesIn(t, dir); !cmp.Equal(names, []string{filepath.Base(file), "link.tar.gz"}) {
		t.Errorf("the folder holds %q", names)
	}
}

// An archive in its own folder, or what an interrupted build left there, is not part of the next one.
func TestBuildInTheCollectionsFolder(t *testing.T) {
	folder := clitest.CopyCollection(t, clitest.FilesCollection)
	t.Chdir(folder)
	first := mustRun(t, kit.ExitClean, "build", ".")
	clitest.Write(t, "example-zos_files-123.tar.gz", "half an archive")
	if second := mustRun(t, kit.ExitClean, "build", ".", "--force"); first != second {
		t.Errorf("printed %q, then %q", first, second)
	}
}

// build_ignore can leave out what the operator-config names.
func TestBuildChecksTheArchive(t *testing.T) {
	folder, dir := clitest.CopyCollection(t, clitest.FilesCollection), t.TempDir()
	clitest.Edit(t, filepath.Join(folder, "galaxy.yml"), "build_ignore:", "build_ignore:\n  - playbooks/copy.yml")
	code, _, stderr := tool(t, "build", folder, "--output", dir)
	if code != kit.ExitFindings || !strings.Contains(stderr, "missing-playbook") || len(namesIn(t, dir)) > 0 {
		t.Errorf("ended with %d, wrote %q: %s", code, namesIn(t, dir), stderr)
	}
}

func TestBuildStaysInTheFolder(t *testing.T) {
	folder, dir := clitest.CopyCollection(t, clitest.FilesCollection), t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "secret"), filepath.Join(folder, "out")); err != nil {
		t.Fatal(err)
	}
	clitest.Write(t, filepath.Join(dir, "secret"), "secret")
	code, _, stderr := tool(t, "build", folder, "--output", filepath.Join(dir, "x.tar.gz"))
	if code != kit.ExitFindings || !strings.Contains(stderr, "out:1:1: error archive: is a link that leads out of the folder") {
		t.Errorf("ended with %d: %s", code, stderr)
	}
	for _, link := range []string{"out", "provision.yml"} {
		file := filepath.Join(folder, link)
		if err := os.RemoveAll(filepath.Join(folder, "out")); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.RemoveAll(file), os.Symlink("../../secret", file)); err != nil {
			t.Fatal(err)
		}
		findings := mustRun(t, kit.ExitFindings, "lint", folder)
		if want := link + ":1:1: error archive: is a link that leads out of the folder"; !strings.Contains(findings, want) {
			t.Errorf("lint prints %q, want %q", findings, want)
		}
	}
	if names := namesIn(t, dir); !cmp.Equal(names, []string{"secret"}) {
		t.Errorf("the folder holds %q", names)
	}
}

// ansibleGalaxy runs ansible-galaxy collection, which sees no settings or collections but the test's.
func ansibleGalaxy(t *testing.T, home string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "ansible-galaxy", append([]string{"collection"}, args...)...)
	command.Dir = home
	command.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LC_ALL=C.UTF-8", "ANSIBLE_NOCOLOR=1", "ANSIBLE_COLLECTIONS_PATH=" + home,
	}
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("ansible-galaxy %q: %v\n%s", args, err, output)
	}
	return string(output)
}

func TestAnsibleTakesArchives(t *testing.T) {
	ansible.Need(t, "ansible-galaxy")
	for _, folder := range []string{clitest.FilesCollection, "../../../test/collections/habits/queues", "../../../test/collections/habits/regions", withHabits(t)} {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			home := t.TempDir()
			file, _, _ := strings.Cut(mustRun(t, kit.ExitClean, "build", folder, "--output", home), " ")
			ansibleGalaxy(t, home, "install", file, "--offline", "--no-deps", "--collections-path", home)
			var manifest struct {
				Info struct{ Namespace, Name string } `json:"collection_info"`
			}
			decode(t, unpack(t, file)["MANIFEST.json"], &manifest)
			name := manifest.Info.Namespace + "." + manifest.Info.Name
			verified := ansibleGalaxy(t, home, "verify", name, "--offline", "--collections-path", home)
			if want := "Successfully verified that checksums for '" + name; !strings.Contains(verified, want) {
				t.Errorf("verify printed:\n%s", verified)
			}
		})
	}
}

// FILES.json lists the same, in another order, and MANIFEST.json says the same but for the checksum of that file. Both
// tools read each other's archives.
func TestBuildIsThatOfAnsible(t *testing.T) {
	ansible.Need(t, "ansible-galaxy")
	for _, folder := range []string{clitest.FilesCollection, "../../../test/collections/habits/queues", "../../../test/collections/habits/regions", withHabits(t)} {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			home := t.TempDir()
			copied := clitest.CopyCollection(t, folder)
			ours, _, _ := strings.Cut(mustRun(t, kit.ExitClean, "build", copied, "--output", home), " ")
			theirs := filepath.Join(home, "theirs")
			ansibleGalaxy(t, home, "build", copied, "--output-path", theirs)
			theirs = filepath.Join(theirs, filepath.Base(ours))

			ourFiles, theirFiles := unpack(t, ours), unpack(t, theirs)
			if diff := cmp.Diff(entries(t, theirFiles), entries(t, ourFiles)); diff != "" {
				t.Errorf("FILES.json differs (-ansible +ours):\n%s", diff)
			}
			if diff := cmp.Diff(manifestOf(t, theirFiles), manifestOf(t, ourFiles)); diff != "" {
				t.Errorf("MANIFEST.json differs (-ansible +ours):\n%s", diff)
			}
			if got := mustRun(t, kit.ExitClean, "diff", theirs, ours); got != "No differences.\n" {
				t.Errorf("diff printed:\n%s", got)
			}
			mustRun(t, kit.ExitClean, "render", theirs, "--namespace", "zos")
		})
	}
}

// withHabits is a collection with what makes building hard.
func withHabits(t *testing.T) string {
	t.Helper()
	folder := clitest.CopyCollection(t, clitest.FilesCollection)
	clitest.Edit(t, filepath.Join(folder, "galaxy.yml"), "build_ignore:", "build_ignore:\n  - '*.log'\n  - docs/[!a]*\n  - secret")
	for _, name := range []string{
		"a.log", "docs/api.md", "docs/internal/x.md", "secret/key", "secretive", "roles/x/b.pyc", "c.retry", "sub/.git/config",
		"lib/__pycache__/x", "tests/output/x", "tests/unit/x", ".github/x", "käse & brot/<x>.txt", ".hidden", "dist/old-1.0.0.zip",
	} {
		clitest.Write(t, filepath.Join(folder, name), "content of "+name)
	}
	clitest.Write(t, filepath.Join(folder, "run.sh"), "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(folder, "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("run.sh", filepath.Join(folder, "link.sh")); err != nil {
		t.Fatal(err)
	}
	return folder
}

// entries are what FILES.json lists, by name.
func entries(t *testing.T, files map[string][]byte) map[string]any {
	t.Helper()
	var list struct{ Files []map[string]any }
	decode(t, files["FILES.json"], &list)
	byName := map[string]any{}
	for _, entry := range list.Files {
		byName[entry["name"].(string)] = entry
	}
	if len(byName) != len(list.Files) {
		t.Error("FILES.json lists a name twice")
	}
	return byName
}

func manifestOf(t *testing.T, files map[string][]byte) map[string]any {
	t.Helper()
	manifest := map[string]any{}
	decode(t, files["MANIFEST.json"], &manifest)
	list := manifest["file_manifest_file"].(map[string]any)
	if want := fmt.Sprintf("%x", sha256.Sum256(files["FILES.json"])); list["chksum_sha256"] != want {
		t.Errorf("the checksum of FILES.json is %v, want %s", list["chksum_sha256"], want)
	}
	delete(list, "chksum_sha256")
	return manifest
}

func decode(t *testing.T, content []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(content, into); err != nil {
		t.Fatal(err)
	}
}

// unpack returns the files of an archive by name.
func unpack(t *testing.T, file string) map[string][]byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
