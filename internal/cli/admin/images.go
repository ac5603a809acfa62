package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/author/images"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

// maxManifestBytes limits a file with manifests. A file-based catalog of many operators has some ten MiB.
const maxManifestBytes = 256 << 20

func imagesCommand() *cobra.Command {
	var (
		connection *kube.Connection
		files      []string
		output     string
	)
	command := &cobra.Command{
		Use:   "images",
		Short: "List the container images of an installation by digest, to copy them to another registry",
		Long: `List the container images that an installation uses, one per line, sorted: those of the manager and of the operators of collections,
the default image of operators, and spec.runtime.image of OperatorCollections and SubOperatorConfigs. Without --filename, these are those of
the cluster. A tag is replaced by the digest that a node pulled.

With --filename no cluster is asked, and listed is what manifests name: the output of kubectl kustomize or helm template, a
ClusterServiceVersion, a file-based catalog, OperatorCollections and SubOperatorConfigs.

Exit codes are 0 if all images have digests, 1 if an image has a tag only, and 2 if something could not be read.`,
		Example: `  # Copy all images of this cluster to another registry
  kubectl collection images | while read -r image; do
    skopeo copy --all --preserve-digests "docker://$image" "docker://mirror.example.com/${image#*/}"
  done

  # What the manifests that are to be installed name, as a configuration of oc-mirror
  kubectl kustomize deploy | kubectl collection images --filename - --output oc-mirror > imageset.yaml`,
		Args: cobra.NoArgs,
	}
	connection = kube.NewConnection(command)
	command.Flags().StringArrayVarP(&files, "filename", "f", nil, "file with manifests, or - for standard input; can be given several times")
	kit.AddOutput(command, &output, "name: one reference per line; oc-mirror: an ImageSetConfiguration", "name", "oc-mirror")
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		list := &images.List{}
		if err := readImages(cmd, list, connection, files); err != nil {
			return err
		}
		return printImages(cmd.OutOrStdout(), cmd.ErrOrStderr(), list, output)
	}
	return command
}

// readImages reads manifests, or a cluster if there are none.
func readImages(cmd *cobra.Command, list *images.List, connection *kube.Connection, files []string) error {
	if len(files) == 0 {
		c, err := connection.Connect()
		if err != nil {
			return err
		}
		return clusterImages(cmd.Context(), c, list)
	}
	for _, name := range files {
		if err := readManifests(cmd, list, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func readManifests(cmd *cobra.Command, list *images.List, name string) error {
	input := cmd.InOrStdin()
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return errors.Unwrap(err)
		}
		defer file.Close()
		input = file
	}
	limited := &io.LimitedReader{R: input, N: maxManifestBytes + 1}
	decoder := utilyaml.NewYAMLOrJSONDecoder(limited, 4096)
	for {
		var object map[string]any
		err := decoder.Decode(&object)
		switch {
		case limited.N <= 0:
			return fmt.Errorf("is larger than %d bytes", maxManifestBytes)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		list.AddObject(object)
	}
}

// clusterImages adds the images of the manager and of all collections. It fails if something may not be read: a list of which nobody knows what
// is missing is of no use.
func clusterImages(ctx context.Context, c *kube.Cluster, list *images.List) error {
	apps := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: resource}
	}
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	manager := metav1.ListOptions{LabelSelector: snapshot.LabelManager + "=" + snapshot.ManagerName}
	operators := metav1.ListOptions{LabelSelector: render.LabelManagedBy + "=" + render.ManagedBy}
	namespaces := map[string]bool{}
	for _, query := range []struct {
		resource schema.GroupVersionResource
		options  metav1.ListOptions
	}{
		{apps("statefulsets"), manager}, {apps("deployments"), manager}, {pods, manager}, {apps("deployments"), operators}, {pods, operators},
		{v2beta2.GroupVersion.WithResource("operatorcollections"), metav1.ListOptions{}},
		{v2beta2.GroupVersion.WithResource("suboperatorconfigs"), metav1.ListOptions{}},
	} {
		err := c.EachSelected(ctx, query.resource, metav1.NamespaceAll, query.options, func(object *unstructured.Unstructured) error {
			list.AddObject(object.Object)
			if query.options == manager {
				namespaces[object.GetNamespace()] = true
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("list %s: %w", query.resource.Resource, err)
		}
	}
	if len(namespaces) == 0 {
		return errors.New("the cluster has no manager: give the manifests that are to be installed with --filename")
	}
	return settingsImages(ctx, c, list, namespaces)
}

// settingsImages adds the default image of operators, which no operator may use.
func settingsImages(ctx context.Context, c *kube.Cluster, list *images.List, namespaces map[string]bool) error {
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	for namespace := range namespaces {
		settings, err := c.Dynamic.Resource(configMaps).Namespace(namespace).Get(ctx, "collection-operator-settings", metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err): // OLM's variables have it.
		case err != nil:
			return err
		default:
			list.AddObject(settings.Object)
		}
	}
	return nil
}

func printImages(stdout, stderr io.Writer, list *images.List, output string) error {
	references := list.References()
	if output == "oc-mirror" {
		if err := printImageSet(stdout, references); err != nil {
			return err
		}
	} else {
		for _, image := range references {
			fmt.Fprintln(stdout, image)
		}
	}
	for _, problem := range list.Problems() {
		fmt.Fprintln(stderr, problem)
	}
	if len(list.Problems()) > 0 {
		return kit.ErrFindings
	}
	return nil
}

// printImageSet prints the configuration with which oc-mirror, version 2, copies images.
func printImageSet(w io.Writer, references []string) error {
	named := make([]map[string]string, 0, len(references))
	for _, image := range references {
		named = append(named, map[string]string{"name": image})
	}
	content, err := yaml.Marshal(map[string]any{
		"apiVersion": "mirror.openshift.io/v2alpha1", "kind": "ImageSetConfiguration",
		"mirror": map[string]any{"additionalImages": named},
	})
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}
