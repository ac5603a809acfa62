package controller

import (
	"fmt"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// summarize computes the status from what became of the operands. After an error without a reason, the operands are not known: their
// last state remains, as while the request is being deleted.
func (s *scope) summarize(err error) {
	current := &s.request.Status
	current.ObservedGeneration = s.request.Generation
	if s.request.DeletionTimestamp == nil && (err == nil || status.Is(err)) {
		current.Members = nil
		for _, o := range s.operands {
			current.Members = append(current.Members, s.member(o))
		}
		current.Phase = plan.Phase(current.Members)
	}
	status.SetReady(&current.Conditions, s.request.Generation, err, fmt.Sprintf("%d operands are running", len(current.Members)))
}

func (s *scope) member(o *operand) v1alpha1.Member {
	member := v1alpha1.Member{Name: o.ID.Name, Registry: o.ID.Registry.String(), Phase: o.phase}
	if o.Problem != nil {
		member.Phase = problemPhase(o.Problem)
	}
	if err := status.Join(o.errs...); err != nil {
		member.Message = printable.Cut(printable.Lines(err.Error()), status.MaxEventBytes)
	}
	for i := range o.Objects {
		if object := &o.Objects[i]; object.Origin == v1alpha1.OriginRequest {
			apiVersion, kind := object.Kind.ToAPIVersionAndKind()
			member.OperandCRList = append(member.OperandCRList, v1alpha1.OperandCR{Name: object.Key.Name, Kind: kind, APIVersion: apiVersion})
		}
	}
	return member
}

// problemPhase returns the phases of an operand for which nothing can be done.
func problemPhase(problem *plan.Problem) v1alpha1.MemberPhase {
	switch problem.Reason {
	case v1alpha1.ReasonRegistryNotFound, v1alpha1.ReasonOperandNotFound:
		return v1alpha1.MemberPhase{OperatorPhase: v1alpha1.OperatorNotFound, OperandPhase: v1alpha1.OperandNotFound}
	}
	if status.IsProgress(problem.Reason) {
		return v1alpha1.MemberPhase{OperatorPhase: v1alpha1.OperatorInstalling}
	}
	return v1alpha1.MemberPhase{OperatorPhase: v1alpha1.OperatorFailed}
}

// plans returns what is planned, without what became of it.
func (s *scope) plans() []plan.Operand {
	plans := make([]plan.Operand, 0, len(s.operands))
	for _, o := range s.operands {
		plans = append(plans, o.Operand)
	}
	return plans
}
