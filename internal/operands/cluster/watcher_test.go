package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
)

// Watches end where no request has, or wants, anything.
func TestPrune(t *testing.T) {
	w := NewWatcher(nil, nil, nil)
	var ended []string
	for _, namespace := range []string{"team", "registry", "resource", "mapped", "former"} {
		w.caches[namespace] = &namespaceCache{end: func() { ended = append(ended, namespace) }}
		w.failed[watched{schema.GroupVersionKind{Kind: "DataFile"}, namespace}] = time.Time{}
	}
	request := v1alpha1.OperandRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "team"}}
	request.Spec.Requests = []v1alpha1.Request{{Registry: "tools", RegistryNamespace: "registry"}}
	request.Status.Inventory = []v1alpha1.InventoryEntry{{Namespace: "resource", Name: "a"}, {Namespace: "zos", Mapping: "mapped"}}
	w.Prune([]v1alpha1.OperandRequest{request})
	if diff := cmp.Diff([]string{"former"}, ended); diff != "" {
		t.Error(diff)
	}
	var left []string
	for key := range w.failed {
		if w.caches[key.namespace] == nil {
			t.Errorf("%s has no cache", key.namespace)
		}
		left = append(left, key.namespace)
	}
	slices.Sort(left)
	if diff := cmp.Diff([]string{"mapped", "registry", "resource", "team"}, left); diff != "" {
		t.Error(diff)
	}
}
