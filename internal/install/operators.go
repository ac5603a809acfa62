package install

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// OperatorsOf returns the ServiceAccounts of the operators that a SubOperatorConfig has installed, whatever installed them.
func OperatorsOf(soc *v2beta2.SubOperatorConfig) []rbacv1.Subject {
	id := RecordedCollection(soc)
	if id.Name == "" {
		return nil
	}
	var operators []rbacv1.Subject
	for _, installation := range soc.Status.Installations {
		operators = append(operators, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: installation.Namespace, Name: id.OperatorName()})
	}
	return operators
}

// OperatorsChanged reports whether a SubOperatorConfig has installed or removed an operator.
func OperatorsChanged(e event.UpdateEvent) bool {
	before, isOne := e.ObjectOld.(*v2beta2.SubOperatorConfig)
	after, isOther := e.ObjectNew.(*v2beta2.SubOperatorConfig)
	return isOne && isOther && !slices.Equal(OperatorsOf(before), OperatorsOf(after))
}
