package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

func buildCommand() *cobra.Command {
	var output string
	var force bool
	command := &cobra.Command{
		Use:   "build PATH",
		Short: "Make the archive of a collection's folder",
		Long: `Make the archive (tar.gz) of a collection's folder, with the content that ` + "`ansible-galaxy collection build`" + ` gives it:
MANIFEST.json, FILES.json, and every file that galaxy.yml's build_ignore does not leave out. The same folder gives the same
bytes. Prints the archive's path and its digest, which spec.digest of an OperatorCollection takes.

A collection that a cluster would refuse is not built: what is wrong with it is printed, and the exit code is 1.`,
		Example: `  # <namespace>-<name>-<version>.tar.gz in the current folder
  kubectl collection build ./zos-files

  # Into another folder, in place of the archive that is there
  kubectl collection build ./zos-files --output dist --force`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return build(cmd, args[0], output, force)
		},
	}
	command.Flags().StringVar(&output, "output", ".", "file to write, or folder for <namespace>-<name>-<version>.tar.gz")
	command.Flags().BoolVar(&force, "force", false, "replace a file that exists")
	return command
}

func build(cmd *cobra.Command, folder, output string, force bool) error {
	info, err := os.Stat(folder)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder: build makes an archive of one", folder)
	}
	content, err := buildFolder(folder)
	if err != nil {
		return refused(cmd, folder, err)
	}
	built, err := readSource(bytes.NewReader(content))
	if err != nil {
		return refused(cmd, folder, err)
	}
	metadata := built.collection.Galaxy
	if info, err := os.Stat(output); err == nil && info.IsDir() {
		output = filepath.Join(output, fmt.Sprintf("%s-%s-%s.tar.gz", metadata.Namespace, metadata.Name, metadata.Version))
	}
	// An interrupted build must not become part of the next one: files with such names are never built in.
	if err := writeFile(output, fmt.Sprintf("%s-%s-*.tar.gz", metadata.Namespace, metadata.Name), content, force); err != nil {
		return err
	}
	problems, _ := built.settings.Apply(built.collection.Problems)
	if len(problems.Findings()) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "a cluster accepts it, with %s: see `%s lint %s`\n", problems.Count(), cmd.Root().DisplayName(), folder)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), output, built.digest)
	return err
}

// writeFile writes a file as a whole or not at all. It is written under a name made from pattern first.
func writeFile(path, pattern string, content []byte, force bool) error {
	switch info, err := os.Lstat(path); {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s exists and is not a file: choose another --output", path)
	case err == nil && !force:
		return fmt.Errorf("%s exists: remove it, or replace it with --force", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), pattern)
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // After the rename there is no such file.
	_, err = temp.Write(content)
	if err := errors.Join(err, temp.Chmod(0o644), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
