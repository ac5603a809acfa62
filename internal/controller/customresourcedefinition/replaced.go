package customresourcedefinition

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/controller/replacement"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// awaitReplaced waits until the CRDs of a replaced collection can pass to the one that replaces it.
func (r *Reconciler) awaitReplaced(ctx context.Context, plan []crd.Planned, all []v2beta2.OperatorCollection) error {
	for _, planned := range plan {
		if !planned.Passes() {
			continue
		}
		if holders := replacement.OtherHolders(planned.Live, all, func(*v2beta2.OperatorCollection) bool { return false }); len(holders) > 0 {
			return status.Waiting(v2beta2.ReasonReplaced, intervals.Missing, "CRD %q belongs to collection %s as long as these OperatorCollections exist: %s",
				planned.Live.Name, planned.Replaced, replacement.DescribeHolders(holders, "", all))
		}
		socs := &v2beta2.SubOperatorConfigList{}
		if err := r.Reader.List(ctx, socs); err != nil {
			return fmt.Errorf("listing SubOperatorConfigs: %w", err)
		}
		for i := range socs.Items {
			if install.RecordedCollection(&socs.Items[i]) == planned.Replaced {
				// It is one of another collection, which triggers no reconcile of this one.
				return status.Waiting(v2beta2.ReasonProgressing, intervals.Poll, "waiting until the operator of collection %s is removed by SubOperatorConfig %q",
					planned.Replaced, client.ObjectKeyFromObject(&socs.Items[i]))
			}
		}
	}
	return nil
}
