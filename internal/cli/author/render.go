package author

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/collection/explain"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// renderOptions are the flags of render.
type renderOptions struct {
	operatorOptions
	namespace, output string
	endpoints         []string
	settings          render.Settings
	// artifactURL is the manager's flag.
	artifactURL string
}

func renderCommand() *cobra.Command {
	o := renderOptions{settings: render.DefaultSettings()}
	command := &cobra.Command{
		Use:   "render PATH --namespace NS",
		Short: "Print the Kubernetes objects of a collection",
		Long: `Print the objects that the manager writes for a collection, from its archive or its folder: CustomResourceDefinitions,
ServiceAccount, roles and their bindings, the NetworkPolicy, the runtime's ConfigMap and the Deployment. They are those of an
OperatorCollection in namespace NS that is alone in having the collection, sets neither runtime nor dependencies, and is mapped
to NS, under a manager that config/default installs.

Some things only a cluster knows: the annotation zoscb.ibm.com/suboperatorconfig, and whatever the API server adds. Secrets are never printed. A folder is built in memory first, so that the digest is that of the archive that build makes.`,
		Example: `  # What would be installed
  kubectl collection render example-zos_files-1.0.0.tar.gz --namespace zos

  # The differences from a cluster
  kubectl collection render ./zos-files --namespace zos | kubectl diff --filename -`,
		Args: kit.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			source, err := LoadSource(args[0])
			if err != nil {
				return Refused(cmd, args[0], err)
			}
			return o.print(cmd.OutOrStdout(), source)
		},
	}
	flags := command.Flags()
	flags.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the OperatorCollection and of its operator (required)")
	flags.StringArrayVar(&o.endpoints, "endpoint", nil, "ZosEndpoint that the operator may use, may be repeated; without it all of the namespace. "+
		"Endpoints are in a Secret alone: this changes the comment at the head of the YAML, and no object")
	flags.StringVarP(&o.output, "output", "o", "yaml", "yaml: one document per object; json: one v1 List")
	flags.StringVar(&o.artifactURL, "artifact-url", o.settings.ArtifactTLSURL, "the manager's flag of this name")
	flags.StringVar(&o.settings.Dependencies.GalaxyURL, "galaxy-url", "", "the manager's flag of this name")
	flags.StringVar(&o.settings.Dependencies.PipIndexURL, "pip-index-url", "", "the manager's flag of this name")
	kit.CompleteWords(command, "output", "yaml", "json")
	o.addFlags(command)
	return command
}

func (o *renderOptions) validate() error {
	var errs []error
	if len(validation.IsDNS1123Label(o.namespace)) > 0 {
		errs = append(errs, fmt.Errorf("--namespace %q is not the name of a namespace", o.namespace))
	}
	for _, name := range o.endpoints {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			errs = append(errs, fmt.Errorf("--endpoint %q is not the name of a ZosEndpoint", name))
		}
	}
	errs = append(errs, kit.OneOf("output", o.output, "yaml", "json"), kit.OneOf("api-group", o.apiGroup, apiGroups...), o.settings.SetArtifactURL(o.artifactURL))
	return errors.Join(errs...)
}

func (o *renderOptions) print(w io.Writer, s *Source) error {
	objects, err := o.objects(s)
	if err != nil {
		return err
	}
	if o.output == "json" {
		return kit.EncodeJSON(w, map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	}
	endpoints := "every ZosEndpoint of the namespace"
	if len(o.endpoints) > 0 {
		endpoints = "ZosEndpoint " + strings.Join(o.endpoints, ", ")
	}
	fmt.Fprintf(w, "# The manager also writes Secret %s/%s, with variables, host keys and credential of\n# %s. Secrets are never printed.\n",
		o.namespace, render.EndpointsSecretName(s.Collection), endpoints)
	for _, object := range objects {
		document, err := yaml.Marshal(object)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "---\n%s", document); err != nil {
			return err
		}
	}
	return nil
}

// objects are those of the collection in the order in which the manager writes them.
func (o *renderOptions) objects(s *Source) ([]map[string]any, error) {
	c, group := s.Collection, o.group(s)
	o.settings.RuntimeImage, o.settings.Architectures = o.image, o.architectures
	crds, err := render.ClaimedCRDs(c, group, o.namespace, s.Digest)
	if err != nil {
		return nil, err
	}
	options := o.settings.Options(o.namespace, group, s.Digest, store.URLPath(s.Digest))
	options.Runtime.RunTimeout = cmp.Or(options.Runtime.RunTimeout, &metav1.Duration{Duration: render.DefaultRunTimeout})
	installation, err := render.Installation(c, options)
	if err != nil {
		return nil, err
	}
	rendered := make([]render.Object, 0, len(crds)+len(installation))
	for _, crd := range crds {
		rendered = append(rendered, crd)
	}
	objects := make([]map[string]any, 0, cap(rendered))
	for _, object := range append(rendered, installation...) {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, err
		}
		// What is the API server's, and empty here.
		unstructured.RemoveNestedField(content, "status")
		unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
		unstructured.RemoveNestedField(content, "spec", "template", "metadata", "creationTimestamp")
		objects = append(objects, content)
	}
	return objects, nil
}

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
	kit.CompleteWords(command, "api-group", apiGroups...)
}

func (o *operatorOptions) validate() error {
	var errs []error
	if o.image == "" {
		errs = append(errs, errors.New("--runtime-image is not set"))
	}
	return errors.Join(append(errs, kit.OneOf("api-group", o.apiGroup, apiGroups...))...)
}

// group is the API group of a collection's kinds.
func (o *operatorOptions) group(s *Source) string {
	return s.Collection.Group(o.apiGroup == string(v2beta2.APIGroupPerCollection))
}

// apiGroups are what --api-group takes.
var apiGroups = []string{string(v2beta2.APIGroupShared), string(v2beta2.APIGroupPerCollection)}

func explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain PATH",
		Short: "Describe the kinds and permissions of a collection",
		Long: `Describe a collection, from its archive or its folder, for reviewers: its kinds with their fields and playbooks, the
permissions that it requests, and its dependencies. For the objects themselves see render.`,
		Example: `  kubectl collection explain example-zos_files-1.0.0.tar.gz`,
		Args:    kit.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			source, err := LoadSource(args[0])
			if err != nil {
				return Refused(cmd, args[0], err)
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), explain.Report(source.Collection, model.Group))
			return err
		},
	}
}
