// Package reader fills a snapshot from a cluster, with the rights of its user: what may not be read is named in the snapshot.
package reader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/settings"
	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

// Read reads a cluster. The error is that nothing could be read.
func Read(ctx context.Context, clients Clients, scope Scope, now time.Time) (*snapshot.Snapshot, error) {
	version, err := clients.Discovery.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask the API server for its version: %w", err)
	}
	c := &collecting{dynamic: clients.Dynamic, core: clients.Core, scope: scope, keeps: isOurs, snapshot: snapshot.New(now)}
	c.snapshot.ServerVersion, c.snapshot.ManagerNamespace = version.GitVersion, scope.ManagerNamespace
	if err := c.discover(clients.Discovery); err != nil {
		return nil, fmt.Errorf("ask the API server for its kinds: %w", err)
	}
	c.read(ctx, c.cluster())
	c.read(ctx, c.configuration())
	namespaces := c.namespaces()
	c.read(ctx, c.workloads(namespaces))
	c.read(ctx, c.installPlans())
	c.read(ctx, c.configsOfOthers())
	c.read(ctx, c.endpointsOfOthers())
	c.readSecrets(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.snapshot.Lists == 0 {
		c.snapshot.Finish()
		return nil, errors.New("nothing could be read: " + strings.Join(c.snapshot.Unread, "; "))
	}
	c.snapshot.Finish()
	return c.snapshot, nil
}

// discover finds the kinds that the cluster serves.
func (c *collecting) discover(client discovery.DiscoveryInterface) error {
	lists, err := discovery.ServerPreferredNamespacedResources(client)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // Other groups than ours may be out of order.
		return err
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		switch {
		case gv.Group == v2beta2.GroupVersion.Group:
			c.snapshot.ServesAPI = true
		case gv.Group == snapshot.Subscription.Group:
			c.hasOLM = true
		case gv.Group == model.Group || strings.HasSuffix(gv.Group, "."+model.Group):
			for i := range list.APIResources {
				if name := list.APIResources[i].Name; !strings.Contains(name, "/") {
					c.kinds = append(c.kinds, gv.WithResource(name))
				}
			}
		}
	}
	return nil
}

var (
	crds         = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
	clusterRoles = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}

	managed = render.LabelManagedBy + "=" + render.ManagedBy
)

func apps(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: resource}
}

func olm(version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: snapshot.Subscription.Group, Version: version, Resource: resource}
}

// cluster returns what does not depend on a namespace: the manager, CRDs and grants.
func (c *collecting) cluster() []query {
	queries := []query{
		{resource: crds, labels: managed},
		{resource: clusterRoles, labels: render.LabelGrant + "=true"},
		{resource: clusterRoles, labels: render.LabelSharedGrants + "=true"},
	}
	for _, plural := range []string{"operatorcollections", "suboperatorconfigs", "zosendpoints"} {
		queries = append(queries, query{resource: crds, name: plural + "." + v2beta2.GroupVersion.Group})
	}
	manager := snapshot.LabelManager + "=" + snapshot.ManagerName
	for _, resource := range []schema.GroupVersionResource{apps("statefulsets"), apps("deployments"), core("pods"), core("persistentvolumeclaims")} {
		set := map[string]snapshot.Complete{"statefulsets": snapshot.ManagerSets, "deployments": snapshot.ManagerDeployments}[resource.Resource]
		queries = append(queries, query{
			resource: resource, labels: manager, set: set,
			otherwise: &query{resource: resource, labels: manager, set: set, namespace: c.scope.ManagerNamespace},
		})
	}
	for _, name := range []string{settings.Name, settings.StatusName, "collection-operator-ca"} {
		queries = append(queries, query{resource: core("configmaps"), namespace: c.scope.ManagerNamespace, name: name})
	}
	if c.snapshot.ServesAPI {
		brokers := schema.GroupVersionResource{Group: v2beta2.GroupVersion.Group, Version: "v2beta1", Resource: "zoscloudbrokers"}
		queries = append(queries, query{resource: brokers, namespace: c.scope.ManagerNamespace})
	}
	if c.hasOLM {
		queries = append(queries, query{resource: olm("v1alpha1", "catalogsources"), namespace: c.scope.ManagerNamespace})
	}
	return queries
}

// configuration returns the three kinds, and the operators by which the SubOperatorConfigs of other namespaces are known.
func (c *collecting) configuration() []query {
	queries := []query{{resource: apps("deployments"), namespace: c.scope.Namespace, labels: managed, set: snapshot.Operators}}
	if !c.snapshot.ServesAPI {
		return queries
	}
	for _, plural := range []string{"operatorcollections", "suboperatorconfigs", "zosendpoints"} {
		queries = append(queries, query{resource: v2beta2.GroupVersion.WithResource(plural), namespace: c.scope.Namespace})
	}
	return queries
}

// namespaces returns those to read one by one: the one of the scope, and those that its SubOperatorConfigs map. For all namespaces it is
// the empty one.
func (c *collecting) namespaces() []string {
	if c.scope.Namespace == metav1.NamespaceAll {
		return []string{metav1.NamespaceAll}
	}
	var names []string
	for _, config := range snapshot.Typed[v2beta2.SubOperatorConfig](c.snapshot, snapshot.SubOperatorConfig) {
		for _, mapping := range config.Spec.Mapping {
			names = append(names, mapping.Namespace)
		}
		for i := range config.Status.Installations {
			names = append(names, config.Status.Installations[i].Namespace)
		}
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" || name == c.scope.Namespace })
	names = append([]string{c.scope.Namespace}, names...)
	if len(names) > maxNamespaces {
		c.unread(fmt.Sprintf("only %d of %d namespaces were read: give -A, or one of them with -n", maxNamespaces, len(names)))
		names = names[:maxNamespaces]
	}
	return names
}

// workloads returns what is in the namespaces of installations.
func (c *collecting) workloads(namespaces []string) []query {
	var queries []query
	for _, namespace := range namespaces {
		queries = append(queries, query{resource: core("namespaces"), name: namespace})
		if namespace != c.scope.Namespace {
			queries = append(queries, query{resource: apps("deployments"), namespace: namespace, labels: managed, set: snapshot.Operators})
		}
		for _, resource := range []schema.GroupVersionResource{apps("replicasets"), core("pods"), core("configmaps")} {
			queries = append(queries, query{resource: resource, namespace: namespace, labels: managed})
		}
		if c.hasOLM {
			queries = append(queries,
				query{resource: olm("v1alpha1", "subscriptions"), namespace: namespace},
				query{resource: olm("v1alpha1", "clusterserviceversions"), namespace: namespace, labels: managed},
				query{resource: olm("v1", "operatorgroups"), namespace: namespace, set: snapshot.OperatorGroups})
		}
		for _, kind := range c.kinds {
			queries = append(queries, query{resource: kind, namespace: namespace})
		}
	}
	return queries
}

// isOurs reports whether an object has to do with collections. Subscriptions have no labels to select them by.
func isOurs(object *unstructured.Unstructured) bool {
	if object.GroupVersionKind().GroupKind() != snapshot.Subscription {
		return true
	}
	source, _, _ := unstructured.NestedString(object.Object, "spec", "source")
	return source == snapshot.CatalogName
}

// installPlans returns those that the Subscriptions refer to: the others of a namespace may be of any product.
func (c *collecting) installPlans() []query {
	var queries []query
	for _, subscription := range c.snapshot.Of(snapshot.Subscription) {
		name, _, _ := unstructured.NestedString(subscription.Object, "status", "installPlanRef", "name")
		if name != "" {
			queries = append(queries, query{resource: olm("v1alpha1", "installplans"), namespace: subscription.GetNamespace(), name: name})
		}
	}
	slices.SortFunc(queries, compareQueries)
	return slices.Compact(queries)
}

// configsOfOthers returns the SubOperatorConfigs in other namespaces that the operators which were read belong to.
func (c *collecting) configsOfOthers() []query {
	var queries []query
	for _, deployment := range c.snapshot.Of(snapshot.Deployment) {
		namespace, name, ok := strings.Cut(deployment.GetAnnotations()[render.AnnotationOwner], "/")
		if ok && c.isOther(namespace) {
			queries = append(queries, query{resource: v2beta2.GroupVersion.WithResource("suboperatorconfigs"), namespace: namespace, name: name})
		}
	}
	slices.SortFunc(queries, compareQueries)
	return slices.Compact(queries)
}

func compareQueries(a, b query) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

// endpointsOfOthers returns what these SubOperatorConfigs refer to.
func (c *collecting) endpointsOfOthers() []query {
	var queries []query
	for _, config := range snapshot.Typed[v2beta2.SubOperatorConfig](c.snapshot, snapshot.SubOperatorConfig) {
		if c.isOther(config.Namespace) {
			queries = append(queries,
				query{resource: v2beta2.GroupVersion.WithResource("operatorcollections"), namespace: config.Namespace, name: config.Spec.OperatorCollection},
				query{resource: v2beta2.GroupVersion.WithResource("zosendpoints"), namespace: config.Namespace})
		}
	}
	return slices.Compact(queries)
}

func (c *collecting) isOther(namespace string) bool {
	return c.scope.Namespace != metav1.NamespaceAll && namespace != c.scope.Namespace
}

// readSecrets reads the Secrets of the namespaces that have objects which name some.
func (c *collecting) readSecrets(ctx context.Context) {
	var names []string
	for _, kind := range c.snapshot.Kinds() {
		isCollections := kind.Group == model.Group || strings.HasSuffix(kind.Group, "."+model.Group)
		if kind == snapshot.ZosCloudBroker || kind.Group != v2beta2.GroupVersion.Group && !isCollections {
			continue
		}
		for _, object := range c.snapshot.Of(kind) {
			names = append(names, object.GetNamespace())
		}
	}
	slices.Sort(names)
	var group errgroup.Group
	group.SetLimit(maxConcurrentRequests)
	for _, name := range slices.Compact(names) {
		group.Go(func() error {
			c.secrets(ctx, name)
			return nil
		})
	}
	_ = group.Wait()
}
