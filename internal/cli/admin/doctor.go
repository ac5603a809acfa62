package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/support/doctor"
	"github.com/collection-operator/collection-operator/internal/support/mustgather"
	"github.com/collection-operator/collection-operator/internal/support/snapshot"
	"github.com/collection-operator/collection-operator/internal/support/snapshot/reader"
)

// doctorTimeout limits the time in which a cluster is read.
const doctorTimeout = 5 * time.Minute

func doctorCommand() *cobra.Command {
	var managerNamespace, output string
	command := &cobra.Command{
		Use:   "doctor [NAME | KIND/NAME]",
		Short: "Diagnose a collection or a custom resource that does not work",
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
		Args: kit.Wants("at most 1 argument", cobra.MaximumNArgs(1)),
	}
	connection := kube.Command(command, func(cmd *cobra.Command, c *kube.Cluster, args []string) error {
		read, err := readSnapshot(cmd.Context(), c, managerNamespace)
		if err != nil {
			return err
		}
		if len(args) > 0 {
			if err := doctor.Select(read, c.Namespace, args[0]); err != nil {
				return err
			}
		}
		return printDoctor(cmd.OutOrStdout(), cmd.ErrOrStderr(), doctor.Diagnose(read), output)
	})
	connection.AddAllNamespaces(command)
	addManagerNamespace(command, &managerNamespace)
	kit.AddOutput(command, &output, "text, or json: one object", "text", "json")
	return command
}

func addManagerNamespace(command *cobra.Command, into *string) {
	command.Flags().StringVar(into, "manager-namespace", render.DefaultSettings().ArtifactServer.Namespace,
		"namespace of the manager, for users who may not look for it in all namespaces")
}

// readSnapshot reads the namespace of the command and what its objects depend on.
func readSnapshot(ctx context.Context, c *kube.Cluster, managerNamespace string) (*snapshot.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	clients := reader.Clients{Dynamic: c.Dynamic, Discovery: c.Discovery, Core: c.Core.RESTClient()}
	return reader.Read(ctx, clients, reader.Scope{Namespace: c.Namespace, ManagerNamespace: managerNamespace}, time.Now())
}

func printDoctor(stdout, stderr io.Writer, report *doctor.Report, output string) error {
	if output == "json" {
		if err := kit.EncodeJSON(stdout, report); err != nil {
			return err
		}
	} else {
		if err := report.Print(stdout, kit.Colored(stdout).Severity); err != nil {
			return err
		}
		for _, problem := range report.Unread {
			fmt.Fprintln(stderr, "not looked at:", printable.Escape(problem))
		}
		fmt.Fprintln(stderr, report.Summary())
	}
	if len(report.Findings) > 0 {
		return kit.ErrFindings
	}
	if report.Failed > 0 {
		return fmt.Errorf("nothing was found, but %s failed: try again", findings.Plural(report.Failed, "request"))
	}
	return nil
}

// gatherExtension is that of the archive.
const gatherExtension = ".tar.gz"

// gatherTimeout limits the time in which objects, events and logs are read.
const gatherTimeout = 10 * time.Minute

func mustGatherCommand() *cobra.Command {
	var managerNamespace, output string
	command := &cobra.Command{
		Use:   "must-gather",
		Short: "Collect a redacted support archive",
		Long: `Collect a support archive (.tar.gz) of a namespace, or with -A of the cluster: the objects of collections, their events, the end of the
logs of the manager and of operators, the report of doctor, and versions.

The archive has no content of Secrets. Replaced with REDACTED are: passwords in custom resources, tokens, environment variables, variables of
ZosEndpoints, most annotations, users and queries in URLs, and what looks like a secret in logs and messages. Output of playbooks that no rule
recognises stays: look at the archive before you send it. What you may not read is named in it.

Exit codes are 0 if the archive was written, and 2 if not.`,
		Example: `  kubectl collection must-gather --namespace zos

  kubectl collection must-gather --all-namespaces --output problem.tar.gz`,
		Args: cobra.NoArgs,
	}
	addManagerNamespace(command, &managerNamespace)
	command.Flags().StringVarP(&output, "output", "o", "", "file to write, which must not exist; by default collection-must-gather-<time>"+gatherExtension)
	connection := kube.Command(command, func(cmd *cobra.Command, c *kube.Cluster, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), gatherTimeout)
		defer cancel()
		read, err := readSnapshot(ctx, c, managerNamespace)
		if err != nil {
			return err
		}
		content := mustgather.Content{Snapshot: read, Report: doctor.Diagnose(read), ToolVersion: cmp.Or(kit.ModuleVersion(), "development")}
		reader.Events(ctx, reader.Clients{Dynamic: c.Dynamic, Core: c.Core.RESTClient()}, read)
		content.Logs = reader.Logs(ctx, c.Core.RESTClient(), read)
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
	})
	connection.AddAllNamespaces(command)
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
