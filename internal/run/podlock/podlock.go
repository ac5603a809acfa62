// Package podlock lets one pod of an operator run playbooks at a time. The lock is a Lease that names a pod and its UID. It is
// taken over when that pod has ended, and never because time has passed: a slow API server ends nothing.
package podlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/internal/run/gate"
)

var (
	leases = coordinationv1.SchemeGroupVersion.WithResource("leases")
	pods   = corev1.SchemeGroupVersion.WithResource("pods")
)

// pollInterval is [Lock.Poll] of operators: a new pod starts that much later, and costs two or three requests per second until then.
const pollInterval = time.Second

// Lock is the lock of one operator, as its pod sees it.
type Lock struct {
	Client dynamic.Interface
	// Namespace and Name of the Lease.
	Namespace, Name string
	// PodName and PodUID of this pod.
	PodName, PodUID string
	// Poll is how often the holder's pod is read while the lock is taken.
	Poll time.Duration
}

// FromEnvironment returns the lock of an operator in WATCH_NAMESPACE for the pod of POD_NAME and POD_UID.
func FromEnvironment(client dynamic.Interface, operator string) (Lock, error) {
	l := OfPod(client)
	l.Name = operator
	if l.Name == "" || l.Namespace == "" || l.PodName == "" || l.PodUID == "" {
		return Lock{}, errors.New("the name of the operator, WATCH_NAMESPACE, POD_NAME and POD_UID must be set")
	}
	return l, nil
}

// OfPod returns a lock that knows its pod, and no Lease.
func OfPod(client dynamic.Interface) Lock {
	return Lock{
		Client: client, Poll: pollInterval,
		Namespace: os.Getenv("WATCH_NAMESPACE"), PodName: os.Getenv("POD_NAME"), PodUID: os.Getenv("POD_UID"),
	}
}

// ErrDeleted means that this pod was deleted: it must end, and not take the lock.
var ErrDeleted = errors.New("this pod is deleted")

// Acquire takes the lock, and waits for the end of the pod that holds it. It only fails if the context ends, or with ErrDeleted.
// report gets the reason for which it waits, whenever that changes.
func (l Lock) Acquire(ctx context.Context, report func(reason string)) error {
	reported := ""
	ticker := time.NewTicker(l.Poll)
	defer ticker.Stop()
	for {
		err := l.takeUnlessDeleted(ctx)
		if err == nil || errors.Is(err, ErrDeleted) {
			return err
		}
		if reason := err.Error(); reason != reported {
			report(reason)
			reported = reason
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// takeUnlessDeleted also sees a SIGTERM that was lost because it came before process 1 of the container handled signals.
func (l Lock) takeUnlessDeleted(ctx context.Context) error {
	termination, err := l.Termination(ctx)
	if err != nil {
		return err
	}
	if termination.Deleted {
		return ErrDeleted
	}
	_, err = l.Take(ctx)
	return err
}

// Take takes the lock unless this pod has it already, and returns the UID of the Lease. The error says why it cannot be taken
// now: another pod holds it and has not ended, the operator is about to be removed, or the Lease cannot be read or written.
func (l Lock) Take(ctx context.Context) (types.UID, error) {
	lease, err := l.read(ctx)
	if apierrors.IsNotFound(err) {
		return l.hold(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: l.Name, Namespace: l.Namespace}})
	}
	if err != nil {
		return "", fmt.Errorf("read Lease %s: %w", l.Name, err)
	}
	if ptr.Deref(lease.Spec.HolderIdentity, "") == l.identity() {
		if until := closedUntil(lease); time.Now().Before(until) {
			return "", fmt.Errorf("the manager removes this operator, so that another version takes its place: nothing starts until %s", until.Format(time.RFC3339))
		}
		return lease.UID, nil
	}
	pod, err := l.livePod(ctx, lease)
	if err != nil {
		return "", err
	}
	if pod != "" {
		return "", fmt.Errorf("pod %s holds Lease %s and has not ended", pod, l.Name)
	}
	return l.hold(ctx, lease)
}

// livePod returns the name of the pod that holds the Lease, or "" if it has ended.
func (l Lock) livePod(ctx context.Context, lease *coordinationv1.Lease) (string, error) {
	name, uid, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
	if name == "" {
		return "", nil
	}
	object, err := l.Client.Resource(pods).Namespace(l.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read pod %s: %w", name, err)
	}
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	if phase == string(corev1.PodFailed) || phase == string(corev1.PodSucceeded) {
		return "", nil
	}
	// client-go's leader election, which earlier versions used, sets a duration. Its identity has a UID that is not the pod's.
	ofLeaderElection := lease.Spec.LeaseDurationSeconds != nil
	if actual := string(object.GetUID()); actual == l.PodUID || (actual != uid && !ofLeaderElection) {
		return "", nil
	}
	return name, nil
}

func (l Lock) read(ctx context.Context) (*coordinationv1.Lease, error) {
	object, err := l.Client.Resource(leases).Namespace(l.Namespace).Get(ctx, l.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	lease := &coordinationv1.Lease{}
	return lease, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, lease)
}

// hold makes this pod the holder, unless the Lease has changed since it was read.
func (l Lock) hold(ctx context.Context, lease *coordinationv1.Lease) (types.UID, error) {
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To(l.identity()),
		AcquireTime:    ptr.To(metav1.NowMicro()),
	}
	uid, err := l.write(ctx, lease)
	if err != nil {
		return "", fmt.Errorf("write Lease %s: %w", l.Name, err)
	}
	return uid, nil
}

// write creates or updates the Lease, unless it has changed since it was read.
func (l Lock) write(ctx context.Context, lease *coordinationv1.Lease) (types.UID, error) {
	lease.TypeMeta = metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(lease)
	if err != nil {
		return "", err
	}
	object := &unstructured.Unstructured{Object: content}
	client := l.Client.Resource(leases).Namespace(l.Namespace)
	if lease.ResourceVersion == "" {
		object, err = client.Create(ctx, object, metav1.CreateOptions{})
	} else {
		object, err = client.Update(ctx, object, metav1.UpdateOptions{})
	}
	if err != nil {
		return "", err
	}
	return object.GetUID(), nil
}

func (l Lock) identity() string { return l.PodName + "_" + l.PodUID }

// Termination is about the end of this pod.
type Termination struct {
	// Deleted is true if the pod was deleted: by a user, by its Deployment, or by an eviction.
	Deleted bool
	// Grace is the time that the pod has from then on.
	Grace time.Duration
}

// Termination reads whether this pod is to end. It is ErrDeleted if the pod does not exist.
func (l Lock) Termination(ctx context.Context) (Termination, error) {
	pod, err := l.Client.Resource(pods).Namespace(l.Namespace).Get(ctx, l.PodName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Termination{}, fmt.Errorf("pod %s: %w", l.PodName, ErrDeleted)
	}
	if err != nil {
		return Termination{}, fmt.Errorf("read pod %s: %w", l.PodName, err)
	}
	if string(pod.GetUID()) != l.PodUID {
		return Termination{}, fmt.Errorf("pod %s is another one: %w", l.PodName, ErrDeleted)
	}
	return Termination{
		Deleted: pod.GetDeletionTimestamp() != nil,
		Grace:   time.Duration(ptr.Deref(pod.GetDeletionGracePeriodSeconds(), 0)) * time.Second,
	}, nil
}

// ContainerEnded returns the reason for which the operator's container has ended last, such as OOMKilled, or "" if it has not since then,
// or if that is not known.
func (l Lock) ContainerEnded(ctx context.Context, since time.Time) string {
	object, err := l.Client.Resource(pods).Namespace(l.Namespace).Get(ctx, l.PodName, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, pod); err != nil {
		return ""
	}
	for _, status := range pod.Status.ContainerStatuses {
		ended := status.LastTerminationState.Terminated
		if status.Name != gate.OperatorContainer || ended == nil || ended.FinishedAt.Time.Before(since.Truncate(time.Second)) {
			continue
		}
		if ended.Reason == "Error" || ended.Reason == "" || ended.Reason == "Completed" {
			return fmt.Sprintf("exit code %d", ended.ExitCode)
		}
		return ended.Reason
	}
	return ""
}

// annotationClosing, on the Lease, has its holder and the time until which that starts no run, separated by a space: the manager is about
// to remove the operator, and waits until the running playbooks have ended. Another pod may run playbooks.
const annotationClosing = "zoscb.ibm.com/no-new-runs"

// Close lets the holder of a Lease start no run until a time. It reports whether that changed the Lease.
func Close(lease *coordinationv1.Lease, until time.Time) bool {
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	wanted := holder + " " + until.UTC().Format(time.RFC3339)
	if holder == "" || lease.Annotations[annotationClosing] == wanted {
		return false
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[annotationClosing] = wanted
	return true
}

// closedUntil returns the time until which the holder of a Lease starts no run, or the zero time.
func closedUntil(lease *coordinationv1.Lease) time.Time {
	holder, until, _ := strings.Cut(lease.Annotations[annotationClosing], " ")
	if holder == "" || holder != ptr.Deref(lease.Spec.HolderIdentity, "") {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, until)
	if err != nil {
		return time.Time{}
	}
	return at
}

// AcquireWithProbes acquires the lock, and until then answers probes at address: /healthz with 200, and /readyz with 503. The
// port is free when it returns.
func AcquireWithProbes(ctx context.Context, lock Lock, address string) error {
	stopProbes, err := serveProbes(ctx, address)
	if err != nil {
		return err
	}
	defer stopProbes()
	return lock.Acquire(ctx, func(reason string) { fmt.Fprintln(os.Stderr, "lock: waiting:", reason) })
}

// serveProbes serves until stop is called, which frees the port.
func serveProbes(ctx context.Context, address string) (stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "another pod of this operator has not ended", http.StatusServiceUnavailable)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return func() { _ = server.Close() }, nil
}
