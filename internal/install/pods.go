package install

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// annotationMetadata has, in the cache, the digest of a Deployment's metadata.
const annotationMetadata = "zoscb.ibm.com/metadata"

// maxSchedulingBytes limits what a message says about why a pod cannot be scheduled.
const maxSchedulingBytes = 1024

// maxRefusalBytes limits what a message says about why a pod is refused, or a container of it cannot be created.
const maxRefusalBytes = 1024

// maxHashBytes limits what is kept of a hash: anybody who may create pods can write it.
const maxHashBytes = 64

// manyRestarts is the number of restarts from which on a container that does not run for long is always described in the same way.
const manyRestarts = 3

// KeepDeployment transforms a Deployment for the cache: of spec and status it keeps what says whether the pods run. Metadata are to be
// reduced afterwards; AnnotationsOfDeployment must remain.
func KeepDeployment(deployment *appsv1.Deployment) {
	if len(deployment.ManagedFields) > 0 { // Otherwise it was transformed before.
		delete(deployment.Annotations, annotationMetadata)
		digest := apply.MetadataDigest(deployment)
		metav1.SetMetaDataAnnotation(&deployment.ObjectMeta, annotationMetadata, digest)
	}
	spec, is := deployment.Spec, deployment.Status
	deployment.Spec, deployment.Status = appsv1.DeploymentSpec{}, appsv1.DeploymentStatus{
		ObservedGeneration: is.ObservedGeneration, UpdatedReplicas: is.UpdatedReplicas, Replicas: is.Replicas,
	}
	deployment.Spec.Template.Annotations = keepHashes(spec.Template.Annotations)
	for _, condition := range is.Conditions {
		kept := appsv1.DeploymentCondition{Type: condition.Type, Status: condition.Status}
		switch condition.Type {
		case appsv1.DeploymentReplicaFailure:
			kept.Message = strings.Clone(printable.Cut(condition.Message, maxRefusalBytes))
			fallthrough
		case appsv1.DeploymentAvailable:
			deployment.Status.Conditions = append(deployment.Status.Conditions, kept)
		}
	}
}

// AnnotationsOfDeployment are those that controllers read of a Deployment in the cache.
var AnnotationsOfDeployment = []string{AnnotationOwner, annotationMetadata}

// KeepPod transforms a pod for the cache: it keeps what status says about pods.
func KeepPod(pod *corev1.Pod) {
	kept := corev1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		DeletionTimestamp: pod.DeletionTimestamp, DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
		Labels: map[string]string{},
	}}
	for _, label := range []string{render.LabelManagedBy, render.LabelDomain, render.LabelName} {
		if value, ok := pod.Labels[label]; ok {
			kept.Labels[label] = strings.Clone(value)
		}
	}
	kept.Annotations = keepHashes(pod.Annotations)
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			kept.Status.Conditions = []corev1.PodCondition{{
				Type: condition.Type, Status: condition.Status, Message: strings.Clone(printable.Cut(condition.Message, maxSchedulingBytes)),
			}}
		}
	}
	kept.Status.InitContainerStatuses = keepContainers(pod.Status.InitContainerStatuses)
	kept.Status.ContainerStatuses = keepContainers(pod.Status.ContainerStatuses)
	*pod = kept
}

// keepHashes keeps the annotations of pods by which [render.RuntimeHash] tells their configuration.
func keepHashes(annotations map[string]string) map[string]string {
	var kept map[string]string
	for _, name := range []string{render.RuntimeHashAnnotation, render.CatalogHashAnnotation} {
		if hash := annotations[name]; hash != "" {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[name] = strings.Clone(printable.Cut(hash, maxHashBytes))
		}
	}
	return kept
}

func keepContainers(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	kept := make([]corev1.ContainerStatus, 0, len(statuses))
	for _, is := range statuses {
		restarts := min(is.RestartCount, manyRestarts)
		container := corev1.ContainerStatus{
			Name: strings.Clone(is.Name), RestartCount: restarts, Ready: is.Ready || restarts < manyRestarts,
			State: keepState(is.Name, is.State), LastTerminationState: keepState(is.Name, is.LastTerminationState),
		}
		if isPulling(container.State) {
			container.Image = strings.Clone(printable.Cut(is.Image, maxImageBytes))
		}
		kept = append(kept, container)
	}
	return kept
}

// reasonPull is the reason of containers whose image the node cannot pull. Between two tries it has that reason, and after a try another
// one: status always has this one.
const reasonPull = "ImagePullBackOff"

// pullError returns why a node cannot pull an image, from what the kubelet says after a try, and between two of them, or "" if it does not
// say that. Before Kubernetes 1.32 it says it only after a try.
func pullError(message string) string {
	if waits, ok := strings.CutPrefix(message, "Back-off pulling image "); ok {
		_, message, _ = strings.Cut(waits, `": `)
		_, message, _ = strings.Cut(message, ": ") // The reason of the last try.
	}
	if strings.HasPrefix(message, "rpc error: ") {
		_, message, _ = strings.Cut(message, " desc = ")
	}
	return printable.Stable(message, maxRefusalBytes)
}

// maxImageBytes limits what a message has of the name of an image.
const maxImageBytes = 512

// isPulling reports whether the node cannot pull the image of a container in the cache.
func isPulling(state corev1.ContainerState) bool {
	return state.Waiting != nil && state.Waiting.Reason == reasonPull
}

// keepState keeps the messages of the containers that report with them.
func keepState(container string, state corev1.ContainerState) corev1.ContainerState {
	var kept corev1.ContainerState
	if is := state.Waiting; is != nil && !slices.Contains(startingReasons, is.Reason) {
		kept.Waiting = &corev1.ContainerStateWaiting{Reason: strings.Clone(is.Reason)}
		switch is.Reason {
		case "ErrImagePull", reasonPull:
			kept.Waiting.Reason, kept.Waiting.Message = reasonPull, pullError(is.Message)
		case "CreateContainerConfigError", "InvalidImageName":
			kept.Waiting.Message = printable.Stable(is.Message, maxRefusalBytes)
		}
	}
	if ended := state.Terminated; ended != nil {
		kept.Terminated = &corev1.ContainerStateTerminated{ExitCode: ended.ExitCode}
		if container == render.OperatorContainer || isInitContainer(container, render.UnpackContainer) || isInitContainer(container, render.DependenciesContainer) {
			kept.Terminated.Message = strings.Clone(printable.Cut(ended.Message, 2*maxDependencyBytes))
		}
	}
	return kept
}

// startingReasons are those of containers that start as they should.
var startingReasons = []string{"", "PodInitializing", "ContainerCreating"}

// PodChanged reports whether something of a pod in the cache has changed that status may say.
func PodChanged(before, after *corev1.Pod) bool {
	was, is := before.DeepCopy(), after.DeepCopy()
	was.ResourceVersion, is.ResourceVersion = "", ""
	keepPullErrors(was.Status.InitContainerStatuses, is.Status.InitContainerStatuses)
	keepPullErrors(was.Status.ContainerStatuses, is.Status.ContainerStatuses)
	return !equality.Semantic.DeepEqual(was, is)
}

// keepPullErrors takes why an image cannot be pulled from before where a kubelet does not repeat it until the next try.
func keepPullErrors(before, after []corev1.ContainerStatus) {
	for i := range min(len(before), len(after)) {
		if isPulling(before[i].State) && isPulling(after[i].State) && after[i].State.Waiting.Message == "" {
			after[i].State.Waiting.Message = before[i].State.Waiting.Message
		}
	}
}

// DeploymentChanged reports whether something of a Deployment in the cache has changed but numbers on the way to being available.
func DeploymentChanged(before, after *appsv1.Deployment) bool {
	return DeploymentState(before) != DeploymentState(after) || Available(before) != Available(after) || refusal(before) != refusal(after)
}

// DeploymentState is the state of a Deployment in the cache.
func DeploymentState(cached client.Object) apply.State {
	return apply.CachedState(cached, cached.GetAnnotations()[annotationMetadata])
}

// Available reports whether exactly one pod runs, and it has the Deployment's current template.
func Available(deployment *appsv1.Deployment) bool {
	status := deployment.Status
	return status.ObservedGeneration >= deployment.Generation && status.UpdatedReplicas == 1 && status.Replicas == 1 &&
		slices.ContainsFunc(status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionTrue
		})
}

// refusal returns why the API server refuses the pod of a Deployment, such as for a ResourceQuota, a LimitRange, the Pod Security level of
// the namespace or a PriorityClass that does not exist, or "" if it does not. The controllers of Kubernetes do not update the message while
// pods are refused for the same reason, so that it does not change with each try.
func refusal(deployment *appsv1.Deployment) string {
	for _, condition := range deployment.Status.Conditions {
		if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			return printable.Line(condition.Message, maxRefusalBytes)
		}
	}
	return ""
}

// noPod is what a Deployment without a pod waits for.
const noPod = "waiting for its pod to be created"

// describePods returns what the pods of a Deployment wait for by what the cache has of them, and the reason for the condition.
func describePods(ctx context.Context, cache client.Reader, id model.ID, deployment *appsv1.Deployment) (reason, message string) {
	pods := &corev1.PodList{}
	err := cache.List(ctx, pods, client.InNamespace(deployment.Namespace), client.MatchingLabels(render.IdentityLabels(id)))
	if err != nil || len(pods.Items) == 0 {
		if refused := refusal(deployment); refused != "" {
			return v2beta2.ReasonWorkloadUnavailable, "its pod is refused: " + refused
		}
		return v2beta2.ReasonProgressing, noPod
	}
	if missing := missingDependencies(deployment, pods.Items); missing != "" {
		return v2beta2.ReasonDependencyMissing, missing
	}
	var waits []string
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp != nil && len(pods.Items) == 1 {
			return v2beta2.ReasonProgressing, fmt.Sprintf("pod %q starts no playbook any more and waits for running ones, at most %d seconds",
				pod.Name, ptr.Deref(pod.DeletionGracePeriodSeconds, 0))
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				waits = append(waits, "pod cannot be scheduled: "+condition.Message)
			}
		}
		for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			waits = append(waits, describeContainer(container)...)
		}
	}
	if len(waits) == 0 {
		return v2beta2.ReasonProgressing, "waiting for its pod to become ready"
	}
	slices.Sort(waits)
	return v2beta2.ReasonWorkloadUnavailable, strings.Join(slices.Compact(waits), "; ")
}

func unavailable(deployment client.ObjectKey, reason, message string) error {
	return status.Waiting(reason, status.Watched, "Deployment %q is not available: %s", deployment, message)
}

// describeContainer omits most messages of container states: they contain names and delays that change with every restart. Of a container
// that was restarted several times it always says the same.
func describeContainer(container corev1.ContainerStatus) []string {
	state := container.State
	if message := untrustedMessage(container); message != "" {
		return []string{message}
	}
	last := cmp.Or(state.Terminated, container.LastTerminationState.Terminated)
	switch {
	case container.RestartCount >= manyRestarts && !container.Ready && last != nil && last.ExitCode != 0:
		return []string{fmt.Sprintf("container %s: CrashLoopBackOff", container.Name)}
	case isPulling(state):
		return []string{fmt.Sprintf("container %s: %s: the node cannot pull image %q: %s; if the registry needs credentials, "+
			"name a Secret with them in spec.runtime.imagePullSecrets", container.Name, reasonPull, container.Image,
			cmp.Or(state.Waiting.Message, "see the events of the pod"))}
	case state.Waiting != nil && state.Waiting.Message != "":
		return []string{fmt.Sprintf("container %s: %s: %s", container.Name, state.Waiting.Reason, state.Waiting.Message)}
	case state.Waiting != nil && !slices.Contains(startingReasons, state.Waiting.Reason):
		return []string{fmt.Sprintf("container %s: %s", container.Name, state.Waiting.Reason)}
	case state.Terminated != nil && state.Terminated.ExitCode != 0:
		return []string{fmt.Sprintf("container %s ended with exit code %d", container.Name, state.Terminated.ExitCode)}
	}
	return nil
}

// maxDependencyBytes limits what a message says about the dependencies of one pod.
const maxDependencyBytes = 4096

// isInitContainer reports whether a container has a name, or the one that earlier managers gave it.
func isInitContainer(container, name string) bool {
	return container == name || render.InitPrefix+container == name
}

// untrustedMessage returns why the init container could not download the archive, if that is because of the certificate.
func untrustedMessage(container corev1.ContainerStatus) string {
	ended := cmp.Or(container.State.Terminated, container.LastTerminationState.Terminated)
	if !isInitContainer(container.Name, render.UnpackContainer) || ended == nil || ended.ExitCode == 0 {
		return ""
	}
	message, ok := strings.CutPrefix(ended.Message, render.ArchiveUntrusted)
	if !ok {
		return ""
	}
	return printable.Line(message, maxDependencyBytes)
}

// missingDependencies returns the dependencies that the pods of a Deployment's current template report as not installable,
// or "" if there are none.
func missingDependencies(deployment *appsv1.Deployment, pods []corev1.Pod) string {
	want := render.RuntimeHash(deployment.Spec.Template.Annotations)
	var problems []string
	for i := range pods {
		if pods[i].DeletionTimestamp != nil || render.RuntimeHash(pods[i].Annotations) != want {
			continue
		}
		if problem, ok := strings.CutPrefix(lastDependencyMessage(&pods[i]), render.DependencyMissing); ok {
			problems = append(problems, printable.Line(problem, maxDependencyBytes))
		}
	}
	slices.Sort(problems)
	return strings.Join(slices.Compact(problems), "; ")
}

// lastDependencyMessage returns the message of the container that terminated last: the operator container retries what the
// last init container could not install, and exits when the outcome changes.
func lastDependencyMessage(pod *corev1.Pod) string {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name != render.OperatorContainer {
			continue
		}
		if ended := cmp.Or(status.State.Terminated, status.LastTerminationState.Terminated); ended != nil {
			return ended.Message
		}
	}
	if started := pod.Status.InitContainerStatuses; len(started) > 0 && started[len(started)-1].State.Terminated != nil {
		return started[len(started)-1].State.Terminated.Message
	}
	return ""
}
