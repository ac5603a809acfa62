package install

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/collection-operator/collection-operator/internal/collection/render"
)

func TestMissingDependencies(t *testing.T) {
	ended := func(message string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}}
	}
	initially := func(message string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: render.UnpackContainer, State: ended("DependencyMissing: not me")}, {Name: render.DependenciesContainer, State: ended(message)}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, test := range map[string]struct {
		status corev1.PodStatus
		hash   string
		want   string
	}{
		"nothing ended yet": {status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: render.DependenciesContainer, State: running}}}},
		"all installed":     {status: corev1.PodStatus{InitContainerStatuses: initially("")}},
		"missing": {
			status: corev1.PodStatus{InitContainerStatuses: initially("DependencyMissing: a.b\n\x1b[31mc.d\xff"), ContainerStatuses: []corev1.ContainerStatus{{Name: render.OperatorContainer, State: running}}},
			want:   "a.b c.d?",
		},
		"found by the only container": {
			status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: render.UnpackContainer, State: ended("DependencyMissing: a.b")}}},
			want:   "a.b",
		},
		"another problem later": {
			status: corev1.PodStatus{InitContainerStatuses: initially("DependencyMissing: a.b"), ContainerStatuses: []corev1.ContainerStatus{
				{Name: render.OperatorContainer, State: running, LastTerminationState: ended("DependencyMissing: c.d")}}},
			want: "c.d",
		},
		"healed, then something else": {
			status: corev1.PodStatus{InitContainerStatuses: initially("DependencyMissing: a.b"), ContainerStatuses: []corev1.ContainerStatus{
				{Name: render.OperatorContainer, State: running, LastTerminationState: ended("all dependencies are installed")}}},
		},
		"a pod of another template": {status: corev1.PodStatus{InitContainerStatuses: initially("DependencyMissing: a.b")}, hash: "old"},
	} {
		t.Run(name, func(t *testing.T) {
			deployment := &appsv1.Deployment{}
			pod := corev1.Pod{Status: test.status}
			if test.hash != "" {
				pod.Annotations = map[string]string{render.RuntimeHashAnnotation: test.hash}
			}
			if got := missingDependencies(deployment, []corev1.Pod{pod}); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
