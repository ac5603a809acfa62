package customresourcedefinition

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

func TestImportChanged(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v2beta2.OperatorCollection)
		want   bool
	}{
		"annotation": {func(oc *v2beta2.OperatorCollection) { oc.Annotations = map[string]string{"again": "1"} }, false},
		"condition":  {func(oc *v2beta2.OperatorCollection) { oc.Status.Conditions = []metav1.Condition{{Type: "Ready"}} }, false},
		"label":      {func(oc *v2beta2.OperatorCollection) { oc.Labels = map[string]string{"a": "b"} }, true},
		"spec":       {func(oc *v2beta2.OperatorCollection) { oc.Generation++ }, true},
		"deletion":   {func(oc *v2beta2.OperatorCollection) { oc.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, true},
		"archive":    {func(oc *v2beta2.OperatorCollection) { oc.Status.Artifact = &v2beta2.Artifact{Digest: "x"} }, true},
		"collection": {func(oc *v2beta2.OperatorCollection) {
			oc.Status.Collection = &v2beta2.ImportedCollection{Version: "1.0.0"}
		}, true},
	} {
		before, after := &v2beta2.OperatorCollection{}, &v2beta2.OperatorCollection{}
		test.change(after)
		if got := importChanged.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// The queue is locked while it asks for a namespace.
func TestQueueDoesNotWaitForTheCache(t *testing.T) {
	r := &Reconciler{Client: interceptor.NewClient(nil, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, _ client.ObjectList, options ...client.ListOption) error {
			if !(&client.ListOptions{}).ApplyOptions(options).DisableReadYourWritesConsistency {
				t.Error("the list waits")
			}
			return nil
		},
	})}
	if got := r.namespaceOf(model.ID{Domain: "a", Name: "b"}); got != "" {
		t.Errorf("got %q", got)
	}
}
