// Command bundle packages Collection Operator for the Operator Lifecycle Manager: as a bundle, and as a catalog with the
// bundle. `make bundle` and `make catalog` run it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{Use: "bundle", SilenceUsage: true}
	root.AddCommand(bundleCommand(), catalogCommand())
	if root.Execute() != nil {
		os.Exit(1)
	}
}

func bundleCommand() *cobra.Command {
	var o options
	var output, icon string
	command := &cobra.Command{
		Use:   "bundle",
		Short: "Write a bundle of the manifests on standard input, as kustomize builds them",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			objects, err := decode(command.InOrStdin())
			if err != nil {
				return fmt.Errorf("standard input: %w", err)
			}
			if o.icon, err = os.ReadFile(icon); err != nil {
				return err
			}
			b, err := assemble(objects, o)
			if err != nil {
				return err
			}
			if err := b.write(output); err != nil {
				return err
			}
			warnings, err := validate(output)
			for _, warning := range warnings {
				fmt.Fprintln(command.ErrOrStderr(), warning)
			}
			return err
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.version, "version", "", "semantic version of the operator, without v")
	flags.StringVar(&o.managerImage, "image", "", "image of the manager")
	flags.StringVar(&o.runtimeImage, "runtime-image", "", "image of the runtime")
	flags.StringSliceVar(&o.architectures, "architectures", nil, "architectures of both images")
	flags.StringVar(&o.createdAt, "created-at", "", "time at which this version was created")
	flags.StringArrayVar(&o.maintainers, "maintainer", nil, "who publishes the bundle, as Name <mail address>; may be repeated")
	flags.BoolVar(&o.allowTags, "allow-tags", false, "accept images without digest; the bundle then does not claim to work in disconnected clusters")
	flags.StringVar(&icon, "icon", "", "SVG file")
	flags.StringVar(&output, "output", "", "output directory, which is replaced")
	for _, name := range []string{"version", "image", "runtime-image", "architectures", "created-at", "icon", "output"} {
		if err := command.MarkFlagRequired(name); err != nil {
			panic(err) // The flag is not defined.
		}
	}
	return command
}

func catalogCommand() *cobra.Command {
	var image, output string
	command := &cobra.Command{
		Use:   "catalog BUNDLE",
		Short: "Write a file-based catalog of the bundle in a directory",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			bundle, err := manifests.GetBundleFromDir(args[0])
			if err != nil {
				return err
			}
			catalog, err := catalogOf(bundle, image)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(output, 0o755); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(output, "catalog.yaml"), catalog, 0o644)
		},
	}
	command.Flags().StringVar(&image, "image", "", "image of the bundle; if not set, the catalog contains the bundle itself")
	command.Flags().StringVar(&output, "output", "catalog", "folder")
	return command
}
