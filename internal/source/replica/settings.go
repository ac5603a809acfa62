package replica

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

const (
	// AnnotationSettings is on the pod of a manager. Its value identifies the settings with which the manager is ready.
	AnnotationSettings = "zoscb.ibm.com/settings"
	// AnnotationRefused is on the pod of a manager that did not start with other settings. Its value is what identifies them, a space, and
	// the reason.
	AnnotationRefused = "zoscb.ibm.com/settings-refused"
)

// Successors are the other managers, of which one serves while this one starts again.
type Successors struct {
	// MayEnd is true if one of them is ready with the settings, or there is none.
	MayEnd bool
	// Refused is true if all of them did not start with the settings.
	Refused bool
	// Message says what each of them does.
	Message string
}

// Successors returns which other managers are ready with the settings. It counts all pods that exist, also those that start or end.
func (p *Peers) Successors(ctx context.Context, settings string) (Successors, error) {
	pods := &corev1.PodList{}
	err := p.Reader.List(ctx, pods, client.InNamespace(p.Namespace), client.MatchingLabels{v2beta2.ManagerLabel: v2beta2.ManagerLabelValue})
	if err != nil {
		return Successors{}, fmt.Errorf("listing the managers' pods in namespace %q: %w", p.Namespace, err)
	}
	others := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Name == p.Pod })
	return successors(others, settings), nil
}

func successors(others []corev1.Pod, settings string) Successors {
	if len(others) == 0 {
		return Successors{MayEnd: true}
	}
	var messages []string
	refused := true
	for i := range others {
		pod := &others[i]
		hash, reason, _ := strings.Cut(pod.Annotations[AnnotationRefused], " ")
		isRefused := hash == settings
		refused = refused && isRefused
		switch {
		case pod.DeletionTimestamp != nil:
			messages = append(messages, fmt.Sprintf("pod %q ends", pod.Name))
		case isRefused:
			messages = append(messages, fmt.Sprintf("pod %q did not start with them: %s", pod.Name, reason))
		case !isReady(pod) || pod.Annotations[AnnotationSettings] != settings:
			messages = append(messages, fmt.Sprintf("pod %q is not ready with them: see its log", pod.Name))
		default:
			return Successors{MayEnd: true}
		}
	}
	slices.Sort(messages)
	return Successors{Refused: refused, Message: strings.Join(messages, "; ")}
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
