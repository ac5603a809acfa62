// Package runs has the commands of kubectl-collection that show what the runs of playbooks did, and start and end them.
package runs

import "github.com/spf13/cobra"

// Commands show what the runs of playbooks did, and start and end them.
func Commands() []*cobra.Command {
	return []*cobra.Command{statusCommand(), endpointsCommand(), logsCommand(), rerunCommand(), cancelCommand(), abandonCommand()}
}
