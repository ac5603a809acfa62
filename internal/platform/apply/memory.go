package apply

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// memorySize is the maximum number of objects that a [Memory] has, about 400 bytes each.
const memorySize = 1 << 16

// annotationRevision is written by the controller of Deployments, when it makes a ReplicaSet.
const annotationRevision = "deployment.kubernetes.io/revision"

// Memory remembers which objects were seen to be as they were rendered. An object that has not changed since, by what the cache
// has of it, is neither read nor validated again. It is safe for concurrent use.
type Memory struct {
	objects *lru.Cache
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory { return &Memory{objects: lru.New(memorySize)} }

// applied is an object that was seen to be as it was rendered.
type applied struct {
	rendered digest
	// live is the digest of the live object, without status and what the API server counts.
	live digest
	// state is that of the live object.
	state State
}

// identity names an object, whatever the version of its API.
type identity struct {
	schema.GroupKind
	client.ObjectKey
}

type digest [sha256.Size]byte

// State identifies what is in an object, except its status. It has the UID and the resourceVersion, and for a Deployment, whose
// status changes often, the generation and a digest of its metadata instead of the resourceVersion.
type State string

// Watched returns the state of an object as the cache has it, and false if the cache does not have it. An error says that the
// cache does not have its kind.
type Watched func(kind schema.GroupVersionKind, object client.ObjectKey) (State, bool, error)

// LiveState returns the state of an object that was not changed by a transform of the cache.
func LiveState(object client.Object, kind schema.GroupKind) State {
	if kind == deployments {
		return deploymentState(object, MetadataDigest(object))
	}
	return State(string(object.GetUID()) + " " + object.GetResourceVersion())
}

// CachedState returns the state of an object in the cache. For a Deployment it needs its [MetadataDigest].
func CachedState(object client.Object, metadata string) State {
	if metadata != "" {
		return deploymentState(object, metadata)
	}
	return LiveState(object, schema.GroupKind{})
}

var deployments = appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind()

func deploymentState(object client.Object, metadata string) State {
	return State(fmt.Sprintf("%s %d %s", object.GetUID(), object.GetGeneration(), metadata))
}

// MetadataDigest is a digest of the metadata that users and controllers can change.
func MetadataDigest(object client.Object) string {
	annotations := maps.Clone(object.GetAnnotations())
	delete(annotations, annotationRevision)
	sum := digestOf([]any{object.GetLabels(), annotations, object.GetOwnerReferences(), object.GetFinalizers(), object.GetDeletionTimestamp()})
	return fmt.Sprintf("%x", sum[:16])
}

// Has reports whether an object of a kind is in the state in which it was last seen to be as rendered.
func (m *Memory) Has(kind schema.GroupKind, object client.ObjectKey, state State) bool {
	known, ok := m.get(kind, object)
	return ok && known.state == state
}

// Differs reports whether an object of a kind was last seen, as rendered, in another state. It is "" if the object does not exist.
func (m *Memory) Differs(kind schema.GroupKind, object client.ObjectKey, state State) bool {
	known, ok := m.get(kind, object)
	return ok && known.state != state
}

func (m *Memory) get(kind schema.GroupKind, object client.ObjectKey) (applied, bool) {
	if m == nil {
		return applied{}, false
	}
	found, ok := m.objects.Get(identity{kind, object})
	if !ok {
		return applied{}, false
	}
	return found.(applied), true
}

func (m *Memory) put(live *unstructured.Unstructured, rendered digest) {
	if m == nil {
		return
	}
	kind := live.GroupVersionKind().GroupKind()
	m.objects.Add(identity{kind, client.ObjectKeyFromObject(live)}, applied{
		rendered: rendered, live: contentDigest(live), state: LiveState(live, kind),
	})
}

// digestOf returns the digest of a value that consists of maps, lists and scalars. It does not depend on the order of maps.
func digestOf(value any) digest {
	content, err := json.Marshal(value)
	if err != nil {
		panic(err) // It was read from JSON, or is of plain types.
	}
	return sha256.Sum256(content)
}

// contentDigest returns the digest of a live object without status and what the API server counts.
func contentDigest(live *unstructured.Unstructured) digest {
	content := maps.Clone(live.Object)
	delete(content, "status")
	if metadata, ok := content["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		for _, field := range serverFields {
			delete(metadata, field)
		}
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			annotations = maps.Clone(annotations)
			delete(annotations, annotationRevision)
			metadata["annotations"] = annotations
		}
		content["metadata"] = metadata
	}
	return digestOf(content)
}

// serverFields are those of the metadata that the API server maintains.
var serverFields = []string{"managedFields", "resourceVersion", "generation"}
