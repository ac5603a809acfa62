package suboperatorconfig

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

func TestEndpointChanged(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v2beta2.ZosEndpoint)
		want   bool
	}{
		"nothing":   {func(*v2beta2.ZosEndpoint) {}, false},
		"latency":   {func(e *v2beta2.ZosEndpoint) { e.Status.Latency = "50ms" }, false},
		"spec":      {func(e *v2beta2.ZosEndpoint) { e.Generation++ }, true},
		"deletion":  {func(e *v2beta2.ZosEndpoint) { e.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, true},
		"key":       {func(e *v2beta2.ZosEndpoint) { e.Status.HostKeys = []string{"k"} }, true},
		"host":      {func(e *v2beta2.ZosEndpoint) { e.Status.PinnedFor = "a:22" }, true},
		"abandoned": {func(e *v2beta2.ZosEndpoint) { e.Status.Abandoned = []v2beta2.AbandonedResource{{Name: "a"}} }, true},
		"reachable": {func(e *v2beta2.ZosEndpoint) {
			status.SetCondition(&e.Status.Conditions, v2beta2.ConditionReachable, 1, nil, "")
		}, false},
		"ready": {func(e *v2beta2.ZosEndpoint) {
			status.SetCondition(&e.Status.Conditions, v2beta2.ConditionReady, 1, nil, "")
		}, true},
	} {
		before, after := &v2beta2.ZosEndpoint{}, &v2beta2.ZosEndpoint{}
		test.change(after)
		if got := endpointChanged(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// A handler that waited for the cache would keep all events of its kind, and lose the one for which it waited in vain.
func TestHandlersDoNotWaitForTheCache(t *testing.T) {
	read := 0
	mapper := &configMapper{interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if read++; !(&client.GetOptions{}).ApplyOptions(options).DisableReadYourWritesConsistency {
				t.Errorf("the read of %T %s waits", object, key)
			}
			return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
		},
	})}
	mapper.ofOwned(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{install.AnnotationOwner: "a/soc"}}})
	mapper.ofConflicting(t.Context(), &v2beta2.SubOperatorConfig{Spec: v2beta2.SubOperatorConfigSpec{OperatorCollection: "oc"}})
	if read != 2 {
		t.Errorf("%d reads", read)
	}
}
