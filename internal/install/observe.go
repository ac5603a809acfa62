package install

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// observe waits until the Deployment runs its current pod template, and that is the planned one. The cache says whether it does not, and
// a watch brings the next look. That it does is confirmed by a live read, once for each change.
func (r *Installer) observe(ctx context.Context, s *scope) error {
	key := types.NamespacedName{Namespace: s.Namespace, Name: s.Collection.OperatorName()}
	deployment, err := r.cachedDeployment(ctx, s, key)
	if err != nil {
		return err
	}
	if err := r.evaluate(ctx, s, key, deployment); err != nil {
		return err
	}
	wasReady := s.before != nil && s.before.Ready && s.before.Digest == s.result.Status.Digest
	if !wasReady || !r.Memory.isConfirmed(key, DeploymentState(deployment)) {
		if deployment, err = r.liveDeployment(ctx, key); err != nil {
			return err
		}
		if err := r.evaluate(ctx, s, key, deployment); err != nil {
			problem := *status.AsError(err)
			problem.RetryAfter = min(problem.RetryAfter, intervals.Missing) // The cache may never have this state.
			return &problem
		}
		r.Memory.confirm(key, apply.LiveState(deployment, deploymentKind))
	}
	s.result.Status.Ready = true
	return nil
}

// cachedDeployment returns nil if the Deployment does not exist. While the cache does not have what this reconciliation has written,
// that is returned: its pods are not there yet, and the cache brings the next look. Otherwise it is read live if the cache is behind.
func (r *Installer) cachedDeployment(ctx context.Context, s *scope, key types.NamespacedName) (*appsv1.Deployment, error) {
	deployment, state := &appsv1.Deployment{}, apply.State("")
	err := r.Cache.Get(ctx, key, deployment)
	switch {
	case err == nil:
		state = DeploymentState(deployment)
	case apierrors.IsNotFound(err):
		deployment = nil
	default:
		return nil, fmt.Errorf("reading Deployment %q from the cache: %w", key, err)
	}
	if !r.Memory.Applied.Differs(deploymentKind, key, state) {
		return deployment, nil
	}
	for _, object := range s.plan.Objects {
		if planned, ok := object.(*appsv1.Deployment); ok && s.written > 0 {
			return planned, nil
		}
	}
	return r.liveDeployment(ctx, key)
}

var deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind()

// liveDeployment returns nil if the Deployment does not exist.
func (r *Installer) liveDeployment(ctx context.Context, key types.NamespacedName) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{}
	switch err := r.Reader.Get(ctx, key, deployment); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Deployment %q: %w", key, err)
	}
	return deployment, nil
}

// evaluate returns what a Deployment, which is nil if it does not exist, waits for.
func (r *Installer) evaluate(ctx context.Context, s *scope, key types.NamespacedName, deployment *appsv1.Deployment) error {
	if waits := s.Backend.Observe(s.Installation, s.plan, deployment); waits != nil {
		return r.explain(ctx, s, waits, deployment)
	}
	if deployment == nil {
		return status.Waiting(v2beta2.ReasonProgressing, status.Watched, "waiting for Deployment %q to be created", key)
	}
	if Available(deployment) {
		return nil
	}
	reason, message := r.describePods(ctx, s.Collection.ID(), deployment)
	return unavailable(key, reason, message)
}

func unavailable(deployment client.ObjectKey, reason, message string) error {
	return status.Waiting(reason, status.Watched, "Deployment %q is not available: %s", deployment, message)
}

// noPod is what a Deployment without a pod waits for.
const noPod = "waiting for its pod to be created"

// explain adds the state of the pods to the error of the backend, if the backend waits for the pods.
func (r *Installer) explain(ctx context.Context, s *scope, waits error, deployment *appsv1.Deployment) error {
	helpable := slices.Contains([]string{v2beta2.ReasonProgressing, v2beta2.ReasonClusterServiceVersionFailed}, status.AsError(waits).Reason)
	if !helpable || deployment == nil || Available(deployment) {
		return waits
	}
	reason, message := r.describePods(ctx, s.Collection.ID(), deployment)
	if reason == v2beta2.ReasonProgressing {
		return waits
	}
	return status.Waiting(reason, status.AsError(waits).RetryAfter, "%w; Deployment %q is not available: %s", waits, deployment.Namespace+"/"+deployment.Name, message)
}

// releaseFinalizers removes the finalizer from custom resources of kinds whose current version has no finalizer playbook,
// since nothing else would remove it. It runs once after each change of the pods: the old pods would add the finalizer
// again.
func (r *Installer) releaseFinalizers(ctx context.Context, s *scope) error {
	if s.before != nil && s.before.Ready && s.before.Digest == s.result.Status.Digest {
		return nil
	}
	for _, resource := range s.Collection.Resources {
		if resource.Finalizer != "" {
			continue
		}
		gvk := schema.GroupVersionKind{Group: s.Group, Version: s.Collection.APIVersion(), Kind: resource.Kind}
		if err := instances.ReleaseFinalizer(ctx, r.Client, r.Reader, gvk, s.Namespace); err != nil {
			s.result.Status.Ready = false // Retried in the next reconcile.
			return err
		}
	}
	return nil
}

// Available reports whether exactly one pod runs, and it has the Deployment's current template.
func Available(deployment *appsv1.Deployment) bool {
	status := deployment.Status
	return status.ObservedGeneration >= deployment.Generation && status.UpdatedReplicas == 1 && status.Replicas == 1 &&
		slices.ContainsFunc(status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionTrue
		})
}

// describePods returns what the pods of a Deployment wait for by what the cache has of them, and the reason for the condition.
func (r *Installer) describePods(ctx context.Context, id model.ID, deployment *appsv1.Deployment) (reason, message string) {
	pods := &corev1.PodList{}
	err := r.Cache.List(ctx, pods, client.InNamespace(deployment.Namespace), client.MatchingLabels(render.IdentityLabels(id)))
	if err != nil || len(pods.Items) == 0 {
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

// describeContainer omits the messages of container states: they contain names and delays that change with every restart. Of a container
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
		return []string{fmt.Sprintf("container %s: %s: the node cannot pull image %q: see the events of the pod; if the registry needs credentials, "+
			"name a Secret with them in spec.runtime.imagePullSecrets", container.Name, reasonPull, container.Image)}
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
