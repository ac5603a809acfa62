package suboperatorconfig

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/install/rollout"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// awaitTurn fails as long as other namespaces get the version first. The OperatorCollection's controller decides that, and writes it to
// status.upgrade: what that does not allow, nobody begins.
func (r *Reconciler) awaitTurn(_ context.Context, s *configScope, namespace string) error {
	upgrade := s.oc.Status.Upgrade
	switch {
	case upgrade == nil || upgrade.Digest != s.oc.Status.Artifact.Digest:
		return status.Waiting(v2beta2.ReasonUpgradePending, status.Watched,
			"it is not decided yet which namespace gets version %s of OperatorCollection %q first", s.oc.Status.Collection.Version, s.oc.Name)
	case slices.Contains(upgrade.Namespaces, namespace):
		return nil
	}
	return status.Waiting(upgrade.Reason, status.Watched, "%s", rollout.ProgressOf(s.oc))
}

// readySince returns since when an installation is ready with its digest, or nil if it is not. was is its former state, or nil.
func readySince(was, is *v2beta2.InstallationStatus) *metav1.Time {
	switch {
	case !is.Ready:
		return nil
	case was != nil && was.Ready && was.Digest == is.Digest && was.ReadySince != nil:
		return was.ReadySince
	}
	now := metav1.Now().Rfc3339Copy()
	return &now
}
