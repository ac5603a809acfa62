// Package kube reads and follows objects of a cluster for the commands of kubectl-collection.
package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

const (
	// pageSize is the number of objects that are read with one request.
	pageSize = 250
	// MaxConcurrentRequests limits what a command asks the API server at the same time.
	MaxConcurrentRequests = 8
	// FieldManager of the tool's writes.
	FieldManager = "kubectl-collection"
)

// DefinitionType is the resource type of CRDs.
var DefinitionType = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// Connection has kubectl's flags for the connection to a cluster.
type Connection struct {
	rules         *clientcmd.ClientConfigLoadingRules
	Overrides     clientcmd.ConfigOverrides
	AllNamespaces bool
}

// NewConnection adds the flags to a command.
func NewConnection(cmd *cobra.Command) *Connection {
	return NewConnectionAs(cmd, "user")
}

// NewConnectionAs gives another name to the flag --user, which says whose credential in the kubeconfig is used.
func NewConnectionAs(cmd *cobra.Command, user string) *Connection {
	c := &Connection{rules: clientcmd.NewDefaultClientConfigLoadingRules()}
	cmd.Flags().StringVar(&c.rules.ExplicitPath, "kubeconfig", "", "path of the kubeconfig file")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace.Description = "the namespace; by default that of the context"
	names.AuthOverrideFlags = clientcmd.AuthOverrideFlags{
		Token: names.AuthOverrideFlags.Token, Impersonate: names.AuthOverrideFlags.Impersonate,
		ImpersonateGroups: names.AuthOverrideFlags.ImpersonateGroups,
	}
	names.ContextOverrideFlags.AuthInfoName.LongName = user
	names.ClusterOverrideFlags.ProxyURL, names.ClusterOverrideFlags.DisableCompression = clientcmd.FlagInfo{}, clientcmd.FlagInfo{}
	clientcmd.BindOverrideFlags(&c.Overrides, cmd.Flags(), names)
	return c
}

// Command adds the flags of a connection to a command, and makes it call run with the clients for the cluster.
func Command(command *cobra.Command, run func(cmd *cobra.Command, c *Cluster, args []string) error) *Connection {
	connection := NewConnection(command)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := connection.Connect()
		if err != nil {
			return err
		}
		return run(cmd, c, args)
	}
	return connection
}

// AddAllNamespaces adds the flag -A.
func (c *Connection) AddAllNamespaces(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&c.AllNamespaces, "all-namespaces", "A", false, "all namespaces")
}

// Connect makes the clients. It sends no request.
func (c *Connection) Connect() (*Cluster, error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.rules, &c.Overrides)
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, err
	}
	if c.AllNamespaces {
		namespace = metav1.NamespaceAll
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 100
	config.WarningHandler = rest.NoWarnings{}
	connected := &Cluster{Namespace: namespace, Config: config}
	if connected.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if connected.Core, err = corev1client.NewForConfig(config); err != nil {
		return nil, err
	}
	connected.Discovery, err = discovery.NewDiscoveryClientForConfig(config)
	return connected, err
}

// Cluster has the clients for a cluster.
type Cluster struct {
	Dynamic   dynamic.Interface
	Core      corev1client.CoreV1Interface
	Discovery discovery.DiscoveryInterface
	// Config is what the clients were made with.
	Config *rest.Config
	// Namespace of the command, empty for all.
	Namespace string
}

// Typed returns a client for the types that functions such as [v2beta2.AddToScheme] add.
func (c *Cluster) Typed(types ...func(*runtime.Scheme) error) (client.Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range types {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return client.New(c.Config, client.Options{Scheme: scheme})
}

// Resource is a custom resource of a collection.
type Resource struct {
	Mapping         *meta.RESTMapping
	Namespace, Name string
}

// String is the form in which kubectl prints a resource, and in which users can give it.
func (r Resource) String() string { return r.Mapping.Resource.GroupResource().String() + "/" + r.Name }

// Kind is that of the custom resource.
func (r Resource) Kind() string { return r.Mapping.GroupVersionKind.Kind }

// OperatorCollectionOf returns an OperatorCollection as a resource.
func OperatorCollectionOf(namespace, name string) Resource {
	gvk := v2beta2.GroupVersion.WithKind("OperatorCollection")
	gvr := v2beta2.GroupVersion.WithResource("operatorcollections")
	return Resource{
		Mapping:   &meta.RESTMapping{Resource: gvr, GroupVersionKind: gvk, Scope: meta.RESTScopeNamespace},
		Namespace: namespace, Name: name,
	}
}

// Resource returns the one that a user means by KIND/NAME.
func (c *Cluster) Resource(argument string) (Resource, error) {
	kind, name, ok := strings.Cut(argument, "/")
	if !ok || kind == "" || name == "" || strings.Contains(name, "/") {
		return Resource{}, fmt.Errorf("%q is not of the form KIND/NAME, such as datafile/hello", argument)
	}
	mapping, err := c.Mapping(kind)
	return Resource{Mapping: mapping, Namespace: c.Namespace, Name: name}, err
}

// Client returns the client for a resource.
func (c *Cluster) Client(r Resource) dynamic.ResourceInterface {
	return c.Dynamic.Resource(r.Mapping.Resource).Namespace(r.Namespace)
}

// Mapping returns the resource type that a user means by a kind, its plural or its singular, with or without its group.
func (c *Cluster) Mapping(word string) (*meta.RESTMapping, error) {
	groups, err := restmapper.GetAPIGroupResources(c.Discovery)
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
		if IsCollectionGroup(gvk.Group) && !slices.Contains(kinds, gvk.GroupKind()) {
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

// IsCollectionGroup reports whether an API group is for the kinds of collections.
func IsCollectionGroup(group string) bool {
	return group == model.Group || strings.HasSuffix(group, "."+model.Group)
}

// Types returns the resource types of all collections, each in its preferred version, sorted.
func (c *Cluster) Types() ([]schema.GroupVersionResource, error) {
	lists, err := discovery.ServerPreferredNamespacedResources(c.Discovery)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // Other groups than ours may be out of order.
		return nil, err
	}
	var types []schema.GroupVersionResource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || !IsCollectionGroup(gv.Group) {
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

// Each calls a function with every object of a type in a namespace, which it reads in pages.
func (c *Cluster) Each(ctx context.Context, gvr schema.GroupVersionResource, namespace string, call func(*unstructured.Unstructured) error) error {
	return c.EachSelected(ctx, gvr, namespace, metav1.ListOptions{}, call)
}

// EachSelected is Each for the objects that options select.
func (c *Cluster) EachSelected(
	ctx context.Context, gvr schema.GroupVersionResource, namespace string, options metav1.ListOptions, call func(*unstructured.Unstructured) error,
) error {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return c.Dynamic.Resource(gvr).Namespace(namespace).List(ctx, options)
	})
	pages.PageSize = pageSize
	pages.PageBufferSize = 0
	return pages.EachListItem(ctx, options, func(object runtime.Object) error {
		return call(object.(*unstructured.Unstructured))
	})
}

// EachOf is Each with objects of a Go type.
func EachOf[T any](ctx context.Context, c *Cluster, gvr schema.GroupVersionResource, namespace string, call func(*T) error) error {
	return c.Each(ctx, gvr, namespace, func(object *unstructured.Unstructured) error {
		typed := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
			return err
		}
		return call(typed)
	})
}
