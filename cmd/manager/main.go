// Command manager runs the controllers of Collection Operator. The subcommand unpack runs in the init container of installed
// operators, the subcommand policies where the Operator Lifecycle Manager installs the manager, and the subcommand operands with the
// component operands.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	if err := command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var s options // For the usage and wrong arguments.
	policies, operands := policiesCommand(), operandsCommand()
	root := &cobra.Command{
		Use:           "manager",
		Short:         "Runs Ansible collections as Kubernetes operators",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			invocation, err := newInvocation(os.Args[1:], os.LookupEnv)
			if err != nil {
				return err
			}
			for _, name := range unknownVariables(os.Environ(), cmd.Flags(), policies.Flags(), operands.Flags()) {
				cmd.PrintErrf("warning: environment variable %s is ignored: there is no such flag\n", name)
			}
			return runProcess(cmd.Context(), invocation, os.Environ())
		},
	}
	s.addFlags(root.Flags())
	root.AddCommand(unpackCommand(), policies, operands)
	return root
}
