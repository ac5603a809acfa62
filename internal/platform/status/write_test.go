package status

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

func TestNotReadySince(t *testing.T) {
	created, changed := time.Unix(1000, 0), time.Unix(2000, 0)
	object := &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}}
	ready := func(status metav1.ConditionStatus) *metav1.Condition {
		return &metav1.Condition{Status: status, LastTransitionTime: metav1.NewTime(changed)}
	}
	for name, tt := range map[string]struct {
		was  *metav1.Condition
		want time.Time
	}{
		"new":       {nil, created},
		"not ready": {ready(metav1.ConditionFalse), changed},
		"unknown":   {ready(metav1.ConditionUnknown), changed},
		"ready":     {ready(metav1.ConditionTrue), time.Time{}},
		"default":   {&metav1.Condition{Status: metav1.ConditionUnknown, LastTransitionTime: metav1.NewTime(time.Unix(0, 0))}, created},
	} {
		if got := notReadySince(object, tt.was); !got.Equal(tt.want) {
			t.Errorf("%s: got %s", name, got)
		}
	}
}
