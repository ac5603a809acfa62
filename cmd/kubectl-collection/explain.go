package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/collection/explain"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

func explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain PATH",
		Short: "Tell what a collection becomes in a cluster",
		Long: `Tell what an archive or a collection's folder becomes in a cluster: its kinds with their fields and playbooks, the
permissions it asks for, and what must be installed beside it. For the objects themselves see render.`,
		Example: `  kubectl collection explain example-zos_files-1.0.0.tar.gz`,
		Args:    exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			source, err := loadSource(args[0])
			if err != nil {
				return refused(cmd, args[0], err)
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), explain.Report(source.collection, model.Group))
			return err
		},
	}
}
