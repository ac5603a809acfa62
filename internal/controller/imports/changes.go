package imports

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/install"
)

// ConflictsChanged reports whether something of a SubOperatorConfig has changed that those of the same collection depend on. It gets
// its labels when its collection is imported, and a status only when it installs something.
func ConflictsChanged(e event.UpdateEvent) bool {
	before, isOne := e.ObjectOld.(*v2beta2.SubOperatorConfig)
	after, isOther := e.ObjectNew.(*v2beta2.SubOperatorConfig)
	if !isOne || !isOther {
		return true
	}
	return before.UID != after.UID || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		before.Spec.OperatorCollection != after.Spec.OperatorCollection || LabelledID(before) != LabelledID(after) ||
		!equality.Semantic.DeepEqual(before.Spec.Mapping, after.Spec.Mapping) ||
		!equality.Semantic.DeepEqual(before.Status.Collection, after.Status.Collection) ||
		!slices.Equal(install.Namespaces(before), install.Namespaces(after))
}
