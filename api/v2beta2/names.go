package v2beta2

const (
	// ManagerLabel with ManagerLabelValue is on the pods of all managers, and selects them.
	ManagerLabel = "app.kubernetes.io/name"
	// ManagerLabelValue is the value of ManagerLabel.
	ManagerLabelValue = "collection-operator"
)
