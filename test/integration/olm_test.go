package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/operator-framework/api/crds"
	"github.com/operator-framework/operator-registry/pkg/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/collection-operator/collection-operator/test/fixture"
)

// olmCRDs are what the API server has of the Operator Lifecycle Manager (OLM) in these specs. OLM itself does not run.
func olmCRDs() []*apiextensionsv1.CustomResourceDefinition {
	return []*apiextensionsv1.CustomResourceDefinition{
		crds.CatalogSource(), crds.ClusterServiceVersion(), crds.InstallPlan(), crds.OperatorGroup(), crds.Subscription(),
		crds.OperatorCondition(),
	}
}

// withoutOLM makes sure that the spec leaves no CRD of OLM behind. What is made after it is removed before.
func withoutOLM() {
	DeferCleanup(func(ctx context.Context) {
		for _, crd := range olmCRDs() {
			Remove(ctx, crd)
		}
		for _, crd := range olmCRDs() {
			Eventually(ctx, GoneInTheEnd(ctx, crd)).WithPolling(time.Second).Should(BeTrue(), func() string {
				_ = K8s.Get(ctx, client.ObjectKeyFromObject(crd), crd)
				return fmt.Sprintf("%s: %+v", crd.Name, crd.Status.Conditions)
			})
		}
	})
}

func installOLM(ctx context.Context) {
	GinkgoHelper()
	for _, crd := range olmCRDs() {
		Create(ctx, crd)
	}
	for _, crd := range olmCRDs() {
		for _, version := range crd.Spec.Versions {
			if version.Served {
				serve(ctx, crd, version.Name)
			}
		}
	}
}

// allowOLM gives the manager the permissions of config/components/olm for one spec.
func allowOLM(ctx context.Context) {
	GinkgoHelper()
	withdrawOLM()
	grantOLM(ctx)
}

func olmPermissions() []*unstructured.Unstructured {
	GinkgoHelper()
	return Manifests(filepath.Join("..", "..", "config", "components", "olm", "role.yaml"))
}

// withdrawOLM makes sure that the manager has no permissions of grantOLM after the spec. A manager that uses them is started after it, and
// ends before.
func withdrawOLM() {
	GinkgoHelper()
	for _, object := range olmPermissions() {
		DeferCleanup(func(ctx context.Context) { Remove(ctx, object) })
	}
}

func grantOLM(ctx context.Context) {
	GinkgoHelper()
	for _, object := range olmPermissions() {
		Expect(K8s.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("integration"))).To(Succeed())
	}
}

// testCatalog is the manager's catalog as OLM sees it.
type testCatalog struct {
	address, namespace string
	registry           api.RegistryClient
}

// newTestCatalog is what a manager serves at an address. The CatalogSource is in the namespace.
func newTestCatalog(address, namespace string) *testCatalog {
	GinkgoHelper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(conn.Close)
	return &testCatalog{address: address, namespace: namespace, registry: api.NewRegistryClient(conn)}
}

// startWithCatalog starts the manager with a catalog for one spec. OLM's CRDs are not installed by it.
func startWithCatalog(ctx context.Context, flags ...string) *testCatalog {
	GinkgoHelper()
	catalog := newTestCatalog(freeAddress(), newNamespace(ctx))
	theManager.restart(ctx, slices.Concat(usualFlags, []string{
		"--catalog-bind-address=" + catalog.address, "--catalog-address=catalog.example:50051", "--catalog-namespace=" + catalog.namespace,
	}, flags)...)
	return catalog
}

// withCatalog is a cluster with OLM, and a manager that may use it, for one spec.
func withCatalog(ctx context.Context, flags ...string) *testCatalog {
	GinkgoHelper()
	withoutOLM()
	installOLM(ctx)
	allowOLM(ctx)
	return startWithCatalog(ctx, flags...)
}

// source is the CatalogSource.
func (c *testCatalog) source() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("operators.coreos.com/v1alpha1")
	u.SetKind("CatalogSource")
	u.SetNamespace(c.namespace)
	u.SetName("collection-operator-catalog")
	return u
}

// packages are the names of those in the catalog.
func (c *testCatalog) packages(ctx context.Context) func() ([]string, error) {
	return func() ([]string, error) {
		stream, err := c.registry.ListPackages(ctx, &api.ListPackageRequest{})
		if err != nil {
			return nil, err
		}
		names := []string{}
		for {
			p, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return names, nil
			}
			if err != nil {
				return nil, err
			}
			names = append(names, p.GetName())
		}
	}
}

// channels of a package with the names of their heads.
func (c *testCatalog) channels(ctx context.Context, name string) map[string]string {
	GinkgoHelper()
	p, err := c.registry.GetPackage(ctx, &api.GetPackageRequest{Name: name})
	Expect(err).NotTo(HaveOccurred())
	heads := map[string]string{}
	for _, channel := range p.GetChannels() {
		heads[channel.GetName()] = channel.GetCsvName()
	}
	return heads
}

// olmNamespace is where OLM has its catalogs. It is never removed: nothing in the control plane empties namespaces.
func olmNamespace(ctx context.Context) *unstructured.Unstructured {
	GinkgoHelper()
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "olm"},
	}}
	Expect(K8s.Apply(ctx, client.ApplyConfigurationFromUnstructured(namespace), client.FieldOwner("integration"))).To(Succeed())
	return namespace
}
