package apply

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// liveObject is an object as the API server has it.
func liveObject(kind, version, label string, replicas int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": kind,
		"metadata": map[string]any{
			"namespace": "ns", "name": "a", "uid": "u", "resourceVersion": version, "generation": replicas,
			"labels": map[string]any{"a": label}, "annotations": map[string]any{annotationRevision: version, "b": "c"},
			"managedFields": []any{map[string]any{"manager": version}},
		},
		"spec": map[string]any{"replicas": replicas}, "status": map[string]any{"replicas": version},
	}}
}

// What only a status or the API server has changed is the same content, and for a Deployment the same state.
func TestStateAndContent(t *testing.T) {
	for name, test := range map[string]struct {
		kind                   string
		changed                *unstructured.Unstructured
		sameContent, sameState bool
	}{
		"a status of a Deployment":   {"Deployment", liveObject("Deployment", "2", "x", 1), true, true},
		"a label of a Deployment":    {"Deployment", liveObject("Deployment", "2", "y", 1), false, false},
		"the spec of a Deployment":   {"Deployment", liveObject("Deployment", "2", "x", 3), false, false},
		"a status of something else": {"StatefulSet", liveObject("StatefulSet", "2", "x", 1), true, false},
		"the spec of something else": {"StatefulSet", liveObject("StatefulSet", "2", "x", 3), false, false},
		"nothing of something else":  {"StatefulSet", liveObject("StatefulSet", "1", "x", 1), true, true},
		"nothing of a Deployment":    {"Deployment", liveObject("Deployment", "1", "x", 1), true, true},
	} {
		before := liveObject(test.kind, "1", "x", 1)
		kind := before.GroupVersionKind().GroupKind()
		if same := contentDigest(before) == contentDigest(test.changed); same != test.sameContent {
			t.Errorf("%s: same content is %t", name, same)
		}
		if same := LiveState(before, kind) == LiveState(test.changed, kind); same != test.sameState {
			t.Errorf("%s: same state is %t", name, same)
		}
		if kind == deployments && LiveState(before, kind) != CachedState(before, MetadataDigest(before)) {
			t.Errorf("%s: the cache has another state", name)
		}
		m := NewMemory()
		m.put(before, digest{1})
		if m.Has(kind, client.ObjectKeyFromObject(before), LiveState(test.changed, kind)) != test.sameState {
			t.Errorf("%s: the memory says something else", name)
		}
	}
}

// What is known decides how much has to be asked.
func TestRecall(t *testing.T) {
	live := liveObject("StatefulSet", "1", "x", 1)
	rendered := digestOf(live.Object)
	state := LiveState(live, schema.GroupKind{})
	for name, test := range map[string]struct {
		known    bool
		rendered digest
		cached   State
		want     recollection
	}{
		"nothing is known":             {want: recollection{absent: true}},
		"only the cache has it":        {cached: state},
		"it is as it was":              {known: true, rendered: rendered, cached: state, want: recollection{live: contentDigest(live), current: true}},
		"it has changed":               {known: true, rendered: rendered, cached: "other", want: recollection{live: contentDigest(live)}},
		"it is gone, or not there yet": {known: true, rendered: rendered, want: recollection{live: contentDigest(live)}},
		"it is rendered otherwise":     {known: true, rendered: digest{1}, cached: state},
	} {
		a := &Applier{Memory: NewMemory(), Watched: func(schema.GroupVersionKind, client.ObjectKey) (State, bool, error) {
			return test.cached, test.cached != "", nil
		}}
		if test.known {
			a.Memory.put(live, test.rendered)
		}
		got, err := a.recall(change{desired: live, rendered: rendered})
		if err != nil || got != test.want {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	failing := &Applier{Memory: NewMemory(), Watched: func(schema.GroupVersionKind, client.ObjectKey) (State, bool, error) {
		return "", false, errors.New("no such kind")
	}}
	if _, err := failing.recall(change{desired: live}); err == nil {
		t.Error("an error of the cache is lost")
	}
	if got, err := (&Applier{}).recall(change{desired: live}); err != nil || got != (recollection{}) {
		t.Errorf("without a memory everything is read: got %+v, %v", got, err)
	}
}

func TestBindingsAreValidatedWithTheirRoles(t *testing.T) {
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "roles"}, "a")
	c := &change{desired: named("rbac.authorization.k8s.io/v1", "RoleBinding", "ns", "a")}
	if err := c.refused(missing); err != nil {
		t.Errorf("a new one: got %v", err)
	}
	c.live = "uid"
	if err := c.refused(missing); err == nil {
		t.Error("the error about one that exists is lost")
	}
}
