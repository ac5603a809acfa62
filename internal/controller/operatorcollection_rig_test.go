package controller_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/customresourcedefinition"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/intake"
	"github.com/collection-operator/collection-operator/internal/controller/operatorcollection"
	"github.com/collection-operator/collection-operator/internal/platform/budget"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/replica"
	"github.com/collection-operator/collection-operator/internal/source/store"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// web serves archives by path, and counts requests.
type web struct {
	*httptest.Server
	mutex    sync.Mutex
	content  map[string]http.HandlerFunc
	requests int
}

func startWeb(t *testing.T) *web {
	t.Helper()
	w := &web{content: map[string]http.HandlerFunc{}}
	w.Server = httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		w.mutex.Lock()
		w.requests++
		handle := w.content[request.URL.Path]
		w.mutex.Unlock()
		if handle == nil {
			handle = http.NotFound
		}
		handle(response, request)
	}))
	t.Cleanup(w.Close)
	return w
}

// set makes a path answer as a function does.
func (w *web) set(path string, handle http.HandlerFunc) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.content[path] = handle
}

// serve makes a path answer with a content, which has an ETag, and returns its URL.
func (w *web) serve(path string, content []byte) string {
	w.set(path, func(response http.ResponseWriter, request *http.Request) {
		tag := `"` + digest.FromBytes(content).Encoded() + `"`
		response.Header().Set("ETag", tag)
		if request.Header.Get("If-None-Match") == tag {
			response.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = response.Write(content)
	})
	return w.URL + path
}

// asked returns the number of requests since the last call.
func (w *web) asked() int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	asked := w.requests
	w.requests = 0
	return asked
}

// importer is a reconciler of OperatorCollections in the namespace home, with that of their CRDs. The first one is gadgets. The collection
// that it has, and its kind, are those of no other test. No controller runs: a test calls Reconcile.
type importer struct {
	*operatorcollection.Reconciler
	definitions *customresourcedefinition.Reconciler
	server      *apiserver.Server
	web         *web
	home        string
	key         client.ObjectKey
	source      source
	writes      apiserver.Writes
	faults      *apiserver.Faults
	events      chan string
	// cached, if it is set, changes what the cache has of OperatorCollections or SubOperatorConfigs.
	cached func(client.ObjectList)
	// wrote, if it is set, is called after each write to a status.
	wrote func()
}

func newImporter(t *testing.T) *importer {
	t.Helper()
	shared := apiserver.Shared(t)
	home, recorder := shared.Namespace(t), events.NewFakeRecorder(1000)
	number := strings.TrimPrefix(home, "test-")
	i := &importer{
		server: shared, web: startWeb(t), home: home, key: client.ObjectKey{Namespace: home, Name: "gadgets"}, faults: &apiserver.Faults{}, events: recorder.Events,
		source: source{name: "gadgets" + number, kind: "Gadget" + number, version: "1.0.0", description: "a description"},
	}
	archives, err := store.Open(filepath.Join(t.TempDir(), "artifacts"))
	apiserver.Must(t, err)
	collections := &imports.CollectionCache{Store: archives, Peers: &replica.Peers{Reader: shared.Client, Namespace: home, Store: archives}, Key: []byte(strings.Repeat("k", 32))}
	c, reader := i.faults.Around(i.intercept(shared.NewClient(t, i.writes.Of(shared.Config))), ""), i.faults.Around(shared.Client, "live ")
	one := budget.Limits{PerNamespace: 1, Total: 1}
	imports, written := &imports.Index{Client: c, Reader: reader}, &crdplan.WrittenDefinitions{}
	i.Reconciler = &operatorcollection.Reconciler{
		Client: c, Reader: reader, Recorder: recorder, Collections: collections, Imports: imports, Definitions: written,
		Budgets: &operatorcollection.Budgets{},
		Source: &intake.Source{
			Client: c, Reader: reader, Collections: collections, Workers: one, Downloads: one, Namespace: home,
			Fetcher: &fetch.Fetcher{MaxBytes: 1 << 20, Timeout: time.Minute}, Pushes: &store.Pushes{Dir: t.TempDir()},
		},
	}
	i.definitions = &customresourcedefinition.Reconciler{
		Client: c, Reader: reader, Collections: collections, Imports: imports, Definitions: written,
		VersionAges: crd.Ages{Retention: time.Hour, Deprecation: time.Hour, Settles: time.Hour},
	}
	mgr, err := newManager(shared)
	apiserver.Must(t, err)
	apiserver.Must(t, i.SetupWithManager(mgr)) // It is never started.
	apiserver.Must(t, i.definitions.SetupWithManager(mgr))
	t.Cleanup(func() { apiserver.Must(t, i.clean(context.Background())) })
	i.add(t, i.key.Name, i.serve(t, i.source))
	return i
}

// clean removes what each Reconcile lists of the whole cluster: with that of all former tests it would take longer and longer.
func (i *importer) clean(ctx context.Context) error {
	ocs, socs, definitions := &v2beta2.OperatorCollectionList{}, &v2beta2.SubOperatorConfigList{}, &metav1.PartialObjectMetadataList{}
	definitions.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinitionList"))
	c := i.server.Client
	all := errors.Join(c.List(ctx, ocs, client.InNamespace(i.home)), c.List(ctx, socs, client.InNamespace(i.home)), c.List(ctx, definitions))
	var objects []client.Object
	for n := range ocs.Items {
		objects = append(objects, &ocs.Items[n])
	}
	for n := range socs.Items {
		objects = append(objects, &socs.Items[n])
	}
	for n := range definitions.Items {
		if strings.HasPrefix(definitions.Items[n].Name, strings.ToLower(i.source.kind)) {
			objects = append(objects, &definitions.Items[n])
		}
	}
	for _, object := range objects {
		if len(object.GetFinalizers()) > 0 {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
			all = errors.Join(all, client.IgnoreNotFound(c.Patch(ctx, object, patch)))
		}
		all = errors.Join(all, client.IgnoreNotFound(c.Delete(ctx, object)))
	}
	return all
}

// intercept makes a client read as from the manager's cache, which has indexes. What these find is filtered again.
func (i *importer) intercept(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			asked := (&client.ListOptions{}).ApplyOptions(options)
			asked.FieldSelector = nil
			err := c.List(ctx, list, asked)
			if i.cached != nil && err == nil {
				i.cached(list)
			}
			return err
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			err := c.SubResource(sub).Patch(ctx, object, patch, options...)
			if i.wrote != nil && err == nil {
				i.wrote()
			}
			return err
		},
	})
}

// add makes an OperatorCollection in the namespace home.
func (i *importer) add(t *testing.T, name, url string) {
	t.Helper()
	apiserver.Must(t, i.server.Client.Create(t.Context(), &v2beta2.OperatorCollection{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.home, Name: name},
		Spec:       v2beta2.OperatorCollectionSpec{CollectionURL: url, SkipSignatureVerification: true},
	}))
}

// serve serves an archive, and returns its URL.
func (i *importer) serve(t *testing.T, s source) string {
	t.Helper()
	return i.web.serve("/"+s.name+"/"+s.version, s.archive(t))
}

// at returns the collection in another version.
func (i *importer) at(version string) source {
	s := i.source
	s.version = version
	return s
}

// ask makes the spec ask for an archive, which is served.
func (i *importer) ask(t *testing.T, s source) {
	t.Helper()
	url := i.serve(t, s)
	i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.CollectionURL = url })
}

// change changes the OperatorCollection as users do.
func (i *importer) change(t *testing.T, change func(*v2beta2.OperatorCollection)) {
	t.Helper()
	oc := i.live(t)
	change(oc)
	apiserver.Must(t, i.server.Client.Update(t.Context(), oc, client.FieldOwner("user")))
}

func (i *importer) id() model.ID { return model.ID{Domain: "tests", Name: i.source.name} }

// reconcile returns the OperatorCollection as it is then.
func (i *importer) reconcile(t *testing.T) (*v2beta2.OperatorCollection, error) {
	t.Helper()
	_, err := i.Reconcile(t.Context(), ctrl.Request{NamespacedName: i.key})
	return i.live(t), err
}

func (i *importer) live(t *testing.T) *v2beta2.OperatorCollection {
	t.Helper()
	oc := &v2beta2.OperatorCollection{}
	apiserver.Must(t, i.server.Client.Get(t.Context(), i.key, oc))
	return oc
}

// write reconciles the CRDs of the collection without an error.
func (i *importer) write(t *testing.T) ctrl.Result {
	t.Helper()
	result, err := i.definitions.Reconcile(t.Context(), i.id())
	apiserver.Must(t, err)
	return result
}

// awaitImport reconciles until Imported is true: the API server serves a kind a moment after its CRD is written.
func (i *importer) awaitImport(t *testing.T) *v2beta2.OperatorCollection {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		oc, err := i.reconcile(t)
		apiserver.Must(t, err)
		imported := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionImported)
		if imported != nil && imported.Status == metav1.ConditionTrue && imported.ObservedGeneration == oc.Generation {
			return oc
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is not imported: %+v", imported)
		}
		i.write(t)
	}
}

// configs returns the SubOperatorConfigs in the namespace home.
func (i *importer) configs(t *testing.T) []v2beta2.SubOperatorConfig {
	t.Helper()
	socs := &v2beta2.SubOperatorConfigList{}
	apiserver.Must(t, i.server.Client.List(t.Context(), socs, client.InNamespace(i.home)))
	return socs.Items
}

// install writes that all SubOperatorConfigs have installed what the OperatorCollection has imported.
func (i *importer) install(t *testing.T) {
	t.Helper()
	oc := i.live(t)
	for _, soc := range i.configs(t) {
		status.SetReady(&soc.Status.Conditions, soc.Generation, nil, "runs")
		soc.Status.Digest, soc.Status.Version = oc.Status.Artifact.Digest, oc.Status.Collection.Version
		soc.Status.Collection = &v2beta2.CollectionReference{Domain: oc.Status.Collection.Domain, Name: oc.Status.Collection.Name}
		soc.Status.Installations = nil
		for _, mapped := range soc.Spec.Mapping {
			soc.Status.Installations = append(soc.Status.Installations, v2beta2.InstallationStatus{
				Namespace: mapped.Namespace, Digest: oc.Status.Artifact.Digest, Install: v2beta2.InstallDirect, Ready: true,
			})
		}
		apiserver.Must(t, i.server.Client.Status().Update(t.Context(), &soc))
	}
}

// installed imports and installs until the OperatorCollection is Ready.
func (i *importer) installed(t *testing.T) *v2beta2.OperatorCollection {
	t.Helper()
	i.awaitImport(t)
	i.install(t)
	oc, err := i.reconcile(t)
	apiserver.Must(t, err)
	if !isReady(oc) {
		t.Fatalf("it is not ready: %+v", oc.Status.Conditions)
	}
	i.write(t)
	i.writes.Take()
	i.web.asked()
	return oc
}

func isReady(oc *v2beta2.OperatorCollection) bool {
	return meta.IsStatusConditionTrue(oc.Status.Conditions, v2beta2.ConditionReady)
}

// becomes reconciles the OperatorCollection, and expects Ready with a reason, and a text in its message.
func (i *importer) becomes(t *testing.T, reason, text string) *v2beta2.OperatorCollection {
	t.Helper()
	oc, _ := i.reconcile(t)
	expectCondition(t, oc.Status.Conditions, v2beta2.ConditionReady, reason, text)
	return oc
}

func (i *importer) isStored(t *testing.T, archive string) bool {
	t.Helper()
	return i.Collections.Store.IsStored(digest.Digest(archive))
}

// definition returns the CRD of a kind, or nil.
func (i *importer) definition(t *testing.T, kind string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	err := i.server.Client.Get(t.Context(), client.ObjectKey{Name: strings.ToLower(kind) + "s." + model.Group}, definition)
	apiserver.Must(t, client.IgnoreNotFound(err))
	if err != nil {
		return nil
	}
	return definition
}

// resource makes a custom resource of the collection, with the finalizer of operators.
func (i *importer) resource(t *testing.T, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	t.Helper()
	spec["zosendpoint"] = "lpar1"
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: model.Group, Version: "v1minor0patch0", Kind: i.source.kind})
	object.SetNamespace(namespace)
	object.SetName(name)
	object.SetFinalizers([]string{render.Finalizer})
	i.server.Settle(t, i.definition(t, i.source.kind))
	apiserver.Must(t, i.server.Client.Create(t.Context(), object))
	return object
}

// end ends the deletion of an object, as its finalizer playbook does.
func (i *importer) end(t *testing.T, object client.Object) {
	t.Helper()
	apiserver.Must(t, i.server.Client.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
}

// exists reports whether an object is there and is not being deleted.
func (i *importer) exists(t *testing.T, object client.Object) bool {
	t.Helper()
	err := i.server.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object)
	apiserver.Must(t, client.IgnoreNotFound(err))
	return err == nil && object.GetDeletionTimestamp() == nil
}

// expectEvent expects that an event was recorded which contains a text.
func (i *importer) expectEvent(t *testing.T, text string) {
	t.Helper()
	var all []string
	for len(i.events) > 0 {
		all = append(all, <-i.events)
	}
	if !slices.ContainsFunc(all, func(event string) bool { return strings.Contains(event, text) }) {
		t.Errorf("the events are %q, want %q", all, text)
	}
}
