package install_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/opencontainers/go-digest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/direct"
	"github.com/collection-operator/collection-operator/internal/install/grants"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// things is the collection of all tests. Its kinds are served.
func things() *model.Collection {
	return &model.Collection{
		Domain: "acme", Name: "things", DisplayName: "Things", Version: semver.MustParse("1.2.0"),
		Galaxy: model.Galaxy{Namespace: "acme", Name: "things", Version: "1.2.0"},
		Resources: []model.Resource{
			{Kind: "Thing", DisplayName: "Thing", Playbook: "thing.yml", Finalizer: "gone.yml", Vars: []model.Var{{Name: "secret", Type: model.Password}}},
			{Kind: "Simple", DisplayName: "Simple", Playbook: "simple.yml"},
		},
	}
}

var operator = things().OperatorName()

// environment is what the tests share: the CRDs of the collection, and grants with their cache, as the manager reads them.
var environment struct {
	sync.Once
	grants *grants.Source
	err    error
}

func startEnvironment(shared *apiserver.Server) (*grants.Source, error) {
	ctx := context.Background() // It ends with the tests.
	crds, err := render.CRDs(things(), model.Group)
	err = errors.Join(err, shared.CreateCRDs(ctx, crds...))
	mgr, managerErr := ctrl.NewManager(shared.Config, ctrl.Options{Scheme: shared.Scheme, Metrics: server.Options{BindAddress: "0"}})
	if err := errors.Join(err, managerErr); err != nil {
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
	return source, nil
}

// rig is an Installer for a SubOperatorConfig in the namespace home. The verb of faults of the cache is cached.
type rig struct {
	*install.Installer
	server *apiserver.Server
	home   string
	soc    *v2beta2.SubOperatorConfig
	writes apiserver.Writes
	events chan string
	olm    *remover
	faults apiserver.Faults
	// hidden are the objects, as "Kind name", that the cache does not have.
	hidden map[string]bool
}

// remover is an Operator Lifecycle Manager that removes operators as it is told.
type remover struct {
	available, inUse, gone bool
	err                    error
	removed                int
}

func (o *remover) Available() bool                                    { return o.available }
func (o *remover) InUse(context.Context, client.Object) (bool, error) { return o.inUse, o.err }
func (o *remover) RemoveOperator(context.Context, model.ID, string, apply.Ours) (bool, error) {
	o.removed++
	return o.gone, o.err
}

func newRig(t *testing.T) *rig {
	t.Helper()
	shared := apiserver.Shared(t)
	environment.Do(func() { environment.grants, environment.err = startEnvironment(shared) })
	apiserver.Must(t, environment.err)
	recorder := events.NewFakeRecorder(100)
	r := &rig{
		server: shared, home: shared.Namespace(t), events: recorder.Events, olm: &remover{gone: true},
		hidden: map[string]bool{},
	}
	r.soc = &v2beta2.SubOperatorConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: "soc", Finalizers: []string{"example.com/test"}},
		Spec:       v2beta2.SubOperatorConfigSpec{OperatorCollection: "things", Mapping: []v2beta2.NamespaceMapping{{Namespace: r.home}}},
	}
	apiserver.Must(t, shared.Client.Create(t.Context(), r.soc))
	r.Installer = &install.Installer{
		Client: r.faults.Around(shared.NewClient(t, r.writes.Of(shared.Config)), ""), Reader: r.faults.Around(shared.Client, ""),
		Cache: interceptor.NewClient(shared.Client, interceptor.Funcs{Get: r.getCached}), Memory: install.NewMemory(),
		Recorder: recorder, Grants: environment.grants, Settings: render.DefaultSettings(), OLM: r.olm,
	}
	return r
}

// getCached reads as the cache of the manager does, which keeps a part of each Deployment.
func (r *rig) getCached(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	kind, err := c.GroupVersionKindFor(object)
	if r.hidden[kind.Kind+" "+key.Name] {
		return apierrors.NewNotFound(schema.GroupResource{Resource: kind.Kind}, key.Name)
	}
	if err := cmp.Or(err, r.faults.Meet(apiserver.Request{Verb: "cached", Kind: kind.Kind, Name: key.Name}), c.Get(ctx, key, object, options...)); err != nil {
		return err
	}
	if deployment, ok := object.(*appsv1.Deployment); ok {
		install.KeepDeployment(deployment)
	}
	return nil
}

var errAway = errors.New("the API server is away")

// installation is that of the collection in a namespace.
func (r *rig) installation(namespace string) *install.Installation {
	return &install.Installation{
		Owner: r.soc, OperatorCollection: &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: "things"}},
		Namespace: namespace, Collection: things(), Group: model.Group, Digest: digest.FromString("things 1.2.0"), Backend: direct.Backend{},
	}
}

// reconcile installs, and writes the result to status as the reconciler does.
func (r *rig) reconcile(t *testing.T, i *install.Installation) install.Result {
	t.Helper()
	result := r.Reconcile(t.Context(), []*install.Installation{i})[0]
	r.record(t, result)
	return result
}

func (r *rig) record(t *testing.T, result install.Result) {
	t.Helper()
	r.soc.Status.Installations = install.WithoutInstallation(r.soc.Status.Installations, result.Namespace)
	if result.Status != nil {
		r.soc.Status.Installations = install.WithInstallation(r.soc.Status.Installations, *result.Status)
	}
	apiserver.Must(t, r.server.Client.Status().Update(t.Context(), r.soc))
}

// installed installs the collection in the namespace home, and makes its Deployment available.
func (r *rig) installed(t *testing.T) {
	t.Helper()
	r.reconcile(t, r.installation(r.home))
	r.setAvailable(t, true)
	if result := r.reconcile(t, r.installation(r.home)); result.Err != nil || !result.Status.Ready {
		t.Fatalf("it is not installed: %v", result.Err)
	}
	r.writes.Take()
}

// setAvailable writes the status of the Deployment as its controller would.
func (r *rig) setAvailable(t *testing.T, available bool) {
	t.Helper()
	deployment := &appsv1.Deployment{}
	apiserver.Must(t, r.server.Client.Get(t.Context(), client.ObjectKey{Namespace: r.home, Name: operator}, deployment))
	is := corev1.ConditionFalse
	if available {
		is = corev1.ConditionTrue
	}
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: 1, UpdatedReplicas: 1,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: is}},
	}
	apiserver.Must(t, r.server.Client.Status().Update(t.Context(), deployment))
}

// endDeployment ends the foreground deletion of the Deployment, as the garbage collector does when its pods have ended.
func (r *rig) endDeployment(t *testing.T) {
	t.Helper()
	deployment := &appsv1.Deployment{}
	apiserver.Must(t, r.server.Client.Get(t.Context(), client.ObjectKey{Namespace: r.home, Name: operator}, deployment))
	if deployment.DeletionTimestamp == nil || !slices.Contains(deployment.Finalizers, metav1.FinalizerDeleteDependents) {
		t.Fatalf("Deployment %s is not being deleted in the foreground", operator)
	}
	deployment.Finalizers = nil
	apiserver.Must(t, r.server.Client.Update(t.Context(), deployment))
}

// resource makes a custom resource, with a status.
func (r *rig) resource(t *testing.T, kind, name string, spec, is map[string]any) *unstructured.Unstructured {
	t.Helper()
	spec["zosendpoint"] = "lpar1"
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: model.Group, Version: things().APIVersion(), Kind: kind})
	object.SetNamespace(r.home)
	object.SetName(name)
	object.SetFinalizers([]string{render.Finalizer})
	apiserver.Must(t, r.server.Client.Create(t.Context(), object))
	if is != nil {
		object.Object["status"] = is
		apiserver.Must(t, r.server.Client.Status().Update(t.Context(), object))
	}
	return object
}

// running is the status of a custom resource whose playbook runs.
var running = map[string]any{"conditions": []any{map[string]any{
	"type": "Running", "status": "True", "reason": "Running", "message": "Running reconciliation", "lastTransitionTime": "2026-01-02T03:04:05Z",
}}}

// exists reports whether an object of the installation exists in the namespace home.
func (r *rig) exists(t *testing.T, kind client.Object, name string) bool {
	t.Helper()
	err := r.server.Client.Get(t.Context(), client.ObjectKey{Namespace: r.home, Name: name}, kind)
	apiserver.Must(t, client.IgnoreNotFound(err))
	return err == nil
}

// ofInstallation returns the writes to objects other than status, without the common part of their paths.
func (r *rig) ofInstallation() []string {
	var writes []string
	for _, write := range r.writes.Take() {
		if !strings.HasSuffix(write, "/status") {
			method, path, _ := strings.Cut(write, " ")
			writes = append(writes, method+" "+path[strings.LastIndex(path[:strings.LastIndex(path, "/")], "/")+1:])
		}
	}
	return writes
}

// expectReason fails unless an error has a reason and contains a text.
func expectReason(t *testing.T, err error, reason, text string) {
	t.Helper()
	if status.AsError(err) == nil || status.AsError(err).Reason != reason || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %s: %s", err, reason, text)
	}
}

// expectEvent fails unless exactly one event was recorded, which contains a text. Without a text there must be none.
func (r *rig) expectEvent(t *testing.T, text string) {
	t.Helper()
	var all []string
	for len(r.events) > 0 {
		all = append(all, <-r.events)
	}
	if text == "" && len(all) > 0 || text != "" && !slices.ContainsFunc(all, func(e string) bool { return strings.Contains(e, text) }) {
		t.Errorf("the events are %q, want %q", all, text)
	}
}

func inventoryOf(soc *v2beta2.SubOperatorConfig) []string {
	kinds := map[string]bool{}
	for _, ref := range soc.Status.Inventory {
		kinds[fmt.Sprintf("%s %s", ref.Kind, ref.Name)] = true
	}
	return slices.Sorted(maps.Keys(kinds))
}
