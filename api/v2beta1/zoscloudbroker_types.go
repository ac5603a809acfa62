package v2beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// PhaseSuccessful is the phase in which clients work: the manager runs.
	PhaseSuccessful = "Successful"
	// PhaseFailed means that the object does not count, or that the manager waits.
	PhaseFailed = "Failed"
)

// License is that of IBM z/OS Cloud Broker.
type License struct {
	// Accept has no effect: this operator needs no license.
	// +optional
	Accept bool `json:"accept,omitempty"`
}

// GalaxyConfig is a Galaxy server.
type GalaxyConfig struct {
	// Enabled false means that galaxyURL is not used.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// GalaxyURL is the Galaxy server for the dependencies of collections, as the setting galaxy-url.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	GalaxyURL string `json:"galaxyURL,omitempty"`
}

// ZosCloudBrokerSpec has settings of the manager. Fields that are not listed are kept, and have no effect.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ZosCloudBrokerSpec struct {
	// License has no effect.
	// +optional
	License *License `json:"license,omitempty"`
	// LogLevel is the least level that is logged, as the setting zap-log-level: debug, info or error, in any case. trace is
	// debug, and warn is info. Another value has no effect.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	LogLevel string `json:"logLevel,omitempty"`
	// MultiNamespace false limits the manager to its own namespace, and true lets it use all, as the setting namespaces.
	// +optional
	MultiNamespace *bool `json:"multiNamespace,omitempty"`
	// GalaxyConfig is the Galaxy server for the dependencies of collections.
	// +optional
	GalaxyConfig *GalaxyConfig `json:"galaxyConfig,omitempty"`
	// Storage has no effect: the workload of the manager has its volume.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Storage *runtime.RawExtension `json:"storage,omitempty"`
	// Resources have no effect: the workload of the manager has its requests and limits.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Resources *runtime.RawExtension `json:"resources,omitempty"`
}

// ZosCloudBrokerStatus says what became of the settings.
type ZosCloudBrokerStatus struct {
	// Phase is Successful while the manager runs, also with former settings: clients refuse to work otherwise. It is Failed for an object
	// that does not count, because an older one exists, and while the manager waits for correct settings.
	// +optional
	Phase string `json:"phase,omitempty"`
	// Message of the condition Ready.
	// +optional
	Message string `json:"message,omitempty"`
	// ObservedGeneration is the generation that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready is true if the settings are used; Stalled is true if they are wrong.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ZosCloudBroker has settings of the manager in whose namespace it is, for those who come from IBM z/OS Cloud Broker. It is optional.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="app.kubernetes.io/part-of=collection-operator"
// +kubebuilder:resource:categories=zoscb
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ZosCloudBroker struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ZosCloudBrokerSpec `json:"spec,omitempty"`
	// +kubebuilder:default:={"observedGeneration":-1}
	// +optional
	Status ZosCloudBrokerStatus `json:"status,omitempty"`
}

// ZosCloudBrokerList is a list of ZosCloudBrokers.
//
// +kubebuilder:object:root=true
type ZosCloudBrokerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ZosCloudBroker `json:"items"`
}
