package plan

import (
	"slices"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
)

// Phase returns the phase of an OperandRequest with the given members. The first counts that any member has: Failed, Installing,
// Updating, Creating, Running. Unlike with the Operand Deployment Lifecycle Manager, an OperandRequest is not Running if a member is
// not found.
func Phase(members []v1alpha1.Member) string {
	has := func(operator v1alpha1.OperatorPhase, operand v1alpha1.OperandPhase) bool {
		return slices.ContainsFunc(members, func(m v1alpha1.Member) bool {
			return m.Phase.OperatorPhase == operator && operator != "" || m.Phase.OperandPhase == operand && operand != ""
		})
	}
	switch {
	case has(v1alpha1.OperatorFailed, v1alpha1.OperandFailed):
		return v1alpha1.RequestFailed
	case has(v1alpha1.OperatorInstalling, ""):
		return v1alpha1.RequestInstalling
	case has(v1alpha1.OperatorUpdating, ""):
		return v1alpha1.RequestUpdating
	case has("", v1alpha1.OperandCreating):
		return v1alpha1.RequestCreating
	case has(v1alpha1.OperatorNotFound, v1alpha1.OperandNotFound), len(members) == 0:
		return v1alpha1.RequestPending
	}
	return v1alpha1.RequestRunning
}
