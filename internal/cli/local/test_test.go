package local

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/test/clitest"
)

func TestTestReportsEveryScenarioThatIsWrong(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "users")
	mustRun(t, kit.ExitClean, "init", folder)
	clitest.Edit(t, filepath.Join(folder, "extensions/collection-operator/hello.yaml"), "kind: Users", "kind: User")
	clitest.Edit(t, filepath.Join(folder, "extensions/collection-operator/hello.yaml"), "expect:", "checks: yes\nexpect:")
	clitest.Write(t, filepath.Join(folder, "extensions/collection-operator/other.yaml"), "expect: {outcome: Good}\n")
	code, stdout, stderr := tool(t, "test", folder, "--local")
	want := `extensions/collection-operator/hello.yaml:5:9: error scenario: resource.kind: the collection has no kind "User": it has Users
extensions/collection-operator/hello.yaml:12:9: error scenario: checks: unknown key; did you mean check?
extensions/collection-operator/other.yaml:1:1: error scenario: resource: is required: the custom resource to run
extensions/collection-operator/other.yaml:1:19: error scenario: expect.outcome: "Good" is not an outcome: use Succeeded, Requeued or Failed
error: no scenario was run: correct them first
`
	if code != kit.ExitFailure || stdout != "" || stderr != want {
		t.Errorf("ended with %d and printed %q and\n%s", code, stdout, stderr)
	}
	code, lint, _ := tool(t, "lint", folder)
	if code != kit.ExitFindings || lint != strings.TrimSuffix(want, "error: no scenario was run: correct them first\n") {
		t.Errorf("lint ended with %d and printed\n%s", code, lint)
	}
}

func TestTestRefusesItsFlags(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "users")
	mustRun(t, kit.ExitClean, "init", folder)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{folder, "--local", "--scenario", "no"}, "--scenario no: the collection has hello"},
		{[]string{folder, "--local", "--host", "u@h"}, "if any flags in the group [host local] are set none of the others can be"},
		{[]string{clitest.FilesCollection, "--local"}, "the collection has no scenarios: write one into extensions/collection-operator, as init does"},
		{[]string{filepath.Join(folder, "no"), "--local"}, "no such file or directory"},
	} {
		code, _, stderr := tool(t, append([]string{"test"}, tt.args...)...)
		if code != kit.ExitFailure || !strings.Contains(stderr, tt.want) {
			t.Errorf("%q ended with %d and printed %q, want %q", tt.args, code, stderr, tt.want)
		}
	}
}
