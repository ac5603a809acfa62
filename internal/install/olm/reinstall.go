package olm

import (
	"context"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
)

// maxAsked is how many ClusterServiceVersions are remembered for which OLM was asked to install again.
const maxAsked = 1000

// reinstall asks OLM to apply the config of the Subscription, as OLM does by itself when pods are still not ready after five minutes.
// Until then, OLM compares the Deployment with the config only once it is available: pods that cannot start would not get a
// corrected configuration. It asks once for each configuration. Without the permission, nothing happens.
func (b *Backend) reinstall(ctx context.Context, i *install.Installation, plan *install.Plan) error {
	csv := b.csv(i.Collection.CSVName())
	if !b.needsReinstall(csv, plan.RuntimeHash) || b.cluster.hasAsked(csv.UID, plan.RuntimeHash) {
		return nil
	}
	before := csv.DeepCopy()
	now := metav1.Now()
	csv.SetPhase(operatorsv1alpha1.CSVPhasePending, operatorsv1alpha1.CSVReasonNeedsReinstall, "the config of the Subscription has changed", &now)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	switch err := b.cluster.Client.Status().Patch(ctx, csv, patch, client.FieldOwner(apply.FieldOwner)); {
	case err == nil, apierrors.IsForbidden(err):
		b.cluster.reinstalls().Add(csv.UID, plan.RuntimeHash)
	case apierrors.IsConflict(err), apierrors.IsNotFound(err): // The change of the ClusterServiceVersion brings the next look.
	default:
		return fmt.Errorf("writing the status of ClusterServiceVersion %q: %w", client.ObjectKeyFromObject(csv), err)
	}
	return nil
}

// needsReinstall reports whether OLM waits for pods whose configuration is not the planned one, which the Subscription has already.
func (b *Backend) needsReinstall(csv *operatorsv1alpha1.ClusterServiceVersion, hash string) bool {
	if csv == nil || b.deployment == nil || b.installedCSV() != csv.Name || b.annotation() != b.wantedAnnotation(csv.Name, hash) {
		return false
	}
	return csv.Status.Phase == operatorsv1alpha1.CSVPhaseInstalling && render.RuntimeHash(b.deployment.Spec.Template.Annotations) != hash
}

// hasAsked reports whether OLM was asked last to install a ClusterServiceVersion again for this configuration.
func (c *Cluster) hasAsked(csv types.UID, hash string) bool {
	before, _ := c.reinstalls().Get(csv)
	return before == hash
}

// reinstalls has the hash of the configuration for which OLM was asked last to install a ClusterServiceVersion again, by its UID.
func (c *Cluster) reinstalls() *lru.Cache {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil {
		c.asked = lru.New(maxAsked)
	}
	return c.asked
}
