// Package author has the commands of kubectl-collection for authors of collections.
package author

import "github.com/spf13/cobra"

// Commands are those for which no cluster and no z/OS system is needed.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		initCommand(), lintCommand(), schemaCommand(), buildCommand(), signCommand(), verifyCommand(), explainCommand(), renderCommand(), diffCommand(),
		bundleCommand(), catalogCommand(),
	}
}
