// Package apiserver gives the tests of a package one real API server: kube-apiserver and etcd, with the CRDs of config/crd, which
// the first test that calls [Shared] starts and all share. No controller runs, neither ours nor those of Kubernetes: a test calls
// Reconcile or starts what it is about, owner references delete nothing, and a namespace that is deleted stays. So each test takes
// namespaces of its own from [Server.Namespace]; names of cluster-scoped objects must contain such a name. Tests can be parallel.
//
// RBAC, ServiceAccounts and OwnerReferencesPermissionEnforcement are in effect. Failures come from controller-runtime's
// client/interceptor around a client of this package, writes are counted by [Writes].
//
// The programs are those of .devcluster/bin, which `devcluster build --control-plane` makes, or of the folder KUBEBUILDER_ASSETS. Without
// them tests are skipped, and fail where CI is true. The server ends with the process of the tests, also when that is killed.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	operandsv1alpha1 "github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/project"
)

// Server is a running API server.
type Server struct {
	// Config is that of a client with all rights, Client such a client, without a cache.
	Config *rest.Config
	Client client.WithWatch
	// Scheme has Kubernetes' kinds and ours.
	Scheme *runtime.Scheme

	root       string
	namespaces atomic.Int32
}

var shared = sync.OnceValues(startShared)

var errNotBuilt = errors.New("not built: run make devcluster, and .devcluster/bin/devcluster build --control-plane")

// Shared returns the API server of this process, and starts it when it is called first.
func Shared(t testing.TB) *Server {
	t.Helper()
	server, err := shared()
	if errors.Is(err, errNotBuilt) && os.Getenv("CI") != "true" {
		t.Skip("SKIPPED:", err)
	}
	if err != nil {
		t.Fatal("start the API server: ", err)
	}
	return server
}

func startShared() (*Server, error) {
	logf.SetLogger(logr.Discard()) // The library complains if nobody has said where to log.
	root, err := project.Dir()
	if err != nil {
		return nil, err
	}
	s := &Server{root: root, Scheme: runtime.NewScheme()}
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v2beta2.AddToScheme, operandsv1alpha1.AddToScheme,
	} {
		if err := add(s.Scheme); err != nil {
			return nil, err
		}
	}
	if s.Config, err = start(filepath.Join(root, ".devcluster", "bin")); err != nil {
		return nil, err
	}
	if s.Client, err = client.NewWithWatch(s.Config, client.Options{Scheme: s.Scheme}); err != nil {
		return nil, err
	}
	return s, s.apply(context.Background(), "config/crd/bases/*.yaml")
}

// Namespace makes a namespace with the ServiceAccount default, and returns its name, which no other test has.
func (s *Server) Namespace(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test-%d", s.namespaces.Add(1))
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}},
	} {
		if err := s.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

// Must ends a test if there is an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Await waits until something is so: caches and the authorizer learn late of changes.
func Await(t testing.TB, what string, is func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// CreateCRDs creates CRDs, without descriptions, and waits until the API server serves their kinds.
func (s *Server) CreateCRDs(ctx context.Context, crds ...*apiextensionsv1.CustomResourceDefinition) error {
	for _, crd := range crds {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
		if err != nil {
			return err
		}
		removeDescriptions(content)
		*crd = apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, crd); err != nil {
			return err
		}
		if err := s.Client.Create(ctx, crd); err != nil {
			return err
		}
		if err := s.awaitServed(ctx, crd); err != nil {
			return err
		}
	}
	return nil
}

// removeDescriptions removes three quarters of what the API server decodes whenever somebody lists CRDs.
func removeDescriptions(schema any) {
	switch value := schema.(type) {
	case map[string]any:
		if _, isText := value["description"].(string); isText {
			delete(value, "description")
		}
		for _, inner := range value {
			removeDescriptions(inner)
		}
	case []any:
		for _, inner := range value {
			removeDescriptions(inner)
		}
	}
}

// Settle makes a CRD one that was established a while ago: for two seconds from then on, the API server delays whoever creates a custom
// resource by two seconds.
func (s *Server) Settle(t testing.TB, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	for i := range crd.Status.Conditions {
		if condition := &crd.Status.Conditions[i]; condition.Type == apiextensionsv1.Established {
			condition.LastTransitionTime = metav1.NewTime(condition.LastTransitionTime.Add(-time.Minute))
		}
	}
	Must(t, s.Client.Status().Update(t.Context(), crd))
}

// NewClient returns a client without a cache.
func (s *Server) NewClient(t testing.TB, config *rest.Config) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(config, client.Options{Scheme: s.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// As returns the configuration of a client that impersonates a user, who is authenticated and in the given groups.
func (s *Server) As(user string, groups ...string) *rest.Config {
	config := rest.CopyConfig(s.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return config
}

// AsServiceAccount returns the configuration of a client with a token of a ServiceAccount, which must exist.
func (s *Server) AsServiceAccount(t testing.TB, namespace, name string) *rest.Config {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	request := &authenticationv1.TokenRequest{}
	if err := s.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(s.Config)
	config.BearerToken, config.QPS = request.Status.Token, s.Config.QPS
	return config
}

// Apply applies the objects in files of the repository, given as patterns below its root, and waits until kinds of CRDs, which
// have no descriptions then, are served.
func (s *Server) Apply(t testing.TB, patterns ...string) {
	t.Helper()
	if err := s.apply(t.Context(), patterns...); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) apply(ctx context.Context, patterns ...string) error {
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(s.root, pattern))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("%s: no such file: %w", pattern, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			for document := range strings.SplitSeq(string(content), "\n---\n") {
				if err := s.applyDocument(ctx, document); err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
			}
		}
	}
	return nil
}

func (s *Server) applyDocument(ctx context.Context, document string) error {
	object, crd := &unstructured.Unstructured{}, &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil || object.GetKind() == "Kustomization" {
		return err
	}
	if object.GetKind() == "CustomResourceDefinition" {
		removeDescriptions(object.Object)
	}
	err := s.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("apiserver"), client.ForceOwnership)
	if err != nil || object.GetKind() != "CustomResourceDefinition" {
		return err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, crd); err != nil {
		return err
	}
	return s.awaitServed(ctx, crd)
}

// awaitServed waits until the API server serves the versions of a CRD, a moment after the CRD says that it is established.
func (s *Server) awaitServed(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	var err error
	for _, version := range crd.Spec.Versions {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.ListKind})
		err = errors.Join(err, wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			return !version.Served || s.Client.List(ctx, list, client.Limit(1)) == nil, nil
		}))
	}
	return err
}
