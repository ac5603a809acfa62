// Command kubectl-collection is the tool of those who write and administer operator collections: it says what is wrong
// with a collection and what a cluster would make of it, without one. In a cluster it shows what the runs of playbooks did,
// and starts and cancels them. It also works as `kubectl collection` and `oc collection`.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// toolName is that of the executable, which kubectl and oc find by it.
const toolName = "kubectl-collection"

// Exit codes of all subcommands.
const (
	exitClean    = 0
	exitFindings = 1
	exitFailure  = 2
)

// errFindings ends a command that did its work and found something wrong, which it has printed already.
var errFindings = errors.New("findings")

// errPrinted ends a command that could not do its work, for a reason that is printed already.
var errPrinted = errors.New("the output says why")

func main() {
	asInit()
	asGate()
	os.Exit(run(rootCommand(allCommands()...), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run runs the tool, and returns its exit code.
func run(root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	switch {
	case err == nil:
		return exitClean
	case errors.Is(err, errFindings):
		return exitFindings
	case errors.Is(err, errPrinted):
		return exitFailure
	}
	fmt.Fprintln(stderr, "error:", err)
	return exitFailure
}

// exactly wants n arguments, and says which if there are others.
func exactly(n int) cobra.PositionalArgs {
	return wants(findings.Plural(n, "argument"), cobra.ExactArgs(n))
}

// atLeast wants n arguments or more, and says so if there are less.
func atLeast(n int) cobra.PositionalArgs {
	return wants("at least "+findings.Plural(n, "argument"), cobra.MinimumNArgs(n))
}

func wants(what string, check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) != nil {
			return fmt.Errorf("takes %s, not %d: %s", what, len(args), cmd.UseLine())
		}
		return nil
	}
}

// rootCommand is the tool with some commands.
func rootCommand(commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   toolName,
		Short: "Check operator collections and show what a cluster makes of them",
		Long: `Checks operator collections and shows what a cluster makes of them, without one. In a cluster it shows what the runs of
playbooks did, and starts and cancels them. It is a plug-in of kubectl and oc.

An operator collection is an Ansible collection with an operator-config.yml. Collection Operator turns it into a
Kubernetes operator.`,
		Example: `  # Begin a collection, and check it
  kubectl collection init zos_users
  kubectl collection lint zos_users

  # See what the playbooks of a namespace's custom resources did
  kubectl collection status --namespace zos`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl collection"},
	}
	root.AddCommand(commands...)
	return root
}

// allCommands are those of the tool.
func allCommands() []*cobra.Command {
	return slices.Concat(authorCommands(), localCommands(), deliverCommands(), runsCommands(), adminCommands(), adoptCommands(), []*cobra.Command{versionCommand()})
}

// authorCommands are those for which no cluster and no z/OS system is needed.
func authorCommands() []*cobra.Command {
	return []*cobra.Command{
		initCommand(), lintCommand(), schemaCommand(), buildCommand(), signCommand(), verifyCommand(), explainCommand(), renderCommand(), diffCommand(),
		bundleCommand(), catalogCommand(),
	}
}

// localCommands run playbooks.
func localCommands() []*cobra.Command { return []*cobra.Command{runCommand(), testCommand()} }

// deliverCommands bring collections and credentials into a cluster.
func deliverCommands() []*cobra.Command {
	return []*cobra.Command{pushCommand(), upgradeCommand(), rollbackCommand(), devCommand(), credentialCommand()}
}

// runsCommands show what the runs of playbooks did, and start and end them.
func runsCommands() []*cobra.Command {
	return []*cobra.Command{statusCommand(), endpointsCommand(), logsCommand(), rerunCommand(), cancelCommand(), abandonCommand()}
}

// adminCommands are those of administrators.
func adminCommands() []*cobra.Command {
	return []*cobra.Command{doctorCommand(), mustGatherCommand(), imagesCommand(), pruneCommand(), requestCommand()}
}

// adoptCommands take over a cluster.
func adoptCommands() []*cobra.Command { return []*cobra.Command{adoptCommand()} }

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this tool",
		Example: "  kubectl collection version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			version := moduleVersion()
			if version == "" {
				version = "development"
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s (%s)\n", toolName, version, runtime.Version())
			return err
		},
	}
}

// moduleVersion is the version this tool was built at; "" if it was built from changed or unknown sources.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "(devel)" || strings.Contains(info.Main.Version, "+dirty") {
		return ""
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}

// completeWords makes shells offer the words for a flag, which exists.
func completeWords(cmd *cobra.Command, flag string, words ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}
