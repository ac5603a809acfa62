package install

import (
	"cmp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/status"
)

// missingDependencies returns the dependencies that the pods of a Deployment's current template report as not installable,
// or "" if there are none.
func missingDependencies(deployment *appsv1.Deployment, pods []corev1.Pod) string {
	want := deployment.Spec.Template.Annotations[render.RuntimeHashAnnotation]
	var problems []string
	for i := range pods {
		if pods[i].DeletionTimestamp != nil || pods[i].Annotations[render.RuntimeHashAnnotation] != want {
			continue
		}
		if problem, ok := strings.CutPrefix(lastDependencyMessage(&pods[i]), render.DependencyMissing); ok {
			problems = append(problems, status.Printable(problem))
		}
	}
	slices.Sort(problems)
	return strings.Join(slices.Compact(problems), "; ")
}

// lastDependencyMessage returns the message of the container that terminated last: the operator container retries what the
// init container could not install, and exits when the outcome changes.
func lastDependencyMessage(pod *corev1.Pod) string {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name != render.OperatorContainer {
			continue
		}
		if ended := cmp.Or(status.State.Terminated, status.LastTerminationState.Terminated); ended != nil {
			return ended.Message
		}
	}
	for _, status := range pod.Status.InitContainerStatuses {
		if status.Name == render.DependenciesContainer && status.State.Terminated != nil {
			return status.State.Terminated.Message
		}
	}
	return ""
}
