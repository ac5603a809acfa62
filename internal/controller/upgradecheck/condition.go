package upgradecheck

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// MaxWarnings bounds the warnings in status.
const MaxWarnings = 20

// AcceptsBreaking reports whether another version is installed also if it does not fit custom resources.
func AcceptsBreaking(oc *v2beta2.OperatorCollection) bool {
	return oc.Spec.Upgrade != nil && oc.Spec.Upgrade.Policy == v2beta2.UpgradeAllowBreaking
}

// SetUpgradeBlocked sets the condition UpgradeBlocked, or removes it if blocked is nil.
func SetUpgradeBlocked(conditions *[]metav1.Condition, generation int64, blocked error) {
	if blocked == nil {
		meta.RemoveStatusCondition(conditions, v2beta2.ConditionUpgradeBlocked)
		return
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: v2beta2.ConditionUpgradeBlocked, Status: metav1.ConditionTrue, Reason: v2beta2.ReasonUpgradeBlocked,
		Message: status.Message(blocked.Error()), ObservedGeneration: generation,
	})
}

// UpgradeBlock returns err if custom resources block an upgrade.
func UpgradeBlock(err error) error {
	if f := status.AsError(err); f != nil && f.Reason == v2beta2.ReasonUpgradeBlocked {
		return f
	}
	return nil
}
