package operands_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/operator-framework/api/crds"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	runtimecontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/operands/cluster"
	"github.com/collection-operator/collection-operator/internal/operands/operandrequest"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// account is the ServiceAccount of the component.
var account = types.NamespacedName{Namespace: "collection-operator-system", Name: "collection-operator-operands"}

var errAway = errors.New("the API server is away")

var environment struct {
	sync.Once
	err error
}

// startEnvironment gives the API server the kinds of the component, of a collection, of the Operator Lifecycle Manager and of a package, and
// the ServiceAccount of the component.
func startEnvironment(t *testing.T, shared *apiserver.Server) error {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: account.Namespace}}
	err := errors.Join(operatorsv1alpha1.AddToScheme(shared.Scheme), operatorsv1.AddToScheme(shared.Scheme), shared.Client.Create(t.Context(), namespace))
	shared.Apply(t, "config/components/operands/crd/*.yaml", "internal/operands/testdata/crds.yaml", "config/components/operands/role.yaml")
	return errors.Join(err, shared.CreateCRDs(t.Context(), crds.ClusterServiceVersion(), crds.OperatorGroup(), crds.Subscription()))
}

// rig is an operandrequest.Reconciler, and what it needs. A test calls Reconcile.
type rig struct {
	*operandrequest.Reconciler
	server *apiserver.Server
	// home is the namespace of the OperandRegistry tools.
	home   string
	writes apiserver.Writes
	events chan string
	// cached changes what the cache gives, and listed what is listed live.
	cached, listed func(client.ObjectList)

	// faults are those of a Reconcile that a test calls. The verb of a list that the cache gives is cached.
	faults apiserver.Faults
	mutex  sync.Mutex
	// failed has the requests that have failed, unless it is nil: each fails when it is made first. If lost, only writes fail, after they
	// were carried out.
	failed map[string]bool
	lost   bool
	// asked are the requests that the controller has got from watches.
	asked map[types.NamespacedName]int
}

// ofTest marks the context of a Reconcile that a test calls.
type ofTest struct{}

func ofTestContext(t *testing.T) context.Context {
	return context.WithValue(t.Context(), ofTest{}, true)
}

// newRig returns a rig without watches. What is awaited is polled then.
func newRig(t *testing.T) *rig {
	t.Helper()
	r := prepareRig(t)
	apiserver.Must(t, r.SetupWithManager(&unwatched{r.newManager(t)}))
	return r
}

// prepareRig returns a rig without manager.
func prepareRig(t *testing.T) *rig {
	t.Helper()
	shared := apiserver.Shared(t)
	environment.Do(func() { environment.err = startEnvironment(t, shared) })
	apiserver.Must(t, environment.err)
	recorder := events.NewFakeRecorder(1000)
	r := &rig{
		server: shared, home: shared.Namespace(t), events: recorder.Events, cached: func(client.ObjectList) {}, listed: func(client.ObjectList) {},
		asked: map[types.NamespacedName]int{},
	}
	t.Cleanup(func() { apiserver.Must(t, r.clean(context.Background())) })
	c, err := client.NewWithWatch(r.writes.Of(shared.Config), client.Options{Scheme: shared.Scheme, Mapper: shared.Client.RESTMapper()})
	apiserver.Must(t, err)
	r.Reconciler = &operandrequest.Reconciler{
		Access: cluster.Access{Client: r.client(c), Reader: r.reader(shared.Client), Account: account}, Recorder: recorder,
		GlobalNamespace: r.home,
	}
	return r
}

// clean removes what each Reconcile lists of all namespaces: with that of all former tests it would take longer and longer.
func (r *rig) clean(ctx context.Context) error {
	var all error
	for _, kind := range []schema.GroupVersionKind{
		v1alpha1.GroupVersion.WithKind("OperandRequest"), v1alpha1.GroupVersion.WithKind("OperandRegistry"), v1alpha1.GroupVersion.WithKind("OperandConfig"),
		v1alpha1.GroupVersion.WithKind("OperandBindInfo"), v2beta2.GroupVersion.WithKind("OperatorCollection"), v2beta2.GroupVersion.WithKind("SubOperatorConfig"),
	} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		all = errors.Join(all, r.server.Client.List(ctx, list))
		for i := range list.Items {
			object := &list.Items[i]
			if len(object.Finalizers) > 0 {
				all = errors.Join(all, r.server.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
			}
			all = errors.Join(all, client.IgnoreNotFound(r.server.Client.Delete(ctx, object)))
		}
	}
	return all
}

// newManager returns a manager whose controllers others have, too.
func (r *rig) newManager(t *testing.T) ctrl.Manager {
	t.Helper()
	mgr, err := ctrl.NewManager(r.server.Config, ctrl.Options{
		Scheme: r.server.Scheme, MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return r.server.Client.RESTMapper(), nil },
		Metrics: metrics.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	apiserver.Must(t, err)
	return mgr
}

// unwatched is a manager that is never started, with which no watch begins.
type unwatched struct{ ctrl.Manager }

func (*unwatched) GetAPIReader() client.Reader { return unreadable{} }

type unreadable struct{ client.Reader }

func (unreadable) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errAway
}

// do carries out a request of a Reconcile that a test has called, unless it is to fail.
func (r *rig) do(ctx context.Context, request apiserver.Request, carryOut func() error) error {
	if ctx.Value(ofTest{}) == nil {
		return carryOut()
	}
	if err := r.faults.Meet(request); err != nil {
		return err
	}
	isRead := request.Verb == "get" || request.Verb == "list" || request.Verb == "cached"
	what := request.Verb + " " + request.Kind + " " + request.Name
	if r.failed == nil || r.failed[what] || r.lost && isRead {
		return carryOut()
	}
	r.failed[what] = true
	if r.lost {
		return cmp.Or(carryOut(), errAway)
	}
	return errAway
}

func (r *rig) reader(c client.WithWatch) client.Reader {
	return apiserver.Around(c, func(ctx context.Context, request apiserver.Request, carryOut func() error) error {
		if runtimecontroller.ReconcileIDFromContext(ctx) != "" && request.Verb == "get" { // The controller reconciles. Tests do that.
			r.mutex.Lock()
			defer r.mutex.Unlock()
			r.asked[types.NamespacedName{Namespace: request.Namespace, Name: request.Name}]++
			return apierrors.NewNotFound(schema.GroupResource{}, request.Name)
		}
		err := r.do(ctx, request, carryOut)
		if request.Verb == "list" && err == nil {
			r.listed(request.Object.(client.ObjectList))
		}
		return err
	})
}

func (r *rig) client(c client.WithWatch) client.Client {
	return apiserver.Around(c, func(ctx context.Context, request apiserver.Request, carryOut func() error) error {
		if request.Verb == "get" {
			return carryOut()
		}
		isList := request.Verb == "list"
		if isList {
			request.Verb = "cached"
		}
		err := r.do(ctx, request, carryOut)
		if isList && err == nil && ctx.Value(ofTest{}) != nil {
			r.cached(request.Object.(client.ObjectList))
		}
		return err
	})
}

// reconcile reconciles a request, and reads it again. It has no UID if it is gone.
func (r *rig) reconcile(t *testing.T, request *v1alpha1.OperandRequest) (ctrl.Result, error) {
	t.Helper()
	key := client.ObjectKeyFromObject(request)
	result, err := r.Reconcile(ofTestContext(t), ctrl.Request{NamespacedName: key})
	*request = v1alpha1.OperandRequest{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	apiserver.Must(t, client.IgnoreNotFound(r.server.Client.Get(t.Context(), key, request)))
	return result, err
}

// fails reconciles a request without an error, and expects that it is not Ready for a reason, with a text in its message.
func (r *rig) fails(t *testing.T, request *v1alpha1.OperandRequest, reason, text string) {
	t.Helper()
	_, err := r.reconcile(t, request)
	apiserver.Must(t, err)
	expectReady(t, request, metav1.ConditionFalse, reason, text)
}

// runs reconciles a request, and expects that all it wants is running.
func (r *rig) runs(t *testing.T, request *v1alpha1.OperandRequest) {
	t.Helper()
	_, err := r.reconcile(t, request)
	apiserver.Must(t, err)
	expectReady(t, request, metav1.ConditionTrue, v2beta2.ReasonSucceeded, "operands are running")
	expectPhase(t, request, v1alpha1.RequestRunning)
}

// ends reconciles a request, and expects that it is gone.
func (r *rig) ends(t *testing.T, request *v1alpha1.OperandRequest) {
	t.Helper()
	_, err := r.reconcile(t, request)
	apiserver.Must(t, err)
	if request.UID != "" {
		t.Errorf("it is not gone: %+v", request.Status)
	}
}

func expectReady(t *testing.T, request *v1alpha1.OperandRequest, status metav1.ConditionStatus, reason, text string) {
	t.Helper()
	ready := meta.FindStatusCondition(request.Status.Conditions, v2beta2.ConditionReady)
	if ready == nil || ready.Status != status || ready.Reason != reason || !strings.Contains(ready.Message, text) || ready.ObservedGeneration != request.Generation {
		t.Errorf("Ready is %+v, want %s %s: %s", ready, status, reason, text)
	}
}

func expectPhase(t *testing.T, request *v1alpha1.OperandRequest, phase string) {
	t.Helper()
	if request.Status.Phase != phase {
		t.Errorf("the phase is %s, want %s", request.Status.Phase, phase)
	}
}

// create creates an object from YAML, such as "{spec: {}}".
func (r *rig) create(t *testing.T, object client.Object, namespace, name, text string) {
	t.Helper()
	apiserver.Must(t, yaml.UnmarshalStrict([]byte(text), object))
	object.SetNamespace(namespace)
	object.SetName(name)
	apiserver.Must(t, r.server.Client.Create(t.Context(), object))
}

// request asks for operands of the OperandRegistry tools.
func (r *rig) request(t *testing.T, namespace, name string, wanted ...string) *v1alpha1.OperandRequest {
	t.Helper()
	request := &v1alpha1.OperandRequest{}
	r.create(t, request, namespace, name, fmt.Sprintf("{spec: {requests: [{registry: tools, registryNamespace: %s, operands: [%s]}]}}", r.home, strings.Join(wanted, ", ")))
	return request
}

// wants changes which operands a request asks for.
func (r *rig) wants(t *testing.T, request *v1alpha1.OperandRequest, wanted ...string) {
	t.Helper()
	r.patch(t, request, fmt.Sprintf("{spec: {requests: [{registry: tools, registryNamespace: %s, operands: [%s]}]}}", r.home, strings.Join(wanted, ", ")))
}

// patch merges YAML into an object.
func (r *rig) patch(t *testing.T, object client.Object, text string) {
	t.Helper()
	patch, err := yaml.YAMLToJSON([]byte(text))
	apiserver.Must(t, err)
	apiserver.Must(t, r.server.Client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, patch)))
}

func (r *rig) delete(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		apiserver.Must(t, r.server.Client.Delete(t.Context(), object))
	}
}

// exists reads an object, and reports whether it exists and is not being deleted.
func (r *rig) exists(t *testing.T, object client.Object) bool {
	t.Helper()
	err := r.server.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object)
	apiserver.Must(t, client.IgnoreNotFound(err))
	return err == nil && object.GetDeletionTimestamp() == nil
}

// hold gives an object a finalizer, as its operator does.
func (r *rig) hold(t *testing.T, object client.Object) {
	t.Helper()
	r.patch(t, object, "{metadata: {finalizers: [example.com/test]}}")
}

func (r *rig) release(t *testing.T, object client.Object) {
	t.Helper()
	r.patch(t, object, "{metadata: {finalizers: null}}")
}

// ofObject returns the writes to an object, or to those whose path contains a text, without dry runs.
func ofObjects(writes []string, text string) []string {
	var found []string
	for _, write := range writes {
		if strings.Contains(write, text) {
			found = append(found, write)
		}
	}
	return found
}

// inventoryOf returns the entries as origin, kind and name, or namespace of the mapping.
func inventoryOf(request *v1alpha1.OperandRequest) []string {
	var entries []string
	for _, e := range request.Status.Inventory {
		entries = append(entries, fmt.Sprintf("%s %s %s/%s%s", e.Origin, e.Kind, e.Namespace, e.Name, strings.TrimSuffix(" for "+e.Mapping, " for ")))
	}
	return entries
}

// instance is an object of a kind, without spec.
func instance(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// deleteNamespace begins the deletion of a namespace, which nothing ends here.
func (r *rig) deleteNamespace(t *testing.T, name string) {
	t.Helper()
	r.delete(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}
