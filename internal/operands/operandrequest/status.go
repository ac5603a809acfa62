package operandrequest

import (
	"context"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
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

// worse returns the phase that needs more attention.
func worse(a, b v1alpha1.OperatorPhase) v1alpha1.OperatorPhase {
	for _, phase := range []v1alpha1.OperatorPhase{v1alpha1.OperatorFailed, v1alpha1.OperatorInstalling} {
		if a == phase || b == phase {
			return phase
		}
	}
	return a
}

// withoutValues leaves out of an error what the API server, or the operator, says about an object in another namespace: this may have
// values that the requester may not read. Why it is refused is logged, except for Secrets.
func (s *scope) withoutValues(ctx context.Context, object *plan.Object, err error) error {
	e := status.AsError(err)
	if e == nil || object.Key.Namespace == s.request.Namespace {
		return err
	}
	var what string
	switch e.Reason {
	case v1alpha1.ReasonOperandFailed:
		what = "has failed: its status has the reason"
	case v1alpha1.ReasonOperandNotReady:
		what = "is not ready: its status has the reason"
	case v2beta2.ReasonObjectRefused:
		what = "was refused: to see why, apply it in its namespace"
		if object.Kind.Kind != "Secret" {
			what = "was refused: the log of the component operands has the reason"
			ctrl.LoggerFrom(ctx).Error(err, "an object in another namespace than its OperandRequest was refused")
		}
	default:
		return err
	}
	return status.Waiting(e.Reason, e.RetryAfter, "%s %q %s", object.Kind.Kind, object.Key, what)
}

// within returns an error that is retried after a delay at the latest.
func within(delay time.Duration, err error) error {
	e := status.AsError(err)
	if e == nil || e.RetryAfter <= delay {
		return err
	}
	return &status.Error{Reason: e.Reason, RetryAfter: delay, Err: e.Err}
}

// patience is 1 for what only needs time, and 0 for what needs attention: that is reported first.
func patience(err error) int {
	switch e := status.AsError(err); {
	case e == nil, e.Reason == v1alpha1.ReasonOperatorNotReady, e.Reason == v1alpha1.ReasonOperandNotReady, e.Reason == v1alpha1.ReasonRemovalWaiting:
		return 1
	}
	return 0
}
