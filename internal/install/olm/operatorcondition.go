package olm

import (
	"context"
	"fmt"

	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// ConditionVariable is the environment variable with which OLM tells an operator the name of its OperatorCondition. That is in the
// namespace of the operator, which may get and patch it.
const ConditionVariable = "OPERATOR_CONDITION_NAME"

// SetCondition updates a condition in an OperatorCondition, which OLM creates for each ClusterServiceVersion, unless it is as wanted. OLM
// copies the condition from spec to status before it reads it, and an outdated copy also blocks an upgrade. Administrators can override
// the condition in spec.overrides. The OperatorCondition is read with reader. It is an error if it does not exist.
func SetCondition(ctx context.Context, reader client.Reader, writer client.Writer, key client.ObjectKey, wanted metav1.Condition) error {
	condition := &operatorsv2.OperatorCondition{}
	if err := reader.Get(ctx, key, condition); err != nil {
		return fmt.Errorf("reading OperatorCondition %q: %w", key, err)
	}
	is := meta.FindStatusCondition(condition.Spec.Conditions, wanted.Type)
	if is != nil && is.Status == wanted.Status && is.Reason == wanted.Reason && is.Message == wanted.Message {
		return nil
	}
	before := condition.DeepCopy()
	meta.SetStatusCondition(&condition.Spec.Conditions, wanted)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := writer.Patch(ctx, condition, patch, client.FieldOwner(apply.FieldOwner)); err != nil {
		return fmt.Errorf("writing OperatorCondition %q: %w", key, err)
	}
	return nil
}

// Upgradeable returns the condition of an operator that OLM may replace.
func Upgradeable(format string, args ...any) metav1.Condition {
	return upgradeable(metav1.ConditionTrue, v2beta2.ReasonSucceeded, format, args...)
}

// NotUpgradeable returns the condition of an operator that OLM must not replace.
func NotUpgradeable(reason, format string, args ...any) metav1.Condition {
	return upgradeable(metav1.ConditionFalse, reason, format, args...)
}

func upgradeable(is metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
	return metav1.Condition{Type: operatorsv2.Upgradeable, Status: is, Reason: reason, Message: status.Message(fmt.Sprintf(format, args...))}
}
