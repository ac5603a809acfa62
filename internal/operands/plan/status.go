package plan

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/internal/operands/merge"
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

// MemberOf returns what the status of an OperandRequest says about an operand.
func MemberOf(request *v1alpha1.OperandRequest, id ID) v1alpha1.Member {
	for _, m := range request.Status.Members {
		if m.Name == id.Name && m.Registry == id.Registry.String() {
			return m
		}
	}
	return v1alpha1.Member{}
}

// Find returns the entry of an inventory that is about the same object, or nil.
func Find(inventory []v1alpha1.InventoryEntry, of v1alpha1.InventoryEntry) *v1alpha1.InventoryEntry {
	for i := range inventory {
		if Same(inventory[i], of) {
			return &inventory[i]
		}
	}
	return nil
}

// Same reports whether two entries are about the same object, or the same mapping, whatever the version of its API.
func Same(a, b v1alpha1.InventoryEntry) bool {
	return a.Mapping == b.Mapping && a.Namespace == b.Namespace && a.Name == b.Name && groupKind(a) == groupKind(b)
}

// IsApplied reports whether an object has our annotation with this owner, and this component has set it.
func IsApplied(object metav1.Object, owner string) bool {
	return object.GetAnnotations()[v1alpha1.AnnotationOperand] == owner &&
		merge.Owns(object.GetManagedFields(), FieldOwner, "f:metadata", "f:annotations", "f:"+v1alpha1.AnnotationOperand)
}

// Unwanted returns the entries of an inventory that are to be removed, in the order of the inventory. Absence of an OperandRegistry,
// an OperandConfig or an OperatorCollection removes nothing: entries of operands with a problem are kept.
func Unwanted(inventory []v1alpha1.InventoryEntry, operands []Operand) []v1alpha1.InventoryEntry {
	var unwanted []v1alpha1.InventoryEntry
	// An operand with a problem may want an operator that another one has recorded.
	unknown := slices.ContainsFunc(operands, func(o Operand) bool { return o.Problem != nil && o.Problem.Reason != v1alpha1.ReasonOutOfScope })
	for _, e := range inventory {
		if unknown && e.Origin == v1alpha1.OriginOperator {
			continue
		}
		at := slices.IndexFunc(operands, func(o Operand) bool { return o.ID.Is(e) })
		if !Specifies(operands, e) && (at < 0 || !operands[at].keeps(e)) {
			unwanted = append(unwanted, e)
		}
	}
	return unwanted
}

// keeps reports whether it is not known if an entry of the operand is wanted. Which copies are wanted is known even if the operand has a
// problem: who gives them away must be able to take them back.
func (o *Operand) keeps(e v1alpha1.InventoryEntry) bool {
	if e.Origin == v1alpha1.OriginBinding {
		return false
	}
	if o.Problem != nil {
		return true
	}
	switch e.Origin {
	case v1alpha1.OriginConfig:
		return o.ConfigMissing || o.ConfigProblem != nil || o.KindsUnknown
	case v1alpha1.OriginRequest:
		return o.KindsUnknown
	}
	return o.NoOp && e.Origin == v1alpha1.OriginOperator
}

// Specifies reports whether any operand of a request wants what an entry is about, whichever operand it is recorded for.
func Specifies(operands []Operand, e v1alpha1.InventoryEntry) bool {
	return slices.ContainsFunc(operands, func(o Operand) bool {
		return o.wants(e) || slices.ContainsFunc(o.Objects, func(object Object) bool { return object.Is(e) }) ||
			slices.ContainsFunc(o.Former, func(former v1alpha1.InventoryEntry) bool { return Same(former, e) })
	})
}

// Wants reports whether any of the operands of another request wants what an entry is about. Operators are shared by operands of all OperandRegistries.
func Wants(operands []Operand, e v1alpha1.InventoryEntry) bool {
	return slices.ContainsFunc(operands, func(o Operand) bool { return o.wants(e) })
}

// MayWant reports whether it is not known if another request wants a resource that an OperandConfig has specified: one of the two has a
// mistake, or what they name is away.
func MayWant(operands []Operand, e v1alpha1.InventoryEntry) bool {
	return e.Origin == v1alpha1.OriginConfig && slices.ContainsFunc(operands, func(o Operand) bool {
		excluded := o.Problem != nil && (o.Problem.Reason == v1alpha1.ReasonOutOfScope || o.Problem.Reason == v1alpha1.ReasonOperandNotFound)
		return o.ID.Is(e) && !excluded && o.keeps(e)
	})
}

func (o *Operand) wants(e v1alpha1.InventoryEntry) bool {
	if e.Mapping != "" {
		return slices.ContainsFunc(o.Installs, func(i Install) bool { return i.Is(e) })
	}
	if e.Origin == v1alpha1.OriginOperator {
		return o.Package != nil && o.Package.Is(e)
	}
	return o.ID.Is(e) && slices.ContainsFunc(o.Objects, func(object Object) bool { return object.Is(e) })
}
