package operandregistry

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
)

// The status of an OperandRegistry does not depend on conditions.
func TestRequested(t *testing.T) {
	before := &v1alpha1.OperandRequest{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	for name, test := range map[string]struct {
		change func(*v1alpha1.OperandRequest)
		want   bool
	}{
		"nothing":    {func(*v1alpha1.OperandRequest) {}, false},
		"conditions": {func(r *v1alpha1.OperandRequest) { r.Status.Conditions = []metav1.Condition{{Type: "Ready"}} }, false},
		"the spec":   {func(r *v1alpha1.OperandRequest) { r.Generation++ }, true},
		"a member":   {func(r *v1alpha1.OperandRequest) { r.Status.Members = []v1alpha1.Member{{Name: "a"}} }, true},
		"inventory":  {func(r *v1alpha1.OperandRequest) { r.Status.Inventory = []v1alpha1.InventoryEntry{{Name: "a"}} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			after := before.DeepCopy()
			test.change(after)
			if got := requested.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
