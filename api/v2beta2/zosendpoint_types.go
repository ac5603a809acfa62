package v2beta2

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EndpointType specifies where playbooks run.
// +kubebuilder:validation:Enum=remote;local
type EndpointType string

const (
	// EndpointRemote runs playbooks on spec.host over SSH.
	EndpointRemote EndpointType = "remote"
	// EndpointLocal runs playbooks in the operator's own pod.
	EndpointLocal EndpointType = "local"
)

// DefaultSSHPort is the port of an endpoint that does not specify one.
const DefaultSSHPort int32 = 22

// ZosEndpointSpec describes one z/OS system.
// +kubebuilder:validation:XValidation:rule="self.endpointType == 'local' || (has(self.host) && size(self.host) > 0)",message="a remote endpoint needs a host"
type ZosEndpointSpec struct {
	// endpointType specifies where playbooks run: remote, on host over SSH, or local, in the operator's own pod.
	// +optional
	// +kubebuilder:default=remote
	EndpointType EndpointType `json:"endpointType,omitempty"`

	// host name or IP address of the SSH server.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[A-Za-z0-9]([A-Za-z0-9.:_-]*[A-Za-z0-9])?$')",message="must be a host name or an IP address"
	Host string `json:"host,omitempty"`

	// port of the SSH server. Defaults to 22.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// hostKeys are the server's public host keys, each as in a known_hosts file without the host name: `ssh-ed25519
	// AAAA...`. If empty, the first key that the server presents is pinned in status.hostKeys.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=8192
	HostKeys []string `json:"hostKeys,omitempty"`

	// credentialName names the Secret to log on with, in this namespace. A mapping may name another one.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CredentialName string `json:"credentialName,omitempty"`

	// variables for Ansible: `key: value` or `key=value` strings, or {name, value} objects whose value may be of any
	// type. Values are templates that Ansible evaluates, and may set connection options: users who may edit a
	// ZosEndpoint can run code in the operator's pod.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:XPreserveUnknownFields
	Variables []apiextensionsv1.JSON `json:"variables,omitempty"`
}

// EffectivePort returns the port of the SSH server, with the default applied.
func (s *ZosEndpointSpec) EffectivePort() int32 {
	if s.Port == 0 {
		return DefaultSSHPort
	}
	return s.Port
}

// SubOperatorConfigReference names a SubOperatorConfig that uses an endpoint.
type SubOperatorConfigReference struct {
	// name of the SubOperatorConfig.
	Name string `json:"name"`
}

// ZosEndpointStatus is the observed state of a ZosEndpoint.
type ZosEndpointStatus struct {
	// observedGeneration is the generation that the conditions describe.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase follows the Ready condition.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// message is the message of the Reachable condition, or of Ready while that is false.
	// +optional
	Message string `json:"message,omitempty"`

	// conditions: Ready (the endpoint is accepted), Reachable, and while they are true Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// hostKeys contains the host key that was pinned on first contact. Remove it to pin the new key after a planned
	// change.
	// +optional
	// +listType=atomic
	HostKeys []string `json:"hostKeys,omitempty"`

	// pinnedFor is the host:port that status.hostKeys belongs to.
	// +optional
	PinnedFor string `json:"pinnedFor,omitempty"`

	// suboperatorconfigs that use this endpoint.
	// +optional
	// +listType=map
	// +listMapKey=name
	SubOperatorConfigs []SubOperatorConfigReference `json:"suboperatorconfigs,omitempty"`
}

// ZosEndpoint represents one z/OS system that playbooks run against.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="app.kubernetes.io/part-of=collection-operator"
// +kubebuilder:resource:shortName=zep,categories=zoscb
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.spec.host`
// +kubebuilder:printcolumn:name="Reachable",type=string,JSONPath=`.status.conditions[?(@.type=="Reachable")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!(self.metadata.name in ['localhost', '127.0.0.1', 'all', 'ungrouped'])",message="localhost, 127.0.0.1, all and ungrouped have a meaning of their own in Ansible: choose another name"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 241",message="the name must be at most 241 characters long: keys of Secrets are made of it"
type ZosEndpoint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ZosEndpointSpec `json:"spec"`
	// +optional
	Status ZosEndpointStatus `json:"status,omitempty"`
}

// ZosEndpointList is a list of ZosEndpoints.
//
// +kubebuilder:object:root=true
type ZosEndpointList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ZosEndpoint `json:"items"`
}

// StatusConditions returns the conditions of the object's status, to be read and changed.
func (o *ZosEndpoint) StatusConditions() *[]metav1.Condition { return &o.Status.Conditions }
