package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConfigResource is an object that is created with an operand.
// +kubebuilder:pruning:PreserveUnknownFields
type ConfigResource struct {
	// apiVersion of the object.
	// +kubebuilder:validation:MinLength=1
	APIVersion string `json:"apiVersion"`
	// kind of the object.
	// +kubebuilder:validation:MinLength=1
	Kind string `json:"kind"`
	// name of the object.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// namespace of the object. Defaults to that of the OperandConfig.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// labels of the object.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// annotations of the object.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// force specifies that an object that was created is changed when data changes. If it is false, it is only created. Defaults to
	// true.
	// +optional
	// +kubebuilder:default=true
	Force *bool `json:"force,omitempty"`
	// data has the object's fields other than apiVersion, kind and metadata, such as spec or data.
	// +optional
	// +nullable
	Data *apiextensionsv1.JSON `json:"data,omitempty"`
}

// ConfigService configures the resources of one operator.
// +kubebuilder:pruning:PreserveUnknownFields
type ConfigService struct {
	// name is that of the operator in the OperandRegistry, or its configName.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// spec has a resource for each kind that it names: its value is merged over the spec of the operator's example of that kind. Upper
	// and lower case of kinds do not matter.
	// +optional
	Spec map[string]apiextensionsv1.JSON `json:"spec,omitempty"`
	// resources are further objects that are created with the operand.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Resources []ConfigResource `json:"resources,omitempty"`
}

// OperandConfigSpec configures what is created for operators.
// +kubebuilder:pruning:PreserveUnknownFields
type OperandConfigSpec struct {
	// services has the configuration of each operator.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Services []ConfigService `json:"services,omitempty"`
}

// Phases of an OperandConfig, of its services, and of what they created.
const (
	// ConfigInitialized means that nothing of it is requested.
	ConfigInitialized = "Initialized"
	// ConfigCreating means that something that is requested does not exist yet.
	ConfigCreating = "Creating"
	// ConfigRunning means that all that is requested exists.
	ConfigRunning = "Running"
	// ConfigFailed means that something that is requested could not be created.
	ConfigFailed = "Failed"
)

// ServiceStatus is the state of what a service has created.
type ServiceStatus struct {
	// customResourceStatus has the phase of each resource: by its kind, and of others by apiVersion@kind@namespace@name.
	// +optional
	CustomResourceStatus map[string]string `json:"customResourceStatus,omitempty"`
}

// OperandConfigStatus is the observed state of an OperandConfig.
// +kubebuilder:pruning:PreserveUnknownFields
type OperandConfigStatus struct {
	// phase is Initialized, Creating, Running or Failed.
	// +optional
	Phase string `json:"phase,omitempty"`
	// observedGeneration is the generation that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// serviceStatus has the state of each service that is requested.
	// +optional
	ServiceStatus map[string]ServiceStatus `json:"serviceStatus,omitempty"`
}

// OperandConfig configures what is created for the operators of the OperandRegistry of the same name and namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="app.kubernetes.io/part-of=collection-operator"
// +kubebuilder:resource:shortName=opcon
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Created At",type=string,JSONPath=`.metadata.creationTimestamp`
type OperandConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec OperandConfigSpec `json:"spec,omitempty"`
	// +optional
	Status OperandConfigStatus `json:"status,omitempty"`
}

// OperandConfigList is a list of OperandConfigs.
//
// +kubebuilder:object:root=true
type OperandConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OperandConfig `json:"items"`
}

// Find returns the first service with a name, or nil.
func (c *OperandConfig) Find(name string) *ConfigService {
	for i := range c.Spec.Services {
		if c.Spec.Services[i].Name == name {
			return &c.Spec.Services[i]
		}
	}
	return nil
}
