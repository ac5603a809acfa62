package endpoint

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// IsProbed reports whether status has the result of a probe.
func IsProbed(e *v2beta2.ZosEndpoint) bool {
	reachable := meta.FindStatusCondition(e.Status.Conditions, v2beta2.ConditionReachable)
	return reachable != nil && reachable.Reason != v2beta2.ReasonBudgetExceeded
}
