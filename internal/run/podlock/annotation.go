package podlock

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// Annotation returns the value of an annotation of the Lease, or "" if there is none.
func (l Lock) Annotation(ctx context.Context, key string) (string, error) {
	lease, err := l.read(ctx)
	if err != nil {
		return "", fmt.Errorf("read Lease %s: %w", l.Name, err)
	}
	return lease.Annotations[key], nil
}

// Annotate sets an annotation of the Lease, or removes it if the value is "". It does nothing if the annotation is not as it
// was.
func (l Lock) Annotate(ctx context.Context, key, was, value string) error {
	return l.edit(ctx, retry.DefaultRetry, func(lease *coordinationv1.Lease) bool {
		if lease.Annotations[key] != was || was == value {
			return false
		}
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, key, value)
		if value == "" {
			delete(lease.Annotations, key)
		}
		return true
	})
}

// manyWriters is the backoff of changes that many runs make at the same time. All attempts take about three seconds.
var manyWriters = wait.Backoff{Steps: 12, Duration: 20 * time.Millisecond, Factor: 1.5, Jitter: 0.5}

// Change sets an annotation of the Lease to what change makes of it, and a label to "true". Change is called again if others write the
// Lease at the same time.
func (l Lock) Change(ctx context.Context, key, label string, change func(was string) string) error {
	return l.edit(ctx, manyWriters, func(lease *coordinationv1.Lease) bool {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, key, change(lease.Annotations[key]))
		metav1.SetMetaDataLabel(&lease.ObjectMeta, label, "true")
		return true
	})
}

// edit writes the Lease if change reports that it has changed it, and reads and changes it again if others have written it meanwhile.
func (l Lock) edit(ctx context.Context, backoff wait.Backoff, change func(*coordinationv1.Lease) bool) error {
	err := retry.RetryOnConflict(backoff, func() error {
		lease, err := l.read(ctx)
		if err != nil || !change(lease) {
			return err
		}
		_, err = l.write(ctx, lease)
		return err
	})
	if err != nil {
		return fmt.Errorf("annotate Lease %s: %w", l.Name, err)
	}
	return nil
}
