package controller_test

import (
	"context"
	"sync"
	"testing"

	"github.com/operator-framework/api/crds"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// olmEnvironment is the API of the Operator Lifecycle Manager (OLM), which does not run.
var olmEnvironment struct {
	sync.Once
	scheme *runtime.Scheme
	err    error
}

// withOLM makes the API server serve the kinds of OLM, and returns a scheme that has them.
func withOLM(t *testing.T, shared *apiserver.Server) *runtime.Scheme {
	t.Helper()
	olmEnvironment.Do(func() { olmEnvironment.scheme, olmEnvironment.err = startOLM(shared) })
	apiserver.Must(t, olmEnvironment.err)
	return olmEnvironment.scheme
}

func startOLM(shared *apiserver.Server) (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v2beta2.AddToScheme,
		operatorsv1alpha1.AddToScheme, operatorsv1.AddToScheme, operatorsv2.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, shared.CreateCRDs(context.Background(), // They stay.
		crds.CatalogSource(), crds.ClusterServiceVersion(), crds.InstallPlan(), crds.OperatorGroup(), crds.Subscription(), crds.OperatorCondition())
}

func newOLMClient(t *testing.T, scheme *runtime.Scheme, config *rest.Config) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	apiserver.Must(t, err)
	return c
}

// newCluster returns OLM with the catalog namespace given, once the manager has looked for it.
func newCluster(t *testing.T, c client.Client, config *rest.Config, catalogNamespace string) *olm.Cluster {
	t.Helper()
	served, err := discovery.NewDiscoveryClientForConfig(config)
	apiserver.Must(t, err)
	cluster := &olm.Cluster{Client: c, Reader: c, Discovery: served, CatalogAddress: "catalog.example:50051", CatalogNamespace: catalogNamespace}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cluster.Start(ctx) }()
	apiserver.Await(t, "the manager has looked for OLM", cluster.Checked)
	if cluster.Available() {
		apiserver.Must(t, <-ended)
	}
	cancel()
	return cluster
}

// within lists OperatorCollections and SubOperatorConfigs as the cache of a manager that has one namespace.
func within(namespace string, c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			switch list.(type) {
			case *v2beta2.OperatorCollectionList, *v2beta2.SubOperatorConfigList:
				return c.List(ctx, list, append(options, client.InNamespace(namespace))...)
			}
			return c.List(ctx, list, options...)
		},
	})
}

// read reads an object, and reports whether it is there.
func read(t *testing.T, c client.Client, object client.Object) bool {
	t.Helper()
	err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object)
	apiserver.Must(t, client.IgnoreNotFound(err))
	return err == nil
}
