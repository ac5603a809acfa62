package author

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/author/lint"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// fixOptions are those of lint that change files.
type fixOptions struct{ fix, dryRun bool }

func (o *fixOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.fix, "fix", false, "correct what has exactly one right answer in the files of a folder")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "with --fix: print what would be corrected, and change nothing")
}

var errFixFolder = errors.New("--fix is for folders: correct the folder that the archive was built of")

// run corrects the files of a folder and prints the changes, if that is asked for.
func (o *fixOptions) run(cmd *cobra.Command, folder, digest, output string) error {
	switch {
	case !o.fix && o.dryRun:
		return errors.New("--dry-run is for --fix")
	case !o.fix:
		return nil
	case output != "text":
		return errors.New("--fix prints a diff: use it without --output")
	case digest != "":
		return errors.New("--digest is for archives, and --fix is for folders")
	}
	return o.correct(cmd, folder)
}

func (o *fixOptions) correct(cmd *cobra.Command, folder string) error {
	if ParseAddress(folder) != nil {
		return errFixFolder
	}
	info, err := os.Stat(folder)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return errFixFolder
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
	}
	if o.dryRun {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s would be corrected\n", findings.Plural(len(fixed), "file"))
		return nil
	}
	written, err := writeAll(root, fixed)
	fmt.Fprintf(cmd.ErrOrStderr(), "%s corrected\n", findings.Plural(written, "file"))
	return err
}

// writeAll writes files and returns how many are written: none if somebody else has changed one of them.
func writeAll(root *os.Root, files []lint.Fixed) (written int, err error) {
	for _, file := range files {
		if err := unchanged(root, file); err != nil {
			return 0, err
		}
	}
	for _, file := range files {
		if err := writeFixed(root, file); err != nil {
			return written, err
		}
		written++
	}
	return written, nil
}

func unchanged(root *os.Root, file lint.Fixed) error {
	now, err := root.ReadFile(file.File)
	if err == nil && !bytes.Equal(now, file.Old) {
		err = fmt.Errorf("%s was changed meanwhile and stays as it is: try again", printable.Escape(file.File))
	}
	return err
}

// writeFixed puts a file with the same mode in the place of the old one, unless somebody else has changed that.
func writeFixed(root *os.Root, file lint.Fixed) (err error) {
	info, err := root.Lstat(file.File)
	if err != nil {
		return err
	}
	temporary := path.Join(path.Dir(file.File), ".oc-lint-"+rand.Text())
	f, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, root.Remove(temporary))
		}
	}()
	_, err = f.Write(file.New)
	if err = errors.Join(err, f.Chmod(info.Mode().Perm()), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := unchanged(root, file); err != nil {
		return err
	}
	return root.Rename(temporary, file.File)
}

// printDiff prints a unified diff.
func printDiff(w io.Writer, file lint.Fixed) error {
	name := printable.Escape(file.File)
	return difflib.WriteUnifiedDiff(w, difflib.UnifiedDiff{
		A: diffLines(file.Old), FromFile: "a/" + name, B: diffLines(file.New), ToFile: "b/" + name, Context: 3,
	})
}

func diffLines(content []byte) []string {
	var lines []string
	for line := range strings.Lines(string(content)) {
		text, end := strings.TrimRight(line, "\r\n"), "\n"
		if text == line {
			end = "\n\\ No newline at end of file\n"
		}
		lines = append(lines, printable.Escape(text)+end)
	}
	return lines
}
