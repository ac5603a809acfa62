package podlock

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// Annotation returns the value of an annotation of the Lease, or "" if there is none.
func (l Lock) Annotation(ctx context.Context, key string) (string, error) {
	lease, err := l.Client.Resource(leases).Namespace(l.Namespace).Get(ctx, l.Name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read Lease %s: %w", l.Name, err)
	}
	return lease.GetAnnotations()[key], nil
}

// Annotate sets an annotation of the Lease, or removes it if the value is "". It does nothing if the annotation is not as it
// was.
func (l Lock) Annotate(ctx context.Context, key, was, value string) error {
	client := l.Client.Resource(leases).Namespace(l.Namespace)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		lease, err := client.Get(ctx, l.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		annotations := lease.GetAnnotations()
		if annotations[key] != was || was == value {
			return nil
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
		if value == "" {
			delete(annotations, key)
		}
		lease.SetAnnotations(annotations)
		_, err = client.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("annotate Lease %s: %w", l.Name, err)
	}
	return nil
}
