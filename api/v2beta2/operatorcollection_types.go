package v2beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// APIGroupPolicy specifies the API group in which the kinds of a collection are served.
// +kubebuilder:validation:Enum=Shared;PerCollection
type APIGroupPolicy string

const (
	// APIGroupShared serves the kinds in suboperator.zoscb.ibm.com, as existing clients expect.
	APIGroupShared APIGroupPolicy = "Shared"
	// APIGroupPerCollection serves the kinds in <name>.<domain>.suboperator.zoscb.ibm.com, so that they cannot conflict
	// with the kinds of another collection.
	APIGroupPerCollection APIGroupPolicy = "PerCollection"
)

// DeletionPolicy specifies what happens to custom resources when their OperatorCollection is deleted.
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

// Phase summarizes the state of an object in one word, for clients that do not read conditions.
// +kubebuilder:validation:Enum=Pending;Successful;Failed
type Phase string

const (
	// PhasePending means that the work is not complete yet.
	PhasePending Phase = "Pending"
	// PhaseSuccessful means that the work is complete.
	PhaseSuccessful Phase = "Successful"
	// PhaseFailed means that the work failed. The Ready condition has the reason.
	PhaseFailed Phase = "Failed"
)

// UpgradePolicy specifies what happens to an upgrade that custom resources do not fit.
// +kubebuilder:validation:Enum=Safe;AllowBreaking
type UpgradePolicy string

const (
	// UpgradeSafe blocks another version as long as it does not fit custom resources that exist: the installed version keeps
	// running.
	UpgradeSafe UpgradePolicy = "Safe"
	// UpgradeAllowBreaking installs another version also if it does not fit custom resources that exist.
	UpgradeAllowBreaking UpgradePolicy = "AllowBreaking"
)

// UpgradeStrategy specifies how another version is brought to the namespaces in which the collection is installed.
type UpgradeStrategy struct {
	// maxUnavailable is the number of namespaces in which the operator is replaced at the same time. Defaults to 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=500
	MaxUnavailable *int32 `json:"maxUnavailable,omitempty"`

	// pause lets no further namespace begin.
	// +optional
	Pause bool `json:"pause,omitempty"`

	// healthyFor is the time for which the operator of a namespace must be ready, and no custom resource begin to fail, before the
	// next namespace begins. Defaults to 0s, which does not wait.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('168h')",message="must be between 0s and 168h"
	HealthyFor *metav1.Duration `json:"healthyFor,omitempty"`
}

// UpgradeSpec specifies how another version takes the place of the installed one.
type UpgradeSpec struct {
	// policy Safe, the default, blocks another version as long as custom resources that exist do not fit it. AllowBreaking
	// installs it nevertheless.
	// +optional
	// +kubebuilder:default=Safe
	Policy UpgradePolicy `json:"policy,omitempty"`

	// strategy specifies how another version is brought to the namespaces in which the collection is installed: by default one
	// after another.
	// +optional
	Strategy *UpgradeStrategy `json:"strategy,omitempty"`
}

// EgressPolicy specifies which destinations an operator's pods may connect to.
// +kubebuilder:validation:Enum=Unrestricted;Restricted
type EgressPolicy string

const (
	// EgressUnrestricted allows all connections.
	EgressUnrestricted EgressPolicy = "Unrestricted"
	// EgressRestricted allows connections to DNS, to the manager's archive server, to endpoints whose host is an IP
	// address, and to the destinations in allowTo.
	EgressRestricted EgressPolicy = "Restricted"
)

// EgressDestination is a network that an operator's pods may connect to.
type EgressDestination struct {
	// The rule has "in" instead of "==", for which Kubernetes before 1.32 estimates an unlimited cost, and refuses the CRD.

	// cidr is a network such as 192.0.2.0/24, or a single address such as 192.0.2.1/32.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self).masked() in [cidr(self)]",message="must be a network such as 192.0.2.0/24, with nothing but zeros after the prefix, or a single address such as 192.0.2.1/32"
	CIDR string `json:"cidr"`

	// ports are TCP ports. If empty, all ports of all protocols are allowed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=65535
	Ports []int32 `json:"ports,omitempty"`
}

// NetworkPolicySpec limits the connections of an operator's pods.
// +kubebuilder:validation:XValidation:rule="self.egress != 'Restricted' || (has(self.allowTo) && size(self.allowTo) > 0)",message="egress Restricted needs allowTo: without the addresses of the API server there, the pods could not reach it"
// +kubebuilder:validation:XValidation:rule="self.egress == 'Restricted' || !has(self.allowTo) || size(self.allowTo) == 0",message="allowTo limits nothing without egress Restricted: set that, or remove allowTo"
type NetworkPolicySpec struct {
	// egress specifies which destinations the pods may connect to. Unrestricted, the default, allows all connections.
	// Restricted allows connections to DNS, to the manager's archive server, to endpoints whose host is an IP address,
	// and to the destinations in allowTo.
	// +optional
	// +kubebuilder:default=Unrestricted
	Egress EgressPolicy `json:"egress,omitempty"`

	// allowTo lists further destinations. It must include the addresses of the API server, which the manager cannot
	// determine, and the addresses of endpoints that are specified by host name and of the servers that dependencies
	// are downloaded from.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	AllowTo []EgressDestination `json:"allowTo,omitempty"`
}

// RerunTrigger is a kind of change that starts playbooks.
// +kubebuilder:validation:Enum=Spec;Secret;Collection;Endpoint
type RerunTrigger string

// The kinds of changes.
const (
	// RerunOnSpec: the custom resource's own variables, or a custom resource that a variable refers to.
	RerunOnSpec RerunTrigger = "Spec"
	// RerunOnSecret: the content of a Secret that a variable of type password names.
	RerunOnSecret RerunTrigger = "Secret"
	// RerunOnCollection: the collection's archive.
	RerunOnCollection RerunTrigger = "Collection"
	// RerunOnEndpoint: the variables of the endpoint.
	RerunOnEndpoint RerunTrigger = "Endpoint"
)

// KindReconcilePeriod is the interval between runs of one kind.
type KindReconcilePeriod struct {
	// kind is a kind of the collection. Other kinds are ignored.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// period is the interval, at least 5m, or 0s to disable periodic runs.
	// +kubebuilder:validation:XValidation:rule="duration(self) == duration('0s') || duration(self) >= duration('5m')",message="must be at least 5m, or 0s to disable periodic runs"
	Period metav1.Duration `json:"period"`
}

// RuntimeSpec configures the Deployment that runs a collection's playbooks, and when it runs them.
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

	// env adds environment variables to the operator container. Variables that the operator itself requires take
	// precedence. Secrets and ConfigMaps in valueFrom need the label zoscb.ibm.com/runtime, also if they are optional, and are
	// possible only in the namespace of the SubOperatorConfig.
	// +optional
	// +listType=map
	// +listMapKey=name
	Env []corev1.EnvVar `json:"env,omitempty"`

	// envFrom adds the keys of ConfigMaps and Secrets of the pod's namespace as environment variables. They need the label
	// zoscb.ibm.com/runtime. Variables of env take precedence, as do PATH, HOME, LD_*, SSH_*, PYTHON*, ANSIBLE_*, RUNNER_*, KUBE*,
	// ZOSCB_* and those that the operator itself requires. With the Operator Lifecycle Manager, the container that installs dependencies
	// does not get them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	EnvFrom []RuntimeEnvSource `json:"envFrom,omitempty"`

	// imagePullSecrets are Secrets of the pod's namespace with credentials for the registry of the image. They need the label
	// zoscb.ibm.com/runtime.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	ImagePullSecrets []RuntimeObject `json:"imagePullSecrets,omitempty"`

	// volumes of the pod, in addition to those of the operator itself. ConfigMaps, Secrets and PersistentVolumeClaims are those of the
	// pod's namespace, and need the label zoscb.ibm.com/runtime.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	Volumes []RuntimeVolume `json:"volumes,omitempty"`

	// volumeMounts mount volumes in the operator container, and, except with the Operator Lifecycle Manager, in the container that
	// installs dependencies.
	// +optional
	// +listType=map
	// +listMapKey=mountPath
	// +kubebuilder:validation:MaxItems=20
	VolumeMounts []RuntimeVolumeMount `json:"volumeMounts,omitempty"`

	// serviceAccountAnnotations are annotations of the operator's ServiceAccount, such as those that give it an identity of a cloud.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.matches('^([^/]*[.])?(zoscb[.]ibm[.]com|kubernetes[.]io|k8s[.]io|openshift[.]io)/'))",message="annotations of zoscb.ibm.com, kubernetes.io, k8s.io and openshift.io cannot be set for the ServiceAccount"
	ServiceAccountAnnotations map[string]string `json:"serviceAccountAnnotations,omitempty"`

	// podAnnotations are annotations of the pod. Those of zoscb.ibm.com, of the Operator Lifecycle Manager, and of Istio, container
	// runtimes and network plugins, which could mount volumes or change the pod's sandbox or network, cannot be set.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.matches('^([^/]*[.])?(zoscb[.]ibm[.]com|operatorframework[.]io|operators[.]coreos[.]com|alpha[.]kubernetes[.]io|beta[.]kubernetes[.]io|istio[.]io|cncf[.]io|projectcalico[.]org|ovn[.]org|cilium[.]io|cdi[.]k8s[.]io)/|^(olm|io[.]kubernetes|io[.]katacontainers|io[.]containerd|run[.]oci)[.]|^(kubernetes|kubectl[.]kubernetes)[.]io/'))",message="annotations of zoscb.ibm.com, the Operator Lifecycle Manager, Kubernetes itself, Istio, container runtimes and network plugins cannot be set for the pod"
	PodAnnotations map[string]string `json:"podAnnotations,omitempty"`

	// podLabels are labels of the pod. Those by which operators are found, and those of Istio, cannot be set.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(key, !(key in ['operator-domain', 'operator-name', 'operator-version', 'managed-by', 'component', 'pod-template-hash']) && (key != 'app.kubernetes.io/name' || self[key] != 'collection-operator') && !key.matches('^([^/]*[.])?(zoscb[.]ibm[.]com|operatorframework[.]io|operators[.]coreos[.]com|istio[.]io)/|^olm[.]'))",message="labels by which operators are found, and those of zoscb.ibm.com, the Operator Lifecycle Manager and Istio, cannot be set for the pod"
	PodLabels map[string]string `json:"podLabels,omitempty"`

	// priorityClassName is the PriorityClass of the pod. Those of the system are refused.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('system-')",message="is reserved for components of the cluster: choose a PriorityClass of your own"
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// topologySpreadConstraints of the pod.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// rerunOn lists the changes that start the playbook of a custom resource that was successful: Spec (its own
	// variables, or a custom resource that one of them refers to), Secret (a Secret that a variable names), Collection
	// (another archive) and Endpoint (its variables). Other changes make the custom resource Outdated. Defaults to Spec
	// and Secret.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	RerunOn []RerunTrigger `json:"rerunOn,omitempty"`

	// maxRetries is the number of times a failed playbook runs again without a change, after growing delays. Defaults
	// to 5.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MaxRetries *int32 `json:"maxRetries,omitempty"`

	// runTimeout limits the time of one run, which then fails. The minimum is one minute. Defaults to 24h, or to no limit for
	// installations that have no status.installations[].runTimeout in their SubOperatorConfig.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="must be at least 1m"
	RunTimeout *metav1.Duration `json:"runTimeout,omitempty"`

	// terminationSeconds is the time that running playbooks have to end when the pod is replaced or deleted. New runs do not start
	// meanwhile. A playbook that has not ended then is interrupted, and runs again. Defaults to 300.
	// +optional
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=86400
	TerminationSeconds *int32 `json:"terminationSeconds,omitempty"`

	// maxArtifacts is the number of runs of each custom resource whose files are kept in the pod. Defaults to 5.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20
	MaxArtifacts *int32 `json:"maxArtifacts,omitempty"`

	// reconcilePeriod is the interval at which the playbook of every custom resource runs again without a change, at
	// least 5m. The default, 0s, disables periodic runs.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) == duration('0s') || duration(self) >= duration('5m')",message="must be at least 5m, or 0s to disable periodic runs"
	ReconcilePeriod *metav1.Duration `json:"reconcilePeriod,omitempty"`

	// reconcilePeriods replaces reconcilePeriod for single kinds.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +kubebuilder:validation:MaxItems=500
	ReconcilePeriods []KindReconcilePeriod `json:"reconcilePeriods,omitempty"`

	// driftCheckPeriod is the interval at which custom resources of kinds with supportsCheckMode are checked for drift, at
	// least 5m. The default, 0s, disables periodic checks.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) == duration('0s') || duration(self) >= duration('5m')",message="must be at least 5m, or 0s to disable periodic checks"
	DriftCheckPeriod *metav1.Duration `json:"driftCheckPeriod,omitempty"`

	// driftCheckSkipModules are Ansible modules that drift checks do not run, besides those that are known to change something in
	// check mode, or to return without looking: full names such as acme.zos.submit, or the name of a module in a folder library.
	// Their tasks count as not checked. Those of an OperatorCollection and of a SubOperatorConfig are added up.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=200
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z_][A-Za-z0-9_]*([.][A-Za-z_][A-Za-z0-9_]*)*$`
	DriftCheckSkipModules []string `json:"driftCheckSkipModules,omitempty"`

	// maxConcurrentReconciles is the maximum number of playbooks of one kind that run at the same time. Defaults to 2.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxConcurrentReconciles *int32 `json:"maxConcurrentReconciles,omitempty"`

	// networkPolicy limits the connections of the pods. A change does not restart the pods.
	// +optional
	NetworkPolicy *NetworkPolicySpec `json:"networkPolicy,omitempty"`
}

// DependenciesSpec specifies where the dependencies of a collection are downloaded from, unless the collection itself
// names a source.
type DependenciesSpec struct {
	// galaxyURL is the URL of the Galaxy server for Ansible collections. Defaults to the manager's setting, or else to
	// the configuration of the runtime image.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^https?://[^@]+$')",message="must start with https:// or http:// and hold no credentials"
	GalaxyURL string `json:"galaxyURL,omitempty"`

	// pipIndexURL is the URL of the index of Python packages. Defaults to the manager's setting, or else to the
	// configuration of the runtime image.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^https?://[^@]+$')",message="must start with https:// or http:// and hold no credentials"
	PipIndexURL string `json:"pipIndexURL,omitempty"`

	// credentialsSecret names a Secret in this namespace, labelled zoscb.ibm.com/credential=true, with any of the keys
	// galaxyToken (and galaxyAuthURL, if the server requires the token to be exchanged), galaxyUsername and
	// galaxyPassword, pipUsername and pipPassword, and ca.crt: CA certificates that are trusted in addition to those of
	// the runtime image. These keys are mounted into the runtime pods.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecret string `json:"credentialsSecret,omitempty"`
}

// OperatorCollectionSpec specifies which archive to import, how to verify it, and what happens on deletion.
type OperatorCollectionSpec struct {
	// collectionURL is the HTTP or HTTPS URL of the collection archive (.tar.gz). If it is not set, the archive must be
	// uploaded to the manager's folder /opt/collections/suboperator/<name>/<version>.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^https?://')",message="must start with https:// or http://"
	CollectionURL string `json:"collectionURL,omitempty"`

	// collectionURLToken is a bearer token for collectionURL. Everyone who may read this object can read the token:
	// prefer credentialsSecret.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	CollectionURLToken string `json:"collectionURLToken,omitempty"`

	// credentialsSecret names a Secret in this namespace, labelled zoscb.ibm.com/credential=true, with the credentials
	// for collectionURL: `token`, or `username` and `password`; `tls.crt` and `tls.key`, a client certificate;
	// `ca.crt`, CA certificates that are trusted in addition to those of the manager. `token` and `username` are
	// mutually exclusive.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecret string `json:"credentialsSecret,omitempty"`

	// digest pins the archive's content: sha256:<64 hexadecimal digits>. An archive with any other digest is rejected.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^sha256:[a-f0-9]{64}$')",message="must be sha256: followed by 64 lower-case hexadecimal digits"
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest,omitempty"`

	// signatureSecret names a Secret in this namespace with a public key and a detached signature: either over the
	// archive (RSA, ECDSA or Ed25519; key in PEM), or a GPG signature over its MANIFEST.json, as Ansible Galaxy creates
	// it. The keys of the Secret are recognized by their content. An archive without a valid signature is rejected.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SignatureSecret string `json:"signatureSecret,omitempty"`

	// skipSignatureVerification installs an archive without proof of its origin. signatureSecret is ignored.
	// +optional
	SkipSignatureVerification bool `json:"skipSignatureVerification,omitempty"`

	// interval at which collectionURL, or the upload folder, is checked for a new archive, which is then verified and
	// installed as an upgrade. The minimum is one minute. If it is not set, the source is checked again only when the
	// spec changes.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="must be at least 1m"
	Interval *metav1.Duration `json:"interval,omitempty"`

	// suspend stops the reconciliation of this OperatorCollection. Installed operators are unaffected.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// apiGroup specifies the API group in which the collection's kinds are served. It is immutable.
	// +optional
	// +kubebuilder:default=Shared
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="apiGroup cannot be changed: delete the OperatorCollection and create it again"
	APIGroup APIGroupPolicy `json:"apiGroup,omitempty"`

	// deletionPolicy specifies what happens to the collection's custom resources when this object is deleted: Block
	// waits until none is left, Finalize deletes them through their finalizer playbooks, Orphan keeps them. It applies
	// to the namespaces in which this OperatorCollection is installed. Custom resources in other namespaces are never
	// changed.
	// +optional
	// +kubebuilder:default=Block
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// dependencies specifies where required Ansible collections and Python packages are downloaded from.
	// +optional
	Dependencies *DependenciesSpec `json:"dependencies,omitempty"`

	// runtime configures the Deployments that run the collection's playbooks.
	// +optional
	Runtime *RuntimeSpec `json:"runtime,omitempty"`

	// upgrade specifies how another version takes the place of the installed one.
	// +optional
	Upgrade *UpgradeSpec `json:"upgrade,omitempty"`
}

// Artifact is a verified archive in the manager's store.
type Artifact struct {
	// digest of the archive, sha256:<hex>.
	Digest string `json:"digest"`
	// size of the archive in bytes.
	Size int64 `json:"size"`
	// verification is the method by which the archive was verified: Signature (over the archive), GalaxySignature (over
	// its MANIFEST.json), Digest (it matches spec.digest) or Skipped.
	Verification string `json:"verification"`
	// verifiedBy is the fingerprint of the public key that verified the signature: sha256:<hex> of its DER encoding, or
	// the fingerprint of a GPG key in upper-case hexadecimal digits.
	// +optional
	VerifiedBy string `json:"verifiedBy,omitempty"`
	// verifiedAt is the time at which the archive was first verified with this method. It is absent if verification was
	// skipped.
	// +optional
	VerifiedAt *metav1.Time `json:"verifiedAt,omitempty"`
	// sourceHash is a hash of the parts of the spec that the archive was fetched for: its URL and its verification.
	SourceHash string `json:"sourceHash"`
	// etag is the ETag header that the server sent with the archive. It is used for conditional requests.
	// +optional
	ETag string `json:"etag,omitempty"`
	// lastModified is the Last-Modified header that the server sent with the archive. It is used for conditional
	// requests.
	// +optional
	LastModified string `json:"lastModified,omitempty"`
}

// ImportedCollection describes the content of an imported archive.
type ImportedCollection struct {
	// domain of the collection, from operator-config.
	Domain string `json:"domain"`
	// name of the collection, from operator-config.
	Name string `json:"name"`
	// version of the collection, from operator-config.
	Version string `json:"version"`
	// apiVersion in which the kinds are served, as group/version.
	APIVersion string `json:"apiVersion"`
	// kinds that the collection defines.
	// +listType=set
	Kinds []string `json:"kinds"`
}

// CollectionConfigStatus reports the location of an uploaded archive.
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
	// message is the reason why the SubOperatorConfig is not Ready.
	// +optional
	Message string `json:"message,omitempty"`
}

// VersionOutcome is what became of a version.
type VersionOutcome string

const (
	// VersionInstalling: not every SubOperatorConfig has installed it yet.
	VersionInstalling VersionOutcome = "Installing"
	// VersionInstalled: every SubOperatorConfig has installed it.
	VersionInstalled VersionOutcome = "Installed"
	// VersionReplaced: another version took its place before every SubOperatorConfig had installed it.
	VersionReplaced VersionOutcome = "Replaced"
)

// InstalledVersion is a version that was imported, and may be returned to.
type InstalledVersion struct {
	// version of the collection.
	Version string `json:"version"`
	// digest of its archive, sha256:<hex>. The manager keeps the archive.
	Digest string `json:"digest"`
	// size of the archive in bytes.
	// +optional
	Size int64 `json:"size,omitempty"`
	// time at which it was imported.
	Time metav1.Time `json:"time"`
	// by is the field manager that wrote the part of the spec that asked for it, or interval or upload if the spec did not change.
	// +optional
	By string `json:"by,omitempty"`
	// outcome: Installing, Installed, or Replaced by another version before it was installed everywhere.
	Outcome VersionOutcome `json:"outcome"`
}

// UpgradeStatus is how far another version was brought to the namespaces.
type UpgradeStatus struct {
	// digest of the archive that the upgrade is to.
	Digest string `json:"digest"`
	// total is the number of namespaces in which the collection is installed.
	Total int32 `json:"total"`
	// upgraded is the number of those in which the version runs.
	Upgraded int32 `json:"upgraded"`
	// namespaces in which the operator may be replaced, sorted.
	// +optional
	// +listType=set
	Namespaces []string `json:"namespaces,omitempty"`
	// reason is UpgradePending, or UpgradeStopped if a namespace needs attention before others get the version.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is what the upgrade waits for.
	// +optional
	Message string `json:"message,omitempty"`
}

// OperatorCollectionStatus is the observed state of an OperatorCollection.
type OperatorCollectionStatus struct {
	// observedGeneration is the generation that the conditions describe.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase follows the Imported condition.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// message is the message of the Ready condition.
	// +optional
	Message string `json:"message,omitempty"`

	// conditions: Ready, Imported, Installed, Conformant, and while they are true UpgradeBlocked, UploadRefused, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// artifact is the archive that is installed.
	// +optional
	Artifact *Artifact `json:"artifact,omitempty"`

	// collection describes the content of the installed archive.
	// +optional
	Collection *ImportedCollection `json:"collection,omitempty"`

	// replaces is the collection whose kinds and custom resources the imported archive has taken over, or, while the reason of the
	// Imported condition is Replaced, the archive that waits to be imported takes over.
	// +optional
	Replaces *CollectionReference `json:"replaces,omitempty"`

	// history has the versions that were imported, at most ten, the newest first. Their archives are kept.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	History []InstalledVersion `json:"history,omitempty"`

	// upgrade is how far the version was brought to the namespaces, while it is not in all of them.
	// +optional
	Upgrade *UpgradeStatus `json:"upgrade,omitempty"`

	// observedUpload is the digest of the archive that was uploaded last, as far as the conditions consider it.
	// +optional
	ObservedUpload string `json:"observedUpload,omitempty"`

	// config reports the location of an uploaded archive.
	// +optional
	Config *CollectionConfigStatus `json:"config,omitempty"`

	// warnings about the spec, and about rules that the archive breaks without being rejected.
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
	// +kubebuilder:default:={"observedGeneration":-1}
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

// StatusConditions returns the conditions of the object's status, to be read and changed.
func (o *OperatorCollection) StatusConditions() *[]metav1.Condition { return &o.Status.Conditions }
