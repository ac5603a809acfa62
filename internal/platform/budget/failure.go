package budget

import (
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// Failure gives an error of [budget.Budget.Check] its reason. The deletion of an OperatorCollection triggers a reconcile.
func Failure(err error) error {
	if err == nil {
		return nil
	}
	return status.Waiting(v2beta2.ReasonBudgetExceeded, status.ChangedInterval, "%w", err)
}
