// Package kit has what all commands of kubectl-collection need: exit codes, arguments, output, and the root command.
package kit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// ToolName is that of the executable, which kubectl and oc find by it.
const ToolName = "kubectl-collection"

// Exit codes of all subcommands.
const (
	ExitClean    = 0
	ExitFindings = 1
	ExitFailure  = 2
)

// ErrFindings ends a command that did its work and found something wrong, which it has printed already.
var ErrFindings = errors.New("findings")

// ErrPrinted ends a command that could not do its work, for a reason that is printed already.
var ErrPrinted = errors.New("the output says why")

// Root is the tool with some commands.
func Root(commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   ToolName,
		Short: "Develop, install and operate operator collections",
		Long: `Develop operator collections: create, check, run, test and build them, without a cluster. In a cluster, install and upgrade them,
show, start and cancel runs of their playbooks, and diagnose problems. It is a plug-in of kubectl and oc.

An operator collection is an Ansible collection with an operator-config.yml. Collection Operator turns it into a
Kubernetes operator.`,
		Example: `  # Create a collection, and check it
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

// Run runs the tool, and returns its exit code.
func Run(root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	switch {
	case err == nil:
		return ExitClean
	case errors.Is(err, ErrFindings):
		return ExitFindings
	case errors.Is(err, ErrPrinted):
		return ExitFailure
	}
	fmt.Fprintln(stderr, "error:", err)
	return ExitFailure
}

// Exactly wants n arguments, and says which if there are others.
func Exactly(n int) cobra.PositionalArgs {
	return Wants(findings.Plural(n, "argument"), cobra.ExactArgs(n))
}

// AtLeast wants n arguments or more, and says so if there are less.
func AtLeast(n int) cobra.PositionalArgs {
	return Wants("at least "+findings.Plural(n, "argument"), cobra.MinimumNArgs(n))
}

// Wants says what a command takes if the check of its arguments fails.
func Wants(what string, check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) != nil {
			return fmt.Errorf("takes %s, not %d: %s", what, len(args), cmd.UseLine())
		}
		return nil
	}
}

// ModuleVersion is the version this tool was built at; "" if it was built from changed or unknown sources.
func ModuleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "(devel)" || strings.Contains(info.Main.Version, "+dirty") {
		return ""
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}

// CompleteWords makes shells offer the words for a flag, which exists.
func CompleteWords(cmd *cobra.Command, flag string, words ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// AddOutput adds the flag -o, whose value is one of the words, by default the first. It uses the command's PreRunE.
func AddOutput(cmd *cobra.Command, into *string, usage string, words ...string) {
	cmd.Flags().StringVarP(into, "output", "o", words[0], usage)
	CompleteWords(cmd, "output", words...)
	cmd.PreRunE = func(*cobra.Command, []string) error { return OneOf("output", *into, words...) }
}

// OneOf fails unless the value of a flag is one of the words.
func OneOf(flag, value string, words ...string) error {
	if slices.Contains(words, value) {
		return nil
	}
	return fmt.Errorf("--%s %q is neither %s", flag, value, strings.Join(words, " nor "))
}

// UntilSignal returns a context that ends when this program is told to end. A closed output, as of head, makes writes fail instead of ending
// this program, which has to remove the credential.
func UntilSignal(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	closed := make(chan os.Signal, 1)
	signal.Notify(closed, syscall.SIGPIPE)
	return ctx, func() {
		signal.Stop(closed)
		stop()
	}
}

// WithTimeout is context.WithTimeout with 0 for no limit.
func WithTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}
