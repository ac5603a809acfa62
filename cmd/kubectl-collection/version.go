package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this tool",
		Example: "  kubectl collection version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			version := moduleVersion()
			if version == "" {
				version = "development"
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s (%s)\n", toolName, version, runtime.Version())
			return err
		},
	}
}

// moduleVersion is the version this tool was built at; "" if it was built from changed or unknown sources.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "(devel)" || strings.Contains(info.Main.Version, "+dirty") {
		return ""
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}
