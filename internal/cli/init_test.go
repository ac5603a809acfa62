package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/author/localrun"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/test/ansible"
	"github.com/collection-operator/collection-operator/test/clitest"
)

// The playbook does what the scaffold says of it, and changes nothing the second time.
func TestInitRuns(t *testing.T) {
	needRuns(t)
	folder, home := filepath.Join(t.TempDir(), "things"), t.TempDir()
	mustRun(t, kit.ExitClean, "init", folder)
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
		if got := clitest.ReadTree(t, home)["hello.txt"]; got != step.content {
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
	mustRun(t, kit.ExitClean, "init", folder)
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct{ Run string }
		}
	}
	if err := yaml.Unmarshal([]byte(clitest.ReadTree(t, folder)[".github/workflows/collection.yaml"]), &workflow); err != nil {
		t.Fatal(err)
	}
	t.Chdir(folder)
	var did []string
	for _, step := range workflow.Jobs["test"].Steps {
		words := strings.Fields(strings.ReplaceAll(step.Run, "${{ runner.temp }}", runner))
		if len(words) == 0 || words[0] != kit.ToolName {
			continue
		}
		did = append(did, words[1])
		stdout := mustRun(t, kit.ExitClean, words[1:]...)
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
