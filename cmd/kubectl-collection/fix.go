package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/findings"
	"github.com/collection-operator/collection-operator/internal/lint"
	"github.com/collection-operator/collection-operator/internal/printable"
)

// fixOptions are those of lint that change files.
type fixOptions struct{ fix, dryRun bool }

func (o *fixOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.fix, "fix", false, "correct what has exactly one right answer in the files of a folder")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "with --fix: print what would be corrected, and change nothing")
}

// run corrects the files of a folder and prints the changes.
func (o *fixOptions) run(cmd *cobra.Command, folder string) error {
	info, err := os.Stat(folder)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return errors.New("--fix is for folders: correct the folder that the archive was built of")
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	fixed, err := lint.Fix(root.FS())
	if err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	for _, file := range fixed {
		if err := printDiff(cmd.OutOrStdout(), file); err != nil {
			return err
		}
		if o.dryRun {
			continue
		}
		if err := writeFixed(root, file); err != nil {
			return err
		}
	}
	what := "corrected"
	if o.dryRun {
		what = "would be corrected"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s %s\n", findings.Plural(len(fixed), "file"), what)
	return nil
}

// writeFixed writes a file in its place, with its mode, unless somebody else has changed it.
func writeFixed(root *os.Root, file lint.Fixed) error {
	now, err := root.ReadFile(file.File)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, file.Old) {
		return fmt.Errorf("%s has changed while it was checked: try again", file.File)
	}
	return root.WriteFile(file.File, file.New, 0o644)
}

// diffContext is how many lines a diff shows around a change.
const diffContext = 3

// printDiff prints a unified diff. Both contents have the same number of lines.
func printDiff(w io.Writer, file lint.Fixed) error {
	was, is := slices.Collect(bytes.Lines(file.Old)), slices.Collect(bytes.Lines(file.New))
	name := printable.Escape(file.File)
	if _, err := fmt.Fprintf(w, "--- a/%s\n+++ b/%s\n", name, name); err != nil {
		return err
	}
	for i := 0; i < len(was); i++ {
		if bytes.Equal(was[i], is[i]) {
			continue
		}
		end := i + 1 // of the last changed line
		for j := end; j < min(end+2*diffContext+1, len(was)); j++ {
			if !bytes.Equal(was[j], is[j]) {
				end = j + 1
			}
		}
		if err := printHunk(w, was, is, max(i-diffContext, 0), min(end+diffContext, len(was))); err != nil {
			return err
		}
		i = end
	}
	return nil
}

// printHunk prints the lines from one index to before another.
func printHunk(w io.Writer, was, is [][]byte, from, to int) error {
	var b bytes.Buffer
	line := func(mark byte, text []byte) {
		ended := bytes.TrimRight(text, "\r\n")
		fmt.Fprintf(&b, "%c%s\n", mark, printable.Escape(string(ended)))
		if len(ended) == len(text) {
			b.WriteString("\\ No newline at end of file\n")
		}
	}
	fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n", from+1, to-from, from+1, to-from)
	for i := from; i < to; {
		if bytes.Equal(was[i], is[i]) {
			line(' ', was[i])
			i++
			continue
		}
		next := i
		for ; next < to && !bytes.Equal(was[next], is[next]); next++ {
			line('-', was[next])
		}
		for ; i < next; i++ {
			line('+', is[i])
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}
