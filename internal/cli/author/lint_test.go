package author

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/author/galaxy"
	"github.com/collection-operator/collection-operator/internal/author/lint"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/test/clitest"
)

const wrongCollection = "testdata/wrong"

func TestLintPrintsFindings(t *testing.T) {
	_, stdout, stderr := tool(t, "lint", wrongCollection)
	clitest.Golden(t, "lint.golden.txt", stdout+stderr)
	clitest.Golden(t, "lint.golden.json", mustRun(t, kit.ExitFindings, "lint", wrongCollection, "-o", "json"))
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
	folder := clitest.CopyCollection(t, wrongCollection)
	clitest.Write(t, filepath.Join(folder, ".oc-lint"), "exclude_paths: ['**']\n")
	code, stdout, stderr := tool(t, "lint", folder)
	hidden := regexp.MustCompile(`^0 errors, 0 warnings, 0 hints, [0-9]+ hidden by \.oc-lint: a cluster would refuse this collection\n$`)
	if code != kit.ExitClean || stdout != "" || !hidden.MatchString(stderr) {
		t.Errorf("ended with %d and printed %q and %q", code, stdout, stderr)
	}
	for output, want := range map[string]string{"json": "[]\n", "sarif": `"results": []`} {
		if stdout := mustRun(t, kit.ExitClean, "lint", folder, "-o", output); !strings.Contains(stdout, want) {
			t.Errorf("-o %s printed %s", output, stdout)
		}
	}
}

// Who grants permissions to a collection reads what its author hides from lint.
func TestExplainShowsWhatTheAuthorHides(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "things")
	mustRun(t, kit.ExitClean, "init", folder)
	clitest.Edit(t, filepath.Join(folder, "operator-config.yml"), "displayName: ", "provider: acme\ndisplayName: ")
	clitest.Write(t, filepath.Join(folder, ".oc-lint"), "exclude_paths: ['**']\n")
	if stdout := mustRun(t, kit.ExitClean, "lint", folder); stdout != "" {
		t.Errorf("lint printed %s", stdout)
	}
	if stdout := mustRun(t, kit.ExitClean, "explain", folder); !strings.Contains(stdout, "operator-config.yml:") {
		t.Errorf("explain shows no finding:\n%s", stdout)
	}
}

func TestLintExitCodes(t *testing.T) {
	dir := t.TempDir()
	clitest.Write(t, filepath.Join(dir, "page.tar.gz"), "<html></html>")
	for _, tt := range []struct {
		args   []string
		code   int
		output string
	}{
		{[]string{"lint", clitest.FilesCollection}, kit.ExitClean, ""},
		{[]string{"lint", wrongCollection}, kit.ExitFindings, "operator-config.yml:2:7: warning match-name: name: "},
		{[]string{"lint", dir}, kit.ExitFindings, "galaxy.yml:1:1: error missing-galaxy: "},
		{[]string{"lint", filepath.Join(dir, "page.tar.gz")}, kit.ExitFindings, "page.tar.gz:1:1: error archive: the file is a web page (HTML or XML)"},
		{[]string{"lint", filepath.Join(dir, "absent")}, kit.ExitFailure, "absent: no such file or directory"},
		{[]string{"lint"}, kit.ExitFailure, "takes 1 argument, not 0: kubectl collection lint PATH|URL"},
		{[]string{"lint", clitest.FilesCollection, "-o", "xml"}, kit.ExitFailure, `--output "xml" is neither text nor json nor sarif`},
	} {
		code, stdout, stderr := tool(t, tt.args...)
		if code != tt.code || !strings.Contains(stdout+stderr, tt.output) {
			t.Errorf("%q ended with %d and printed\n%s%s", tt.args, code, stdout, stderr)
		}
		if code == kit.ExitFailure && stdout != "" {
			t.Errorf("%q failed and printed %q on stdout", tt.args, stdout)
		}
	}
}

func TestLintFailsForWarningsAlone(t *testing.T) {
	folder := clitest.CopyCollection(t, clitest.FilesCollection)
	clitest.Edit(t, filepath.Join(folder, "galaxy.yml"), "version: 1.0.0", "version: 1.0.1")
	code, stdout, stderr := tool(t, "lint", folder)
	if code != kit.ExitFindings || !strings.Contains(stdout, ": warning match-version: ") || strings.Contains(stdout, ": error ") || !strings.HasSuffix(stderr, "accept this collection\n") {
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
	clitest.Write(t, path, archive.String())
	var folder []string
	for line := range strings.Lines(mustRun(t, kit.ExitFindings, "lint", wrongCollection)) {
		if !strings.HasPrefix(line, "galaxy.yml:") {
			folder = append(folder, line)
		}
	}
	if diff := cmp.Diff(strings.Join(folder, ""), mustRun(t, kit.ExitFindings, "lint", path)); diff != "" {
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
	clitest.Write(t, file, archive.String())
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
		{[]string{server.URL + "/wrong.tar.gz"}, kit.ExitFindings, "a cluster would refuse this collection"},
		{[]string{secret, "--digest", digest}, kit.ExitFindings, "a cluster would refuse this collection"},
		{[]string{secret, "--digest", other}, kit.ExitFailure, "the archive has the digest " + digest + ", not " + other},
		{[]string{file, "--digest", digest}, kit.ExitFindings, "a cluster would refuse this collection"},
		{[]string{file, "--digest", other}, kit.ExitFailure, "the archive has the digest " + digest + ", not " + other},
		{[]string{wrongCollection, "--digest", digest}, kit.ExitFailure, "--digest is for archives"},
		{[]string{server.URL + "/page.tar.gz?a=b"}, kit.ExitFindings, "page.tar.gz:1:1: error archive: the file is a web page (HTML or XML)"},
		{[]string{server.URL + "/large.tar.gz"}, kit.ExitFailure, "larger than"},
		{[]string{server.URL + "/absent.tar.gz"}, kit.ExitFailure, "404"},
	} {
		code, stdout, stderr := tool(t, append([]string{"lint"}, tt.args...)...)
		if code != tt.code || !strings.Contains(stdout+stderr, tt.output) || strings.Contains(stdout+stderr, "s3cret") {
			t.Errorf("%q ended with %d and printed\n%s%s", tt.args, code, stdout, stderr)
		}
	}
	if got, want := mustRun(t, kit.ExitFindings, "lint", server.URL+"/wrong.tar.gz"), mustRun(t, kit.ExitFindings, "lint", file); got != want {
		t.Errorf("from an address:\n%s\nfrom a file:\n%s", got, want)
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}

func TestSARIF(t *testing.T) {
	var log sarifLog
	if err := json.Unmarshal([]byte(mustRun(t, kit.ExitFindings, "lint", wrongCollection, "-o", "sarif")), &log); err != nil {
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
	if err := kit.EncodeJSON(&results, log); err != nil {
		t.Fatal(err)
	}
	clitest.Golden(t, "lint.golden.sarif", results.String())
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
	if err := WriteText(&b, ".", findings.Problems{problem}); err != nil {
		t.Fatal(err)
	}
	if want := `a\x1b[2Jb\r\n.yml:1:1: error yaml: ä\u202e` + "\n"; b.String() != want {
		t.Errorf("printed %q, want %q", b.String(), want)
	}
}
