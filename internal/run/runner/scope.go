package runner

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/podlock"
	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
	"github.com/collection-operator/collection-operator/internal/run/runner/process"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// Intervals are the times that the gate waits, or asks others to wait. Whoever starts it decides them.
type Intervals struct {
	// Retry is when ansible-operator asks again if a decision was impossible: the API server is away, or another pod has the lock.
	Retry time.Duration
	// Conflict is when it asks again if the resource has changed while the decision was made.
	Conflict time.Duration
	// Visible is how long a run waits for a brief reason before status says so.
	Visible time.Duration
	// TicketGrace is how much later than announced a waiting run may ask again without losing its turn, and TicketLifetime how much
	// later its ticket is removed.
	TicketGrace, TicketLifetime time.Duration
	// Poll is how often the report of a run, the resource and the pod are read, and Observe how often the report is until it says whether
	// the run is connected.
	Poll, Observe time.Duration
	// Progress is the shortest time between two writes of the current task.
	Progress time.Duration
	// Grace is the time between SIGTERM and SIGKILL.
	Grace time.Duration
	// Persist is how long the outcome of a run is tried to be written, with delays from PersistRetry to PersistMaxRetry.
	Persist, PersistRetry, PersistMaxRetry time.Duration
	// Reserve is how long before the end of its pod a run is ended, and ReserveGrace the time between SIGTERM and SIGKILL then.
	Reserve, ReserveGrace time.Duration
}

// DefaultIntervals are those of operators.
func DefaultIntervals() Intervals {
	return Intervals{
		Retry:    10 * time.Second, // An API server that is overloaded gets no more than six requests per minute and resource.
		Conflict: time.Second,      // The watch of ansible-operator, whose cache was behind, needs less.
		Visible:  5 * time.Second,  // Most of such waits end before, and cost two writes less.
		// ansible-operator starts what is due late if all of its workers are busy. A ticket is kept longer than it counts, because
		// its time tells since when the run waits.
		TicketGrace: 2 * time.Second, TicketLifetime: time.Minute,
		// A cancelled run ends after that, at the cost of two requests. What a logon shows must be known before others try: the report
		// is a file.
		Poll: 5 * time.Second, Observe: time.Second,
		Progress: 10 * time.Second, // Thousands of tasks must not become thousands of writes.
		Grace:    20 * time.Second, // Ansible ends its workers and its connections.
		// An API server may be away while it is upgraded. After that the outcome is in the journal.
		Persist: 10 * time.Minute, PersistRetry: 200 * time.Millisecond, PersistMaxRetry: 5 * time.Second,
		// ansible-operator ends ten seconds before the pod and with it the container, and the outcome has to be written before.
		Reserve: 20 * time.Second, ReserveGrace: 3 * time.Second,
	}
}

// scope is what the steps of one call for one resource share. open makes it.
type scope struct {
	call      podfiles.Call
	files     *podfiles.Files
	out       *process.Output
	podLock   podlock.Lock
	client    dynamic.Interface
	resource  resource
	journal   podfiles.Journal
	tickets   podfiles.Tickets
	intervals Intervals
	// installation is the UID of the operator's Lease. It is known once the pod has the lock.
	installation types.UID
}

// record returns the record of a resource, or nil if it has none with a valid signature.
func (r *scope) record(live *unstructured.Unstructured) *gate.Record {
	annotation := live.GetAnnotations()[gate.AnnotationRecord]
	if annotation == "" {
		return nil
	}
	return r.files.Key.Verify(r.files.Identity(), annotation)
}

// setRecord writes a record to a resource.
func (r *scope) setRecord(ctx context.Context, live *unstructured.Unstructured, record gate.Record) (*unstructured.Unstructured, error) {
	return r.resource.setAnnotation(ctx, live, gate.AnnotationRecord, r.files.Key.Sign(r.files.Identity(), record))
}

// writeStatus writes status, unless the API server refuses it as invalid: an author's schema of status stops no playbook.
func (r *scope) writeStatus(
	ctx context.Context, live *unstructured.Unstructured, status map[string]any,
) (*unstructured.Unstructured, error) {
	written, err := r.resource.setStatus(ctx, live, status)
	if apierrors.IsInvalid(err) {
		r.out.Note("status is not written: %v", err)
		return live, nil
	}
	return written, err
}

// statusResource returns what status depends on.
func (r *scope) statusResource(live *unstructured.Unstructured) runstatus.Resource {
	spec, supply := specOf(live), r.supplyOf(live)
	_, ignored := supply.Declared(spec)
	return runstatus.Resource{
		Kind: live.GetKind(), Name: live.GetName(), Version: r.files.Settings.Version, MaxRetries: r.files.Settings.MaxRetries,
		Generation: live.GetGeneration(), Deleting: deleting(live), ShowDiff: r.files.Kind.ShowDiff, Authors: runstatus.AuthorsOf(live.GetManagedFields()),
		Ignored: ignored, DefaultsKept: supply.Kept(spec), DefaultsNew: supply.New(r.files.Key, spec), Now: time.Now(),
	}
}

// supplyOf returns what the playbook gets of a resource.
func (r *scope) supplyOf(live *unstructured.Unstructured) gate.Supply {
	return r.supply(r.files.Kind, r.files.Identity(), live)
}

func (r *scope) supply(kind gate.KindSettings, id gate.Identity, live *unstructured.Unstructured) gate.Supply {
	last := gate.Input{
		Record: r.files.Key.Verify(id, live.GetAnnotations()[gate.AnnotationRecord]), UID: live.GetUID(), Installation: r.installation,
		LastRun: runstatus.LastRun(statusOf(live)),
	}
	return gate.NewSupply(kind, last.Last(), gate.SetOf(live), r.accepts(live))
}

// accepts reports whether a resource takes the defaults of the installed version.
func (r *scope) accepts(live *unstructured.Unstructured) bool {
	return live.GetAnnotations()[gate.AnnotationAcceptDefaults] == r.files.Settings.Version
}

// lookUp returns an object that a variable names, or nil if there is none. Names in variables may be any text.
func (r *scope) lookUp(ctx context.Context, resource schema.GroupVersionResource, name string) (*unstructured.Unstructured, error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, nil
	}
	object, err := r.client.Resource(resource).Namespace(r.files.Namespace).Get(ctx, name, metav1.GetOptions{})
	if isNotFound(err, name) {
		return nil, nil
	}
	return object, err
}

// readSecret returns a Secret of the namespace, or nil if there is none.
func (r *scope) readSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	object, err := r.lookUp(ctx, corev1.SchemeGroupVersion.WithResource("secrets"), name)
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	if object == nil {
		return nil, nil
	}
	secret := &corev1.Secret{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, secret) != nil {
		return nil, fmt.Errorf("read Secret %s: it cannot be decoded", name) // The error may have a part of the content.
	}
	return secret, nil
}

// announce creates a Kubernetes Event of the resource. Failures are only logged: nothing depends on it.
func (r *scope) announce(ctx context.Context, live *unstructured.Unstructured, eventType, reason, message string) {
	now := metav1.Now().UTC().Format("2006-01-02T15:04:05Z")
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Event",
		"metadata": map[string]any{"generateName": live.GetName() + ".", "namespace": live.GetNamespace()},
		"involvedObject": map[string]any{
			"apiVersion": live.GetAPIVersion(), "kind": live.GetKind(), "namespace": live.GetNamespace(), "name": live.GetName(),
			"uid": string(live.GetUID()),
		},
		"type": eventType, "reason": reason, "message": printable.Line(message, 1024),
		"source": map[string]any{"component": runstatus.FieldManager}, "reportingComponent": runstatus.FieldManager,
		"firstTimestamp": now, "lastTimestamp": now, "count": int64(1),
	}}
	_, err := r.client.Resource(corev1.SchemeGroupVersion.WithResource("events")).Namespace(live.GetNamespace()).
		Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		r.out.Note("event %s: %v", reason, err)
	}
}
