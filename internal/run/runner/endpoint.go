package runner

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/runner/answer"
	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// endpoints are the ZosEndpoints, and the states of their security domains in Secrets.
type endpoints struct{ *scope }

// maxStateWrites limits how often a change of the state is repeated because others have changed it.
const maxStateWrites = 10

// read returns a ZosEndpoint, or nil if it does not exist.
func (r endpoints) read(ctx context.Context, namespace, name string) (*v2beta2.ZosEndpoint, error) {
	object, err := r.client.Resource(v2beta2.GroupVersion.WithResource("zosendpoints")).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if isNotFound(err, name) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ZosEndpoint %s in namespace %s: %w", name, namespace, err)
	}
	e := &v2beta2.ZosEndpoint{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, e); err != nil {
		return nil, fmt.Errorf("read ZosEndpoint %s in namespace %s: %w", name, namespace, err)
	}
	return e, nil
}

// changeState changes the state of a security domain, and writes it if change reports that it has changed. If somebody else has
// changed it since it was read, it is read again, and changed again.
func (r endpoints) changeState(ctx context.Context, namespace, name string, change func(*endpoint.State) bool) error {
	secrets := r.client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace)
	failed := func(err error) error {
		return fmt.Errorf("state of the endpoint, Secret %s in namespace %s: %w", name, namespace, err)
	}
	for writes := 1; ; writes++ {
		object, err := secrets.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return failed(err)
		}
		state, err := parseState(object)
		if err != nil {
			return failed(&stateError{err})
		}
		if !change(state) {
			return nil
		}
		content := base64.StdEncoding.EncodeToString(state.Marshal())
		if err := unstructured.SetNestedField(object.Object, content, "data", endpoint.StateFile); err != nil {
			return failed(err)
		}
		_, err = secrets.Update(ctx, object, metav1.UpdateOptions{FieldManager: runstatus.FieldManager})
		switch {
		case err == nil:
			return nil
		case !apierrors.IsConflict(err) || writes == maxStateWrites:
			return failed(err)
		}
	}
}

func parseState(secret *unstructured.Unstructured) (*endpoint.State, error) {
	encoded, _, err := unstructured.NestedStringMap(secret.Object, "data")
	if err != nil {
		return nil, err
	}
	content, err := base64.StdEncoding.DecodeString(encoded[endpoint.StateFile])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", endpoint.StateFile, err)
	}
	return endpoint.ParseState(content)
}

// stateError is that of a Secret whose content is no state.
type stateError struct{ err error }

func (e *stateError) Error() string { return e.err.Error() }
func (e *stateError) Unwrap() error { return e.err }

// isUnusable reports whether an object cannot be used until somebody creates it, corrects it, or grants access to it.
func isUnusable(err error) bool {
	var unreadable *stateError
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || errors.As(err, &unreadable)
}

// runEnded reports whether a run of this pod has ended: the lock of its folder is free. resource is kind/namespace/name, and
// comes from a state that other operators write. The folders lie beside that of this call.
func (r endpoints) runEnded(resource string) bool {
	parts := strings.Split(resource, "/")
	if len(parts) != 3 || resource == r.files.ResourceID() {
		return true // The caller has the lock of its own resource.
	}
	if _, known := r.files.Settings.Kinds[parts[0]]; !known || parts[1] != r.files.Namespace || len(validation.IsDNS1123Subdomain(parts[2])) > 0 {
		return true
	}
	folders := filepath.Dir(filepath.Dir(filepath.Dir(filepath.Clean(r.call.Dir))))
	lock, err := podfiles.LockFolder(filepath.Join(folders, parts[0], parts[1], parts[2]))
	if lock == nil {
		return errors.Is(err, os.ErrNotExist)
	}
	_ = lock.Close()
	return true
}

// request returns what is the same for all requests of a run of this pod.
func (r endpoints) request(run string, now time.Time) endpoint.Request {
	return endpoint.Request{
		Now: now, Operator: r.operator(), PodName: r.podLock.PodName, Pod: types.UID(r.podLock.PodUID),
		Resource: r.files.ResourceID(), Run: run, Since: now.UTC().Truncate(time.Second),
		Ended: func(resource, _ string) bool { return r.runEnded(resource) },
	}
}

func (r endpoints) operator() string { return r.podLock.Namespace + "/" + r.podLock.Name }

func (r endpoints) requestOf(p *podfiles.Slot, run string) endpoint.Request {
	request := r.request(run, time.Now())
	request.User, request.Credential = p.User, p.Credential
	request.Admitted, request.Observed = p.Admitted, r.reportedAt()
	if p.Reported != endpoint.ConnectionNone {
		request.Admitted = p.ToldAt
	}
	return request
}

// reportedAt returns when the run wrote its report, or zero if it has not: its end may be recorded long after it.
func (r endpoints) reportedAt() time.Time {
	info, err := os.Stat(r.call.ReportFile())
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// observe tells the state what a run that is not over has learned about its endpoint.
func (r endpoints) observe(ctx context.Context, p *podfiles.Slot, report runstatus.Report) error {
	return r.changeState(ctx, p.Namespace, p.Secret, func(state *endpoint.State) bool {
		return state.Observe(p.Settings, r.requestOf(p, r.call.Ident), report.Connection, report.Cause())
	})
}

// release tells the state what a run has learned, and gives back its slot. It does nothing without a slot, or if the state is gone.
func (r endpoints) release(ctx context.Context, p *podfiles.Slot, run string, report runstatus.Report) error {
	if p == nil {
		return nil
	}
	err := r.changeState(ctx, p.Namespace, p.Secret, func(state *endpoint.State) bool {
		return endSlot(p, state, r.requestOf(p, run), report)
	})
	if isUnusable(err) {
		r.out.Note("%v", err)
		return nil
	}
	return err
}

// endSlot tells the state what it has not been told yet, and gives the slot back.
func endSlot(p *podfiles.Slot, state *endpoint.State, request endpoint.Request, report runstatus.Report) bool {
	observed := report.Connection != p.Reported && state.Observe(p.Settings, request, report.Connection, report.Cause())
	request.Canary = p.Canary && p.Reported == endpoint.ConnectionNone && report.Connection == endpoint.ConnectionNone
	return state.Release(p.Settings, request) || observed
}

// abandon lets a resource go without a run, and says so in the state of its endpoint, as far as that still exists, and in an event.
func (r endpoints) abandon(ctx context.Context, s situation) (answer.Answer, error) {
	name := endpointOf(specOf(s.live))
	isNew, err := r.addAbandoned(ctx, s, name)
	if err != nil && !isUnusable(err) {
		return answer.Answer{}, err
	}
	if isNew {
		r.announce(ctx, s.live, corev1.EventTypeWarning, "Abandoned",
			fmt.Sprintf("removed without a run: what the resource describes may be left on endpoint %s", name))
	}
	return answer.Answer{Done: true}, nil
}

// addAbandoned adds the resource to the state of its endpoint. It reports false if it is there already: ansible-operator asks again
// if it could not remove the finalizer.
func (r endpoints) addAbandoned(ctx context.Context, s situation, name string) (bool, error) {
	variables, err := r.files.EndpointVariables(name)
	if variables == nil || err != nil {
		return true, err
	}
	namespace, err := r.files.EndpointsNamespace()
	if err != nil {
		return true, err
	}
	e, err := r.read(ctx, namespace, name)
	if e == nil || err != nil {
		return true, err
	}
	entry := endpoint.Abandoned{
		Operator: r.operator(), Group: r.files.Settings.Group, Kind: r.files.KindName, Name: r.files.Name, Endpoint: name,
		At: time.Now().UTC().Truncate(time.Second),
	}
	deleted := s.live.GetDeletionTimestamp().Time
	isNew := true
	err = r.changeState(ctx, namespace, endpoint.StateName(e), func(state *endpoint.State) bool {
		isNew = !slices.ContainsFunc(state.Abandoned, func(a endpoint.Abandoned) bool {
			return a.Operator == entry.Operator && a.Group == entry.Group && a.Kind == entry.Kind && a.Name == entry.Name && !a.At.Before(deleted)
		})
		if isNew {
			state.Abandon(entry)
		}
		return isNew
	})
	return isNew, err
}
