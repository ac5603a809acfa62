package v2beta2

const (
	// ManagerLabel with ManagerLabelValue is on the pods of all managers, and selects them.
	ManagerLabel = "app.kubernetes.io/name"
	// ManagerLabelValue is the value of ManagerLabel.
	ManagerLabelValue = "collection-operator"
)

const (
	// Finalizer keeps an OperatorCollection or SubOperatorConfig until what was made for it is deleted.
	Finalizer = "zoscb.ibm.com/finalizer"

	// AnnotationDefault marks the SubOperatorConfig that the manager made because no other named the collection. On an
	// OperatorCollection it names the SubOperatorConfig that was there, or was made, when that was decided.
	AnnotationDefault = "zoscb.ibm.com/default"
)
