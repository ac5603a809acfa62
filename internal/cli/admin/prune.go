package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

func pruneCommand() *cobra.Command {
	var yes bool
	command := &cobra.Command{
		Use:   "prune",
		Short: "List and remove CRDs without an OperatorCollection",
		Long: `List the CRDs of collections that no OperatorCollection in any namespace has. The manager keeps them, because it has not seen that
their OperatorCollections were deleted: a backup may not be restored completely, or their finalizer was removed.

With --yes, the command removes those that have no custom resources. You need the permission to list CRDs, OperatorCollections,
SubOperatorConfigs and the custom resources, and to delete CRDs.

Exit codes are 0 if the command did its work, and 2 if it failed.`,
		Example: `  # See what would be removed
  kubectl collection prune

  # Remove it
  kubectl collection prune --yes`,
		Args: cobra.NoArgs,
	}
	command.Flags().BoolVarP(&yes, "yes", "y", false, "remove the CRDs that have no custom resources")
	kube.Command(command, func(cmd *cobra.Command, c *kube.Cluster, _ []string) error {
		found, err := findUnclaimed(cmd.Context(), c)
		if err != nil {
			return err
		}
		if err := printUnclaimed(cmd.OutOrStdout(), found); err != nil || !yes {
			return err
		}
		return prune(cmd.Context(), c, cmd.OutOrStdout(), found)
	})
	return command
}

// unclaimed is a CRD that no OperatorCollection has.
type unclaimed struct {
	definition *apiextensionsv1.CustomResourceDefinition
	// resources says whether there are custom resources: "none", "some", or "unknown".
	resources string
}

// findUnclaimed returns the CRDs that no OperatorCollection has, sorted by name.
func findUnclaimed(ctx context.Context, c *kube.Cluster) ([]unclaimed, error) {
	var claims claims
	err := errors.Join(listInto(ctx, c, "operatorcollections", &claims.collections), listInto(ctx, c, "suboperatorconfigs", &claims.configs))
	if err != nil {
		return nil, err
	}
	var found []unclaimed
	err = kube.EachOf(ctx, c, kube.DefinitionType, metav1.NamespaceAll, func(definition *apiextensionsv1.CustomResourceDefinition) error {
		if claims.lack(definition) {
			found = append(found, unclaimed{definition: definition, resources: resourcesOf(ctx, c, definition)})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list CRDs: %w", err)
	}
	slices.SortFunc(found, func(a, b unclaimed) int { return strings.Compare(a.definition.Name, b.definition.Name) })
	return found, nil
}

// listInto appends all objects of a resource of this API group, in all namespaces.
func listInto[T any](ctx context.Context, c *kube.Cluster, resource string, into *[]T) error {
	err := kube.EachOf(ctx, c, v2beta2.GroupVersion.WithResource(resource), metav1.NamespaceAll, func(object *T) error {
		*into = append(*into, *object)
		return nil
	})
	if err != nil {
		return fmt.Errorf("list %s: %w", resource, err)
	}
	return nil
}

// claims has what needs CRDs.
type claims struct {
	collections []v2beta2.OperatorCollection
	configs     []v2beta2.SubOperatorConfig
}

// lack reports whether a CRD was made for a collection that none of the OperatorCollections has, or will have when it is imported again.
// While a SubOperatorConfig has the collection, its operator needs the CRD.
func (c *claims) lack(definition *apiextensionsv1.CustomResourceDefinition) bool {
	id := render.IDOf(definition.GetLabels())
	if id == (model.ID{}) || !kube.IsCollectionGroup(definition.Spec.Group) {
		return false
	}
	holders := crd.Holders(definition)
	return !slices.ContainsFunc(c.configs, func(soc v2beta2.SubOperatorConfig) bool { return render.IDOf(soc.GetLabels()) == id }) &&
		!slices.ContainsFunc(c.collections, func(oc v2beta2.OperatorCollection) bool {
			imported := oc.Status.Collection
			if imported == nil {
				return render.IDOf(oc.GetLabels()) == id || slices.Contains(holders, oc.Namespace+"/"+oc.Name)
			}
			return imported.Domain == id.Domain && imported.Name == id.Name && slices.Contains(imported.Kinds, definition.Spec.Names.Kind)
		})
}

// resourcesOf asks for one custom resource. That a kind is not served does not mean that there is none.
func resourcesOf(ctx context.Context, c *kube.Cluster, definition *apiextensionsv1.CustomResourceDefinition) string {
	version, err := apihelpers.GetCRDStorageVersion(definition)
	if err != nil {
		return "unknown"
	}
	gvr := schema.GroupVersionResource{Group: definition.Spec.Group, Version: version, Resource: definition.Spec.Names.Plural}
	list, err := c.Dynamic.Resource(gvr).List(ctx, metav1.ListOptions{Limit: 1})
	switch {
	case err != nil:
		return "unknown"
	case len(list.Items) > 0:
		return "some"
	}
	return "none"
}

func printUnclaimed(out io.Writer, found []unclaimed) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(out, "Each CRD of a collection has an OperatorCollection.")
		return err
	}
	table := kit.NewTable("CRD", "CUSTOM RESOURCES", "RECORDED OPERATORCOLLECTIONS")
	for _, each := range found {
		table.Row(each.definition.Name, each.resources, cmp.Or(strings.Join(crd.Holders(each.definition), ","), "<none>"))
	}
	return table.Print(out)
}

// prune deletes the CRDs that have no custom resources, unless they were changed in the meantime.
func prune(ctx context.Context, c *kube.Cluster, out io.Writer, found []unclaimed) error {
	for _, each := range found {
		name := each.definition.Name
		if each.resources != "none" {
			fmt.Fprintf(out, "%s: kept: it has custom resources, or cannot be listed\n", name)
			continue
		}
		uid, version := each.definition.UID, each.definition.ResourceVersion
		err := c.Dynamic.Resource(kube.DefinitionType).Delete(ctx, name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove CRD %s: %w", name, err)
		}
		fmt.Fprintf(out, "%s: removed\n", name)
	}
	return nil
}
