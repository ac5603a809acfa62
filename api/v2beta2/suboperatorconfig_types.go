package v2beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CredentialType says whose credentials playbooks use.
// +kubebuilder:validation:Enum=shared;personal
type CredentialType string

const (
	// CredentialShared uses the credential that the mapping or the endpoint names, for every user.
	CredentialShared CredentialType = "shared"
	// CredentialPersonal uses the credential of the user who created the custom resource, and never a shared one.
	// Runs against remote endpoints fail with that reason until this version supports it.
	CredentialPersonal CredentialType = "personal"
)

// InstallMethod says who turns an installation into running pods.
// +kubebuilder:validation:Enum=Auto;OLM;Direct
type InstallMethod string

const (
	// InstallAuto is OLM where the cluster has the Operator Lifecycle Manager and the manager may use it, else Direct. It is
	// decided once for each installation.
	InstallAuto InstallMethod = "Auto"
	// InstallOLM subscribes to the collection's package in the manager's catalog.
	InstallOLM InstallMethod = "OLM"
	// InstallDirect writes ServiceAccount, RBAC and Deployment itself.
	InstallDirect InstallMethod = "Direct"
)

// ApprovalMode says who approves an InstallPlan of the Operator Lifecycle Manager.
// +kubebuilder:validation:Enum=Automatic;Manual
type ApprovalMode string

const (
	// ApprovalAutomatic lets the Operator Lifecycle Manager install and upgrade by itself.
	ApprovalAutomatic ApprovalMode = "Automatic"
	// ApprovalManual makes each installation and upgrade wait until somebody approves its InstallPlan.
	ApprovalManual ApprovalMode = "Manual"
)

// EndpointMapping names a ZosEndpoint that a mapped namespace may use.
type EndpointMapping struct {
	// name of a ZosEndpoint in the namespace of the SubOperatorConfig.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// credentialName names the Secret to log on with, in the namespace of the SubOperatorConfig. Default: the
	// endpoint's own credentialName.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CredentialName string `json:"credentialName,omitempty"`
}

// NamespaceMapping installs the collection's operator for one namespace.
type NamespaceMapping struct {
	// namespace in which the collection's custom resources are managed.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// zosendpoints that may be used from there. Absent: every ZosEndpoint in the namespace of the SubOperatorConfig,
	// also later ones. An empty list: none.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	ZosEndpoints *[]EndpointMapping `json:"zosendpoints,omitempty"`
}

// SubOperatorConfigSpec says which namespaces may use a collection, against which endpoints, with which credentials.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.credentialType) || (has(self.credentialType) && self.credentialType == oldSelf.credentialType)",message="credentialType cannot be changed once it is set"
type SubOperatorConfigSpec struct {
	// operatorCollection names the OperatorCollection, in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="operatorCollection cannot be changed: create another SubOperatorConfig"
	OperatorCollection string `json:"operatorCollection"`

	// credentialType says whose credentials are used. Unset means shared. It cannot be changed once it is set.
	// +optional
	CredentialType CredentialType `json:"credentialType,omitempty"`

	// mapping lists the namespaces. An empty list installs the operator nowhere. A namespace other than the one of
	// this object must agree: its annotation zoscb.ibm.com/allow-mapping-from must name this object's namespace.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +kubebuilder:validation:MaxItems=500
	Mapping []NamespaceMapping `json:"mapping,omitempty"`

	// runtime overrides fields of the OperatorCollection's runtime.
	// +optional
	Runtime *RuntimeSpec `json:"runtime,omitempty"`

	// install says whether the Operator Lifecycle Manager runs the operator or the manager does. Absent means Auto. When it
	// changes, the old pods end before new ones start.
	// +optional
	Install InstallMethod `json:"install,omitempty"`

	// installPlanApproval says who approves what the Operator Lifecycle Manager is about to install. Absent means
	// Automatic. Without the Operator Lifecycle Manager it has no meaning.
	// +optional
	InstallPlanApproval ApprovalMode `json:"installPlanApproval,omitempty"`
}

// ObjectReference identifies an object that an installation made.
type ObjectReference struct {
	// apiVersion of the object, group/version.
	APIVersion string `json:"apiVersion"`
	// kind of the object.
	Kind string `json:"kind"`
	// namespace of the object, empty for a cluster-scoped one.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name of the object.
	Name string `json:"name"`
}

// InstallationStatus is the state of the operator in one mapped namespace.
type InstallationStatus struct {
	// namespace of the installation.
	Namespace string `json:"namespace"`
	// digest of the archive that it was told to run.
	Digest string `json:"digest"`
	// install is OLM or Direct, as it was decided for this installation.
	// +optional
	Install InstallMethod `json:"install,omitempty"`
	// ready says whether its workload is Available and up to date.
	Ready bool `json:"ready"`
	// removalTime is when the namespace was found to be mapped no longer, or to get its operator in another way. The
	// old operator is removed as soon as no playbook runs, and after a minute in any case.
	// +optional
	RemovalTime *metav1.Time `json:"removalTime,omitempty"`
	// message says what it waits for.
	// +optional
	Message string `json:"message,omitempty"`
}

// CollectionReference identifies a collection in all its versions.
type CollectionReference struct {
	// domain of the collection.
	Domain string `json:"domain"`
	// name of the collection.
	Name string `json:"name"`
}

// NamedObject carries the name of an object where clients look for it.
type NamedObject struct {
	// metadata holds the name.
	// +optional
	Metadata NamedObjectMeta `json:"metadata,omitempty"`
}

// NamedObjectMeta is the part of an object's metadata that clients read.
type NamedObjectMeta struct {
	// name of the object.
	// +optional
	Name string `json:"name,omitempty"`
}

// SubOperatorConfigStatus is what the manager knows about a SubOperatorConfig.
type SubOperatorConfigStatus struct {
	// observedGeneration is the generation that the conditions speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase follows the Ready condition.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// message is the message of the Ready condition.
	// +optional
	Message string `json:"message,omitempty"`

	// collection identifies what is installed, in any version. Uninstalling needs nothing else but the inventory.
	// +optional
	Collection *CollectionReference `json:"collection,omitempty"`

	// version of the collection that is installed.
	// +optional
	Version string `json:"version,omitempty"`

	// conditions: Ready, and while they are true Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// installations has one entry per mapped namespace.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	Installations []InstallationStatus `json:"installations,omitempty"`

	// inventory lists every object that was or is about to be written for this SubOperatorConfig.
	// +optional
	// +listType=atomic
	Inventory []ObjectReference `json:"inventory,omitempty"`

	// warnings about what is installed.
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty"`

	// clusterserviceversion names the ClusterServiceVersion, on clusters with the Operator Lifecycle Manager.
	// +optional
	ClusterServiceVersion *NamedObject `json:"clusterserviceversion,omitempty"`

	// customresourcedefinition names the CRDs of the collection.
	// +optional
	// +listType=atomic
	CustomResourceDefinition []NamedObject `json:"customresourcedefinition,omitempty"`

	// packages names the collection's packages in the catalog.
	// +optional
	// +listType=atomic
	Packages []string `json:"packages,omitempty"`
}

// SubOperatorConfig installs the operator of an OperatorCollection for namespaces.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="app.kubernetes.io/part-of=collection-operator"
// +kubebuilder:resource:shortName=soc,categories=zoscb
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type SubOperatorConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec SubOperatorConfigSpec `json:"spec"`
	// +optional
	Status SubOperatorConfigStatus `json:"status,omitempty"`
}

// SubOperatorConfigList is a list of SubOperatorConfigs.
//
// +kubebuilder:object:root=true
type SubOperatorConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SubOperatorConfig `json:"items"`
}
