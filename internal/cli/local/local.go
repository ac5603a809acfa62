// Package local has the commands of kubectl-collection that run playbooks without a cluster.
package local

import "github.com/spf13/cobra"

// Commands run playbooks.
func Commands() []*cobra.Command { return []*cobra.Command{runCommand(), testCommand()} }
