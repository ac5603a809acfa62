package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/support/doctor"
	"github.com/collection-operator/collection-operator/internal/support/snapshot"
	"github.com/collection-operator/collection-operator/internal/support/snapshot/reader"
)

// doctorTimeout limits the time in which a cluster is read.
const doctorTimeout = 5 * time.Minute

func doctorCommand() *cobra.Command {
	var (
		connection       *connection
		managerNamespace string
		output           string
	)
	command := &cobra.Command{
		Use:   "doctor [NAME | KIND/NAME]",
		Short: "Find out why a collection or a custom resource does not work",
		Long: `Look for problems in a namespace, of the OperatorCollection with a name, or of one custom resource: from the manager over
OperatorCollections, SubOperatorConfigs, ZosEndpoints, Secrets, permissions, objects of OLM, CRDs and pods to custom resources whose runs
fail, wait, or hang on their finalizer. Causes come before their consequences, and each has a next step. The content of Secrets is not read.

What you may not read is named, and is no error. Exit codes are 0 if nothing was found, 1 if something was found, and 2 if nothing could be
read, there is no such object, or nothing was found and a request failed.`,
		Example: `  kubectl collection doctor --namespace zos

  # Why does this one not work?
  kubectl collection doctor datafile/hello --namespace zos

  # The whole cluster
  kubectl collection doctor --all-namespaces`,
		Args: wants("at most 1 argument", cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains([]string{"text", "json"}, output) {
				return fmt.Errorf("--output %q is neither text nor json", output)
			}
			c, err := connection.connect()
			if err != nil {
				return err
			}
			read, err := readSnapshot(cmd.Context(), c, managerNamespace)
			if err != nil {
				return err
			}
			if len(args) > 0 {
				if err := doctor.Select(read, c.namespace, args[0]); err != nil {
					return err
				}
			}
			return printDoctor(cmd.OutOrStdout(), cmd.ErrOrStderr(), doctor.Diagnose(read), output)
		},
	}
	connection = newConnection(command)
	connection.addAllNamespaces(command)
	addManagerNamespace(command, &managerNamespace)
	command.Flags().StringVarP(&output, "output", "o", "text", "text, or json: one object")
	completeWords(command, "output", "text", "json")
	return command
}

func addManagerNamespace(command *cobra.Command, into *string) {
	command.Flags().StringVar(into, "manager-namespace", render.DefaultSettings().ArtifactServer.Namespace,
		"namespace of the manager, for users who may not look for it in all namespaces")
}

// readSnapshot reads the namespace of the command and what its objects depend on.
func readSnapshot(ctx context.Context, c *cluster, managerNamespace string) (*snapshot.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	clients := reader.Clients{Dynamic: c.dynamic, Discovery: c.discovery, Core: c.core.RESTClient()}
	return reader.Read(ctx, clients, reader.Scope{Namespace: c.namespace, ManagerNamespace: managerNamespace}, time.Now())
}

func printDoctor(stdout, stderr io.Writer, report *doctor.Report, output string) error {
	if output == "json" {
		if err := encodeJSON(stdout, report); err != nil {
			return err
		}
	} else {
		if err := report.Print(stdout, colored(stdout).severity); err != nil {
			return err
		}
		for _, problem := range report.Unread {
			fmt.Fprintln(stderr, "not looked at:", printable.Escape(problem))
		}
		fmt.Fprintln(stderr, report.Summary())
	}
	if len(report.Findings) > 0 {
		return errFindings
	}
	if report.Failed > 0 {
		return fmt.Errorf("nothing was found, but %s failed: try again", findings.Plural(report.Failed, "request"))
	}
	return nil
}
