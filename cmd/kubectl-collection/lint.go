package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/author/lint"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
)

func lintCommand() *cobra.Command {
	var output, digest string
	var fix fixOptions
	cmd := &cobra.Command{
		Use:   "lint PATH|URL [--digest sha256:...]",
		Short: "Report everything that is wrong with a collection",
		Long: `Checks a collection: a folder, an archive, or the archive at an http or https address. It prints one finding per line:
file:line:column: severity rule: message. File is relative to the collection's root; a finding about a file as a whole is at
1:1. A folder is checked as the archive that build makes of it.

It checks what the manager in the cluster checks, with the same code, and besides that the playbooks and roles, which the
manager does not read.

An error breaks a MUST of the Operator Collection Specification, a warning a SHOULD or a habit that saves trouble, and an
info is a hint. The last line, on stderr, says whether a cluster would refuse the collection.

The exit code is 0 if there are no errors and no warnings (hints do not count), 1 if there are, and 2 if the check could
not be made, for instance because PATH cannot be read or the archive has another digest than --digest. An archive that is damaged or dangerous is a finding.

A file .oc-lint at the root hides findings:

  exclude_paths: ["playbooks/old/**"]   # files whose findings are not shown
  skip_list: [match-domain]             # rules that are not shown
  use_default_rules: false              # show only the rules of
  enable_list: [hosts-all]

It hides them here. A cluster refuses what it refuses.

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
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fix.run(cmd, args[0], digest, output); err != nil {
				return err
			}
			return runLint(cmd, args[0], digest, output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, json or sarif")
	cmd.Flags().StringVar(&digest, "digest", "", "the digest that the archive must have, sha256:<64 hexadecimal digits>")
	fix.addFlags(cmd)
	completeWords(cmd, "output", "text", "json", "sarif")
	return cmd
}

func runLint(cmd *cobra.Command, source, digest, output string) error {
	write, ok := lintWriters[output]
	if !ok {
		return fmt.Errorf("unknown output %q: use text, json or sarif", output)
	}
	problems, settings, err := lintSource(cmd.Context(), source, digest)
	if err != nil {
		return err
	}
	shown, hidden := settings.Apply(problems)
	if err := write(cmd.OutOrStdout(), displayPath(source), shown); err != nil {
		return err
	}
	if output == "text" {
		fmt.Fprintln(cmd.ErrOrStderr(), lintSummary(shown, hidden))
	}
	if len(shown.Findings()) > 0 {
		return errFindings
	}
	return nil
}

// lintSource checks a folder, an archive, or the archive at an address. digest is "", or what the archive's must be.
func lintSource(ctx context.Context, source, digest string) (findings.Problems, lint.Settings, error) {
	if address := parseAddress(source); address != nil {
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

// parseAddress returns nil for the path of a folder or file.
func parseAddress(source string) *url.URL {
	address, err := url.Parse(source)
	if err != nil || address.Scheme != "http" && address.Scheme != "https" {
		return nil
	}
	return address
}

// displayPath is what to call a source. An address may hold credentials.
func displayPath(source string) string {
	if address := parseAddress(source); address != nil {
		return path.Base("/" + address.Path)
	}
	return source
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
	"text":  writeText,
	"json":  writeJSON,
	"sarif": writeSARIF,
}

func writeJSON(w io.Writer, path string, problems findings.Problems) error {
	return encodeJSON(w, problems.Listed(path))
}

func encodeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

func writeText(w io.Writer, path string, problems findings.Problems) error {
	color := colored(w)
	for _, f := range problems.Listed(path) {
		_, err := fmt.Fprintf(w, "%s:%d:%d: %s %s: %s\n", printable.Escape(f.File), f.Line, f.Column, color.severity(f.Severity), f.Rule, printable.Escape(f.Message))
		if err != nil {
			return err
		}
	}
	return nil
}
