package controller_test

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/artifact"
	"github.com/collection-operator/collection-operator/internal/budget"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/controller"
	"github.com/collection-operator/collection-operator/internal/fetch"
	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/replica"
	"github.com/collection-operator/collection-operator/internal/status"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// importer is a reconciler of the OperatorCollection gadgets in the namespace home, whose archives a server has by version.
type importer struct {
	*controller.OperatorCollectionReconciler
	server *apiserver.Server
	key    client.ObjectKey
	// kind is that of the collection, which no other test has.
	kind, url string
	writes    apiserver.Writes
	// writing is called before each write to a status, and wrote after it.
	writing, wrote func(what client.Object) error
}

func newImporter(t *testing.T, kind string) *importer {
	t.Helper()
	shared := apiserver.Shared(t)
	nothing := func(client.Object) error { return nil }
	i := &importer{kind: kind, server: shared, key: client.ObjectKey{Namespace: shared.Namespace(t), Name: "gadgets"}, writing: nothing, wrote: nothing}
	store, err := artifact.Open(filepath.Join(t.TempDir(), "artifacts"))
	must(t, err)
	archives := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		_, _ = w.Write(i.archive(t, strings.TrimPrefix(request.URL.Path, "/")))
	}))
	t.Cleanup(archives.Close)
	i.url = archives.URL

	collections := &controller.CollectionCache{Store: store, Key: []byte(strings.Repeat("k", 32))}
	c := interceptor.NewClient(shared.NewClient(t, i.writes.Of(shared.Config)), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			asked := (&client.ListOptions{}).ApplyOptions(options)
			asked.FieldSelector = nil // The manager's cache has an index. What it finds is filtered again.
			return c.List(ctx, list, asked)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if err := i.writing(object); err != nil {
				return err
			}
			return cmp.Or(c.SubResource(sub).Patch(ctx, object, patch, options...), i.wrote(object))
		},
	})
	one := budget.Limits{PerNamespace: 1, Total: 1}
	i.OperatorCollectionReconciler = &controller.OperatorCollectionReconciler{
		Client: c, Reader: shared.Client, Recorder: events.NewFakeRecorder(1000), Collections: collections,
		Imports: &controller.Imports{Client: c, Reader: shared.Client}, Definitions: &controller.WrittenDefinitions{},
		Budgets: &controller.CollectionBudgets{}, Peers: &replica.Peers{Reader: shared.Client, Namespace: i.key.Namespace},
		Source: &controller.ArchiveSource{
			Client: c, Reader: shared.Client, Collections: collections, Workers: one, Downloads: one, Namespace: i.key.Namespace,
			Fetcher: &fetch.Fetcher{MaxBytes: 1 << 20, Timeout: time.Minute}, Pushes: &artifact.Pushes{Dir: t.TempDir()},
		},
	}
	mgr, err := newManager(shared)
	must(t, err)
	must(t, i.SetupWithManager(mgr)) // It is never started.
	must(t, shared.Client.Create(t.Context(), &v2beta2.OperatorCollection{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.key.Namespace, Name: i.key.Name},
		Spec:       v2beta2.OperatorCollectionSpec{CollectionURL: i.url + "/1.0.0", SkipSignatureVerification: true},
	}))
	return i
}

// serve makes the CRD of the collection with versions, as the controller of CRDs would.
func (i *importer) serve(t *testing.T, versions ...string) {
	t.Helper()
	store, err := artifact.Open(filepath.Join(t.TempDir(), "versions"))
	must(t, err)
	all := &controller.CollectionCache{Store: store}
	var definition *apiextensionsv1.CustomResourceDefinition
	for _, version := range versions {
		c, err := all.Load(putArchive(t, store, i.archive(t, version)))
		must(t, err)
		crds, err := render.CRDs(c, collection.Group)
		must(t, err)
		if definition == nil {
			definition = crds[0]
			continue
		}
		added := crds[0].Spec.Versions[0]
		added.Storage = false
		definition.Spec.Versions = append(definition.Spec.Versions, added)
	}
	must(t, i.server.Client.Create(t.Context(), definition))
}

func (i *importer) archive(t *testing.T, version string) []byte {
	t.Helper()
	return buildArchive(t, strings.ToLower(i.kind)+"s", i.kind, version, "a description")
}

// reconcile returns the OperatorCollection as it is then.
func (i *importer) reconcile(t *testing.T) (*v2beta2.OperatorCollection, error) {
	t.Helper()
	_, err := i.Reconcile(t.Context(), ctrl.Request{NamespacedName: i.key})
	return i.live(t), err
}

func (i *importer) live(t *testing.T) *v2beta2.OperatorCollection {
	t.Helper()
	oc := &v2beta2.OperatorCollection{}
	must(t, i.server.Client.Get(t.Context(), i.key, oc))
	return oc
}

// awaitImport reconciles until Imported is true: the API server serves a kind a moment after its CRD is written.
func (i *importer) awaitImport(t *testing.T) *v2beta2.OperatorCollection {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		oc, err := i.reconcile(t)
		must(t, err)
		imported := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionImported)
		if imported != nil && imported.Status == metav1.ConditionTrue && imported.ObservedGeneration == oc.Generation {
			return oc
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is not imported: %+v", imported)
		}
	}
}

// install writes that the default SubOperatorConfig has installed what the OperatorCollection has imported.
func (i *importer) install(t *testing.T) {
	t.Helper()
	socs := &v2beta2.SubOperatorConfigList{}
	must(t, i.server.Client.List(t.Context(), socs, client.InNamespace(i.key.Namespace)))
	if len(socs.Items) != 1 {
		t.Fatalf("there are %d SubOperatorConfigs", len(socs.Items))
	}
	soc := &socs.Items[0]
	status.SetReady(&soc.Status.Conditions, soc.Generation, nil, "runs")
	soc.Status.Digest = i.live(t).Status.Artifact.Digest
	must(t, i.server.Client.Status().Update(t.Context(), soc))
}

func (i *importer) isReady(oc *v2beta2.OperatorCollection) bool {
	return meta.IsStatusConditionTrue(oc.Status.Conditions, v2beta2.ConditionReady)
}

// Whoever waits for Ready must not see it in a status that names an archive which is not installed yet.
func TestReadyIsTakenBackWithAnotherArchive(t *testing.T) {
	for name, test := range map[string]struct {
		kind   string
		served []string
	}{
		"whose kinds are served":         {"Gadget", []string{"1.0.0", "1.0.1"}},
		"whose kinds are not served yet": {"Widget", []string{"1.0.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			i := newImporter(t, test.kind)
			i.serve(t, test.served...)
			if oc := i.awaitImport(t); i.isReady(oc) {
				t.Error("it is ready before it is installed")
			}
			i.install(t)
			if oc, err := i.reconcile(t); err != nil || !i.isReady(oc) {
				t.Fatalf("it is installed, and not ready: %v, %+v", err, oc.Status.Conditions)
			}
			i.writes.Take()
			if oc, err := i.reconcile(t); err != nil || !i.isReady(oc) || len(i.writes.Take()) > 0 {
				t.Errorf("nothing has changed, and something was written: %v", err)
			}

			oc := i.live(t)
			former := oc.Status.Artifact.Digest
			oc.Spec.CollectionURL = i.url + "/1.0.1"
			must(t, i.server.Client.Update(t.Context(), oc))
			named := 0
			i.wrote = func(client.Object) error {
				if oc := i.live(t); oc.Status.Artifact.Digest != former {
					named++
					if i.isReady(oc) {
						t.Errorf("a status names %s and is Ready", oc.Status.Collection.Version)
					}
				}
				return nil
			}
			oc, err := i.reconcile(t)
			if err != nil || oc.Status.Artifact.Digest == former || i.isReady(oc) || named == 0 {
				t.Errorf("got %+v, %v", oc.Status, err)
			}
		})
	}
}

// An archive counts once it is recorded, and what runs is not affected by one that cannot be fetched.
func TestImportAfterAFailure(t *testing.T) {
	i := newImporter(t, "Gizmo")
	i.serve(t, "1.0.0")
	away := errors.New("the API server is away")
	i.writing = func(client.Object) error { return away }
	if oc, err := i.reconcile(t); !errors.Is(err, away) || oc.Status.Artifact != nil {
		t.Errorf("got %+v, %v", oc.Status, err)
	}
	i.writing = func(client.Object) error { return nil }
	i.awaitImport(t)
	i.install(t)
	oc, err := i.reconcile(t)
	if must(t, err); !i.isReady(oc) {
		t.Fatalf("got %+v", oc.Status.Conditions)
	}
	imported := digest.Digest(oc.Status.Artifact.Digest)
	oc.Spec.CollectionURL = "http://127.0.0.1:1/none"
	must(t, i.server.Client.Update(t.Context(), oc))
	oc, _ = i.reconcile(t) // It is tried again.
	if oc.Status.Artifact == nil || oc.Status.Artifact.Digest != imported.String() || i.isReady(oc) {
		t.Errorf("got %+v", oc.Status)
	}
}
