package controller_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/zosendpoint"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/probe"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// sshServer stands in for a z/OS system: it shows a host key and lets nobody log on.
type sshServer struct {
	listener    net.Listener
	connections atomic.Int32
	mutex       sync.Mutex
	signer      ssh.Signer
}

func startSSHServer(t *testing.T) *sshServer {
	t.Helper()
	s := &sshServer{}
	s.replaceKey(t)
	s.listen(t, "127.0.0.1:0")
	t.Cleanup(s.stop)
	return s
}

func (s *sshServer) listen(t *testing.T, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	apiserver.Must(t, err)
	s.listener = listener
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			s.connections.Add(1)
			go s.handshake(connection)
		}
	}()
}

func (s *sshServer) handshake(connection net.Conn) {
	defer func() { _ = connection.Close() }()
	config := &ssh.ServerConfig{PasswordCallback: func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) {
		return nil, errors.New("nobody logs on here")
	}}
	s.mutex.Lock()
	config.AddHostKey(s.signer)
	s.mutex.Unlock()
	_, _, _, _ = ssh.NewServerConn(connection, config) // It always fails.
}

func (s *sshServer) replaceKey(t *testing.T) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	apiserver.Must(t, err)
	signer, err := ssh.NewSignerFromKey(key)
	apiserver.Must(t, err)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.signer = signer
}

// stop ends the server, which start starts again at the same address.
func (s *sshServer) stop()              { _ = s.listener.Close() }
func (s *sshServer) start(t *testing.T) { s.listen(t, s.address()) }

func (s *sshServer) address() string { return s.listener.Addr().String() }
func (s *sshServer) hostKey() string { return probe.FormatHostKey(s.signer.PublicKey()) }

func (s *sshServer) spec(t *testing.T) v2beta2.ZosEndpointSpec {
	t.Helper()
	host, port, err := net.SplitHostPort(s.address())
	apiserver.Must(t, err)
	number, err := strconv.ParseInt(port, 10, 32)
	apiserver.Must(t, err)
	return v2beta2.ZosEndpointSpec{Host: host, Port: int32(number)}
}

// cachesOnly is a manager that starts caches, and no controller.
type cachesOnly struct {
	ctrl.Manager
	ctx context.Context
}

func (m cachesOnly) Add(runnable manager.Runnable) error {
	own, isCache := runnable.(interface{ GetCache() cache.Cache })
	if !isCache {
		return nil
	}
	go func() { _ = own.GetCache().Start(m.ctx) }()
	if !own.GetCache().WaitForCacheSync(m.ctx) {
		return errors.New("a cache does not start")
	}
	return nil
}

// endpoints is a reconciler of ZosEndpoints in the namespace home. No controller runs: a test calls Reconcile.
type endpoints struct {
	*zosendpoint.Reconciler
	server *apiserver.Server
	home   string
	writes apiserver.Writes
	faults *apiserver.Faults
	events chan string
}

func newEndpoints(t *testing.T) *endpoints {
	t.Helper()
	shared := apiserver.Shared(t)
	recorder := events.NewFakeRecorder(1000)
	r := &endpoints{server: shared, home: shared.Namespace(t), faults: &apiserver.Faults{}, events: recorder.Events}
	r.Reconciler = &zosendpoint.Reconciler{
		Client: r.faults.Around(withStateIndex(shared.NewClient(t, r.writes.Of(shared.Config))), ""), Reader: r.faults.Around(shared.Client, "live "),
		Recorder: recorder, Prober: &probe.Prober{}, ProbeInterval: time.Hour,
	}
	mgr, err := newManager(shared)
	apiserver.Must(t, err)
	apiserver.Must(t, r.SetupWithManager(cachesOnly{mgr, t.Context()}))
	return r
}

// withStateIndex lists ZosEndpoints by their state as the index of the manager's cache does.
func withStateIndex(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			asked := (&client.ListOptions{}).ApplyOptions(options)
			found, ok := list.(*v2beta2.ZosEndpointList)
			if !ok || asked.FieldSelector == nil {
				return c.List(ctx, list, options...)
			}
			name, _ := asked.FieldSelector.RequiresExactMatch("state")
			err := c.List(ctx, found, client.InNamespace(asked.Namespace))
			found.Items = slices.DeleteFunc(found.Items, func(e v2beta2.ZosEndpoint) bool { return endpoint.StateName(&e) != name })
			return err
		},
	})
}

// add makes a ZosEndpoint.
func (r *endpoints) add(t *testing.T, name string, spec v2beta2.ZosEndpointSpec) *v2beta2.ZosEndpoint {
	t.Helper()
	e := &v2beta2.ZosEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: name}, Spec: spec}
	apiserver.Must(t, r.server.Client.Create(t.Context(), e))
	return e
}

// reconcile returns a ZosEndpoint as it is then.
func (r *endpoints) reconcile(t *testing.T, name string) (*v2beta2.ZosEndpoint, ctrl.Result, error) {
	t.Helper()
	key := client.ObjectKey{Namespace: r.home, Name: name}
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	e := &v2beta2.ZosEndpoint{}
	apiserver.Must(t, client.IgnoreNotFound(r.server.Client.Get(t.Context(), key, e)))
	return e, result, err
}

// becomes reconciles a ZosEndpoint without an error, and expects Reachable with a reason, and a text in its message.
func (r *endpoints) becomes(t *testing.T, name, reason, text string) *v2beta2.ZosEndpoint {
	t.Helper()
	e, _, err := r.reconcile(t, name)
	if reason == v2beta2.ReasonSucceeded {
		apiserver.Must(t, err)
	}
	expectCondition(t, e.Status.Conditions, v2beta2.ConditionReachable, reason, text)
	return e
}

// expectCondition expects a condition with a reason, and a text in its message. It is true if the reason is Succeeded.
func expectCondition(t *testing.T, conditions []metav1.Condition, kind, reason, text string) {
	t.Helper()
	is := meta.FindStatusCondition(conditions, kind)
	if is == nil || is.Reason != reason || (is.Status == metav1.ConditionTrue) != (reason == v2beta2.ReasonSucceeded) || !strings.Contains(is.Message, text) {
		t.Errorf("%s is %+v, want %s: %s", kind, is, reason, text)
	}
}

// patch merges a JSON patch into a ZosEndpoint.
func (r *endpoints) patch(t *testing.T, name, patch string) {
	t.Helper()
	e := &v2beta2.ZosEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: name}}
	apiserver.Must(t, r.server.Client.Patch(t.Context(), e, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// state returns the Secret with the state of a ZosEndpoint, and the state. Both are nil if it does not exist.
func (r *endpoints) state(t *testing.T, e *v2beta2.ZosEndpoint) (*corev1.Secret, *endpoint.State) {
	t.Helper()
	secret := &corev1.Secret{}
	err := r.server.Client.Get(t.Context(), client.ObjectKey{Namespace: r.home, Name: endpoint.StateName(e)}, secret)
	apiserver.Must(t, client.IgnoreNotFound(err))
	if err != nil {
		return nil, nil
	}
	state, err := endpoint.ParseState(secret.Data[endpoint.StateFile])
	apiserver.Must(t, err)
	return secret, state
}

// edit changes the state of a ZosEndpoint, as an operator does: again, if somebody else did meanwhile.
func (r *endpoints) edit(t *testing.T, e *v2beta2.ZosEndpoint, change func(*endpoint.State)) {
	t.Helper()
	apiserver.Must(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		secret, state := r.state(t, e)
		change(state)
		secret.Data[endpoint.StateFile] = state.Marshal()
		return r.server.Client.Update(t.Context(), secret)
	}))
}

// use makes a SubOperatorConfig that has installed the operator of the collection tests/things in the namespace home.
func (r *endpoints) use(t *testing.T, name string) *v2beta2.SubOperatorConfig {
	t.Helper()
	soc := &v2beta2.SubOperatorConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: name},
		Spec:       v2beta2.SubOperatorConfigSpec{OperatorCollection: "things", Mapping: []v2beta2.NamespaceMapping{{Namespace: r.home}}},
	}
	apiserver.Must(t, r.server.Client.Create(t.Context(), soc))
	soc.Status.Collection = &v2beta2.CollectionReference{Domain: "tests", Name: "things"}
	soc.Status.Installations = []v2beta2.InstallationStatus{{Namespace: r.home, Install: v2beta2.InstallDirect}}
	apiserver.Must(t, r.server.Client.Status().Update(t.Context(), soc))
	return soc
}

// access returns the Role and the RoleBinding of a ZosEndpoint, nil if they do not exist.
func (r *endpoints) access(t *testing.T, name string) (*rbacv1.Role, *rbacv1.RoleBinding) {
	t.Helper()
	role, binding, key := &rbacv1.Role{}, &rbacv1.RoleBinding{}, client.ObjectKey{Namespace: r.home, Name: "zosendpoint-" + name}
	roleErr, bindingErr := r.server.Client.Get(t.Context(), key, role), r.server.Client.Get(t.Context(), key, binding)
	apiserver.Must(t, errors.Join(client.IgnoreNotFound(roleErr), client.IgnoreNotFound(bindingErr)))
	if roleErr != nil {
		role = nil
	}
	if bindingErr != nil {
		binding = nil
	}
	return role, binding
}

// managed are the labels of what the manager makes.
var managed = map[string]string{render.LabelManagedBy: render.ManagedBy}
