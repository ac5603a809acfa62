package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/support/doctor"
	"github.com/collection-operator/collection-operator/internal/support/mustgather"
	"github.com/collection-operator/collection-operator/internal/support/snapshot/reader"
)

// gatherExtension is that of the archive.
const gatherExtension = ".tar.gz"

// gatherTimeout limits the time in which objects, events and logs are read.
const gatherTimeout = 10 * time.Minute

func mustGatherCommand() *cobra.Command {
	var (
		connection       *connection
		managerNamespace string
		output           string
	)
	command := &cobra.Command{
		Use:   "must-gather",
		Short: "Write an archive for those who help, without secrets",
		Long: `Write an archive (.tar.gz) with what a namespace, or with -A the cluster, has of collections: objects, events, the end of the logs of
the manager and of operators, the report of doctor, and versions.

The archive has no content of Secrets. Replaced with REDACTED are: passwords in custom resources, tokens, environment variables, variables of
ZosEndpoints, most annotations, users and queries in URLs, and what looks like a secret in logs and messages. Output of playbooks that no rule
recognises stays: look at the archive before you send it. What you may not read is named in it.

Exit codes are 0 if the archive was written, and 2 if not.`,
		Example: `  kubectl collection must-gather --namespace zos

  kubectl collection must-gather --all-namespaces --output problem.tar.gz`,
		Args: cobra.NoArgs,
	}
	connection = newConnection(command)
	connection.addAllNamespaces(command)
	addManagerNamespace(command, &managerNamespace)
	command.Flags().StringVarP(&output, "output", "o", "", "file to write, which must not exist; by default collection-must-gather-<time>"+gatherExtension)
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := connection.connect()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), gatherTimeout)
		defer cancel()
		read, err := readSnapshot(ctx, c, managerNamespace)
		if err != nil {
			return err
		}
		content := mustgather.Content{Snapshot: read, Report: doctor.Diagnose(read), ToolVersion: cmp.Or(moduleVersion(), "development")}
		reader.Events(ctx, reader.Clients{Dynamic: c.dynamic, Core: c.core.RESTClient()}, read)
		content.Logs = reader.Logs(ctx, c.core.RESTClient(), read)
		if err := cmd.Context().Err(); err != nil { // It was interrupted. What took too long is named in the archive.
			return err
		}
		file := cmp.Or(output, "collection-must-gather-"+read.Taken.UTC().Format("20060102T150405Z")+gatherExtension)
		result, err := writeGathered(file, content)
		if err != nil {
			return err
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "Secrets were left out and what looks like one was replaced. Look at the archive before you send it.")
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, %d left out\n", file, findings.Plural(result.Files, "file"), result.LeftOut)
		return err
	}
	return command
}

// writeGathered creates a file that only its owner can read. It removes a file that it could not complete.
func writeGathered(name string, content mustgather.Content) (result mustgather.Result, err error) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return result, err
	}
	result, err = mustgather.Write(file, strings.TrimSuffix(filepath.Base(name), gatherExtension), content)
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(name)
	}
	return result, err
}
