package author

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/test/clitest"
)

func TestSchemaIsValidJSONSchema(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(mustRun(t, kit.ExitClean, "schema")))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	if _, err := compiler.Compile("schema.json"); err != nil {
		t.Error(err)
	}
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
		mustRun(t, kit.ExitClean, append([]string{"init", folder}, tt.flags...)...)
		code, stdout, stderr := tool(t, "lint", folder)
		if code != kit.ExitClean || stdout != "" || stderr != "0 errors, 0 warnings, 0 hints: a cluster would accept this collection\n" {
			t.Errorf("%s: lint ended with %d and printed\n%s%s", tt.folder, code, stdout, stderr)
		}
	}
}

func TestInitWritesTheScaffold(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "zos_users")
	stdout := mustRun(t, kit.ExitClean, "init", folder, "--kind", "ZosUser")
	got := strings.ReplaceAll(stdout, folder, "DIR")
	files := clitest.ReadTree(t, folder)
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
	clitest.Golden(t, "init.golden.txt", got)
}

// The digest in the tutorial is that of the archive which its readers build.
func TestTutorialShowsTheScaffold(t *testing.T) {
	tutorial, err := os.ReadFile("../../../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, command := range []string{"init zos_files --domain acme --kind ZosFile", "build zos_files"} {
		want := "$ kubectl collection " + command + "\n" + mustRun(t, kit.ExitClean, strings.Fields(command)...)
		if !strings.Contains(string(tutorial), want) {
			t.Errorf("docs/tutorial.md does not show\n%s", want)
		}
	}
}

func TestInitOverwritesNothing(t *testing.T) {
	folder := t.TempDir()
	clitest.Write(t, filepath.Join(folder, "galaxy.yml"), "mine")
	clitest.Write(t, filepath.Join(folder, "meta/runtime.yml"), "mine")
	before := clitest.ReadTree(t, folder)
	code, stdout, stderr := tool(t, "init", folder, "--name", "things")
	want := "error: " + folder + " already has galaxy.yml, meta/runtime.yml: nothing was written; move them away or choose another folder\n"
	if code != kit.ExitFailure || stdout != "" || stderr != want {
		t.Errorf("ended with %d and printed %q and %q", code, stdout, stderr)
	}
	if diff := cmp.Diff(before, clitest.ReadTree(t, folder)); diff != "" {
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
		if code != kit.ExitFailure || !strings.Contains(stderr, tt.want) {
			t.Errorf("%q ended with %d and printed %q, want %q", tt.args, code, stderr, tt.want)
		}
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("%q made the folder", tt.args)
		}
	}
}

func TestSchemas(t *testing.T) {
	if mustRun(t, kit.ExitClean, "schema") != mustRun(t, kit.ExitClean, "schema", "operator-config") {
		t.Error("schema alone is not that of operator-config")
	}
	if got := mustRun(t, kit.ExitClean, "schema", "scenario"); !strings.Contains(got, `"idempotence"`) {
		t.Errorf("got %s", got)
	}
	mustRun(t, kit.ExitFailure, "schema", "thing")
}
