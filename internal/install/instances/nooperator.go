package instances

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// ReportNoOperator writes to the status of custom resources that no operator runs for them. Those that are gone, or say so
// already, are left as they are, and reported is called for the others. It does not stop at an error: it returns the first one with the
// number of statuses that were not written.
func (f *Finder) ReportNoOperator(ctx context.Context, items []unstructured.Unstructured, reported func(item *unstructured.Unstructured)) error {
	var first error
	failed := 0
	for i := range items {
		item := &items[i]
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			err := f.reportNoOperator(ctx, item, reported)
			if !apierrors.IsConflict(err) {
				return err
			}
			if getErr := f.Reader.Get(ctx, client.ObjectKeyFromObject(item), item); getErr != nil {
				return getErr
			}
			return err
		})
		if client.IgnoreNotFound(err) == nil {
			continue
		}
		failed++
		if first == nil {
			first = fmt.Errorf("%s: %w", instanceName(*item), err)
		}
	}
	if failed > 1 {
		return fmt.Errorf("%w, and %d more", first, failed-1)
	}
	return first
}

// reportNoOperator writes as the gate does: other field managers own the fields that they write as authors.
func (f *Finder) reportNoOperator(ctx context.Context, item *unstructured.Unstructured, reported func(*unstructured.Unstructured)) error {
	before, _, _ := unstructured.NestedMap(item.Object, "status")
	after := runstatus.NoOperator(before, runstatus.Resource{
		Kind: item.GetKind(), Name: item.GetName(), Generation: item.GetGeneration(),
		Authors: runstatus.AuthorsOf(item.GetManagedFields()), Now: time.Now(),
	})
	if runstatus.Equal(before, after) {
		return nil
	}
	changed := item.DeepCopy()
	changed.Object["status"] = after
	patch := client.MergeFromWithOptions(item, client.MergeFromWithOptimisticLock{})
	err := f.Client.Status().Patch(ctx, changed, patch, client.FieldOwner(runstatus.FieldManager))
	if err == nil {
		reported(changed)
	}
	return err
}
