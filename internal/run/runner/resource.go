package runner

import (
	"context"
	"encoding/json"
	"errors"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// resource reads and writes a custom resource. Writes fail with a conflict if the resource has changed since it was read.
type resource struct {
	client dynamic.ResourceInterface
	name   string
}

func newResource(client dynamic.Interface, f *podfiles.Files) resource {
	return resource{client: client.Resource(kindResource(f, f.Kind.Plural)).Namespace(f.Namespace), name: f.Name}
}

func kindResource(f *podfiles.Files, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: f.Settings.Group, Version: f.Settings.APIVersion, Resource: plural}
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

// endpointOf returns the name of the ZosEndpoint in a spec or in variables, or "".
func endpointOf(spec map[string]any) string {
	name, _ := spec["zosendpoint"].(string)
	return name
}
