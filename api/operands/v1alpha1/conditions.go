package v1alpha1

// Labels and finalizers of the API.
const (
	// LabelControl is "true" on every object that was created for an OperandRequest.
	LabelControl = "operator.ibm.com/opreq-control"
	// LabelKeep set to "true" by a user keeps an object that was created for OperandRequests when they are deleted. On the
	// SubOperatorConfig of an operator it keeps the operator, and what OperandConfigs have created for it.
	LabelKeep = "operator.ibm.com/opreq-do-not-uninstall"
	// AnnotationOperand on an object that was created for OperandRequests names its operand, as
	// <namespace of the OperandRegistry>/<OperandRegistry>/<operand>. For an object of one OperandRequest only, it is followed by
	// that one, as /<namespace>/<OperandRequest>.
	AnnotationOperand = "operator.ibm.com/operand"
	// AnnotationAllowRegistries on an OperatorCollection lists the other namespaces, separated by commas, whose OperandRegistries
	// may install it. Those of its own namespace always may.
	AnnotationAllowRegistries = "operator.ibm.com/allow-registries-from"
	// AnnotationAllowConfigs on a namespace lists the other namespaces, separated by commas, whose OperandConfigs may create resources
	// in it.
	AnnotationAllowConfigs = "operator.ibm.com/allow-configs-from"
	// LabelCopy is "copy" on Secrets and ConfigMaps that an OperandBindInfo has given to a requester.
	LabelCopy = "operator.ibm.com/managedBy-opbi"
	// FinalizerRequest keeps an OperandRequest until what was created for it is removed.
	FinalizerRequest = "finalizer.request.ibm.com"
	// FinalizerBindInfo is what the Operand Deployment Lifecycle Manager has left on an OperandBindInfo. It is removed.
	FinalizerBindInfo = "finalizer.bindinfo.ibm.com"
)

// Reasons of an OperandRequest, in addition to those of package v2beta2.
const (
	// ReasonRegistryNotFound signals that an OperandRegistry does not exist.
	ReasonRegistryNotFound = "RegistryNotFound"
	// ReasonOperandNotFound signals that an OperandRegistry does not list an operand.
	ReasonOperandNotFound = "OperandNotFound"
	// ReasonOutOfScope signals that an operand is private, and the OperandRequest is in another namespace than its OperandRegistry.
	ReasonOutOfScope = "OutOfScope"
	// ReasonInvalidOperand signals that the OperandRegistry, the OperandConfig or the OperandRequest says something about an operand
	// that cannot be done.
	ReasonInvalidOperand = "InvalidOperand"
	// ReasonOperatorNotReady signals that the operator of an operand is not installed yet.
	ReasonOperatorNotReady = "OperatorNotReady"
	// ReasonOperatorFailed signals that the operator of an operand is not installed, and needs attention.
	ReasonOperatorFailed = "OperatorFailed"
	// ReasonOperandNotReady signals that a resource of an operand is not ready yet.
	ReasonOperandNotReady = "OperandNotReady"
	// ReasonOperandFailed signals that a resource of an operand reports that it has failed.
	ReasonOperandFailed = "OperandFailed"
	// ReasonBindingNotFound signals that a Secret or ConfigMap that an OperandBindInfo names does not exist yet.
	ReasonBindingNotFound = "BindingNotFound"
	// ReasonNotGranted signals that the component's ServiceAccount lacks a permission. The message has the command that grants it.
	ReasonNotGranted = "NotGranted"
	// ReasonFieldConflict signals that somebody else has set a field of a resource to another value.
	ReasonFieldConflict = "FieldConflict"
	// ReasonRemovalWaiting signals that something that was requested is not removed yet. The message names what is awaited.
	ReasonRemovalWaiting = "RemovalWaiting"
)
