package v2beta2

// Condition types. Ready, Reconciling and Stalled follow the kstatus convention: Ready is always present, the other
// two only while they are true.
const (
	// ConditionReady is true when the object does what its spec asks for.
	ConditionReady = "Ready"
	// ConditionReconciling is true while the controller still works on the object, or will try again by itself.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is true when only a change of the object's own spec can help.
	ConditionStalled = "Stalled"
	// ConditionImported is true when the archive of an OperatorCollection is verified and stored and all its CRDs
	// are Established.
	ConditionImported = "Imported"
	// ConditionInstalled is true when every SubOperatorConfig of an OperatorCollection is Ready.
	ConditionInstalled = "Installed"
	// ConditionConformant is true when the archive of an OperatorCollection breaks no rule that the manager checks, which
	// reads no playbooks. It is there once an archive was accepted, speaks of that archive, and has no influence on Ready.
	ConditionConformant = "Conformant"
	// ConditionPublished is true when the version of an OperatorCollection is in the manager's catalog, from which the
	// Operator Lifecycle Manager installs it. It is there where the manager serves one, and has no influence on Ready.
	ConditionPublished = "Published"
	// ConditionReachable is true when the last probe of a remote ZosEndpoint completed an SSH handshake with a host
	// key that is known. It never blocks a run.
	ConditionReachable = "Reachable"
)

// ConditionTypes lists every condition type of this API.
var ConditionTypes = []string{
	ConditionReady, ConditionReconciling, ConditionStalled, ConditionImported, ConditionInstalled, ConditionConformant,
	ConditionPublished, ConditionReachable,
}

// Reasons of success and progress.
const (
	// ReasonSucceeded says that the condition's work is done.
	ReasonSucceeded = "Succeeded"
	// ReasonProgressing says that work is under way and needs no help.
	ReasonProgressing = "Progressing"
	// ReasonUnexpectedError says that a request failed in a way that has no reason of its own, and is retried.
	ReasonUnexpectedError = "UnexpectedError"
	// ReasonTerminating says that the object is being deleted.
	ReasonTerminating = "Terminating"
	// ReasonNotInstalled says that no SubOperatorConfig maps the collection to a namespace.
	ReasonNotInstalled = "NotInstalled"
)

// Reasons of an OperatorCollection whose archive could not be fetched.
const (
	// ReasonInvalidURL says that spec.collectionURL cannot be used.
	ReasonInvalidURL = "InvalidURL"
	// ReasonArchiveNotFound says that the server answered 404 or 410.
	ReasonArchiveNotFound = "ArchiveNotFound"
	// ReasonArchiveNotUploaded says that spec has no collectionURL and the upload folder has no archive.
	ReasonArchiveNotUploaded = "ArchiveNotUploaded"
	// ReasonUnauthorized says that the server answered 401 or 403.
	ReasonUnauthorized = "Unauthorized"
	// ReasonSourceUnreachable says that the server could not be reached or answered with a server error.
	ReasonSourceUnreachable = "SourceUnreachable"
	// ReasonSourceForbidden says that the manager may not fetch from spec.collectionURL, or from where it redirects to: the
	// URL is not below an allowed prefix, or its host has an address that the manager does not connect to.
	ReasonSourceForbidden = "SourceForbidden"
	// ReasonFetchTimeout says that the download took longer than the manager allows.
	ReasonFetchTimeout = "FetchTimeout"
	// ReasonArchiveTooLarge says that the archive, or what is in it, exceeds a limit.
	ReasonArchiveTooLarge = "ArchiveTooLarge"
	// ReasonArchiveTruncated says that the download or the archive ended early.
	ReasonArchiveTruncated = "ArchiveTruncated"
	// ReasonFetchFailed says that the download failed in a way that has no reason of its own.
	ReasonFetchFailed = "FetchFailed"
	// ReasonCredentialsInvalid says that the Secret in spec.credentialsSecret is missing or lacks usable keys.
	ReasonCredentialsInvalid = "CredentialsInvalid"
	// ReasonStorageFailed says that the manager could not write to or read from its artifact store.
	ReasonStorageFailed = "StorageFailed"
)

// Reasons of an OperatorCollection whose archive is not acceptable.
const (
	// ReasonDigestMismatch says that the archive's sha256 is not spec.digest.
	ReasonDigestMismatch = "DigestMismatch"
	// ReasonNotVerified says that nothing proves where the archive comes from.
	ReasonNotVerified = "NotVerified"
	// ReasonSignatureInvalid says that no signature in spec.signatureSecret is right for the archive and a key there.
	ReasonSignatureInvalid = "SignatureInvalid"
	// ReasonSignatureSecretInvalid says that the Secret in spec.signatureSecret is missing, lacks a usable key or
	// signature, or holds what must not be there.
	ReasonSignatureSecretInvalid = "SignatureSecretInvalid"
	// ReasonArtifactChanged says that the origin now serves other content than the one that was installed, though the
	// spec did not change.
	ReasonArtifactChanged = "ArtifactChanged"
	// ReasonArchiveNotGzip says that the file is not a gzip-compressed tar archive.
	ReasonArchiveNotGzip = "ArchiveNotGzip"
	// ReasonArchiveUnsafe says that an entry of the archive would leave it, or is of a kind that is never unpacked.
	ReasonArchiveUnsafe = "ArchiveUnsafe"
	// ReasonArchiveCorrupt says that the archive cannot be read in full.
	ReasonArchiveCorrupt = "ArchiveCorrupt"
	// ReasonOperatorConfigMissing says that the archive has no operator-config.yml or operator-config.yaml.
	ReasonOperatorConfigMissing = "OperatorConfigMissing"
	// ReasonOperatorConfigAmbiguous says that the archive has both operator-config.yml and operator-config.yaml.
	ReasonOperatorConfigAmbiguous = "OperatorConfigAmbiguous"
	// ReasonPlaybookMissing says that operator-config names a playbook or finalizer that the archive does not hold.
	ReasonPlaybookMissing = "PlaybookMissing"
	// ReasonInvalidYAML says that operator-config is not well-formed YAML.
	ReasonInvalidYAML = "InvalidYAML"
	// ReasonInvalidCollection says that the archive breaks the Operator Collection Specification.
	ReasonInvalidCollection = "InvalidCollection"
	// ReasonCollectionClaimed says that the collection's domain and name belong to another OperatorCollection.
	ReasonCollectionClaimed = "CollectionClaimed"
	// ReasonKindClash says that a CRD of the collection belongs to somebody else.
	ReasonKindClash = "KindClash"
	// ReasonSchemaConflict says that a field changed its type against another version of the same kind.
	ReasonSchemaConflict = "SchemaConflict"
	// ReasonVersionConflict says that different archives claim one version of the collection.
	ReasonVersionConflict = "VersionConflict"
)

// Reasons of an OperatorCollection whose archive was accepted though it has flaws.
const (
	// ReasonRulesBroken says that the archive breaks rules that do not keep it from being installed.
	ReasonRulesBroken = "RulesBroken"
)

// Reasons that keep an OperatorCollection from being deleted.
const (
	// ReasonInstancesExist says that custom resources of the collection still exist.
	ReasonInstancesExist = "InstancesExist"
	// ReasonFinalizingInstances says that the collection's finalizer playbooks still run.
	ReasonFinalizingInstances = "FinalizingInstances"
)

// Reasons of a SubOperatorConfig.
const (
	// ReasonCollectionNotFound says that the OperatorCollection it names does not exist in its namespace.
	ReasonCollectionNotFound = "CollectionNotFound"
	// ReasonCollectionNotImported says that the OperatorCollection it names is not imported yet.
	ReasonCollectionNotImported = "CollectionNotImported"
	// ReasonCollectionTerminating says that the OperatorCollection it names is being deleted.
	ReasonCollectionTerminating = "CollectionTerminating"
	// ReasonMappingNotAllowed says that a mapped namespace may not be used, or not in the way that runtime.env asks for.
	ReasonMappingNotAllowed = "MappingNotAllowed"
	// ReasonMappingConflict says that an older SubOperatorConfig has the same collection in the same namespace.
	ReasonMappingConflict = "MappingConflict"
	// ReasonEndpointNotFound says that the mapping names a ZosEndpoint that does not exist.
	ReasonEndpointNotFound = "EndpointNotFound"
	// ReasonCredentialInvalid says that a credential Secret is missing, not marked as one, or lacks usable keys.
	ReasonCredentialInvalid = "CredentialInvalid"
	// ReasonForeignObject says that an object the installation needs exists and belongs to somebody else.
	ReasonForeignObject = "ForeignObject"
	// ReasonPermissionsNotGranted says that the collection asks for permissions nobody granted to the manager.
	ReasonPermissionsNotGranted = "PermissionsNotGranted"
	// ReasonObjectRefused says that the API server refused an object of the installation.
	ReasonObjectRefused = "ObjectRefused"
	// ReasonApplyFailed says that an object could not be written, and that it will be tried again.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonDependencyMissing says that an Ansible collection or Python package that the collection needs could not be
	// installed, that two of them exclude each other, or that the runtime image has another ansible-core than the
	// collection requires. The message names it; it is tried again.
	ReasonDependencyMissing = "DependencyMissing"
	// ReasonWorkloadUnavailable says that the operator's Deployment is not Available.
	ReasonWorkloadUnavailable = "WorkloadUnavailable"
)

// Reasons of what the Operator Lifecycle Manager (OLM) does for us.
const (
	// ReasonOLMUnavailable says that OLM is asked for, and that the cluster lacks it or the manager may not use it.
	ReasonOLMUnavailable = "OLMUnavailable"
	// ReasonBundleTooLarge says that the collection is too large for a catalog, or that the catalog is full.
	ReasonBundleTooLarge = "BundleTooLarge"
	// ReasonPackageConflict says that another collection has the same package name in the catalog.
	ReasonPackageConflict = "PackageConflict"
	// ReasonNotPublished says that the collection's version is not in the catalog, for the reason that the
	// OperatorCollection's condition Published tells.
	ReasonNotPublished = "NotPublished"
	// ReasonCatalogUnhealthy says that OLM cannot read the catalog, or cannot resolve the Subscription.
	ReasonCatalogUnhealthy = "CatalogUnhealthy"
	// ReasonWaitingForApproval says that somebody has to approve an InstallPlan.
	ReasonWaitingForApproval = "WaitingForApproval"
	// ReasonInstallPlanFailed says that OLM could not carry out an InstallPlan.
	ReasonInstallPlanFailed = "InstallPlanFailed"
	// ReasonClusterServiceVersionFailed says that OLM could not run the operator. The message has its own reason.
	ReasonClusterServiceVersionFailed = "ClusterServiceVersionFailed"
	// ReasonOperatorGroupConflict says that the OperatorGroups of the namespace do not let OLM install the operator.
	ReasonOperatorGroupConflict = "OperatorGroupConflict"
	// ReasonRuntimeNotSupported says that runtime sets something that OLM cannot pass on.
	ReasonRuntimeNotSupported = "RuntimeNotSupported"
)

// Reasons of a ZosEndpoint.
const (
	// ReasonInvalidVariables says that an item of spec.variables is neither a string nor {name, value}.
	ReasonInvalidVariables = "InvalidVariables"
	// ReasonInvalidHostKeys says that an item of spec.hostKeys is not a public host key.
	ReasonInvalidHostKeys = "InvalidHostKeys"
	// ReasonHostUnreachable says that no SSH server answered at the endpoint's host and port.
	ReasonHostUnreachable = "HostUnreachable"
	// ReasonHostForbidden says that the endpoint's host has an address that the manager does not connect to.
	ReasonHostForbidden = "HostForbidden"
	// ReasonHostKeyMismatch says that the server showed a host key that is not the known one.
	ReasonHostKeyMismatch = "HostKeyMismatch"
)

// Reasons lists every reason of this API.
var Reasons = []string{
	ReasonSucceeded, ReasonProgressing, ReasonUnexpectedError, ReasonTerminating, ReasonNotInstalled,
	ReasonInvalidURL, ReasonArchiveNotFound, ReasonArchiveNotUploaded, ReasonUnauthorized, ReasonSourceUnreachable,
	ReasonSourceForbidden, ReasonFetchTimeout, ReasonArchiveTooLarge, ReasonArchiveTruncated, ReasonFetchFailed,
	ReasonCredentialsInvalid, ReasonStorageFailed, ReasonDigestMismatch, ReasonNotVerified, ReasonSignatureInvalid, ReasonSignatureSecretInvalid,
	ReasonArtifactChanged,
	ReasonArchiveNotGzip, ReasonArchiveUnsafe, ReasonArchiveCorrupt, ReasonOperatorConfigMissing,
	ReasonOperatorConfigAmbiguous, ReasonPlaybookMissing, ReasonInvalidYAML, ReasonInvalidCollection,
	ReasonCollectionClaimed, ReasonKindClash, ReasonSchemaConflict, ReasonVersionConflict, ReasonRulesBroken,
	ReasonInstancesExist, ReasonFinalizingInstances,
	ReasonCollectionNotFound, ReasonCollectionNotImported, ReasonCollectionTerminating, ReasonMappingNotAllowed,
	ReasonMappingConflict, ReasonEndpointNotFound, ReasonCredentialInvalid, ReasonForeignObject,
	ReasonPermissionsNotGranted, ReasonObjectRefused, ReasonApplyFailed, ReasonDependencyMissing, ReasonWorkloadUnavailable,
	ReasonOLMUnavailable, ReasonBundleTooLarge, ReasonPackageConflict, ReasonNotPublished, ReasonCatalogUnhealthy,
	ReasonWaitingForApproval, ReasonInstallPlanFailed, ReasonClusterServiceVersionFailed, ReasonOperatorGroupConflict,
	ReasonRuntimeNotSupported,
	ReasonInvalidVariables, ReasonInvalidHostKeys, ReasonHostUnreachable, ReasonHostForbidden,
	ReasonHostKeyMismatch,
}
