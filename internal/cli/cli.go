// Package cli is the program kubectl-collection.
package cli

import (
	"fmt"
	"os"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/cli/admin"
	"github.com/collection-operator/collection-operator/internal/cli/adopt"
	"github.com/collection-operator/collection-operator/internal/cli/author"
	"github.com/collection-operator/collection-operator/internal/cli/deliver"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/local"
	"github.com/collection-operator/collection-operator/internal/cli/runs"
)

// Main is the program.
func Main() {
	local.AsInit()
	local.AsGate()
	os.Exit(kit.Run(kit.Root(commands()...), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// commands are those of the tool.
func commands() []*cobra.Command {
	return slices.Concat(author.Commands(), local.Commands(), deliver.Commands(), runs.Commands(), admin.Commands(), adopt.Commands(), []*cobra.Command{versionCommand()})
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this tool",
		Example: "  kubectl collection version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			version := kit.ModuleVersion()
			if version == "" {
				version = "development"
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s (%s)\n", kit.ToolName, version, runtime.Version())
			return err
		},
	}
}
