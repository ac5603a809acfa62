package main

import (
	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/author/lint"
	"github.com/collection-operator/collection-operator/internal/author/scenario"
)

// schemas are the JSON Schemas by the name of what they are of.
var schemas = map[string]func() ([]byte, error){"operator-config": lint.ConfigSchema, "scenario": scenario.Schema}

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema [operator-config|scenario]",
		Short: "Print the JSON Schema of operator-config.yml or of a scenario, for editors",
		Long: `Prints the JSON Schema (draft 7) of operator-config.yml, or of a scenario of the command test. With it, editors complete
and check what you write. It knows which keys there are and what they may hold. lint knows the rest.`,
		Example: `  # Let the YAML language server find it: put this into the first line of operator-config.yml
  #   # yaml-language-server: $schema=operator-config.schema.json
  kubectl collection schema > operator-config.schema.json

  # The same for scenarios
  kubectl collection schema scenario > scenario.schema.json`,
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"operator-config", "scenario"},
		RunE: func(cmd *cobra.Command, args []string) error {
			schema, err := schemas[append(args, "operator-config")[0]]()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(schema)
			return err
		},
	}
}
