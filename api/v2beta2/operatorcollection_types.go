package v2beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// APIGroupPolicy says in which API group the kinds of a collection are served.
// +kubebuilder:validation:Enum=Shared;PerCollection
type APIGroupPolicy string

const (
	// APIGroupShared serves the kinds in suboperator.zoscb.ibm.com, where existing clients expect them.
	APIGroupShared APIGroupPolicy = "Shared"
	// APIGroupPerCollection serves the kinds in <name>.<domain>.suboperator.zoscb.ibm.com, so that they cannot clash
	// with those of another collection.
	APIGroupPerCollection APIGroupPolicy = "PerCollection"
)

// DeletionPolicy says what becomes of custom resources when their OperatorCollection is deleted.
// +kubebuilder:validation:Enum=Block;Finalize;Orphan
type DeletionPolicy string

const (
	// DeletionBlock keeps everything running until no custom resource is left.
	DeletionBlock DeletionPolicy = "Block"
	// DeletionFinalize deletes the custom resources first, each through its finalizer playbook.
	DeletionFinalize DeletionPolicy = "Finalize"
	// DeletionOrphan removes the operator and keeps custom resources and CRDs.
	DeletionOrphan DeletionPolicy = "Orphan"
)

// Phase sums up an object in one word, for clients that know no conditions.
// +kubebuilder:validation:Enum=Pending;Successful;Failed
type Phase string

const (
	// PhasePending means that the work is not done yet.
	PhasePending Phase = "Pending"
	// PhaseSuccessful means that the work is done.
	PhaseSuccessful Phase = "Successful"
	// PhaseFailed means that something is wrong; the Ready condition says what.
	PhaseFailed Phase = "Failed"
)

// EgressPolicy says what an operator's pods may connect to.
// +kubebuilder:validation:Enum=Unrestricted;Restricted
type EgressPolicy string

const (
	// EgressUnrestricted limits nothing.
	EgressUnrestricted EgressPolicy = "Unrestricted"
	// EgressRestricted lets the pods connect to DNS, to the manager's archives, to those of their endpoints whose host is
	// an address, and to what is in allowTo.
	EgressRestricted EgressPolicy = "Restricted"
)

// EgressDestination is a network that an operator's pods may connect to.
type EgressDestination struct {
	// cidr is a network such as 192.0.2.0/24, or a single address such as 192.0.2.1/32.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self).masked() == cidr(self)",message="must be a network such as 192.0.2.0/24, with nothing but zeros after the prefix, or a single address such as 192.0.2.1/32"
	CIDR string `json:"cidr"`

	// ports are TCP ports. Without any, all ports of all protocols.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=65535
	Ports []int32 `json:"ports,omitempty"`
}

// NetworkPolicySpec limits what an operator's pods may connect to.
// +kubebuilder:validation:XValidation:rule="self.egress != 'Restricted' || (has(self.allowTo) && size(self.allowTo) > 0)",message="egress Restricted needs allowTo: without the addresses of the API server there, the pods could not reach it"
// +kubebuilder:validation:XValidation:rule="self.egress == 'Restricted' || !has(self.allowTo) || size(self.allowTo) == 0",message="allowTo limits nothing without egress Restricted: set that, or remove allowTo"
type NetworkPolicySpec struct {
	// egress says what the pods may connect to. Unrestricted, the default: to everything. Restricted: to DNS, to the
	// manager's archives, to those of their endpoints whose host is an address, and to allowTo.
	// +optional
	// +kubebuilder:default=Unrestricted
	Egress EgressPolicy `json:"egress,omitempty"`

	// allowTo lists further destinations. The addresses of the API server must be among them, since nothing tells them
	// to the manager; so must be those of endpoints with a host name and of servers for dependencies.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	AllowTo []EgressDestination `json:"allowTo,omitempty"`
}

// RuntimeSpec shapes the Deployment that runs a collection's playbooks.
type RuntimeSpec struct {
	// image replaces the manager's default runtime image.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// resources of the operator container.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// nodeSelector of the pod.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations of the pod.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// affinity of the pod. Its required node affinity is added to the one for the image's architectures.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// env adds environment variables to the operator container. Variables that the operator itself needs win.
	// +optional
	// +listType=map
	// +listMapKey=name
	Env []corev1.EnvVar `json:"env,omitempty"`

	// reconcilePeriod is how often every custom resource's playbook runs again without a change. 0s, the default,
	// means never.
	// +optional
	ReconcilePeriod *metav1.Duration `json:"reconcilePeriod,omitempty"`

	// maxConcurrentReconciles is how many playbooks of one kind may run at once. Default 2.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxConcurrentReconciles *int32 `json:"maxConcurrentReconciles,omitempty"`

	// networkPolicy limits what the pods may connect to. A change starts no new pods.
	// +optional
	NetworkPolicy *NetworkPolicySpec `json:"networkPolicy,omitempty"`
}

// DependenciesSpec says where the dependencies of a collection come from, as far as its author does not say it.
type DependenciesSpec struct {
	// galaxyURL is the address of the Galaxy server for Ansible collections. Default: the manager's setting, else what
	// the runtime image is configured for.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^https?://[^@]+$')",message="must start with https:// or http:// and hold no credentials"
	GalaxyURL string `json:"galaxyURL,omitempty"`

	// pipIndexURL is the address of the index of Python packages. Default: the manager's setting, else what the runtime
	// image is configured for.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^https?://[^@]+$')",message="must start with https:// or http:// and hold no credentials"
	PipIndexURL string `json:"pipIndexURL,omitempty"`

	// credentialsSecret names a Secret in this namespace, labelled zoscb.ibm.com/credential=true, with any of the keys galaxyToken (and galaxyAuthURL, where the
	// server wants the token exchanged), galaxyUsername and galaxyPassword, pipUsername and pipPassword, and ca.crt:
	// certificates that are trusted beside those of the runtime image. The runtime pods get these keys.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecret string `json:"credentialsSecret,omitempty"`
}

// OperatorCollectionSpec says which archive to import, how to verify it, and what deleting it means.
type OperatorCollectionSpec struct {
	// collectionURL is the http or https address of the collection archive (.tar.gz). Without it the archive must
	// have been uploaded to the manager's folder /opt/collections/suboperator/<name>/<version>.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^https?://')",message="must start with https:// or http://"
	CollectionURL string `json:"collectionURL,omitempty"`

	// collectionURLToken is a bearer token for collectionURL. It is readable by everyone who may read this object:
	// prefer credentialsSecret.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	CollectionURLToken string `json:"collectionURLToken,omitempty"`

	// credentialsSecret names a Secret in this namespace, labelled zoscb.ibm.com/credential=true, with the credentials for
	// collectionURL: `token`, or `username` and `password`; `tls.crt` and `tls.key`, a client certificate; `ca.crt`,
	// certificate authorities that are trusted beside those of the manager. Any of these, but not both of the first two.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecret string `json:"credentialsSecret,omitempty"`

	// digest pins the archive's content: sha256:<64 hexadecimal digits>. Any other content is refused.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^sha256:[a-f0-9]{64}$')",message="must be sha256: followed by 64 lower-case hexadecimal digits"
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest,omitempty"`

	// signatureSecret names a Secret in this namespace with a public key and a detached signature: either over the archive
	// (RSA, ECDSA or Ed25519; key in PEM), or a GPG signature over its MANIFEST.json, as Ansible Galaxy makes it. Its keys
	// are recognised by their content. An archive whose signature is not right is refused.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SignatureSecret string `json:"signatureSecret,omitempty"`

	// skipSignatureVerification installs an archive whose origin nothing proves. signatureSecret is not looked at then.
	// +optional
	SkipSignatureVerification bool `json:"skipSignatureVerification,omitempty"`

	// interval is how often to look whether collectionURL, or the upload folder, has another archive, which then is
	// verified and installed as an upgrade. At least one minute. Without it, nothing is fetched again until the spec
	// changes.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="must be at least 1m"
	Interval *metav1.Duration `json:"interval,omitempty"`

	// suspend stops all work on this collection. What is installed keeps running.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// apiGroup says in which API group the collection's kinds are served. It cannot be changed.
	// +optional
	// +kubebuilder:default=Shared
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="apiGroup cannot be changed: delete the OperatorCollection and create it again"
	APIGroup APIGroupPolicy `json:"apiGroup,omitempty"`

	// deletionPolicy says what becomes of the collection's custom resources when this object is deleted: Block waits
	// until none is left, Finalize deletes them through their finalizer playbooks, Orphan keeps them. It speaks of the
	// namespaces in which this OperatorCollection is installed; custom resources elsewhere are never touched.
	// +optional
	// +kubebuilder:default=Block
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// dependencies says where the Ansible collections and Python packages come from that the collection needs.
	// +optional
	Dependencies *DependenciesSpec `json:"dependencies,omitempty"`

	// runtime shapes the Deployments that run the collection's playbooks.
	// +optional
	Runtime *RuntimeSpec `json:"runtime,omitempty"`
}

// Artifact is a verified archive in the manager's store.
type Artifact struct {
	// digest of the archive, sha256:<hex>.
	Digest string `json:"digest"`
	// size of the archive in bytes.
	Size int64 `json:"size"`
	// verification says what the archive was accepted for: Signature (over the archive), GalaxySignature (over its
	// MANIFEST.json), Digest (it matches spec.digest) or Skipped.
	Verification string `json:"verification"`
	// verifiedBy is the fingerprint of the public key whose signature was right: sha256:<hex> of its DER encoding, or that
	// of a GPG key in upper-case hexadecimal digits.
	// +optional
	VerifiedBy string `json:"verifiedBy,omitempty"`
	// verifiedAt is when the archive was first verified this way. It is absent if verification was skipped.
	// +optional
	VerifiedAt *metav1.Time `json:"verifiedAt,omitempty"`
	// sourceHash identifies the parts of the spec that the archive was fetched for: its address, and how it is verified.
	SourceHash string `json:"sourceHash"`
	// etag is what the server said to tell this archive from others, for a later look.
	// +optional
	ETag string `json:"etag,omitempty"`
	// lastModified is when the archive was last changed, as the server said, for a later look.
	// +optional
	LastModified string `json:"lastModified,omitempty"`
}

// ImportedCollection says what an imported archive holds.
type ImportedCollection struct {
	// domain of the collection, from operator-config.
	Domain string `json:"domain"`
	// name of the collection, from operator-config.
	Name string `json:"name"`
	// version of the collection, from operator-config.
	Version string `json:"version"`
	// apiVersion in which the kinds are served, group/version.
	APIVersion string `json:"apiVersion"`
	// kinds that the collection defines.
	// +listType=set
	Kinds []string `json:"kinds"`
}

// CollectionConfigStatus tells clients where an uploaded archive lies.
type CollectionConfigStatus struct {
	// collectionPath is the archive's path in the manager's pod.
	// +optional
	CollectionPath string `json:"collectionPath,omitempty"`
}

// MappingStatus is the state of one SubOperatorConfig that names the collection.
type MappingStatus struct {
	// name of the SubOperatorConfig.
	Name string `json:"name"`
	// phase of the SubOperatorConfig.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// message says what is wrong with it.
	// +optional
	Message string `json:"message,omitempty"`
}

// OperatorCollectionStatus is what the manager knows about an OperatorCollection.
type OperatorCollectionStatus struct {
	// observedGeneration is the generation that the conditions speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase follows the Imported condition.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// message is the message of the Ready condition.
	// +optional
	Message string `json:"message,omitempty"`

	// conditions: Ready, Imported, Installed, Conformant, and while they are true Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// artifact is the archive that is installed.
	// +optional
	Artifact *Artifact `json:"artifact,omitempty"`

	// collection says what the installed archive holds.
	// +optional
	Collection *ImportedCollection `json:"collection,omitempty"`

	// config tells clients where an uploaded archive lies.
	// +optional
	Config *CollectionConfigStatus `json:"config,omitempty"`

	// warnings about the spec, and the rules that the archive breaks without being refused.
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty"`

	// subOperatorConfigMappingStatus has one entry per SubOperatorConfig that names this collection.
	// +optional
	// +listType=map
	// +listMapKey=name
	SubOperatorConfigMappingStatus []MappingStatus `json:"subOperatorConfigMappingStatus,omitempty"`
}

// OperatorCollection imports an Ansible Collection archive as a Kubernetes operator.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="app.kubernetes.io/part-of=collection-operator"
// +kubebuilder:resource:shortName=opcol,categories=zoscb
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.collection.version`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type OperatorCollection struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec OperatorCollectionSpec `json:"spec,omitempty"`
	// +optional
	Status OperatorCollectionStatus `json:"status,omitempty"`
}

// OperatorCollectionList is a list of OperatorCollections.
//
// +kubebuilder:object:root=true
type OperatorCollectionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OperatorCollection `json:"items"`
}
