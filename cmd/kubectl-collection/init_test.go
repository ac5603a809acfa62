package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/author/localrun"
	"github.com/collection-operator/collection-operator/test/ansible"
)

// readTree returns the files below a folder by path.
func readTree(t *testing.T, folder string) map[string]string {
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

func TestInitPassesItsOwnLint(t *testing.T) {
	for _, tt := range []struct {
		folder string
		flags  []string
	}{
		{"zos_users", nil},
		{"zos-users", []string{"--domain", "acme-bank", "--kind", "ZosUser"}},
		{"x", []string{"--name", "a1", "--display-name", `Users: "of" {{ z/OS }} # \ é`}},
		{"nested/deeper", []string{"--domain", "abcdefghijklmnopqrst", "--name", "abcdefghijklmnopqrst", "--kind", "A" + strings.Repeat("b", 58)}},
	} {
		folder := filepath.Join(t.TempDir(), tt.folder)
		mustRun(t, exitClean, append([]string{"init", folder}, tt.flags...)...)
		code, stdout, stderr := tool(t, "lint", folder)
		if code != exitClean || stdout != "" || stderr != "0 errors, 0 warnings, 0 hints: a cluster would accept this collection\n" {
			t.Errorf("%s: lint ended with %d and printed\n%s%s", tt.folder, code, stdout, stderr)
		}
	}
}

func TestInitWritesTheScaffold(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "zos_users")
	stdout := mustRun(t, exitClean, "init", folder, "--kind", "ZosUser")
	got := strings.ReplaceAll(stdout, folder, "DIR")
	files := readTree(t, folder)
	for _, name := range []string{
		".github/workflows/collection.yaml", ".gitignore", "README.md", "extensions/collection-operator/hello.yaml", "galaxy.yml", "meta/runtime.yml",
		"operator-config.yml", "playbooks/zos_user.yml",
	} {
		got += "\n==== " + name + "\n" + files[name]
		delete(files, name)
	}
	if len(files) > 0 {
		t.Errorf("more files: %q", files)
	}
	expectGolden(t, "init.golden.txt", got)
}

// The digest in the tutorial is that of the archive which its readers build.
func TestTutorialShowsTheScaffold(t *testing.T) {
	tutorial, err := os.ReadFile("../../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, command := range []string{"init zos_files --domain acme --kind ZosFile", "build zos_files"} {
		want := "$ kubectl collection " + command + "\n" + mustRun(t, exitClean, strings.Fields(command)...)
		if !strings.Contains(string(tutorial), want) {
			t.Errorf("docs/tutorial.md does not show\n%s", want)
		}
	}
}

// The playbook does what the scaffold says of it, and changes nothing the second time.
func TestInitRuns(t *testing.T) {
	needRuns(t)
	folder, home := filepath.Join(t.TempDir(), "things"), t.TempDir()
	mustRun(t, exitClean, "init", folder)
	playbook := func(event string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), "ansible-playbook", "-i", "localhost,", "-c", "local", "playbooks/things.yml",
			"-e", "filename=hello.txt", "-e", "content=Hello", "-e", "directory="+home, "-e", "k8s_cr_event="+event)
		command.Dir = folder
		command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LC_ALL=C.UTF-8", "ANSIBLE_NOCOLOR=1"}
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", event, err, output)
		}
		return string(output)
	}
	for _, step := range []struct{ event, changed, content string }{
		{"create", "changed=1", "Hello\n"}, {"create", "changed=0", "Hello\n"}, {"delete", "changed=1", ""}, {"delete", "changed=0", ""},
	} {
		if output := playbook(step.event); !strings.Contains(output, step.changed) {
			t.Errorf("%s: not %s:\n%s", step.event, step.changed, output)
		}
		if got := readTree(t, home)["hello.txt"]; got != step.content {
			t.Errorf("after %s the file says %q, want %q", step.event, got, step.content)
		}
	}
}

// needRuns skips the test if a program for runs is missing.
func needRuns(t *testing.T) {
	t.Helper()
	ansible.Need(t)
	if err := localrun.Requirements(); err != nil {
		ansible.Skip(t, err.Error())
	}
}

// The commands of the workflow pass, in its order, in the folder that init has written.
func TestInitPassesItsOwnWorkflow(t *testing.T) {
	needRuns(t)
	name := fmt.Sprintf("users%d", os.Getpid()) // The scenario's file is named after it, and others may test on this machine, too.
	folder, runner := filepath.Join(t.TempDir(), name), t.TempDir()
	mustRun(t, exitClean, "init", folder)
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct{ Run string }
		}
	}
	if err := yaml.Unmarshal([]byte(readTree(t, folder)[".github/workflows/collection.yaml"]), &workflow); err != nil {
		t.Fatal(err)
	}
	t.Chdir(folder)
	var did []string
	for _, step := range workflow.Jobs["test"].Steps {
		words := strings.Fields(strings.ReplaceAll(step.Run, "${{ runner.temp }}", runner))
		if len(words) == 0 || words[0] != toolName {
			continue
		}
		did = append(did, words[1])
		stdout := mustRun(t, exitClean, words[1:]...)
		if words[1] == "test" && !strings.HasSuffix(stdout, "\n1 scenario, 4 steps: all as expected\n") {
			t.Errorf("test printed\n%s", stdout)
		}
	}
	if diff := cmp.Diff([]string{"lint", "build", "test"}, did); diff != "" {
		t.Error(diff)
	}
	report, err := os.ReadFile(filepath.Join(runner, "report.xml"))
	if err != nil || !strings.Contains(string(report), `<testsuites tests="5" failures="0" errors="0"`) {
		t.Errorf("the report is %s, %v", report, err)
	}
	if _, err := os.Stat("/tmp/example-" + name + "-hello.txt"); err == nil {
		t.Error("the scenario has left its file")
	}
}

func TestInitOverwritesNothing(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "galaxy.yml"), "mine")
	write(t, filepath.Join(folder, "meta/runtime.yml"), "mine")
	before := readTree(t, folder)
	code, stdout, stderr := tool(t, "init", folder, "--name", "things")
	want := "error: " + folder + " already has galaxy.yml, meta/runtime.yml: nothing was written; move them away or choose another folder\n"
	if code != exitFailure || stdout != "" || stderr != want {
		t.Errorf("ended with %d and printed %q and %q", code, stdout, stderr)
	}
	if diff := cmp.Diff(before, readTree(t, folder)); diff != "" {
		t.Errorf("the folder changed (-before +after):\n%s", diff)
	}
}

func TestInitRefusesNames(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"Users 2"}, "the folder's name \"users 2\" cannot be the name of a collection: give one with --name"},
		{[]string{"x", "--name", "1st"}, `--name "1st": use lower-case letters`},
		{[]string{"x", "--domain", "Acme.Corp"}, `--domain "Acme.Corp": use lower-case letters`},
		{[]string{"x", "--kind", "thing"}, `--kind "thing": use Pascal case`},
		{[]string{"x", "--kind", "A" + strings.Repeat("b", 59)}, "at most 59 letters and digits"},
		{[]string{"x", "--name", strings.Repeat("a", 40)}, "are together longer than 40 characters"},
	} {
		folder := filepath.Join(t.TempDir(), tt.args[0])
		code, _, stderr := tool(t, append([]string{"init", folder}, tt.args[1:]...)...)
		if code != exitFailure || !strings.Contains(stderr, tt.want) {
			t.Errorf("%q ended with %d and printed %q, want %q", tt.args, code, stderr, tt.want)
		}
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("%q made the folder", tt.args)
		}
	}
}
