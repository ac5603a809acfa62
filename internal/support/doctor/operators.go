package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

// maxPodMessage limits what is said about a pod.
const maxPodMessage = 300

// startingReasons are those of containers that start as they should.
var startingReasons = []string{"", "PodInitializing", "ContainerCreating"}

func checkOperators(d *diagnosis) {
	for _, key := range slices.SortedFunc(maps.Keys(d.installations), compareKeys) {
		i := d.installations[key]
		if i.deployment == nil || isAvailable(i.deployment) {
			continue
		}
		f := Finding{
			Severity: findings.SeverityError, Object: i.ref(), Reason: v2beta2.ReasonWorkloadUnavailable, Message: "the operator does not run",
			Next: fmt.Sprintf("see the pod: kubectl describe pods -n %s -l %s=%s,%s=%s", i.namespace, render.LabelDomain, i.Domain, render.LabelName, i.Name),
		}
		pods := d.podsOf(key)
		for _, pod := range pods {
			if problem := podProblem(d, pod); problem != "" {
				f.Message += "; pod " + pod.Name + ": " + problem
			}
		}
		switch {
		case ptr.Deref(i.deployment.Spec.Replicas, 1) == 0:
			f.Message, f.Next = "the Deployment is scaled to zero", fmt.Sprintf("kubectl scale -n %s deployment/%s --replicas=1", i.namespace, i.deployment.Name)
		case len(pods) == 0:
			f.Message += noPods(i.deployment)
		case f.Message == "the operator does not run" && d.Taken.Sub(pods[len(pods)-1].CreationTimestamp.Time) < startTime:
			f.Severity, f.Reason, f.Message, f.Next = findings.SeverityInfo, v2beta2.ReasonProgressing, "the operator's pod is starting", "wait"
		}
		d.report(f, append(d.olmObjects(i), ref(snapshot.Namespace, "", i.namespace))...)
	}
}

func isAvailable(deployment *appsv1.Deployment) bool {
	return deployment.Status.ObservedGeneration >= deployment.Generation &&
		slices.ContainsFunc(deployment.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionTrue
		})
}

// noPods says why a Deployment has no pod: a quota or a policy refused it.
func noPods(deployment *appsv1.Deployment) string {
	for _, c := range deployment.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return "; no pod could be created: " + printable.Line(c.Message, maxPodMessage)
		}
	}
	return "; it has no pod"
}

// podProblem returns why a pod is not ready, or "" if it is, or starts.
func podProblem(d *diagnosis, pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return "it is being deleted, and waits for its playbooks to end"
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "it cannot be scheduled: " + printable.Line(c.Message, maxPodMessage)
		}
	}
	var problems []string
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if problem := containerProblem(container); problem != "" {
			problems = append(problems, "container "+container.Name+": "+problem)
		}
	}
	if pod.Status.Reason != "" {
		problems = append(problems, printable.Line(pod.Status.Reason+": "+pod.Status.Message, maxPodMessage))
	}
	if len(problems) == 0 && pod.Status.Phase == corev1.PodRunning && !isReady(pod) && d.Taken.Sub(pod.CreationTimestamp.Time) > startTime {
		return "it runs, but is not ready"
	}
	return strings.Join(problems, "; ")
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func containerProblem(container corev1.ContainerStatus) string {
	last := cmp.Or(container.State.Terminated, container.LastTerminationState.Terminated)
	var problem string
	if waiting := container.State.Waiting; waiting != nil && !slices.Contains(startingReasons, waiting.Reason) {
		problem = waiting.Reason
		if waiting.Reason != "CrashLoopBackOff" { // Its message is a delay.
			problem += ": " + waiting.Message
		}
	} else if container.State.Terminated == nil || container.State.Terminated.ExitCode == 0 {
		return ""
	}
	if last != nil && last.ExitCode != 0 {
		problem += fmt.Sprintf(" (%s, exit code %d) %s", last.Reason, last.ExitCode, last.Message)
	}
	return printable.Line(problem, maxPodMessage)
}
