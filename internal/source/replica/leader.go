package replica

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

const (
	// LeaderLabel is on the leader's pod alone, with LeaderLabelValue. Authors' tools upload archives to the one pod that has it.
	LeaderLabel = "component"
	// LeaderLabelValue is the value of LeaderLabel.
	LeaderLabelValue = "manager"

	// labelInterval is how often the leader checks the labels, and labelRetry how soon after the first of
	// several errors.
	labelInterval, labelRetry = time.Minute, time.Second
)

// LeaderLabels keeps the leader's label on the pod of this manager, and off all others. It runs in the leader alone.
type LeaderLabels struct {
	Client client.Client
	// Reader reads live Pods.
	Reader client.Reader
	// Namespace is that of the managers, and Pod the name of this one's pod.
	Namespace, Pod string
}

// Start implements manager.Runnable.
func (l *LeaderLabels) Start(ctx context.Context) error {
	log, last := ctrl.LoggerFrom(ctx).WithName("leader"), ""
	wait := labelRetry
	for {
		err := l.apply(ctx)
		switch {
		case err == nil:
			last, wait = "", labelInterval
		case ctx.Err() == nil && err.Error() != last:
			log.Error(err, "cannot mark the leader's pod, retrying: uploads may go to another pod", "label", LeaderLabel+"="+LeaderLabelValue)
			last, wait = err.Error(), labelRetry
		default:
			wait = min(2*wait, labelInterval)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// apply removes the label from other pods first: clients refuse to work with two.
func (l *LeaderLabels) apply(ctx context.Context) error {
	pods := &corev1.PodList{}
	err := l.Reader.List(ctx, pods, client.InNamespace(l.Namespace), client.MatchingLabels{v2beta2.ManagerLabel: v2beta2.ManagerLabelValue})
	if err != nil {
		return fmt.Errorf("listing the managers' pods in namespace %q: %w", l.Namespace, err)
	}
	var own *corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Name == l.Pod {
			own = pod
			continue
		}
		if _, marked := pod.Labels[LeaderLabel]; marked {
			before := pod.DeepCopy()
			delete(pod.Labels, LeaderLabel)
			if err := l.patch(ctx, pod, before); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	if own == nil {
		return fmt.Errorf("pod %q, in which this manager runs, does not exist or has no label %s=%s", l.Pod, v2beta2.ManagerLabel, v2beta2.ManagerLabelValue)
	}
	if own.Labels[LeaderLabel] == LeaderLabelValue {
		return nil
	}
	before := own.DeepCopy()
	own.Labels[LeaderLabel] = LeaderLabelValue
	return l.patch(ctx, own, before)
}

func (l *LeaderLabels) patch(ctx context.Context, pod, before *corev1.Pod) error {
	if err := l.Client.Patch(ctx, pod, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("changing the labels of pod %q: %w", pod.Name, err)
	}
	return nil
}
