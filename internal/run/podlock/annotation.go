package podlock

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
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

// manyWriters is the backoff of changes that many runs make at the same time. All attempts take about three seconds.
var manyWriters = wait.Backoff{Steps: 12, Duration: 20 * time.Millisecond, Factor: 1.5, Jitter: 0.5}

// Change sets an annotation of the Lease to what change makes of it, and a label to "true". Change is called again if others write the
// Lease at the same time.
func (l Lock) Change(ctx context.Context, key, label string, change func(was string) string) error {
	client := l.Client.Resource(leases).Namespace(l.Namespace)
	err := retry.RetryOnConflict(manyWriters, func() error {
		lease, err := client.Get(ctx, l.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		value, _, _ := unstructured.NestedString(lease.Object, "metadata", "annotations", key)
		if err := unstructured.SetNestedField(lease.Object, change(value), "metadata", "annotations", key); err != nil {
			return err
		}
		if err := unstructured.SetNestedField(lease.Object, "true", "metadata", "labels", label); err != nil {
			return err
		}
		_, err = client.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("change annotation %s of Lease %s: %w", key, l.Name, err)
	}
	return nil
}
