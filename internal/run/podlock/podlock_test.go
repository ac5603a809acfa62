package podlock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/run/podlock"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// rig is a lock of this pod, and another pod of the operator. Each request calls before.
type rig struct {
	podlock.Lock
	client client.Client
	other  *corev1.Pod
	before atomic.Pointer[func(*http.Request) error]
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func newRig(t *testing.T) *rig {
	t.Helper()
	server := apiserver.Shared(t)
	r := &rig{client: server.Client, Lock: podlock.Lock{Namespace: server.Namespace(t), Name: "operator", PodName: "operator-1", Poll: time.Millisecond}}
	config := rest.CopyConfig(server.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if before := r.before.Load(); before != nil {
				if err := (*before)(request); err != nil {
					return nil, err
				}
			}
			return next.RoundTrip(request)
		})
	})
	var err error
	if r.Client, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	r.PodUID = string(r.newPod(t, r.PodName).UID)
	r.other = r.newPod(t, "operator-2")
	return r
}

func (r *rig) newPod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: name},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false), Containers: []corev1.Container{{Name: "operator", Image: "operator"}},
		},
	}
	apiserver.Must(t, r.client.Create(t.Context(), pod))
	return pod
}

// held makes the Lease, with a holder.
func (r *rig) held(t *testing.T, spec coordinationv1.LeaseSpec) {
	t.Helper()
	apiserver.Must(t, r.client.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}, Spec: spec}))
}

func (r *rig) heldBy(t *testing.T, holder string) {
	t.Helper()
	r.held(t, coordinationv1.LeaseSpec{HolderIdentity: &holder})
}

func (r *rig) lease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	lease := &coordinationv1.Lease{}
	apiserver.Must(t, r.client.Get(t.Context(), client.ObjectKey{Namespace: r.Namespace, Name: r.Name}, lease))
	return lease
}

func (r *rig) holder(t *testing.T) string {
	t.Helper()
	return ptr.Deref(r.lease(t).Spec.HolderIdentity, "")
}

func (r *rig) own() string { return r.PodName + "_" + r.PodUID }

// others is the holder that is the other pod.
func (r *rig) others() string { return r.other.Name + "_" + string(r.other.UID) }

func (r *rig) end(t *testing.T, phase corev1.PodPhase) {
	t.Helper()
	r.other.Status.Phase = phase
	apiserver.Must(t, r.client.Status().Update(t.Context(), r.other))
}

func TestTakeUnlessALivePodHoldsIt(t *testing.T) {
	for name, test := range map[string]struct {
		lease func(t *testing.T, r *rig)
		taken bool
	}{
		"there is no Lease":               {func(*testing.T, *rig) {}, true},
		"no holder":                       {func(t *testing.T, r *rig) { r.held(t, coordinationv1.LeaseSpec{}) }, true},
		"this pod":                        {func(t *testing.T, r *rig) { r.heldBy(t, r.own()) }, true},
		"an earlier container of it":      {func(t *testing.T, r *rig) { r.heldBy(t, r.PodName+"_earlier") }, true},
		"a pod that does not exist":       {func(t *testing.T, r *rig) { r.heldBy(t, "operator-3_x") }, true},
		"an earlier pod of the same name": {func(t *testing.T, r *rig) { r.heldBy(t, "operator-2_x") }, true},
		"a pod that exists":               {func(t *testing.T, r *rig) { r.heldBy(t, r.others()) }, false},
		"a pod that has failed": {func(t *testing.T, r *rig) {
			r.heldBy(t, r.others())
			r.end(t, corev1.PodFailed)
		}, true},
		"a pod that has succeeded": {func(t *testing.T, r *rig) {
			r.heldBy(t, r.others())
			r.end(t, corev1.PodSucceeded)
		}, true},
		"a pod that runs": {func(t *testing.T, r *rig) {
			r.heldBy(t, r.others())
			r.end(t, corev1.PodRunning)
		}, false},
		"a pod of an earlier version, whose time is over": {func(t *testing.T, r *rig) {
			r.held(t, coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("operator-2_x"), LeaseDurationSeconds: ptr.To[int32](15),
				RenewTime: ptr.To(metav1.NewMicroTime(time.Now().Add(-time.Hour))),
			})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			test.lease(t, r)
			uid, err := r.Take(t.Context())
			if test.taken {
				if lease := r.lease(t); err != nil || uid != lease.UID || ptr.Deref(lease.Spec.HolderIdentity, "") != r.own() {
					t.Errorf("it is not taken: %v, holder %q", err, r.holder(t))
				}
				return
			}
			if want := "pod operator-2 holds Lease operator and has not ended"; err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
			if r.holder(t) == r.own() {
				t.Error("it is taken")
			}
		})
	}
}

func TestTakeFailsIfSomethingCannotBeRead(t *testing.T) {
	for _, resource := range []string{"/leases/", "/pods/"} {
		r := newRig(t)
		r.heldBy(t, "operator-3_x")
		away := errors.New("away")
		r.before.Store(ptr.To(func(request *http.Request) error {
			if strings.Contains(request.URL.Path, resource) {
				return away
			}
			return nil
		}))
		if _, err := r.Take(t.Context()); !errors.Is(err, away) || r.holder(t) != "operator-3_x" {
			t.Errorf("%s: %v, holder %s", resource, err, r.holder(t))
		}
	}
}

// Of two pods that find a free Lease, one gets it.
func TestTakeConflictsWithAnotherPod(t *testing.T) {
	for name, began := range map[string]func(t *testing.T, r *rig){
		"of an existing Lease": func(t *testing.T, r *rig) { r.held(t, coordinationv1.LeaseSpec{}) },
		"of a new one":         func(*testing.T, *rig) {},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			began(t, r)
			r.before.Store(ptr.To(func(request *http.Request) error {
				if request.Method == http.MethodGet {
					return nil
				}
				lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
				if err := r.client.Get(request.Context(), client.ObjectKeyFromObject(lease), lease); apierrors.IsNotFound(err) {
					r.heldBy(t, r.others())
					return nil
				}
				lease.Spec.HolderIdentity = ptr.To(r.others())
				return r.client.Update(request.Context(), lease)
			}))
			if _, err := r.Take(t.Context()); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
				t.Errorf("got %v", err)
			}
			if got := r.holder(t); got != r.others() {
				t.Errorf("the holder is %s", got)
			}
		})
	}
}

func TestAClosedLeaseStartsNothing(t *testing.T) {
	r := newRig(t)
	r.heldBy(t, r.own())
	lease := r.lease(t)
	podlock.Close(lease, time.Now().Add(time.Minute))
	apiserver.Must(t, r.client.Update(t.Context(), lease))
	if _, err := r.Take(t.Context()); err == nil || !strings.Contains(err.Error(), "another version takes its place") {
		t.Errorf("got %v", err)
	}
	podlock.Close(lease, time.Now().Add(-time.Minute))
	apiserver.Must(t, r.client.Update(t.Context(), lease))
	if _, err := r.Take(t.Context()); err != nil {
		t.Errorf("later: %v", err)
	}
}

// A lock that waits says so, also while the API server is away, and gets the lock when the other pod has ended.
func TestAcquireWaitsForTheEndOfTheOtherPod(t *testing.T) {
	r := newRig(t)
	r.heldBy(t, r.others())
	reasons, acquired := make(chan string), make(chan error, 1)
	go func() { acquired <- r.Acquire(t.Context(), func(reason string) { reasons <- reason }) }()
	expect := func(want string) {
		t.Helper()
		for reason := ""; !strings.Contains(reason, want); {
			select {
			case reason = <-reasons:
			case err := <-acquired:
				t.Fatalf("it was taken: %v", err)
			}
		}
	}
	const held = "pod operator-2 holds Lease operator and has not ended"
	expect(held)
	r.before.Store(ptr.To(func(*http.Request) error { return errors.New("away") }))
	expect("away")
	r.before.Store(nil)
	expect(held)
	r.end(t, corev1.PodFailed)
	apiserver.Must(t, <-acquired)
	if got := r.holder(t); got != r.own() {
		t.Errorf("the holder is %s", got)
	}
}

// Its SIGTERM may have come before anything handled it.
func TestAcquireByAPodThatIsDeleted(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, r *rig, pod *corev1.Pod){
		"terminating": func(t *testing.T, r *rig, pod *corev1.Pod) {
			pod.Finalizers = []string{"example.com/stay"}
			apiserver.Must(t, r.client.Update(t.Context(), pod))
			apiserver.Must(t, r.client.Delete(t.Context(), pod))
		},
		"gone": func(t *testing.T, r *rig, pod *corev1.Pod) { apiserver.Must(t, r.client.Delete(t.Context(), pod)) },
		"replaced": func(t *testing.T, r *rig, pod *corev1.Pod) {
			apiserver.Must(t, r.client.Delete(t.Context(), pod))
			r.newPod(t, pod.Name)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.held(t, coordinationv1.LeaseSpec{})
			pod := &corev1.Pod{}
			apiserver.Must(t, r.client.Get(t.Context(), client.ObjectKey{Namespace: r.Namespace, Name: r.PodName}, pod))
			change(t, r, pod)
			if err := r.Acquire(t.Context(), func(reason string) { t.Error(reason) }); !errors.Is(err, podlock.ErrDeleted) {
				t.Errorf("got %v", err)
			}
			if got := r.holder(t); got != "" {
				t.Errorf("the holder is %s", got)
			}
		})
	}
}

// While it waits, the pod is alive and not ready. Afterwards the port is free for the operator.
func TestProbesWhileItWaits(t *testing.T) {
	r := newRig(t)
	r.heldBy(t, r.others())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	apiserver.Must(t, err)
	address := listener.Addr().String()
	apiserver.Must(t, listener.Close())
	asked := make(chan struct{}, 1)
	r.before.Store(ptr.To(func(*http.Request) error {
		select {
		case asked <- struct{}{}:
		default:
		}
		return nil
	}))
	ctx, cancel := context.WithCancel(t.Context())
	acquired := make(chan error)
	go func() { acquired <- podlock.AcquireWithProbes(ctx, r.Lock, address) }()
	<-asked // It serves probes before.
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable} {
		response, err := http.Get(fmt.Sprintf("http://%s%s", address, path))
		if err != nil || response.Body.Close() != nil || response.StatusCode != want {
			t.Errorf("%s: %v, %v", path, response, err)
		}
	}
	cancel()
	if err := <-acquired; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	listener, err = net.Listen("tcp", address)
	apiserver.Must(t, err)
	apiserver.Must(t, listener.Close())
}
