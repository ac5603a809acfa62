package olm

import (
	"slices"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/collection/render"
)

func TestConfigWarnings(t *testing.T) {
	wanted := &operatorsv1alpha1.SubscriptionConfig{
		Env: []corev1.EnvVar{{Name: "A", Value: "1"}}, NodeSelector: map[string]string{"zone": "a"},
		EnvFrom:     []corev1.EnvFromSource{{Prefix: "ZOSCB_FROM_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}},
		Annotations: map[string]string{render.RuntimeHashAnnotation: "hash", "team": "a"},
		Resources:   &corev1.ResourceRequirements{}, Affinity: &corev1.Affinity{},
		Volumes: []corev1.Volume{{Name: "v"}}, VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/mnt/v"}},
		Tolerations: []corev1.Toleration{{Key: "ibm"}},
	}
	more := wanted.DeepCopy()
	more.Env = append([]corev1.EnvVar{{Name: "B"}}, more.Env...)
	delete(more.Annotations, render.RuntimeHashAnnotation)
	other := more.DeepCopy()
	other.Env[1].Value, other.Volumes = "2", nil
	const begin = `Subscription "ns/mine" is user-managed, and its pods do not have `
	const end = ": set it in spec.config of the Subscription"
	for name, tc := range map[string]struct {
		live, wanted *operatorsv1alpha1.SubscriptionConfig
		want         []string
	}{
		"nothing wanted": {nil, &operatorsv1alpha1.SubscriptionConfig{Annotations: map[string]string{render.RuntimeHashAnnotation: "x"}}, nil},
		"all and more":   {more, wanted, nil},
		"some":           {other, wanted, []string{begin + "runtime.env, runtime.volumes" + end}},
		"none": {nil, wanted, []string{begin + "runtime.affinity, runtime.env, runtime.envFrom, runtime.nodeSelector, runtime.podAnnotations, runtime.resources, " +
			"runtime.tolerations, runtime.volumeMounts, runtime.volumes" + end}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &state{subscription: &operatorsv1alpha1.Subscription{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mine"}, Spec: &operatorsv1alpha1.SubscriptionSpec{Config: tc.live},
			}}
			if got := s.configWarnings(tc.wanted); !slices.Equal(got, tc.want) {
				t.Errorf("got %q", got)
			}
		})
	}
}
