package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// resource reads and writes a custom resource. Writes fail with a conflict if the resource has changed since it was read.
type resource struct {
	client dynamic.ResourceInterface
	name   string
}

func newResource(client dynamic.Interface, f *files) resource {
	return resource{client: client.Resource(kindResource(f, f.kind.Plural)).Namespace(f.namespace), name: f.name}
}

func kindResource(f *files, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: f.settings.Group, Version: f.settings.APIVersion, Resource: plural}
}

func (r resource) get(ctx context.Context) (*unstructured.Unstructured, error) {
	return r.client.Get(ctx, r.name, metav1.GetOptions{})
}

// isGone reports whether an error of get says that the resource does not exist.
func (r resource) isGone(err error) bool { return isNotFound(err, r.name) }

// isNotFound reports whether an object does not exist. The API server also answers 404 while it does not serve a kind; then it
// names no object.
func isNotFound(err error, name string) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name == name
}

func (r resource) setAnnotation(ctx context.Context, live *unstructured.Unstructured, key, value string) (*unstructured.Unstructured, error) {
	return r.patch(ctx, live, map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
}

// setStatus writes the differences between the status of live and the given one.
func (r resource) setStatus(ctx context.Context, live *unstructured.Unstructured, status map[string]any) (*unstructured.Unstructured, error) {
	before, err := json.Marshal(map[string]any{"status": statusOf(live)})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return nil, err
	}
	content, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return nil, err
	}
	changes := map[string]any{}
	if err := json.Unmarshal(content, &changes); err != nil {
		return nil, err
	}
	return r.patch(ctx, live, changes, "status")
}

func (r resource) patch(
	ctx context.Context, live *unstructured.Unstructured, changes map[string]any, subresources ...string,
) (*unstructured.Unstructured, error) {
	metadata, _ := changes["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		changes["metadata"] = metadata
	}
	metadata["resourceVersion"] = live.GetResourceVersion()
	content, err := json.Marshal(changes)
	if err != nil {
		return nil, err
	}
	return r.client.Patch(ctx, r.name, types.MergePatchType, content, metav1.PatchOptions{FieldManager: runstatus.FieldManager}, subresources...)
}

// writeStatus writes status, unless the API server refuses it as invalid: an author's schema of status stops no playbook.
func (r *runner) writeStatus(
	ctx context.Context, live *unstructured.Unstructured, status map[string]any,
) (*unstructured.Unstructured, error) {
	written, err := r.resource.setStatus(ctx, live, status)
	if apierrors.IsInvalid(err) {
		r.out.note("status is not written: %v", err)
		return live, nil
	}
	return written, err
}

func statusOf(live *unstructured.Unstructured) map[string]any {
	status, _, _ := unstructured.NestedMap(live.Object, "status")
	if status == nil {
		status = map[string]any{}
	}
	return status
}

func specOf(live *unstructured.Unstructured) map[string]any {
	spec, _, _ := unstructured.NestedMap(live.Object, "spec")
	return spec
}

// deleting reports whether a resource is being deleted.
func deleting(live *unstructured.Unstructured) bool { return live.GetDeletionTimestamp() != nil }

// lookUp returns an object that a variable names, or nil if there is none. Names in variables may be any text.
func (r *runner) lookUp(ctx context.Context, resource schema.GroupVersionResource, name string) (*unstructured.Unstructured, error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, nil
	}
	object, err := r.client.Resource(resource).Namespace(r.files.namespace).Get(ctx, name, metav1.GetOptions{})
	if isNotFound(err, name) {
		return nil, nil
	}
	return object, err
}

// readSecrets returns the contents of Secrets; nil for one that does not exist.
func (r *runner) readSecrets(ctx context.Context, names []string) (map[string]map[string][]byte, error) {
	secrets := map[string]map[string][]byte{}
	for _, name := range names {
		secret, err := r.readSecret(ctx, name)
		switch {
		case err != nil:
			return nil, err
		case secret == nil:
			secrets[name] = nil
		case secret.Data == nil:
			secrets[name] = map[string][]byte{}
		default:
			secrets[name] = secret.Data
		}
	}
	return secrets, nil
}

// readReferences returns the declared variables of resources that are named plural/name; nil for one that does not exist.
func (r *runner) readReferences(ctx context.Context, references []string) (map[string]map[string]any, error) {
	variables := map[string]map[string]any{}
	for _, reference := range references {
		plural, name, _ := strings.Cut(reference, "/")
		object, err := r.lookUp(ctx, kindResource(r.files, plural), name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", reference, err)
		}
		variables[reference] = nil
		if object != nil {
			variables[reference] = r.referenced(plural, object)
		}
	}
	return variables, nil
}

// announce creates a Kubernetes Event of the resource. Failures are only logged: nothing depends on it.
func (r *runner) announce(ctx context.Context, live *unstructured.Unstructured, eventType, reason, message string) {
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
		r.out.note("event %s: %v", reason, err)
	}
}

func (r *runner) announceFailure(ctx context.Context, live *unstructured.Unstructured, entry *journalEntry) {
	if !entry.Run.Outcome.Succeeded() {
		message := fmt.Sprintf("run %s: %s: %s", entry.Run.ID, entry.Run.Outcome, messages(entry.Report))
		r.announce(ctx, live, corev1.EventTypeWarning, "RunFailed", message)
	}
}

func (f *files) identity() gate.Identity {
	return gate.Identity{Group: f.settings.Group, Kind: f.kindName, Namespace: f.namespace, Name: f.name}
}
