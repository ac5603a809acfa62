package main

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/source/replica"
)

// announcement is what the annotations of a manager's pod tell the leader.
type announcement struct{ inUse, refused string }

// announce says in the annotations of the pod with which settings this manager is ready, and which it has refused. It returns false as
// long as the manager is not ready.
func (f *follower) announce(ctx context.Context) (bool, error) {
	if f.peers == nil {
		return true, nil
	}
	if ready := f.ready.check() == nil; !ready {
		return false, nil
	}
	current := announcement{inUse: f.running.hash(), refused: f.refused.announced()}
	if current == f.announced {
		return true, nil
	}
	annotations := map[string]any{replica.AnnotationSettings: current.inUse, replica.AnnotationRefused: nil}
	if current.refused != "" {
		annotations[replica.AnnotationRefused] = current.refused
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return false, err
	}
	_, err = f.client.CoreV1().Pods(f.peers.Namespace).Patch(ctx, f.peers.Pod, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("writing the annotations of pod %q: %w", f.peers.Pod, err)
	}
	f.announced = current
	return true, nil
}
