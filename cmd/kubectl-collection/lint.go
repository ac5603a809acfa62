package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/lint"
)

func lintCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "lint PATH",
		Short: "Say everything that is wrong with a collection",
		Long: `Checks a collection, a folder or an archive, with the code that the manager in the cluster runs, and prints one finding
per line: file:line:column: severity rule: message. File is relative to the collection's root; a finding about a file as a
whole is at 1:1. A folder is checked as the archive that build makes of it.

An error breaks a MUST of the Operator Collection Specification, a warning a SHOULD or a habit that saves trouble, and an
info is a hint. The last line, on stderr, says whether a cluster would refuse the collection.

The exit code is 0 if there are no errors and no warnings (hints do not count), 1 if there are, and 2 if the check could
not be made, for instance because PATH cannot be read. An archive that is damaged or dangerous is a finding.

A file .oc-lint at the root hides findings:

  exclude_paths: ["playbooks/old/**"]   # files whose findings are not shown
  skip_list: [match-domain]             # rules that are not shown
  use_default_rules: false              # show only the rules of
  enable_list: [hosts-all]

It hides them here. A cluster refuses what it refuses.`,
		Example: `  # Check the folder you are in
  kubectl collection lint .

  # Check an archive
  kubectl collection lint example-zos_files-1.0.0.tar.gz

  # Upload findings to code scanning
  kubectl collection lint . -o sarif > lint.sarif`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			write, ok := lintWriters[output]
			if !ok {
				return fmt.Errorf("unknown output %q: use text, json or sarif", output)
			}
			findings, hidden, err := lintPath(args[0])
			if err != nil {
				return err
			}
			if err := write(cmd.OutOrStdout(), args[0], findings); err != nil {
				return err
			}
			if output == "text" {
				fmt.Fprintln(cmd.ErrOrStderr(), lintSummary(findings, hidden))
			}
			if len(findings.Findings()) > 0 {
				return errFindings
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, json or sarif")
	completeWords(cmd, "output", "text", "json", "sarif")
	return cmd
}

// lintPath checks a folder or an archive and returns the problems to show, and those that its settings hide.
func lintPath(path string) (shown, hidden collection.Problems, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	var problems collection.Problems
	var settings lint.Settings
	if info.IsDir() {
		problems, settings, err = lintFolder(path)
	} else {
		problems, settings, err = lintArchive(path)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	shown, hidden = settings.Apply(problems)
	return shown, hidden, nil
}

func lintFolder(path string) (collection.Problems, lint.Settings, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, lint.Settings{}, err
	}
	defer root.Close()
	return lint.CheckFolder(root.FS())
}

func lintArchive(path string) (collection.Problems, lint.Settings, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, lint.Settings{}, err
	}
	defer f.Close()
	return lint.CheckArchive(f)
}

// lintSummary is one line for people.
func lintSummary(findings, hidden collection.Problems) string {
	count := map[collection.Severity]int{}
	for _, p := range findings {
		count[p.Severity]++
	}
	parts := []string{
		plural(count[collection.SeverityError], "error"),
		plural(count[collection.SeverityWarning], "warning"),
		plural(count[collection.SeverityInfo], "hint"),
	}
	line := strings.Join(parts, ", ")
	if len(hidden) > 0 {
		line += fmt.Sprintf(", %d hidden by %s", len(hidden), lint.SettingsFile)
	}
	if len(findings.Refused())+len(hidden.Refused()) > 0 {
		return line + ": a cluster would refuse this collection"
	}
	return line + ": a cluster would accept this collection"
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// lintWriters are the forms in which findings are printed, by the value of --output.
var lintWriters = map[string]func(w io.Writer, path string, findings collection.Problems) error{
	"text":  writeText,
	"json":  writeJSON,
	"sarif": writeSARIF,
}

// finding is a problem as -o json prints it, and as text does.
type finding struct {
	File     string              `json:"file"`
	Line     int                 `json:"line"`
	Column   int                 `json:"column"`
	Severity collection.Severity `json:"severity"`
	Rule     string              `json:"rule"`
	Message  string              `json:"message"`
}

// newFinding puts a problem of a whole file at its beginning, so that editors can show it, and one of no file at the
// path that was checked.
func newFinding(path string, p collection.Problem) finding {
	file := p.File
	if file == "" {
		file = filepath.Base(path)
	}
	return finding{
		File: file, Line: max(p.Line, 1), Column: max(p.Column, 1),
		Severity: p.Severity, Rule: p.Rule, Message: findingMessage(p),
	}
}

func findingMessage(p collection.Problem) string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

func writeJSON(w io.Writer, path string, problems collection.Problems) error {
	findings := make([]finding, len(problems))
	for i, p := range problems {
		findings[i] = newFinding(path, p)
	}
	return encodeJSON(w, findings)
}

func encodeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

func writeText(w io.Writer, path string, problems collection.Problems) error {
	color := colored(w)
	for _, p := range problems {
		f := newFinding(path, p)
		_, err := fmt.Fprintf(w, "%s:%d:%d: %s %s: %s\n", printable(f.File), f.Line, f.Column, color.severity(f.Severity), f.Rule, printable(f.Message))
		if err != nil {
			return err
		}
	}
	return nil
}
