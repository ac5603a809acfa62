package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/collection-operator/collection-operator/internal/author/galaxy"
	"github.com/collection-operator/collection-operator/internal/author/lint"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
)

const wrongCollection = "testdata/wrong"

func TestLintPrintsFindings(t *testing.T) {
	_, stdout, stderr := tool(t, "lint", wrongCollection)
	expectGolden(t, "lint.golden.txt", stdout+stderr)
	expectGolden(t, "lint.golden.json", mustRun(t, exitFindings, "lint", wrongCollection, "-o", "json"))
}

// Lines for people are not in the way of those for programs.
func TestLintForProgramsPrintsNothingElse(t *testing.T) {
	for _, output := range []string{"json", "sarif"} {
		if _, stdout, stderr := tool(t, "lint", wrongCollection, "-o", output); stderr != "" || !json.Valid([]byte(stdout)) {
			t.Errorf("-o %s printed %q on stderr, and %s", output, stderr, stdout)
		}
	}
}

// Whatever is hidden, a cluster still refuses the collection, and lint says so.
func TestLintHidesFindings(t *testing.T) {
	folder := copyCollection(t, wrongCollection)
	write(t, filepath.Join(folder, ".oc-lint"), "exclude_paths: ['**']\n")
	code, stdout, stderr := tool(t, "lint", folder)
	hidden := regexp.MustCompile(`^0 errors, 0 warnings, 0 hints, [0-9]+ hidden by \.oc-lint: a cluster would refuse this collection\n$`)
	if code != exitClean || stdout != "" || !hidden.MatchString(stderr) {
		t.Errorf("ended with %d and printed %q and %q", code, stdout, stderr)
	}
	for output, want := range map[string]string{"json": "[]\n", "sarif": `"results": []`} {
		if stdout := mustRun(t, exitClean, "lint", folder, "-o", output); !strings.Contains(stdout, want) {
			t.Errorf("-o %s printed %s", output, stdout)
		}
	}
}

// Who grants permissions to a collection reads what its author hides from lint.
func TestExplainShowsWhatTheAuthorHides(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "things")
	mustRun(t, exitClean, "init", folder)
	edit(t, filepath.Join(folder, "operator-config.yml"), "displayName: ", "provider: acme\ndisplayName: ")
	write(t, filepath.Join(folder, ".oc-lint"), "exclude_paths: ['**']\n")
	if stdout := mustRun(t, exitClean, "lint", folder); stdout != "" {
		t.Errorf("lint printed %s", stdout)
	}
	if stdout := mustRun(t, exitClean, "explain", folder); !strings.Contains(stdout, "operator-config.yml:") {
		t.Errorf("explain shows no finding:\n%s", stdout)
	}
}

func TestLintExitCodes(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "page.tar.gz"), "<html></html>")
	for _, tt := range []struct {
		args   []string
		code   int
		output string
	}{
		{[]string{"lint", filesCollection}, exitClean, ""},
		{[]string{"lint", wrongCollection}, exitFindings, "operator-config.yml:2:7: warning match-name: name: "},
		{[]string{"lint", dir}, exitFindings, "galaxy.yml:1:1: error missing-galaxy: "},
		{[]string{"lint", filepath.Join(dir, "page.tar.gz")}, exitFindings, "page.tar.gz:1:1: error archive: the file is not a gzip file"},
		{[]string{"lint", filepath.Join(dir, "absent")}, exitFailure, "absent: no such file or directory"},
		{[]string{"lint"}, exitFailure, "takes 1 argument, not 0: kubectl collection lint PATH|URL"},
		{[]string{"lint", filesCollection, "-o", "xml"}, exitFailure, `unknown output "xml": use text, json or sarif`},
	} {
		code, stdout, stderr := tool(t, tt.args...)
		if code != tt.code || !strings.Contains(stdout+stderr, tt.output) {
			t.Errorf("%q ended with %d and printed\n%s%s", tt.args, code, stdout, stderr)
		}
		if code == exitFailure && stdout != "" {
			t.Errorf("%q failed and printed %q on stdout", tt.args, stdout)
		}
	}
}

func TestLintFailsForWarningsAlone(t *testing.T) {
	folder := copyCollection(t, filesCollection)
	edit(t, filepath.Join(folder, "galaxy.yml"), "version: 1.0.0", "version: 1.0.1")
	code, stdout, stderr := tool(t, "lint", folder)
	if code != exitFindings || !strings.Contains(stdout, ": warning match-version: ") || strings.Contains(stdout, ": error ") || !strings.HasSuffix(stderr, "accept this collection\n") {
		t.Errorf("ended with %d and printed\n%s%s", code, stdout, stderr)
	}
}

// The findings of a folder and of its archive are the same. Only what galaxy.yml says is known in the folder alone.
func TestLintOfFolderAndArchiveAgree(t *testing.T) {
	var archive bytes.Buffer
	if err := galaxy.Build(os.DirFS(wrongCollection), &archive); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "acme-wrong_things-1.0.0.tar.gz")
	write(t, path, archive.String())
	var folder []string
	for line := range strings.Lines(mustRun(t, exitFindings, "lint", wrongCollection)) {
		if !strings.HasPrefix(line, "galaxy.yml:") {
			folder = append(folder, line)
		}
	}
	if diff := cmp.Diff(strings.Join(folder, ""), mustRun(t, exitFindings, "lint", path)); diff != "" {
		t.Errorf("findings differ (-folder +archive):\n%s", diff)
	}
}

// An archive at an address is checked as the one in a file is, and its digest before that. Neither file nor credentials stay.
func TestLintOfURL(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var archive bytes.Buffer
	if err := galaxy.Build(os.DirFS(wrongCollection), &archive); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "wrong.tar.gz")
	write(t, file, archive.String())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/wrong.tar.gz":
			w.Write(archive.Bytes())
		case "/large.tar.gz":
			w.Header().Set("Content-Length", strconv.FormatInt(fetch.DefaultMaxBytes+1, 10))
		case "/page.tar.gz":
			w.Write([]byte("<html></html>"))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	sum, _, err := digestOf(file)
	digest := sum.String()
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.Replace(server.URL, "http://", "http://ann:s3cret@", 1) + "/wrong.tar.gz?token=s3cret"
	other := "sha256:" + strings.Repeat("0", 64)
	for _, tt := range []struct {
		args   []string
		code   int
		output string
	}{
		{[]string{server.URL + "/wrong.tar.gz"}, exitFindings, "a cluster would refuse this collection"},
		{[]string{secret, "--digest", digest}, exitFindings, "a cluster would refuse this collection"},
		{[]string{secret, "--digest", other}, exitFailure, "the archive has the digest " + digest + ", not " + other},
		{[]string{file, "--digest", digest}, exitFindings, "a cluster would refuse this collection"},
		{[]string{file, "--digest", other}, exitFailure, "the archive has the digest " + digest + ", not " + other},
		{[]string{wrongCollection, "--digest", digest}, exitFailure, "--digest is for archives"},
		{[]string{server.URL + "/page.tar.gz?a=b"}, exitFindings, "page.tar.gz:1:1: error archive: the file is not a gzip file"},
		{[]string{server.URL + "/large.tar.gz"}, exitFailure, "larger than"},
		{[]string{server.URL + "/absent.tar.gz"}, exitFailure, "404"},
	} {
		code, stdout, stderr := tool(t, append([]string{"lint"}, tt.args...)...)
		if code != tt.code || !strings.Contains(stdout+stderr, tt.output) || strings.Contains(stdout+stderr, "s3cret") {
			t.Errorf("%q ended with %d and printed\n%s%s", tt.args, code, stdout, stderr)
		}
	}
	if got, want := mustRun(t, exitFindings, "lint", server.URL+"/wrong.tar.gz"), mustRun(t, exitFindings, "lint", file); got != want {
		t.Errorf("from an address:\n%s\nfrom a file:\n%s", got, want)
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}

func TestSARIF(t *testing.T) {
	var log sarifLog
	if err := json.Unmarshal([]byte(mustRun(t, exitFindings, "lint", wrongCollection, "-o", "sarif")), &log); err != nil {
		t.Fatal(err)
	}
	run := log.Runs[0]
	if len(run.Tool.Driver.Rules) != len(lint.Rules()) {
		t.Errorf("%d rules, want %d", len(run.Tool.Driver.Rules), len(lint.Rules()))
	}
	for _, result := range run.Results {
		rule := run.Tool.Driver.Rules[result.RuleIndex]
		if rule.HelpURI != rulesPage+"#"+rule.ID {
			t.Errorf("the help of %s is at %s", rule.ID, rule.HelpURI)
		}
		if rule.ID != result.RuleID || rule.Default.Level != result.Level || rule.ShortDescription.Text == "" {
			t.Errorf("rule %+v at index %d is not that of %+v", rule, result.RuleIndex, result)
		}
		artifact := result.Locations[0].Physical.Artifact
		if uri, err := url.Parse(artifact.URI); err != nil || uri.IsAbs() || !strings.HasPrefix(artifact.URI, wrongCollection+"/") {
			t.Errorf("uri %q: %v", artifact.URI, err)
		}
	}
	// Which rules there are, and so their indexes, is not what this golden file is about.
	log.Runs[0].Tool.Driver.Rules, log.Runs[0].Tool.Driver.SemanticVersion = []sarifRule{}, ""
	for i := range log.Runs[0].Results {
		log.Runs[0].Results[i].RuleIndex = 0
	}
	var results bytes.Buffer
	if err := encodeJSON(&results, log); err != nil {
		t.Fatal(err)
	}
	expectGolden(t, "lint.golden.sarif", results.String())
}

// A finding about a whole file has no region: code scanning would point at a line that says something else.
func TestSARIFOfWholeFiles(t *testing.T) {
	var b bytes.Buffer
	problem := findings.Problem{File: "galaxy.yml", Rule: "missing-galaxy", Message: "is missing", Severity: findings.SeverityError}
	if err := writeSARIF(&b, "collection.tar.gz", findings.Problems{problem}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), `"uri": "galaxy.yml"`) || strings.Contains(b.String(), "region") {
		t.Errorf("printed %s", b.String())
	}
}

func TestSARIFAddresses(t *testing.T) {
	for _, tt := range []struct{ folder, file, want string }{
		{"", "operator-config.yml", "operator-config.yml"},
		{".", "a b/c#d.yml", "a%20b/c%23d.yml"},
		{"collections/one", "galaxy.yml", "collections/one/galaxy.yml"},
		{"", "../../etc/passwd", "etc/passwd"},
		{"", "http://x", "http:/x"},
	} {
		if got := sarifURI(tt.folder, tt.file); got != tt.want {
			t.Errorf("sarifURI(%q, %q) is %q, want %q", tt.folder, tt.file, got, tt.want)
		}
	}
}

func TestTerminalsAreSafe(t *testing.T) {
	var b bytes.Buffer
	problem := findings.Problem{File: "a\x1b[2Jb\r\n.yml", Rule: "yaml", Severity: findings.SeverityError, Message: "ä\u202e"}
	if err := writeText(&b, ".", findings.Problems{problem}); err != nil {
		t.Fatal(err)
	}
	if want := `a\x1b[2Jb\r\n.yml:1:1: error yaml: ä\u202e` + "\n"; b.String() != want {
		t.Errorf("printed %q, want %q", b.String(), want)
	}
}

func TestColor(t *testing.T) {
	if got := palette(false).severity(findings.SeverityError); got != "error" {
		t.Errorf("without colour: %q", got)
	}
	if got := palette(true).severity(findings.SeverityWarning); got != "\x1b[33mwarning\x1b[0m" {
		t.Errorf("with colour: %q", got)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if colored(f) || colored(&bytes.Buffer{}) {
		t.Error("a file or a buffer is coloured")
	}
}

func TestSchemaIsValidJSONSchema(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(mustRun(t, exitClean, "schema")))
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

func TestHelpHasExamples(t *testing.T) {
	for _, command := range allCommands() {
		if command.Name() == "help" || command.Name() == "completion" {
			continue
		}
		help := mustRun(t, exitClean, command.Name(), "--help")
		if !strings.Contains(help, "Examples:\n") || !strings.Contains(help, "kubectl collection "+command.Name()) {
			t.Errorf("the help of %s has no example:\n%s", command.Name(), help)
		}
	}
}

func TestCompletion(t *testing.T) {
	words := func(args ...string) []string {
		lines := strings.Split(mustRun(t, exitClean, append([]string{"__complete"}, args...)...), "\n")
		return lines[:slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, ":") })]
	}
	if diff := cmp.Diff([]string{"text", "json", "sarif"}, words("lint", "-o", "")); diff != "" {
		t.Errorf("completions of lint -o (-want +got):\n%s", diff)
	}
	if !slices.ContainsFunc(words(""), func(w string) bool { return strings.HasPrefix(w, "lint\t") }) {
		t.Error("lint is not completed")
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if !strings.Contains(mustRun(t, exitClean, "completion", shell), toolName) {
			t.Errorf("there is no completion for %s", shell)
		}
	}
}

func TestVersion(t *testing.T) {
	if got := mustRun(t, exitClean, "version"); !strings.HasPrefix(got, toolName+" ") {
		t.Errorf("version printed %q", got)
	}
}
