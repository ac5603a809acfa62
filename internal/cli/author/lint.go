package author

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/author/lint"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
)

func lintCommand() *cobra.Command {
	var output, digest string
	var fix fixOptions
	cmd := &cobra.Command{
		Use:   "lint PATH|URL [--digest sha256:...]",
		Short: "Report all problems of a collection",
		Long: `Check a collection: a folder, an archive, or the archive at an http or https address. One finding is printed per line:
file:line:column: severity rule: message. File is relative to the collection's root; a finding about a file as a whole is at
1:1. A folder is checked as the archive that build makes of it.

It checks what the manager in the cluster checks, with the same code, and besides that the playbooks and roles, which the
manager does not read.

An error breaks a MUST of the Operator Collection Specification, a warning a SHOULD or a good practice, and an info is
a hint. The last line, on stderr, says whether a cluster would refuse the collection.

The exit code is 0 if there are no errors and no warnings (hints do not count), 1 if there are, and 2 if the check could
not be made, for instance because PATH cannot be read or the archive has another digest than --digest. An archive that is damaged or dangerous is a finding.

A file .oc-lint at the root hides findings:

  exclude_paths: ["playbooks/old/**"]   # files whose findings are not shown
  skip_list: [match-domain]             # rules that are not shown
  use_default_rules: false              # show only the rules of
  enable_list: [hosts-all]

The file has no effect in a cluster.

With --fix, what has exactly one right answer is corrected in the files of a folder: misspelt keys and types of variables,
templates that lack quotes, the hosts of plays. All else in the files stays as it is, comments too. What changed is printed as a
diff, before what is left to do. --fix --dry-run prints it and changes nothing.`,
		Example: `  # Check the folder you are in
  kubectl collection lint .

  # Check an archive
  kubectl collection lint example-zos_files-1.0.0.tar.gz

  # Check an archive before a cluster imports it
  kubectl collection lint https://example.com/acme-files-1.0.0.tar.gz --digest sha256:c6cca05f781b293f9ea34cd9799dd126596a4be2f90c7096e9eab718d27e39bd

  # Correct what has one right answer
  kubectl collection lint . --fix

  # Upload findings to code scanning
  kubectl collection lint . -o sarif > lint.sarif`,
		Args: kit.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fix.run(cmd, args[0], digest, output); err != nil {
				return err
			}
			return runLint(cmd, args[0], digest, output)
		},
	}
	kit.AddOutput(cmd, &output, "text, json or sarif", "text", "json", "sarif")
	cmd.Flags().StringVar(&digest, "digest", "", "the digest that the archive must have, sha256:<64 hexadecimal digits>")
	fix.addFlags(cmd)
	return cmd
}

func runLint(cmd *cobra.Command, source, digest, output string) error {
	problems, settings, err := lintSource(cmd.Context(), source, digest)
	if err != nil {
		return err
	}
	shown, hidden := settings.Apply(problems)
	if err := lintWriters[output](cmd.OutOrStdout(), DisplayPath(source), shown); err != nil {
		return err
	}
	if output == "text" {
		fmt.Fprintln(cmd.ErrOrStderr(), lintSummary(shown, hidden))
	}
	if len(shown.Findings()) > 0 {
		return kit.ErrFindings
	}
	return nil
}

// lintSource checks a folder, an archive, or the archive at an address. digest is "", or what the archive's must be.
func lintSource(ctx context.Context, source, digest string) (findings.Problems, lint.Settings, error) {
	if address := ParseAddress(source); address != nil {
		return lintURL(ctx, source, digest)
	}
	info, err := os.Stat(source)
	if err != nil {
		return nil, lint.Settings{}, err
	}
	check := lintArchive
	if info.IsDir() {
		check = lintFolder
	}
	problems, settings, err := check(source, digest)
	if err != nil {
		err = fmt.Errorf("%s: %w", source, err)
	}
	return problems, settings, err
}

func lintFolder(path, digest string) (findings.Problems, lint.Settings, error) {
	if digest != "" {
		return nil, lint.Settings{}, errors.New("--digest is for archives, and this is a folder")
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, lint.Settings{}, err
	}
	defer root.Close()
	return lint.CheckFolder(root.FS())
}

func lintArchive(path, digest string) (findings.Problems, lint.Settings, error) {
	if digest != "" {
		actual, _, err := digestOf(path)
		if err == nil && actual.String() != digest {
			err = fmt.Errorf("the archive has the digest %s, not %s", actual, digest)
		}
		if err != nil {
			return nil, lint.Settings{}, err
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, lint.Settings{}, err
	}
	defer f.Close()
	return lint.CheckArchive(f)
}

// lintURL downloads an archive, as the manager does, and checks it.
func lintURL(ctx context.Context, address, digest string) (findings.Problems, lint.Settings, error) {
	fetcher := fetch.Fetcher{Proxy: http.ProxyFromEnvironment}
	file, err := fetcher.Fetch(ctx, fetch.Request{URL: address}, "")
	if err != nil {
		return nil, lint.Settings{}, err
	}
	problems, settings, err := lintArchive(file.Path, digest)
	return problems, settings, errors.Join(err, file.Remove())
}

// lintSummary is the last line of the text output.
func lintSummary(shown, hidden findings.Problems) string {
	line := strings.Join(shown.Counts(), ", ")
	if len(hidden) > 0 {
		line += fmt.Sprintf(", %d hidden by %s", len(hidden), lint.SettingsFile)
	}
	if n := len(shown.Fixable()); n > 0 {
		line += fmt.Sprintf(", %d that --fix may correct", n)
	}
	if len(shown.Refused())+len(hidden.Refused()) > 0 {
		return line + ": a cluster would refuse this collection"
	}
	return line + ": a cluster would accept this collection"
}

// lintWriters are the forms in which findings are printed, by the value of --output.
var lintWriters = map[string]func(w io.Writer, path string, problems findings.Problems) error{
	"text":  WriteText,
	"json":  writeJSON,
	"sarif": writeSARIF,
}

func writeJSON(w io.Writer, path string, problems findings.Problems) error {
	return kit.EncodeJSON(w, problems.Listed(path))
}

// The part of SARIF 2.1.0 that findings need.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name            string      `json:"name"`
		SemanticVersion string      `json:"semanticVersion,omitempty"`
		InformationURI  string      `json:"informationUri"`
		Rules           []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string          `json:"id"`
		ShortDescription sarifText       `json:"shortDescription"`
		FullDescription  sarifText       `json:"fullDescription"`
		Help             sarifText       `json:"help"`
		HelpURI          string          `json:"helpUri"`
		Default          sarifLevel      `json:"defaultConfiguration"`
		Properties       sarifProperties `json:"properties"`
	}
	sarifLevel struct {
		Level string `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifProperties struct {
		Tags []string `json:"tags"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
)

// sarifLevels are the severities in the words of SARIF.
var sarifLevels = map[findings.Severity]string{
	findings.SeverityError: "error", findings.SeverityWarning: "warning", findings.SeverityInfo: "note",
}

const (
	projectURL = "https://github.com/collection-operator/collection-operator"
	// rulesPage has a section with the name of each rule.
	rulesPage = projectURL + "/blob/main/docs/spec/rules.md"
)

// writeSARIF prints the findings for code scanning. It wants addresses that are relative to the repository's root: run
// lint there.
func writeSARIF(w io.Writer, path string, problems findings.Problems) error {
	rules := lint.Rules()
	folder := folderOf(path)
	results := make([]sarifResult, len(problems))
	for i, p := range problems {
		f := p.Finding(path)
		physical := sarifPhysical{Artifact: sarifArtifact{URI: sarifURI(folder, f.File)}}
		if p.Line > 0 {
			physical.Region = &sarifRegion{StartLine: p.Line, StartColumn: p.Column}
		}
		results[i] = sarifResult{
			RuleID:    p.Rule,
			RuleIndex: slices.IndexFunc(rules, func(r findings.Rule) bool { return r.Name == p.Rule }),
			Level:     sarifLevels[p.Severity],
			Message:   sarifText{f.Message},
			Locations: []sarifLocation{{physical}},
		}
	}
	driver := sarifDriver{Name: kit.ToolName, SemanticVersion: kit.ModuleVersion(), InformationURI: projectURL, Rules: sarifRules(rules)}
	return kit.EncodeJSON(w, sarifLog{
		Schema:  "https://json.schemastore.org/sarif-2.1.0.json",
		Version: "2.1.0",
		Runs:    []sarifRun{{Tool: sarifTool{driver}, Results: results}},
	})
}

func sarifRules(rules []findings.Rule) []sarifRule {
	out := make([]sarifRule, len(rules))
	for i, r := range rules {
		help := r.Summary
		if r.Section != "" {
			help += " (Operator Collection Specification: " + r.Section + ".)"
		}
		if r.Refused {
			help += " A cluster refuses a collection that breaks this rule."
		}
		out[i] = sarifRule{
			ID: r.Name, ShortDescription: sarifText{r.Summary}, FullDescription: sarifText{r.Summary}, Help: sarifText{help},
			HelpURI: rulesPage + "#" + r.Name,
			Default: sarifLevel{sarifLevels[r.Severity]}, Properties: sarifProperties{Tags: []string{"operator-collection"}},
		}
	}
	return out
}

// folderOf is the folder that was checked, relative to the one the command runs in; "" for an archive, and for a folder
// elsewhere.
func folderOf(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return ""
	}
	here, errHere := filepath.Abs(".")
	there, errThere := filepath.Abs(path)
	folder, err := filepath.Rel(here, there)
	if errHere != nil || errThere != nil || err != nil || !filepath.IsLocal(folder) {
		return ""
	}
	return folder
}

// sarifURI is a relative reference, whatever the name of the file is.
func sarifURI(folder, file string) string {
	name := filepath.ToSlash(filepath.Join(folder, filepath.Clean("/"+file)))
	return (&url.URL{Path: strings.TrimPrefix(name, "/")}).EscapedPath()
}
