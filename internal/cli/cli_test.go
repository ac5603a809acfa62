package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/local"
	"github.com/collection-operator/collection-operator/test/clitest"
)

func TestMain(m *testing.M) {
	local.AsGate() // The tests are the tool.
	os.Exit(m.Run())
}

func tool(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return clitest.Run(t, commands(), args...)
}

func mustRun(t *testing.T, code int, args ...string) string {
	t.Helper()
	return clitest.MustRun(t, commands(), code, args...)
}

// The guide tells of every command, and of the archive that the collection it begins with really gives.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile("../../docs/kubectl-collection.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, command := range commands() {
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
	mustRun(t, kit.ExitClean, "init", folder, "--domain", "acme", "--kind", "ZosUser")
	built := filepath.Base(mustRun(t, kit.ExitClean, "build", folder, "--output", dir))
	if !strings.Contains(string(guide), "\n"+built) {
		t.Errorf("docs/kubectl-collection.md does not show what build prints: %s", built)
	}
}

// Somebody who gives too much or too little learns what the command takes.
func TestArguments(t *testing.T) {
	for _, command := range commands() {
		if _, arguments, _ := strings.Cut(command.Use, " "); arguments == "" || strings.HasPrefix(arguments, "[") {
			continue
		}
		code, _, stderr := tool(t, command.Name())
		if want := ", not 0: kubectl collection " + command.Use; code != kit.ExitFailure || !strings.Contains(stderr, want) {
			t.Errorf("%s without arguments: %d, %q; want %q", command.Name(), code, stderr, want)
		}
	}
}

func TestHelpHasExamples(t *testing.T) {
	for _, command := range commands() {
		if command.Name() == "help" || command.Name() == "completion" {
			continue
		}
		help := mustRun(t, kit.ExitClean, command.Name(), "--help")
		if !strings.Contains(help, "Examples:\n") || !strings.Contains(help, "kubectl collection "+command.Name()) {
			t.Errorf("the help of %s has no example:\n%s", command.Name(), help)
		}
	}
}

func TestCompletion(t *testing.T) {
	words := func(args ...string) []string {
		lines := strings.Split(mustRun(t, kit.ExitClean, append([]string{"__complete"}, args...)...), "\n")
		return lines[:slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, ":") })]
	}
	if diff := cmp.Diff([]string{"text", "json", "sarif"}, words("lint", "-o", "")); diff != "" {
		t.Errorf("completions of lint -o (-want +got):\n%s", diff)
	}
	if !slices.ContainsFunc(words(""), func(w string) bool { return strings.HasPrefix(w, "lint\t") }) {
		t.Error("lint is not completed")
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if !strings.Contains(mustRun(t, kit.ExitClean, "completion", shell), kit.ToolName) {
			t.Errorf("there is no completion for %s", shell)
		}
	}
}

func TestVersion(t *testing.T) {
	if got := mustRun(t, kit.ExitClean, "version"); !strings.HasPrefix(got, kit.ToolName+" ") {
		t.Errorf("version printed %q", got)
	}
}
