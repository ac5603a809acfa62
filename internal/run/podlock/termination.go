package podlock

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Termination is about the end of this pod.
type Termination struct {
	// Deleted is true if the pod was deleted: by a user, by its Deployment, or by an eviction.
	Deleted bool
	// Grace is the time that the pod has from then on.
	Grace time.Duration
}

// Termination reads whether this pod is to end. It is ErrDeleted if the pod does not exist.
func (l Lock) Termination(ctx context.Context) (Termination, error) {
	pod, err := l.Client.Resource(pods).Namespace(l.Namespace).Get(ctx, l.PodName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Termination{}, fmt.Errorf("pod %s: %w", l.PodName, ErrDeleted)
	}
	if err != nil {
		return Termination{}, fmt.Errorf("read pod %s: %w", l.PodName, err)
	}
	if string(pod.GetUID()) != l.PodUID {
		return Termination{}, fmt.Errorf("pod %s is another one: %w", l.PodName, ErrDeleted)
	}
	return Termination{
		Deleted: pod.GetDeletionTimestamp() != nil,
		Grace:   time.Duration(ptr.Deref(pod.GetDeletionGracePeriodSeconds(), 0)) * time.Second,
	}, nil
}
