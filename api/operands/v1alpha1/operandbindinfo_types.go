package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BoundData names a Route or Service, and what is copied of it.
type BoundData struct {
	// name of the object.
	Name string `json:"name"`
	// data has the path of a field of the object for each key of the copy.
	// +optional
	Data map[string]string `json:"data,omitempty"`
}

// BindInfoBinding names what is copied to requesters.
// +kubebuilder:pruning:PreserveUnknownFields
type BindInfoBinding struct {
	// secret is a Secret in the namespace of the OperandRegistry.
	// +optional
	Secret string `json:"secret,omitempty"`
	// configmap is a ConfigMap in the namespace of the OperandRegistry.
	// +optional
	ConfigMap string `json:"configmap,omitempty"`
	// route is a Route in the namespace of the OperandRegistry.
	// +optional
	Route *BoundData `json:"route,omitempty"`
	// service is a Service in the namespace of the OperandRegistry.
	// +optional
	Service *BoundData `json:"service,omitempty"`
}

// OperandBindInfoSpec specifies what the requesters of an operand get.
// +kubebuilder:pruning:PreserveUnknownFields
type OperandBindInfoSpec struct {
	// operand is the name of the operator in the OperandRegistry.
	// +kubebuilder:validation:MinLength=1
	Operand string `json:"operand"`
	// registry is the name of the OperandRegistry.
	// +kubebuilder:validation:MinLength=1
	Registry string `json:"registry"`
	// registryNamespace is the namespace of the OperandRegistry. Defaults to that of the OperandBindInfo.
	// +optional
	RegistryNamespace string `json:"registryNamespace,omitempty"`
	// description of the bindings.
	// +optional
	Description string `json:"description,omitempty"`
	// bindings by name. One that begins with public is copied to all requesters, with protected to those that name a copy, and with
	// private to those in the namespace of the OperandRegistry.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	Bindings map[string]BindInfoBinding `json:"bindings,omitempty"`
}

// Phases of an OperandBindInfo.
const (
	// BindInfoInitialized means that nobody requests the operand.
	BindInfoInitialized = "Initialized"
	// BindInfoCompleted means that all requesters have their copies.
	BindInfoCompleted = "Completed"
	// BindInfoFailed means that the OperandBindInfo cannot be used.
	BindInfoFailed = "Failed"
	// BindInfoWaiting means that a requester lacks a copy.
	BindInfoWaiting = "Waiting for Bindable resource from provider. One of: Secret, ConfigMap, Route, or Service"
)

// OperandBindInfoStatus is the observed state of an OperandBindInfo.
// +kubebuilder:pruning:PreserveUnknownFields
type OperandBindInfoStatus struct {
	// phase is Initialized, Completed, Failed, or says what is awaited.
	// +optional
	Phase string `json:"phase,omitempty"`
	// observedGeneration is the generation that the status describes. ODLM does not have this field.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// message says why the phase is Failed. ODLM does not have this field.
	// +optional
	Message string `json:"message,omitempty"`
	// requestNamespaces are the other namespaces that have copies.
	// +optional
	// +listType=set
	RequestNamespaces []string `json:"requestNamespaces,omitempty"`
}

// OperandBindInfo specifies what the requesters of an operand get of its Secrets and ConfigMaps.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="app.kubernetes.io/part-of=collection-operator"
// +kubebuilder:resource:path=operandbindinfos,shortName=opbi
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Created At",type=string,JSONPath=`.metadata.creationTimestamp`
type OperandBindInfo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec OperandBindInfoSpec `json:"spec"`
	// +optional
	Status OperandBindInfoStatus `json:"status,omitempty"`
}

// OperandBindInfoList is a list of OperandBindInfos.
//
// +kubebuilder:object:root=true
type OperandBindInfoList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OperandBindInfo `json:"items"`
}
