// Package deliver has the commands of kubectl-collection that bring collections and credentials into a cluster.
package deliver

import "github.com/spf13/cobra"

// Commands bring collections and credentials into a cluster.
func Commands() []*cobra.Command {
	return []*cobra.Command{pushCommand(), upgradeCommand(), rollbackCommand(), devCommand(), credentialCommand()}
}
