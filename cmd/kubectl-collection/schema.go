package main

import (
	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/lint"
)

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of operator-config.yml, for editors",
		Long: `Prints the JSON Schema (draft 7) of operator-config.yml, with which editors complete and check what you write. It knows
which keys there are and what they may hold. lint knows the rest.`,
		Example: `  # Let the YAML language server find it: put this into the first line of operator-config.yml
  #   # yaml-language-server: $schema=operator-config.schema.json
  kubectl collection schema > operator-config.schema.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			schema, err := lint.ConfigSchema()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(schema)
			return err
		},
	}
}
