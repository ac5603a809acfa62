package v2beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// CredentialType specifies whose credentials playbooks use.
// +kubebuilder:validation:Enum=shared;personal
type CredentialType string

const (
	// CredentialShared uses the credential that the mapping or the endpoint names, for every user.
	CredentialShared CredentialType = "shared"
	// CredentialPersonal uses the credential that the annotation zoscb.ibm.com/credential of the custom resource names, and never a
	// shared one. Only users who may read that Secret can set it.
	CredentialPersonal CredentialType = "personal"
)

// InstallMethod specifies what installs the operator.
// +kubebuilder:validation:Enum=Auto;OLM;Direct
type InstallMethod string

const (
	// InstallAuto selects OLM if the cluster has the Operator Lifecycle Manager and the manager may use it, else
	// Direct. The choice is made once for each installation.
	InstallAuto InstallMethod = "Auto"
	// InstallOLM subscribes to the collection's package in the manager's catalog.
	InstallOLM InstallMethod = "OLM"
	// InstallDirect lets the manager write ServiceAccount, RBAC and Deployment.
	InstallDirect InstallMethod = "Direct"
)

// ApprovalMode specifies how an InstallPlan of the Operator Lifecycle Manager is approved.
// +kubebuilder:validation:Enum=Automatic;Manual
type ApprovalMode string

const (
	// ApprovalAutomatic lets the Operator Lifecycle Manager install and upgrade without approval by a user.
	ApprovalAutomatic ApprovalMode = "Automatic"
	// ApprovalManual makes each installation and upgrade wait until a user approves its InstallPlan.
	ApprovalManual ApprovalMode = "Manual"
)

// EndpointMapping names a ZosEndpoint that a mapped namespace may use.
type EndpointMapping struct {
	// name of a ZosEndpoint in the namespace of the SubOperatorConfig.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// credentialName names the Secret to log on with, in the namespace of the SubOperatorConfig. Defaults to the
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

	// zosendpoints that the operator may use. If absent, it may use every ZosEndpoint in the namespace of the
	// SubOperatorConfig, including those created later. If empty, it may use none.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	ZosEndpoints *[]EndpointMapping `json:"zosendpoints,omitempty"`
}

// SubOperatorConfigSpec specifies in which namespaces a collection is installed, and which endpoints and credentials it
// uses.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.credentialType) || (has(self.credentialType) && self.credentialType == oldSelf.credentialType)",message="credentialType cannot be changed once it is set"
type SubOperatorConfigSpec struct {
	// operatorCollection names the OperatorCollection, in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="operatorCollection cannot be changed: create another SubOperatorConfig"
	OperatorCollection string `json:"operatorCollection"`

	// credentialType specifies whose credentials are used. Defaults to shared. It cannot be changed once it is set.
	// +optional
	CredentialType CredentialType `json:"credentialType,omitempty"`

	// mapping lists the namespaces in which the operator is installed. If it is empty, the operator is not installed. A
	// namespace other than the one of this object must consent: its annotation zoscb.ibm.com/allow-mapping-from must
	// name this object's namespace.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +kubebuilder:validation:MaxItems=500
	Mapping []NamespaceMapping `json:"mapping,omitempty"`

	// runtime overrides fields of the OperatorCollection's runtime.
	// +optional
	Runtime *RuntimeSpec `json:"runtime,omitempty"`

	// install specifies whether the Operator Lifecycle Manager or the manager installs the operator. Defaults to Auto.
	// When it changes, the old pods terminate before new ones start.
	// +optional
	Install InstallMethod `json:"install,omitempty"`

	// installPlanApproval specifies how InstallPlans of the Operator Lifecycle Manager are approved. Defaults to
	// Automatic. It has no effect without the Operator Lifecycle Manager.
	// +optional
	InstallPlanApproval ApprovalMode `json:"installPlanApproval,omitempty"`
}

// ObjectReference identifies an object of an installation.
type ObjectReference struct {
	// apiVersion of the object, as group/version.
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
	// digest of the archive that the operator is configured to run.
	Digest string `json:"digest"`
	// install is the method that was chosen for this installation: OLM or Direct.
	// +optional
	Install InstallMethod `json:"install,omitempty"`
	// runTimeout limits the time of one run if no runtime.runTimeout is set: 24h. It is absent, and runs have no limit, if the
	// installation is from before there was a default, or OLM's.
	// +optional
	RunTimeout *metav1.Duration `json:"runTimeout,omitempty"`
	// ready is true if the operator's Deployment is Available and up to date.
	Ready bool `json:"ready"`
	// readySince is the time since which it has been ready with this digest. It is absent if it is not ready.
	// +optional
	ReadySince *metav1.Time `json:"readySince,omitempty"`
	// removalTime is the time at which the removal of the operator began: the namespace is not mapped any more, or the
	// install method changed. The operator is removed when no playbook runs, and after one minute at the latest.
	// +optional
	RemovalTime *metav1.Time `json:"removalTime,omitempty"`
	// reason is the reason, as in the condition Ready, for which the installation is not ready or keeps its version.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is why the installation is not ready or keeps its version.
	// +optional
	Message string `json:"message,omitempty"`

	// abandoned lists the latest custom resources of the collection that were removed without a run, at most 20. What they
	// represent may be left on z/OS.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Abandoned []AbandonedInstance `json:"abandoned,omitempty"`
}

// AbandonedInstance is a custom resource of an installation that was removed without a run.
type AbandonedInstance struct {
	// kind of the custom resource.
	Kind string `json:"kind"`
	// name of the custom resource.
	Name string `json:"name"`
	// zosendpoint is the ZosEndpoint that the custom resource named.
	ZosEndpoint string `json:"zosendpoint"`
	// removedAt is when it was removed.
	RemovedAt metav1.Time `json:"removedAt"`
}

// CollectionReference identifies a collection independent of its version.
type CollectionReference struct {
	// domain of the collection.
	Domain string `json:"domain"`
	// name of the collection.
	Name string `json:"name"`
}

// NamedObject has the name of an object in metadata.name, as clients expect.
type NamedObject struct {
	// metadata contains the name.
	// +optional
	Metadata NamedObjectMeta `json:"metadata,omitempty"`
}

// NamedObjectMeta is the part of an object's metadata that clients read.
type NamedObjectMeta struct {
	// name of the object.
	// +optional
	Name string `json:"name,omitempty"`
}

// SubOperatorConfigStatus is the observed state of a SubOperatorConfig.
type SubOperatorConfigStatus struct {
	// observedGeneration is the generation that the conditions describe.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase follows the Ready condition.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// message is the message of the Ready condition.
	// +optional
	Message string `json:"message,omitempty"`

	// operatorCollectionUID is the UID of the OperatorCollection that was last found imported under the name in spec. The
	// SubOperatorConfig is deleted when that does not exist any more.
	// +optional
	OperatorCollectionUID types.UID `json:"operatorCollectionUID,omitempty"`

	// collection identifies the installed collection, independent of its version.
	// +optional
	Collection *CollectionReference `json:"collection,omitempty"`

	// version of the collection that is installed.
	// +optional
	Version string `json:"version,omitempty"`

	// digest of the archive that is installed in every mapped namespace: that of version.
	// +optional
	Digest string `json:"digest,omitempty"`

	// conditions: Ready, Migrated if the version has a migration playbook, and while they are true UpgradeBlocked, Reconciling and
	// Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// installations has one entry per mapped namespace.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	Installations []InstallationStatus `json:"installations,omitempty"`

	// inventory lists every object that was written, or is about to be written, for this SubOperatorConfig.
	// +optional
	// +listType=atomic
	Inventory []ObjectReference `json:"inventory,omitempty"`

	// warnings about the installations.
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty"`

	// clusterserviceversion names the ClusterServiceVersion if the Operator Lifecycle Manager installed the operator.
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

// SubOperatorConfig installs the operator of an OperatorCollection in namespaces.
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
	// +kubebuilder:default:={"observedGeneration":-1}
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

// StatusConditions returns the conditions of the object's status, to be read and changed.
func (o *SubOperatorConfig) StatusConditions() *[]metav1.Condition { return &o.Status.Conditions }
