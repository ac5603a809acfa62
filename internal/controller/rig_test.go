package controller_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/opencontainers/go-digest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/author/galaxy"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/suboperatorconfig"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/grants"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/budget"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/store"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

var errAway = errors.New("the API server is away")

// operator is the name of the operator of the collection that the tests install.
const operator = "tests-things-operator"

// newManager returns a manager whose controllers others may have, too.
func newManager(shared *apiserver.Server) (ctrl.Manager, error) {
	return ctrl.NewManager(shared.Config, ctrl.Options{
		Scheme: shared.Scheme, Metrics: metrics.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
}

// environment is what the tests share: grants with their cache, and the CRD of the collection.
var environment struct {
	sync.Once
	grants *grants.Source
	err    error
}

func startEnvironment(shared *apiserver.Server, things *model.Collection) (*grants.Source, error) {
	ctx := context.Background() // It ends with the tests.
	mgr, err := newManager(shared)
	if err != nil {
		return nil, err
	}
	source, err := grants.NewSource(ctx, mgr, false)
	if err != nil {
		return nil, err
	}
	go func() { _ = mgr.Start(ctx) }()
	if !source.Cache.WaitForCacheSync(ctx) {
		return nil, errors.New("the cache of grants does not start")
	}
	crds, err := render.CRDs(things, model.Group)
	if err != nil {
		return nil, err
	}
	return source, shared.CreateCRDs(ctx, crds...)
}

// sharedGrants returns the grants that all tests share, with the CRD of the collection things served.
func sharedGrants(t *testing.T, shared *apiserver.Server) *grants.Source {
	t.Helper()
	environment.Do(func() {
		store, err := store.Open(filepath.Join(t.TempDir(), "things"))
		apiserver.Must(t, err)
		collections := &imports.CollectionCache{Store: store}
		things, err := collections.Load(storeArchive(t, store, "first"))
		apiserver.Must(t, err)
		environment.grants, environment.err = startEnvironment(shared, things)
	})
	apiserver.Must(t, environment.err)
	return environment.grants
}

// rig is a reconciler of the SubOperatorConfig soc in the namespace home, and what it needs. No controller runs: a test calls Reconcile.
type rig struct {
	*suboperatorconfig.Reconciler
	server *apiserver.Server
	home   string
	oc     *v2beta2.OperatorCollection
	writes apiserver.Writes
	// writing is called before each write to an object, and wrote after each to a status.
	writing, wrote func(what client.Object) error
	// reading is called before each live read.
	reading func(what string) error
}

func newRig(t *testing.T) *rig {
	t.Helper()
	shared := apiserver.Shared(t)
	store, err := store.Open(filepath.Join(t.TempDir(), "artifacts"))
	apiserver.Must(t, err)
	collections := &imports.CollectionCache{Store: store}
	archive := storeArchive(t, store, "first")

	nothing := func(client.Object) error { return nil }
	r := &rig{server: shared, home: shared.Namespace(t), writing: nothing, wrote: nothing, reading: func(string) error { return nil }}
	r.Reconciler = &suboperatorconfig.Reconciler{
		Client: r.writer(shared.NewClient(t, r.writes.Of(shared.Config))), Reader: r.reader(),
		Cache:    interceptor.NewClient(shared.Client, interceptor.Funcs{Get: getCached}),
		Recorder: events.NewFakeRecorder(1000), Collections: collections, Settings: render.DefaultSettings(), Grants: sharedGrants(t, shared),
		Workers: budget.Limits{PerNamespace: 1, Total: 1}, CredentialKey: bytes.Repeat([]byte("k"), 32),
	}
	mgr, err := newManager(shared)
	apiserver.Must(t, err)
	apiserver.Must(t, r.SetupWithManager(mgr)) // It is never started.

	r.oc = &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: "things", Finalizers: []string{"example.com/test"}}}
	apiserver.Must(t, shared.Client.Create(t.Context(), r.oc))
	r.importArchive(t, archive)
	r.newConfig(t, r.home, "soc", r.home)
	return r
}

// storeArchive stores an archive of the collection that the tests install.
func storeArchive(t *testing.T, store *store.Store, description string) digest.Digest {
	t.Helper()
	return putArchive(t, store, source{name: "things", kind: "Thing", version: "1.0.0", description: description}.archive(t))
}

func putArchive(t *testing.T, store *store.Store, content []byte) digest.Digest {
	t.Helper()
	file, err := fetch.Save(bytes.NewReader(content), 1<<20, store.TempDir())
	apiserver.Must(t, err)
	apiserver.Must(t, store.Put(file))
	return file.Digest
}

// source is what an archive is built from. Its collection is in the domain tests.
type source struct {
	name, kind, version, description string
	// vars are the variables of the kind, and more further lines of operator-config.yml.
	vars, more string
}

func (s source) archive(t *testing.T) []byte {
	t.Helper()
	folder, vars := fstest.MapFS{}, ""
	if s.vars != "" {
		vars = ", vars: [" + s.vars + "]"
	}
	for file, content := range map[string]string{
		"galaxy.yml": fmt.Sprintf("{namespace: tests, name: %s, version: %s, readme: README.md, authors: [tests]}", s.name, s.version),
		"README.md":  "# Readme\n",
		"play.yml":   "- {name: Nothing, hosts: all, tasks: []}\n",
		"operator-config.yml": fmt.Sprintf(
			"domain: tests\nname: %s\nversion: %s\ndisplayName: Things\ndescription: %s\n%sresources:\n  - {kind: %s, playbook: play.yml, finalizer: play.yml%s}\n",
			s.name, s.version, s.description, s.more, s.kind, vars),
	} {
		folder[file] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
	}
	var content bytes.Buffer
	apiserver.Must(t, galaxy.Build(folder, &content))
	return content.Bytes()
}

// importArchive writes to status that the OperatorCollection has imported an archive.
func (r *rig) importArchive(t *testing.T, archive digest.Digest) {
	t.Helper()
	r.oc.Status.Artifact = &v2beta2.Artifact{Digest: archive.String(), Size: 1, Verification: "Skipped", SourceHash: "hash"}
	r.oc.Status.Collection = &v2beta2.ImportedCollection{
		Domain: "tests", Name: "things", Version: "1.0.0", APIVersion: model.Group + "/v1minor0patch0", Kinds: []string{"Thing"},
	}
	apiserver.Must(t, r.server.Client.Status().Update(t.Context(), r.oc))
}

func (r *rig) newConfig(t *testing.T, in, name string, namespaces ...string) {
	t.Helper()
	soc := &v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name}, Spec: v2beta2.SubOperatorConfigSpec{OperatorCollection: "things"}}
	for _, namespace := range namespaces {
		soc.Spec.Mapping = append(soc.Spec.Mapping, v2beta2.NamespaceMapping{Namespace: namespace})
	}
	apiserver.Must(t, r.server.Client.Create(t.Context(), soc))
}

func (r *rig) writer(c client.WithWatch) client.Client {
	return interceptor.NewClient(withNamespaceIndex(c), interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			if len((&client.ApplyOptions{}).ApplyOptions(options).DryRun) == 0 {
				if err := r.writing(object.(client.Object)); err != nil {
					return err
				}
			}
			return c.Apply(ctx, object, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if err := r.writing(object); err != nil {
				return err
			}
			return cmp.Or(c.SubResource(sub).Patch(ctx, object, patch, options...), r.wrote(object))
		},
	})
}

// withNamespaceIndex lists SubOperatorConfigs by namespace as the index of the manager's cache does, which is never behind here.
func withNamespaceIndex(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			asked := (&client.ListOptions{}).ApplyOptions(options)
			socs, ok := list.(*v2beta2.SubOperatorConfigList)
			if !ok || asked.FieldSelector == nil {
				return c.List(ctx, list, options...)
			}
			namespace, _ := asked.FieldSelector.RequiresExactMatch(mapping.IndexNamespace)
			err := c.List(ctx, socs)
			socs.Items = slices.DeleteFunc(socs.Items, func(soc v2beta2.SubOperatorConfig) bool {
				return !mapping.Maps(&soc, namespace) && !mapping.InstalledIn(&soc, namespace)
			})
			return err
		},
	})
}

func (r *rig) reader() client.Reader {
	return interceptor.NewClient(r.server.Client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			kind, err := c.GroupVersionKindFor(object)
			return cmp.Or(err, r.reading(kind.Kind+" "+key.Name), c.Get(ctx, key, object, options...))
		},
	})
}

// getCached reads as the cache of the manager does, which keeps a part of each Deployment.
func getCached(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := c.Get(ctx, key, object, options...)
	if deployment, ok := object.(*appsv1.Deployment); ok && err == nil {
		install.KeepDeployment(deployment)
	}
	return err
}

// reconcile reconciles a SubOperatorConfig, and returns it as it is then. It is nil if it does not exist any more.
func (r *rig) reconcile(t *testing.T, in, name string) (*v2beta2.SubOperatorConfig, error) {
	t.Helper()
	key := client.ObjectKey{Namespace: in, Name: name}
	_, reconcileErr := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	soc := &v2beta2.SubOperatorConfig{}
	err := r.server.Client.Get(t.Context(), key, soc)
	apiserver.Must(t, client.IgnoreNotFound(err))
	if err != nil {
		return nil, reconcileErr
	}
	return soc, reconcileErr
}

// becomes reconciles soc without an error, and expects Ready with a reason, and a text in its message.
func (r *rig) becomes(t *testing.T, status metav1.ConditionStatus, reason, text string) *v2beta2.SubOperatorConfig {
	t.Helper()
	soc, err := r.reconcile(t, r.home, "soc")
	apiserver.Must(t, err)
	expectReady(t, soc, status, reason, text)
	return soc
}

func expectReady(t *testing.T, soc *v2beta2.SubOperatorConfig, status metav1.ConditionStatus, reason, text string) {
	t.Helper()
	ready := meta.FindStatusCondition(soc.Status.Conditions, v2beta2.ConditionReady)
	if ready == nil || ready.Status != status || ready.Reason != reason || !strings.Contains(ready.Message, text) || ready.ObservedGeneration != soc.Generation {
		t.Errorf("Ready is %+v, want %s %s: %s", ready, status, reason, text)
	}
}

func (r *rig) deployment(t *testing.T, namespace string) *appsv1.Deployment {
	t.Helper()
	return r.deploymentOf(t, namespace, operator)
}

func (r *rig) deploymentOf(t *testing.T, namespace, name string) *appsv1.Deployment {
	t.Helper()
	deployment := &appsv1.Deployment{}
	err := r.server.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, deployment)
	apiserver.Must(t, client.IgnoreNotFound(err))
	if err != nil {
		return nil
	}
	return deployment
}

// setAvailable writes that the Deployment in a namespace is available, as its controller would.
func (r *rig) setAvailable(t *testing.T, namespace string) {
	t.Helper()
	r.setAvailableOf(t, namespace, operator)
}

func (r *rig) setAvailableOf(t *testing.T, namespace, name string) {
	t.Helper()
	deployment := r.deploymentOf(t, namespace, name)
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: 1, UpdatedReplicas: 1,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}},
	}
	apiserver.Must(t, r.server.Client.Status().Update(t.Context(), deployment))
}

// endDeployment ends the foreground deletion of the Deployment in a namespace, as the garbage collector does.
func (r *rig) endDeployment(t *testing.T, namespace string) {
	t.Helper()
	r.endDeploymentOf(t, namespace, operator)
}

func (r *rig) endDeploymentOf(t *testing.T, namespace, name string) {
	t.Helper()
	deployment := r.deploymentOf(t, namespace, name)
	if deployment == nil || deployment.DeletionTimestamp == nil {
		t.Fatalf("the Deployment in namespace %s is not being deleted", namespace)
	}
	deployment.Finalizers = nil
	apiserver.Must(t, r.server.Client.Update(t.Context(), deployment))
}

// installed reconciles until soc is Ready.
func (r *rig) installed(t *testing.T, namespaces ...string) *v2beta2.SubOperatorConfig {
	t.Helper()
	_, err := r.reconcile(t, r.home, "soc")
	apiserver.Must(t, err)
	for _, namespace := range namespaces {
		r.setAvailable(t, namespace)
	}
	soc := r.becomes(t, metav1.ConditionTrue, v2beta2.ReasonSucceeded, "version 1.0.0 runs in namespace")
	r.writes.Take()
	return soc
}

func (r *rig) patch(t *testing.T, patch string) {
	t.Helper()
	soc := &v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: "soc"}}
	apiserver.Must(t, r.server.Client.Patch(t.Context(), soc, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

func (r *rig) allow(t *testing.T, namespace, from string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, mapping.AnnotationAllow, from)
	apiserver.Must(t, r.server.Client.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, client.RawPatch("application/merge-patch+json", patch)))
}
