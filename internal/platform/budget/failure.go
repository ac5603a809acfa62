package budget

import (
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// Failure gives an error of [Budget.Check] its reason. It is tried again after status.ChangedInterval at the latest.
func Failure(err error) error {
	if err == nil {
		return nil
	}
	return status.Waiting(v2beta2.ReasonBudgetExceeded, status.ChangedInterval, "%w", err)
}
