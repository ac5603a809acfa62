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

// RunWindow is a recurring time in which runs may start.
type RunWindow struct {
	// schedule is when the window opens, in cron format with the five fields minute, hour, day of month, month and day of
	// week: `0 22 * * 1-5`.
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=256
	Schedule string `json:"schedule"`

	// duration is how long the window is open, from 1m to 168h. Runs that have started go on after its end.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="must be from 1m to 168h"
	Duration metav1.Duration `json:"duration"`

	// timeZone of the schedule, such as Europe/Berlin. Defaults to UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
}

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

	// maxConcurrentRuns is the maximum number of playbooks that run against host and port at the same time, counted over
	// all kinds and installations that use the endpoints of this namespace. The lowest value applies if several endpoints
	// have the same host and port. If it is not set, there is no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxConcurrentRuns *int32 `json:"maxConcurrentRuns,omitempty"`

	// runWindows are the times in which runs may start. If empty, runs may start at any time.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	RunWindows []RunWindow `json:"runWindows,omitempty"`

	// hold is the reason why no run starts. Runs that have started go on. Remove it to continue.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Hold string `json:"hold,omitempty"`

	// securityDomain is the name of the user registry that the system shares with others, such as a RACF database of a
	// sysplex: a credential that one of its systems has refused is not tried on the others. Defaults to the host.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SecurityDomain string `json:"securityDomain,omitempty"`

	// settle is the time between the end of an outage and the first run, at most 24h: an SSH server answers before other
	// subsystems do. Defaults to 0s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="must be from 0s to 24h"
	Settle *metav1.Duration `json:"settle,omitempty"`

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

// AbandonedResource is a custom resource that was removed without a run.
type AbandonedResource struct {
	// group is the API group of the custom resource. Entries of earlier versions have none.
	// +optional
	Group string `json:"group,omitempty"`
	// kind of the custom resource.
	Kind string `json:"kind"`
	// namespace of the custom resource.
	Namespace string `json:"namespace"`
	// name of the custom resource.
	Name string `json:"name"`
	// removedAt is when it was removed.
	RemovedAt metav1.Time `json:"removedAt"`
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

	// conditions: Ready (the endpoint is accepted), Reachable, CredentialAccepted (once a run has logged on), and while
	// they are true Reconciling and Stalled.
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

	// latency of a probe, rounded; 20ms means that or less. It is updated when it has changed considerably, at most once per hour.
	// +optional
	Latency string `json:"latency,omitempty"`

	// abandoned lists the latest custom resources that were removed without a run, at most 20. What they represent may be
	// left on the system.
	// +optional
	// +listType=atomic
	Abandoned []AbandonedResource `json:"abandoned,omitempty"`

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
// +kubebuilder:printcolumn:name="Credential",type=string,JSONPath=`.status.conditions[?(@.type=="CredentialAccepted")].status`
// +kubebuilder:printcolumn:name="Hold",type=string,JSONPath=`.spec.hold`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!(self.metadata.name in ['localhost', '127.0.0.1', 'all', 'ungrouped'])",message="localhost, 127.0.0.1, all and ungrouped have a meaning of their own in Ansible: choose another name"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 241",message="the name must be at most 241 characters long: keys of Secrets are made of it"
type ZosEndpoint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ZosEndpointSpec `json:"spec"`
	// +kubebuilder:default:={"conditions":{{"type":"Ready","status":"Unknown","reason":"Progressing","message":"the manager has not seen this object yet","lastTransitionTime":"1970-01-01T00:00:00Z"}}}
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
