package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/pager"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

const (
	// pageSize is the number of objects that are read with one request.
	pageSize = 250
	// maxConcurrentRequests limits what a command asks the API server at the same time.
	maxConcurrentRequests = 8
	// fieldManager of the tool's writes.
	fieldManager = "kubectl-collection"
)

// connection has kubectl's flags for the connection to a cluster.
type connection struct {
	rules         *clientcmd.ClientConfigLoadingRules
	overrides     clientcmd.ConfigOverrides
	allNamespaces bool
}

// newConnection adds the flags to a command.
func newConnection(cmd *cobra.Command) *connection {
	return newConnectionAs(cmd, "user")
}

// newConnectionAs gives another name to the flag --user, which says whose credential in the kubeconfig is used.
func newConnectionAs(cmd *cobra.Command, user string) *connection {
	c := &connection{rules: clientcmd.NewDefaultClientConfigLoadingRules()}
	cmd.Flags().StringVar(&c.rules.ExplicitPath, "kubeconfig", "", "path of the kubeconfig file")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace.Description = "the namespace; by default that of the context"
	names.AuthOverrideFlags = clientcmd.AuthOverrideFlags{
		Token: names.AuthOverrideFlags.Token, Impersonate: names.AuthOverrideFlags.Impersonate,
		ImpersonateGroups: names.AuthOverrideFlags.ImpersonateGroups,
	}
	names.ContextOverrideFlags.AuthInfoName.LongName = user
	names.ClusterOverrideFlags.ProxyURL, names.ClusterOverrideFlags.DisableCompression = clientcmd.FlagInfo{}, clientcmd.FlagInfo{}
	clientcmd.BindOverrideFlags(&c.overrides, cmd.Flags(), names)
	return c
}

// addAllNamespaces adds the flag -A.
func (c *connection) addAllNamespaces(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&c.allNamespaces, "all-namespaces", "A", false, "all namespaces")
}

// cluster has the clients for a cluster.
type cluster struct {
	dynamic   dynamic.Interface
	core      corev1client.CoreV1Interface
	discovery discovery.DiscoveryInterface
	// namespace of the command, empty for all.
	namespace string
}

func (c *connection) loader() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.rules, &c.overrides)
}

func (c *connection) connect() (*cluster, error) {
	loader := c.loader()
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, err
	}
	if c.allNamespaces {
		namespace = metav1.NamespaceAll
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 100
	config.WarningHandler = rest.NoWarnings{}
	connected := &cluster{namespace: namespace}
	if connected.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if connected.core, err = corev1client.NewForConfig(config); err != nil {
		return nil, err
	}
	connected.discovery, err = discovery.NewDiscoveryClientForConfig(config)
	return connected, err
}

// resource is a custom resource of a collection.
type resource struct {
	mapping         *meta.RESTMapping
	namespace, name string
}

// String is the form in which kubectl prints a resource, and in which users can give it.
func (r resource) String() string { return r.mapping.Resource.GroupResource().String() + "/" + r.name }

func (r resource) kind() string { return r.mapping.GroupVersionKind.Kind }

// resource returns the one that a user means by KIND/NAME.
func (c *cluster) resource(argument string) (resource, error) {
	kind, name, ok := strings.Cut(argument, "/")
	if !ok || kind == "" || name == "" || strings.Contains(name, "/") {
		return resource{}, fmt.Errorf("%q is not of the form KIND/NAME, such as datafile/hello", argument)
	}
	mapping, err := c.mapping(kind)
	return resource{mapping: mapping, namespace: c.namespace, name: name}, err
}

// mapping returns the resource type that a user means by a kind, its plural or its singular, with or without its group.
func (c *cluster) mapping(word string) (*meta.RESTMapping, error) {
	groups, err := restmapper.GetAPIGroupResources(c.discovery)
	if err != nil {
		return nil, err
	}
	return findMapping(restmapper.NewDiscoveryRESTMapper(groups), word)
}

func findMapping(mapper meta.RESTMapper, word string) (*meta.RESTMapping, error) {
	wanted := schema.ParseGroupResource(strings.ToLower(word))
	found, err := mapper.KindsFor(wanted.WithVersion(""))
	if err != nil && !meta.IsNoMatchError(err) {
		return nil, err
	}
	var kinds []schema.GroupKind
	for _, gvk := range found {
		if isCollectionGroup(gvk.Group) && !slices.Contains(kinds, gvk.GroupKind()) {
			kinds = append(kinds, gvk.GroupKind())
		}
	}
	switch len(kinds) {
	case 0:
		return nil, fmt.Errorf("the cluster has no kind %q of a collection: `kubectl api-resources | grep %s` lists those it has", word, model.Group)
	case 1:
		return mapper.RESTMapping(kinds[0])
	}
	names := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		names = append(names, wanted.Resource+"."+kind.Group)
	}
	slices.Sort(names)
	return nil, fmt.Errorf("several collections have a kind %q: give the group too, as one of %s", word, strings.Join(names, ", "))
}

// isCollectionGroup reports whether an API group is for the kinds of collections.
func isCollectionGroup(group string) bool {
	return group == model.Group || strings.HasSuffix(group, "."+model.Group)
}

// types returns the resource types of all collections, each in its preferred version, sorted.
func (c *cluster) types() ([]schema.GroupVersionResource, error) {
	lists, err := discovery.ServerPreferredNamespacedResources(c.discovery)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // Other groups than ours may be out of order.
		return nil, err
	}
	var types []schema.GroupVersionResource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || !isCollectionGroup(gv.Group) {
			continue
		}
		for i := range list.APIResources {
			if !strings.Contains(list.APIResources[i].Name, "/") {
				types = append(types, gv.WithResource(list.APIResources[i].Name))
			}
		}
	}
	slices.SortFunc(types, func(a, b schema.GroupVersionResource) int { return strings.Compare(a.String(), b.String()) })
	return types, nil
}

// each calls a function with every object of a type in a namespace, which it reads in pages.
func (c *cluster) each(ctx context.Context, gvr schema.GroupVersionResource, namespace string, call func(*unstructured.Unstructured) error) error {
	return c.eachSelected(ctx, gvr, namespace, metav1.ListOptions{}, call)
}

// eachSelected is each for the objects that options select.
func (c *cluster) eachSelected(
	ctx context.Context, gvr schema.GroupVersionResource, namespace string, options metav1.ListOptions, call func(*unstructured.Unstructured) error,
) error {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return c.dynamic.Resource(gvr).Namespace(namespace).List(ctx, options)
	})
	pages.PageSize = pageSize
	pages.PageBufferSize = 0
	return pages.EachListItem(ctx, options, func(object runtime.Object) error {
		return call(object.(*unstructured.Unstructured))
	})
}

// read returns the resource that a user means by KIND/NAME, and its status.
func (c *cluster) read(ctx context.Context, argument string) (resource, *runstatus.Status, error) {
	r, err := c.resource(argument)
	if err != nil {
		return r, nil, err
	}
	object, err := c.dynamic.Resource(r.mapping.Resource).Namespace(r.namespace).Get(ctx, r.name, metav1.GetOptions{})
	if err != nil {
		return r, nil, err
	}
	status, err := statusOf(object)
	if err != nil {
		return r, nil, fmt.Errorf("%s: status: %w", r, err)
	}
	return r, status, nil
}

// annotate sets an annotation and returns the resource as it is with it.
func annotate(ctx context.Context, c *cluster, gvr schema.GroupVersionResource, namespace, name, annotation, value string) (*unstructured.Unstructured, error) {
	patch, err := render.JSON(map[string]any{"metadata": map[string]any{"annotations": map[string]string{annotation: value}}}, "")
	if err != nil {
		return nil, err
	}
	return c.dynamic.Resource(gvr).Namespace(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
}

// follow calls a function with each state of a resource, the present one first, until it returns true. It is called with nil
// when the resource is deleted.
func (c *cluster) follow(ctx context.Context, r resource, done func(*unstructured.Unstructured) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	client := c.dynamic.Resource(r.mapping.Resource).Namespace(r.namespace)
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, r.name).String()
	// Without permission there is no sense in trying again, as the informer does.
	check := func(err error) {
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			cancel(err)
		}
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			list, err := client.List(ctx, options)
			check(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			watcher, err := client.Watch(ctx, options)
			check(err)
			return watcher, err
		},
	}
	gone := func(store cache.Store) (bool, error) { return len(store.List()) == 0 && done(nil), nil }
	_, err := watchtools.UntilWithSync(ctx, source, &unstructured.Unstructured{}, gone, func(event watch.Event) (bool, error) {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return false, fmt.Errorf("watch %s: %w", r, apierrors.FromObject(event.Object))
		}
		if event.Type == watch.Deleted {
			object = nil
		}
		return done(object), nil
	})
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("%s: timed out: what runs there is not affected", r)
	case cause != nil:
		return fmt.Errorf("follow %s: %w", r, cause)
	}
	return err
}

// operatorSelector returns the labels of the pods that run the playbooks of a kind. For users who may not read CRDs, they are
// those of the pods of all collections.
func operatorSelector(ctx context.Context, c *cluster, r resource) (map[string]string, error) {
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	crd, err := c.dynamic.Resource(crds).Get(ctx, r.mapping.Resource.GroupResource().String(), metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return map[string]string{render.LabelManagedBy: render.ManagedBy}, nil
	case err != nil:
		return nil, err
	}
	return render.IdentityLabels(render.IDOf(crd.GetLabels())), nil
}
