package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Binding names what a requester gets of an operand's binding.
// +kubebuilder:pruning:PreserveUnknownFields
type Binding struct {
	// secret is the name of the copy of the binding's Secret.
	// +optional
	Secret string `json:"secret,omitempty"`
	// configmap is the name of the copy of the binding's ConfigMap.
	// +optional
	ConfigMap string `json:"configmap,omitempty"`
}

// Operand is what is requested of one operator.
// +kubebuilder:pruning:PreserveUnknownFields
type Operand struct {
	// name of the operator in the OperandRegistry.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// bindings renames the copies of the operand's Secrets and ConfigMaps, by the name of the binding in the OperandBindInfo.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	Bindings map[string]Binding `json:"bindings,omitempty"`

	// kind of a resource that is created in the namespace of the OperandRequest. Then the OperandConfig has no effect. If it is not
	// set, the OperandConfig says what is created.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`

	// apiVersion of the resource. It is required with kind.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion,omitempty"`

	// instanceName is the name of the resource. If it is not set, it is made of that of the OperandRequest and a hash.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	InstanceName string `json:"instanceName,omitempty"`

	// spec of the resource.
	// +optional
	// +nullable
	Spec *apiextensionsv1.JSON `json:"spec,omitempty"`
}

// Request asks for operands of one OperandRegistry.
// +kubebuilder:pruning:PreserveUnknownFields
type Request struct {
	// registry is the name of the OperandRegistry.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Registry string `json:"registry"`

	// registryNamespace is the namespace of the OperandRegistry. Defaults to that of the OperandRequest.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	RegistryNamespace string `json:"registryNamespace,omitempty"`

	// operands that are requested.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	Operands []Operand `json:"operands"`

	// description of the request.
	// +optional
	Description string `json:"description,omitempty"`
}

// OperandRequestSpec asks for operands.
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:validation:XValidation:rule="self.requests.map(r, size(r.operands)).sum() <= 200",message="there can be at most 200 operands"
type OperandRequestSpec struct {
	// requests has the operands of each OperandRegistry.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Requests []Request `json:"requests"`
}

// OperatorPhase is the state of an operator.
type OperatorPhase string

// Phases of operators.
const (
	OperatorInstalling OperatorPhase = "Installing"
	OperatorUpdating   OperatorPhase = "Updating"
	OperatorRunning    OperatorPhase = "Running"
	OperatorFailed     OperatorPhase = "Failed"
	OperatorNotFound   OperatorPhase = "Not Found"
)

// OperandPhase is the state of the resources of an operand.
type OperandPhase string

// Phases of operands. Creating is one that ODLM does not have.
const (
	OperandCreating OperandPhase = "Creating"
	OperandRunning  OperandPhase = "Running"
	OperandFailed   OperandPhase = "Failed"
	OperandNotFound OperandPhase = "Not Found"
)

// MemberPhase is the state of a member.
type MemberPhase struct {
	// operatorPhase is Installing, Updating, Running, Failed or Not Found.
	// +optional
	OperatorPhase OperatorPhase `json:"operatorPhase,omitempty"`
	// operandPhase is Creating, Running, Failed or Not Found. It is empty if there is nothing to create.
	// +optional
	OperandPhase OperandPhase `json:"operandPhase,omitempty"`
}

// OperandCR names a resource that an OperandRequest itself specifies.
type OperandCR struct {
	// name of the resource.
	Name string `json:"name"`
	// kind of the resource.
	Kind string `json:"kind"`
	// apiVersion of the resource.
	APIVersion string `json:"apiVersion"`
}

// Member is the state of one operand.
type Member struct {
	// name of the operand.
	Name string `json:"name"`
	// registry of the operand, as namespace/name. ODLM does not have this field.
	// +optional
	Registry string `json:"registry,omitempty"`
	// phase of the operator and of its resources.
	// +optional
	Phase MemberPhase `json:"phase,omitempty"`
	// message says what the operand waits for, or why it has failed. ODLM does not have this field.
	// +optional
	Message string `json:"message,omitempty"`
	// operandCRList has the resources that the OperandRequest itself specifies.
	// +optional
	// +listType=atomic
	OperandCRList []OperandCR `json:"operandCRList,omitempty"`
}

// Phases of an OperandRequest.
const (
	RequestPending    = "Pending"
	RequestInstalling = "Installing"
	RequestUpdating   = "Updating"
	RequestCreating   = "Creating"
	RequestRunning    = "Running"
	RequestFailed     = "Failed"
)

// InventoryOrigin says what an object of the inventory was created for.
// +kubebuilder:validation:Enum=Operator;Config;Request;Binding
type InventoryOrigin string

const (
	// OriginOperator is the origin of what installs an operator.
	OriginOperator InventoryOrigin = "Operator"
	// OriginConfig is the origin of what an OperandConfig specifies. OperandRequests share it.
	OriginConfig InventoryOrigin = "Config"
	// OriginRequest is the origin of what the OperandRequest itself specifies.
	OriginRequest InventoryOrigin = "Request"
	// OriginBinding is the origin of copies that an OperandBindInfo gives to requesters. OperandRequests of a namespace share them.
	OriginBinding InventoryOrigin = "Binding"
)

// InventoryEntry is an object that was created for an OperandRequest, or is about to be.
type InventoryEntry struct {
	// registry of the operand, as namespace/name.
	Registry string `json:"registry"`
	// operand is the name of the operand.
	Operand string `json:"operand"`
	// origin says what specifies the object: Operator, Config, Request or Binding.
	Origin InventoryOrigin `json:"origin"`
	// apiVersion of the object.
	APIVersion string `json:"apiVersion"`
	// kind of the object.
	Kind string `json:"kind"`
	// namespace of the object.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name of the object.
	Name string `json:"name"`
	// uid of the object. It is empty until it is known that the object was created for an OperandRequest.
	// +optional
	UID string `json:"uid,omitempty"`
	// mapping is the namespace that was added to the mapping of a SubOperatorConfig. Nothing else of the SubOperatorConfig belongs to
	// the OperandRequest.
	// +optional
	Mapping string `json:"mapping,omitempty"`
	// collection is the OperatorCollection of the SubOperatorConfig.
	// +optional
	Collection string `json:"collection,omitempty"`
	// package is that of a Subscription, of a ClusterServiceVersion that came of it, or of a resource of its operator. It is
	// namespace/name, with the namespace of the Subscription.
	// +optional
	Package string `json:"package,omitempty"`
}

// OperandRequestStatus is the observed state of an OperandRequest.
// +kubebuilder:pruning:PreserveUnknownFields
type OperandRequestStatus struct {
	// phase is Pending, Installing, Updating, Creating, Running or Failed.
	// +optional
	Phase string `json:"phase,omitempty"`
	// observedGeneration is the generation that the status describes. ODLM does not have this field.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, and while they are true Reconciling and Stalled.
	// +optional
	// +listType=atomic
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// members has the state of each operand.
	// +optional
	// +listType=atomic
	Members []Member `json:"members,omitempty"`
	// inventory lists every object that was created, or is about to be, for this OperandRequest. Nothing else is ever removed with
	// it. ODLM does not have this field.
	// +optional
	// +listType=atomic
	Inventory []InventoryEntry `json:"inventory,omitempty"`
}

// OperandRequest asks for operators and their resources. Deleting it gives back what nobody else asks for.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="app.kubernetes.io/part-of=collection-operator"
// +kubebuilder:resource:shortName=opreq
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Created At",type=string,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Ready",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type OperandRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec OperandRequestSpec `json:"spec"`
	// +optional
	Status OperandRequestStatus `json:"status,omitempty"`
}

// OperandRequestList is a list of OperandRequests.
//
// +kubebuilder:object:root=true
type OperandRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OperandRequest `json:"items"`
}

// StatusConditions returns the conditions of the object's status, to be read and changed.
func (o *OperandRequest) StatusConditions() *[]metav1.Condition { return &o.Status.Conditions }
