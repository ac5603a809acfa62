// Package admin has the commands of kubectl-collection for administrators.
package admin

import "github.com/spf13/cobra"

// Commands are those of administrators.
func Commands() []*cobra.Command {
	return []*cobra.Command{doctorCommand(), mustGatherCommand(), imagesCommand(), pruneCommand(), requestCommand()}
}
