package author

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install/catalog"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// Folders of a bundle, and the prefix of the annotations that describe it.
const (
	manifestsFolder  = "manifests"
	metadataFolder   = "metadata"
	bundleAnnotation = "operators.operatorframework.io.bundle."
)

func bundleCommand() *cobra.Command {
	var o operatorOptions
	var output string
	command := &cobra.Command{
		Use:   "bundle PATH --output DIR",
		Short: "Write a collection as a bundle for OLM",
		Long: `Write a collection, from its archive or its folder, as a bundle of the Operator Lifecycle Manager (OLM): DIR/manifests has its
ClusterServiceVersion and CustomResourceDefinitions, DIR/metadata says what it is, and DIR/Dockerfile builds its image.
Prints the files.

It is for reading, and for tools that want bundles. A cluster with the manager needs none, and an operator that OLM installs from
one starts only where the manager has written what it reads. The bundle is validated by operator-framework's own code, and
written as a whole or not at all. DIR must not exist, or be empty.`,
		Example: `  kubectl collection bundle example-zos_files-1.0.0.tar.gz --output bundle`,
		Args:    kit.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" {
				return errors.New("--output is not set: name the folder to write")
			}
			if err := o.validate(); err != nil {
				return err
			}
			source, err := LoadSource(args[0])
			if err != nil {
				return Refused(cmd, args[0], err)
			}
			files, err := o.bundleFiles(source)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if err := writeBundle(output, files); err != nil {
				return err
			}
			for _, file := range files {
				fmt.Fprintln(cmd.OutOrStdout(), filepath.Join(output, file.path))
			}
			return nil
		},
	}
	o.addFlags(command)
	command.Flags().StringVar(&output, "output", "", "folder to write (required)")
	return command
}

// bundleFile is a file of a bundle, below its folder.
type bundleFile struct {
	path    string
	content []byte
}

func (o *operatorOptions) bundleFiles(s *Source) ([]bundleFile, error) {
	csv, err := o.clusterServiceVersion(s)
	if err != nil {
		return nil, err
	}
	csv.Spec.Replaces = s.Collection.ReplacesVersion
	crds, err := render.CRDs(s.Collection, o.group(s))
	if err != nil {
		return nil, err
	}
	named := map[string]any{render.PackageName(s.Collection) + ".clusterserviceversion.yaml": csv}
	for _, crd := range crds {
		named[crd.Name+".yaml"] = crd
	}
	var files []bundleFile
	for name, object := range named {
		content, err := manifest(object)
		if err != nil {
			return nil, err
		}
		files = append(files, bundleFile{filepath.Join(manifestsFolder, name), content})
	}
	annotations, err := yaml.Marshal(map[string]any{"annotations": bundleAnnotations(s)})
	if err != nil {
		return nil, err
	}
	files = append(files,
		bundleFile{filepath.Join(metadataFolder, "annotations.yaml"), annotations},
		bundleFile{"Dockerfile", bundleDockerfile(bundleAnnotations(s))},
	)
	slices.SortFunc(files, func(a, b bundleFile) int { return strings.Compare(a.path, b.path) })
	return files, nil
}

// bundleAnnotations say what the bundle is. The channels are those that the manager's catalog has.
func bundleAnnotations(s *Source) map[string]string {
	return map[string]string{
		bundleAnnotation + "mediatype.v1":       "registry+v1",
		bundleAnnotation + "manifests.v1":       manifestsFolder + "/",
		bundleAnnotation + "metadata.v1":        metadataFolder + "/",
		bundleAnnotation + "package.v1":         render.PackageName(s.Collection),
		bundleAnnotation + "channels.v1":        catalog.StableChannel + "," + catalog.VersionChannel(s.Collection.VersionLabel()),
		bundleAnnotation + "channel.default.v1": catalog.StableChannel,
	}
}

// bundleDockerfile builds the image of the bundle, in its folder. Its labels are the annotations of the bundle.
func bundleDockerfile(annotations map[string]string) []byte {
	var b strings.Builder
	b.WriteString("FROM scratch\n\n")
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		fmt.Fprintf(&b, "LABEL %s=%s\n", name, annotations[name])
	}
	fmt.Fprintf(&b, "\nCOPY %[1]s /%[1]s/\nCOPY %[2]s /%[2]s/\n", manifestsFolder, metadataFolder)
	return []byte(b.String())
}

// manifest is an object in YAML, without what is the API server's.
func manifest(object any) ([]byte, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(content, "status")
	return yaml.Marshal(content)
}

// writeBundle makes a folder with the files, or none if they are not a valid bundle.
func writeBundle(folder string, files []bundleFile) error {
	switch entries, err := os.ReadDir(folder); {
	case err == nil && len(entries) > 0:
		return fmt.Errorf("%s is not empty: choose another --output, or remove what is in it", folder)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	folder, err := filepath.Abs(folder) // Of "." there is no name to take.
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp(filepath.Dir(folder), filepath.Base(folder)+".*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp) // After the rename there is no such folder.
	for _, file := range files {
		path := filepath.Join(temp, file.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, file.content, 0o644); err != nil {
			return err
		}
	}
	if err := validateBundle(temp); err != nil {
		return err
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return err
	}
	// Only an empty folder can be removed, and only a name without one can be taken.
	if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(temp, folder)
}

// validateBundle says everything that is wrong with a bundle on disk.
func validateBundle(folder string) error {
	bundle, err := manifests.GetBundleFromDir(folder)
	if err != nil {
		return fmt.Errorf("the bundle cannot be read back: %w", err)
	}
	var messages []string
	for _, result := range validation.DefaultBundleValidators.Validate(bundle.ObjectsToValidate()...) {
		for _, err := range result.Errors {
			messages = append(messages, fmt.Sprintf("%s: %s", result.Name, err.Error()))
		}
	}
	if len(messages) == 0 {
		return nil
	}
	slices.Sort(messages)
	return fmt.Errorf("the bundle is not valid:\n%s", strings.Join(messages, "\n"))
}

func (o *operatorOptions) clusterServiceVersion(s *Source) (*operatorsv1alpha1.ClusterServiceVersion, error) {
	settings := render.DefaultSettings()
	settings.RuntimeImage, settings.Architectures = o.image, o.architectures
	return render.ClusterServiceVersion(s.Collection, render.ClusterServiceVersionOptions{
		InstallationOptions: settings.Options("", o.group(s), s.Digest, store.URLPath(s.Digest)),
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
cannot be in one catalog with the others, nothing is printed but the reason, and the exit code is 1.`,
		Example: `  # Two versions of one collection
  kubectl collection catalog example-zos_files-1.0.0.tar.gz example-zos_files-1.1.0.tar.gz

  # The channels
  kubectl collection catalog ./zos-files --output json | jq 'select(.schema == "olm.channel")'`,
		Args: kit.AtLeast(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.print(cmd, args)
		},
	}
	o.addFlags(command)
	command.Flags().StringVarP(&o.output, "output", "o", "yaml", "yaml: one document per blob; json: one object per blob, one after the other")
	kit.CompleteWords(command, "output", "yaml", "json")
	return command
}

func (o *catalogOptions) validate() error {
	return errors.Join(o.operatorOptions.validate(), kit.OneOf("output", o.output, "yaml", "json"))
}

func (o *catalogOptions) print(cmd *cobra.Command, paths []string) error {
	bundles := make([]catalog.Bundle, 0, len(paths))
	for _, path := range paths {
		source, err := LoadSource(path)
		if err != nil {
			return Refused(cmd, path, err)
		}
		csv, err := o.clusterServiceVersion(source)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		c := source.Collection
		bundles = append(bundles, catalog.Bundle{Domain: c.Domain, Name: c.Name, Package: render.PackageName(c), ClusterServiceVersion: csv})
	}
	made, refusals := catalog.Build(bundles)
	for _, refusal := range refusals {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s: %v\n", paths[refusal.Index], refusal.Reason, refusal)
	}
	if len(refusals) > 0 {
		return kit.ErrFindings
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
