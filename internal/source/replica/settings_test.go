package replica

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSuccessors(t *testing.T) {
	pod := func(name string, ready corev1.ConditionStatus, annotations map[string]string) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		}
	}
	current, before := map[string]string{AnnotationSettings: "new"}, map[string]string{AnnotationSettings: "old"}
	refuses := map[string]string{AnnotationSettings: "old", AnnotationRefused: "new address in use"}
	refusedBefore := map[string]string{AnnotationSettings: "new", AnnotationRefused: "old address in use"}
	ending := pod("b", corev1.ConditionTrue, current)
	ending.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	for name, test := range map[string]struct {
		others []corev1.Pod
		want   Successors
	}{
		"no other":             {want: Successors{MayEnd: true}},
		"one that is ready":    {others: []corev1.Pod{pod("b", corev1.ConditionTrue, refusedBefore)}, want: Successors{MayEnd: true}},
		"the second is ready":  {others: []corev1.Pod{pod("b", corev1.ConditionTrue, before), pod("c", corev1.ConditionTrue, current)}, want: Successors{MayEnd: true}},
		"one with former ones": {others: []corev1.Pod{pod("b", corev1.ConditionTrue, before)}, want: Successors{Message: `pod "b" is not ready with them: see its log`}},
		"one that starts":      {others: []corev1.Pod{pod("b", corev1.ConditionFalse, current)}, want: Successors{Message: `pod "b" is not ready with them: see its log`}},
		"one that is pending":  {others: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "b"}}}, want: Successors{Message: `pod "b" is not ready with them: see its log`}},
		"one that ends":        {others: []corev1.Pod{ending}, want: Successors{Message: `pod "b" ends`}},
		"one that has refused them": {
			others: []corev1.Pod{pod("b", corev1.ConditionTrue, refuses)}, want: Successors{Refused: true, Message: `pod "b" did not start with them: address in use`},
		},
		"one of two that has": {
			others: []corev1.Pod{pod("c", corev1.ConditionTrue, before), pod("b", corev1.ConditionTrue, refuses)},
			want:   Successors{Message: `pod "b" did not start with them: address in use; pod "c" is not ready with them: see its log`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, successors(test.others, "new")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
