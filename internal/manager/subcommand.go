package manager

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// subcommand runs another process of the same image, whose flags are taken from the environment too.
func subcommand(use, short string, settings interface {
	addFlags(flags *pflag.FlagSet)
	run(ctx context.Context) error
},
) *cobra.Command {
	command := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := setFromEnvironment(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			return settings.run(cmd.Context())
		},
	}
	settings.addFlags(command.Flags())
	return command
}
