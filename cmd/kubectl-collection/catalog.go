package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install/catalog"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// operatorOptions are the flags of the commands that make a ClusterServiceVersion.
type operatorOptions struct {
	apiGroup, image string
	architectures   []string
}

func (o *operatorOptions) addFlags(command *cobra.Command) {
	defaults := render.DefaultSettings()
	flags := command.Flags()
	flags.StringVar(&o.apiGroup, "api-group", string(v2beta2.APIGroupShared), "spec.apiGroup of the OperatorCollection: Shared or PerCollection")
	flags.StringVar(&o.image, "runtime-image", defaults.RuntimeImage, "the manager's flag of this name")
	flags.StringSliceVar(&o.architectures, "runtime-architectures", defaults.Architectures, "the manager's flag of this name")
	completeWords(command, "api-group", apiGroups...)
}

func (o *operatorOptions) validate() error {
	var errs []error
	if o.image == "" {
		errs = append(errs, errors.New("--runtime-image is not set"))
	}
	return errors.Join(append(errs, validateAPIGroup(o.apiGroup))...)
}

// group is the API group of a collection's kinds.
func (o *operatorOptions) group(s *source) string {
	return s.collection.Group(o.apiGroup == string(v2beta2.APIGroupPerCollection))
}

func (o *operatorOptions) clusterServiceVersion(s *source) (*operatorsv1alpha1.ClusterServiceVersion, error) {
	settings := render.DefaultSettings()
	settings.RuntimeImage, settings.Architectures = o.image, o.architectures
	return render.ClusterServiceVersion(s.collection, render.ClusterServiceVersionOptions{
		InstallationOptions: settings.Options("", o.group(s), s.digest, store.URLPath(s.digest)),
	})
}

// catalogOptions are the flags of catalog.
type catalogOptions struct {
	operatorOptions
	output string
}

func catalogCommand() *cobra.Command {
	var o catalogOptions
	command := &cobra.Command{
		Use:   "catalog PATH...",
		Short: "Print a file-based catalog of collections for OLM",
		Long: `Print a file-based catalog of collections, from their archives or folders, for the Operator Lifecycle Manager (OLM). It has a
package for each collection with a channel stable, which holds all versions that are given, and a channel v<version> that ends
with each of them.

The manager serves such a catalog by itself. Its bundles have no images and no CustomResourceDefinitions: the manager writes
those, and what the operators read when they start. Printed is what operator-registry's own code has read back. If a collection
cannot be in one catalog with the others, this is said, nothing is printed, and the exit code is 1.`,
		Example: `  # Two versions of one collection
  kubectl collection catalog example-zos_files-1.0.0.tar.gz example-zos_files-1.1.0.tar.gz

  # The channels
  kubectl collection catalog ./zos-files --output json | jq 'select(.schema == "olm.channel")'`,
		Args: atLeast(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.print(cmd, args)
		},
	}
	o.addFlags(command)
	command.Flags().StringVarP(&o.output, "output", "o", "yaml", "yaml: one document per blob; json: one object per blob, one after the other")
	completeWords(command, "output", "yaml", "json")
	return command
}

func (o *catalogOptions) validate() error {
	errs := []error{o.operatorOptions.validate()}
	if !slices.Contains([]string{"yaml", "json"}, o.output) {
		errs = append(errs, fmt.Errorf("--output %q is neither yaml nor json", o.output))
	}
	return errors.Join(errs...)
}

func (o *catalogOptions) print(cmd *cobra.Command, paths []string) error {
	bundles := make([]catalog.Bundle, 0, len(paths))
	for _, path := range paths {
		source, err := loadSource(path)
		if err != nil {
			return refused(cmd, path, err)
		}
		csv, err := o.clusterServiceVersion(source)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		c := source.collection
		bundles = append(bundles, catalog.Bundle{Domain: c.Domain, Name: c.Name, Package: render.PackageName(c), ClusterServiceVersion: csv})
	}
	made, refusals := catalog.Build(bundles)
	for _, refusal := range refusals {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s: %v\n", paths[refusal.Index], refusal.Reason, refusal)
	}
	if len(refusals) > 0 {
		return errFindings
	}
	content, err := o.encode(made)
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(content)
	return err
}

// encode gives the catalog as text. The error says why OLM could not read it.
func (o *catalogOptions) encode(made *declcfg.DeclarativeConfig) ([]byte, error) {
	write := declcfg.WriteYAML
	if o.output == "json" {
		write = declcfg.WriteJSON
	}
	var content bytes.Buffer
	if err := write(*made, &content); err != nil {
		return nil, err
	}
	read, err := declcfg.LoadReader(bytes.NewReader(content.Bytes()))
	if err != nil {
		return nil, fmt.Errorf("the catalog cannot be read back: %w", err)
	}
	if _, err := declcfg.ConvertToModel(*read); err != nil {
		return nil, fmt.Errorf("the catalog is not valid: %w", err)
	}
	return content.Bytes(), nil
}
