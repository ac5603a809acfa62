package v2beta2

// Condition types. Ready, Reconciling and Stalled follow the kstatus convention: Ready is always present, the other
// two only while they are true.
const (
	// ConditionReady is true when the object does what its spec asks for.
	ConditionReady = "Ready"
	// ConditionReconciling is true while the controller works on the object, or will retry.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is true when only a change of the object's own spec can resolve the problem.
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
	// Operator Lifecycle Manager installs it. It is present if the manager serves a catalog, and does not affect Ready.
	ConditionPublished = "Published"
	// ConditionUploadRefused is true while an archive that was copied over the one that an OperatorCollection has imported is refused. Its
	// reason and message say why.
	ConditionUploadRefused = "UploadRefused"
	// ConditionUpgradeBlocked is true while custom resources that exist do not fit the version that an OperatorCollection asks for.
	// The installed version keeps running. The condition is absent otherwise.
	ConditionUpgradeBlocked = "UpgradeBlocked"
	// ConditionMigrated is true when the migration playbook of the installed version has succeeded for each custom resource in the
	// mapped namespaces. It is absent if the version has none.
	ConditionMigrated = "Migrated"
	// ConditionReachable is true when the last probe of a remote ZosEndpoint completed an SSH handshake with a known
	// host key, and no run has failed to connect since. While it is false with the reason HostUnreachable, runs wait.
	ConditionReachable = "Reachable"
	// ConditionCredentialAccepted is true when a run has logged on in the security domain of a ZosEndpoint, and false while
	// the domain refuses a credential. It is absent before the first logon.
	ConditionCredentialAccepted = "CredentialAccepted"
)

// Reasons of success and progress.
const (
	// ReasonSucceeded signals that the work described by the condition is complete.
	ReasonSucceeded = "Succeeded"
	// ReasonProgressing signals that work is in progress and needs no intervention.
	ReasonProgressing = "Progressing"
	// ReasonUnexpectedError signals that a request failed for an unclassified reason, and is retried.
	ReasonUnexpectedError = "UnexpectedError"
	// ReasonTerminating signals that the object is being deleted.
	ReasonTerminating = "Terminating"
	// ReasonNotInstalled signals that no SubOperatorConfig maps the collection to a namespace.
	ReasonNotInstalled = "NotInstalled"
)

// Reasons that more than one kind has.
const (
	// ReasonBudgetExceeded signals that an OperatorCollection is not imported, or a ZosEndpoint not probed, because its
	// namespace or all namespaces together would use more of something than the manager allows.
	ReasonBudgetExceeded = "BudgetExceeded"
)

// Reasons of an OperatorCollection whose archive could not be fetched.
const (
	// ReasonInvalidURL signals that spec.collectionURL cannot be used.
	ReasonInvalidURL = "InvalidURL"
	// ReasonArchiveNotFound signals that the server answered 404 or 410.
	ReasonArchiveNotFound = "ArchiveNotFound"
	// ReasonArchiveNotUploaded signals that spec has no collectionURL and the upload folder has no archive.
	ReasonArchiveNotUploaded = "ArchiveNotUploaded"
	// ReasonUnauthorized signals that the server answered 401 or 403.
	ReasonUnauthorized = "Unauthorized"
	// ReasonSourceUnreachable signals that the server could not be reached or answered with a server error.
	ReasonSourceUnreachable = "SourceUnreachable"
	// ReasonSourceForbidden signals that the manager may not fetch from spec.collectionURL, or from where it redirects
	// to: the URL is not below an allowed prefix, or its host resolves to an address that the manager must not connect
	// to.
	ReasonSourceForbidden = "SourceForbidden"
	// ReasonFetchTimeout signals that the download took longer than the manager allows.
	ReasonFetchTimeout = "FetchTimeout"
	// ReasonArchiveTooLarge signals that the archive, or what is in it, exceeds a limit.
	ReasonArchiveTooLarge = "ArchiveTooLarge"
	// ReasonArchiveTruncated signals that the download or the archive ended early.
	ReasonArchiveTruncated = "ArchiveTruncated"
	// ReasonFetchFailed signals that the download failed for an unclassified reason.
	ReasonFetchFailed = "FetchFailed"
	// ReasonCredentialsInvalid signals that the Secret in spec.credentialsSecret is missing or lacks usable keys.
	ReasonCredentialsInvalid = "CredentialsInvalid"
	// ReasonStorageFailed signals that the manager could not write to or read from its artifact store.
	ReasonStorageFailed = "StorageFailed"
	// ReasonStorageFull signals that no space is left on the manager's volume for archives.
	ReasonStorageFull = "StorageFull"
	// ReasonReplicating signals that another manager does not have an archive yet that was uploaded, and cannot be fetched again.
	ReasonReplicating = "Replicating"
)

// Reasons of an OperatorCollection whose archive is not accepted.
const (
	// ReasonDigestMismatch signals that the archive's SHA-256 digest differs from spec.digest.
	ReasonDigestMismatch = "DigestMismatch"
	// ReasonNotVerified signals that the origin of the archive is not proven by a signature or a pinned digest.
	ReasonNotVerified = "NotVerified"
	// ReasonSignatureInvalid signals that no signature in spec.signatureSecret is valid for the archive and a public
	// key in that Secret.
	ReasonSignatureInvalid = "SignatureInvalid"
	// ReasonSignatureSecretInvalid signals that the Secret in spec.signatureSecret is missing, lacks a usable key or
	// signature, or holds a private key.
	ReasonSignatureSecretInvalid = "SignatureSecretInvalid"
	// ReasonArtifactChanged signals that the source now serves content that differs from the installed archive,
	// although the spec did not change.
	ReasonArtifactChanged = "ArtifactChanged"
	// ReasonArchiveNotGzip signals that the file is not a gzip-compressed tar archive.
	ReasonArchiveNotGzip = "ArchiveNotGzip"
	// ReasonArchiveUnsafe signals that an entry of the archive would be extracted outside the target directory, or is
	// of a type that is never extracted.
	ReasonArchiveUnsafe = "ArchiveUnsafe"
	// ReasonArchiveCorrupt signals that the archive cannot be read in full.
	ReasonArchiveCorrupt = "ArchiveCorrupt"
	// ReasonOperatorConfigMissing signals that the archive has no operator-config.yml or operator-config.yaml.
	ReasonOperatorConfigMissing = "OperatorConfigMissing"
	// ReasonOperatorConfigAmbiguous signals that the archive has both operator-config.yml and operator-config.yaml.
	ReasonOperatorConfigAmbiguous = "OperatorConfigAmbiguous"
	// ReasonPlaybookMissing signals that operator-config names a playbook or finalizer that the archive does not
	// contain.
	ReasonPlaybookMissing = "PlaybookMissing"
	// ReasonInvalidYAML signals that operator-config is not well-formed YAML.
	ReasonInvalidYAML = "InvalidYAML"
	// ReasonInvalidCollection signals that the archive violates the Operator Collection Specification.
	ReasonInvalidCollection = "InvalidCollection"
	// ReasonCollectionClaimed signals that the collection's domain and name belong to another OperatorCollection.
	ReasonCollectionClaimed = "CollectionClaimed"
	// ReasonDomainReserved signals that the domain of the collection is reserved for other namespaces or other signing keys.
	ReasonDomainReserved = "DomainReserved"
	// ReasonKindClash signals that a CRD of the collection is owned by another collection or another product.
	ReasonKindClash = "KindClash"
	// ReasonSchemaConflict signals that the type of a field differs from that in another version of the same kind.
	ReasonSchemaConflict = "SchemaConflict"
	// ReasonVersionConflict signals that different archives claim one version of the collection.
	ReasonVersionConflict = "VersionConflict"
)

// Reasons of an OperatorCollection whose archive was accepted with warnings.
const (
	// ReasonRulesBroken signals that the archive breaks rules that do not prevent its installation.
	ReasonRulesBroken = "RulesBroken"
)

// Reasons for which the deletion of an OperatorCollection waits.
const (
	// ReasonInstancesExist signals that custom resources of the collection still exist.
	ReasonInstancesExist = "InstancesExist"
	// ReasonFinalizingInstances signals that the collection's finalizer playbooks still run.
	ReasonFinalizingInstances = "FinalizingInstances"
)

// Reasons of a SubOperatorConfig.
const (
	// ReasonCollectionNotFound signals that the referenced OperatorCollection does not exist in the namespace of the
	// SubOperatorConfig.
	ReasonCollectionNotFound = "CollectionNotFound"
	// ReasonCollectionNotImported signals that the referenced OperatorCollection is not imported yet.
	ReasonCollectionNotImported = "CollectionNotImported"
	// ReasonCollectionTerminating signals that the referenced OperatorCollection is being deleted.
	ReasonCollectionTerminating = "CollectionTerminating"
	// ReasonMappingNotAllowed signals that a mapped namespace has not consented to the mapping, or that runtime
	// would read its Secrets or ConfigMaps, or set what other controllers act upon there.
	ReasonMappingNotAllowed = "MappingNotAllowed"
	// ReasonNamespaceNotSelected signals that an administrator has not selected the namespace for the manager, which is limited
	// to some namespaces.
	ReasonNamespaceNotSelected = "NamespaceNotSelected"
	// ReasonMappingConflict signals that an older SubOperatorConfig installs the same collection in the same namespace.
	ReasonMappingConflict = "MappingConflict"
	// ReasonEndpointNotFound signals that the mapping names a ZosEndpoint that does not exist.
	ReasonEndpointNotFound = "EndpointNotFound"
	// ReasonCredentialInvalid signals that a credential Secret is missing, not labelled as a credential, or lacks
	// usable keys.
	ReasonCredentialInvalid = "CredentialInvalid"
	// ReasonForeignObject signals that an object required by the installation already exists and is managed by someone
	// else.
	ReasonForeignObject = "ForeignObject"
	// ReasonPermissionsNotGranted signals that the collection requests permissions that are not granted to the manager.
	ReasonPermissionsNotGranted = "PermissionsNotGranted"
	// ReasonObjectRefused signals that the API server rejected an object of the installation.
	ReasonObjectRefused = "ObjectRefused"
	// ReasonApplyFailed signals that writing an object failed, and is retried.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonDependencyMissing signals that a required Ansible collection or Python package could not be installed, that
	// two requirements conflict, or that the ansible-core of the runtime image does not meet the collection's
	// requirement. The message names the dependency. Installation is retried.
	ReasonDependencyMissing = "DependencyMissing"
	// ReasonWorkloadUnavailable signals that the operator's Deployment is not Available.
	ReasonWorkloadUnavailable = "WorkloadUnavailable"
)

// Reasons of upgrades.
const (
	// ReasonUpgradeBlocked signals that custom resources that exist do not fit the version that the spec asks for.
	ReasonUpgradeBlocked = "UpgradeBlocked"
	// ReasonUpgradePending signals that a namespace waits until other namespaces have the version, or that the upgrade is paused.
	ReasonUpgradePending = "UpgradePending"
	// ReasonUpgradeStopped signals that no further namespace gets the version, because one that has it is not ready or its
	// custom resources began to fail.
	ReasonUpgradeStopped = "UpgradeStopped"
	// ReasonMigrating signals that migration playbooks are still to run.
	ReasonMigrating = "Migrating"
	// ReasonMigrationFailed signals that a migration playbook has failed. No further migration starts until it succeeds.
	ReasonMigrationFailed = "MigrationFailed"
	// ReasonReplaced signals that a collection replaces another one: the new one waits for the deletion of the OperatorCollections
	// of the other, or the other is being deleted and leaves its kinds and custom resources to the new one.
	ReasonReplaced = "Replaced"
	// ReasonHandedOver signals, in an event, that somebody has applied a manifest over a default SubOperatorConfig, which is theirs from
	// then on.
	ReasonHandedOver = "HandedOver"
)

// Reasons of installations by the Operator Lifecycle Manager (OLM).
const (
	// ReasonOLMUnavailable signals that OLM is requested, but the cluster does not have it or the manager may not use
	// it.
	ReasonOLMUnavailable = "OLMUnavailable"
	// ReasonBundleTooLarge signals that the collection is too large for a catalog, or that the catalog is full.
	ReasonBundleTooLarge = "BundleTooLarge"
	// ReasonPackageConflict signals that another collection has the same package name in the catalog.
	ReasonPackageConflict = "PackageConflict"
	// ReasonNotPublished signals that the collection's version is not in the catalog. The Published condition of the
	// OperatorCollection has the reason.
	ReasonNotPublished = "NotPublished"
	// ReasonCatalogUnhealthy signals that OLM cannot read the catalog, or cannot resolve the Subscription.
	ReasonCatalogUnhealthy = "CatalogUnhealthy"
	// ReasonWaitingForApproval signals that an InstallPlan requires approval.
	ReasonWaitingForApproval = "WaitingForApproval"
	// ReasonInstallPlanFailed signals that OLM could not complete an InstallPlan.
	ReasonInstallPlanFailed = "InstallPlanFailed"
	// ReasonClusterServiceVersionFailed signals that OLM could not run the operator. The message contains OLM's reason.
	ReasonClusterServiceVersionFailed = "ClusterServiceVersionFailed"
	// ReasonOperatorGroupConflict signals that the OperatorGroups of the namespace prevent OLM from installing the
	// operator.
	ReasonOperatorGroupConflict = "OperatorGroupConflict"
	// ReasonOperatorGroupMissing signals that the namespace has no OperatorGroup, without which OLM installs nothing. The
	// message contains one to create.
	ReasonOperatorGroupMissing = "OperatorGroupMissing"
	// ReasonRuntimeObjectMissing signals that a Secret, ConfigMap or PersistentVolumeClaim that spec.runtime names does not exist in the
	// namespace of the installation.
	ReasonRuntimeObjectMissing = "RuntimeObjectMissing"
	// ReasonRuntimeObjectNotAllowed signals that such an object does not have the label zoscb.ibm.com/runtime, or, in another namespace
	// than that of the SubOperatorConfig, does not exist. In status.waiting of a custom resource, it signals the same of a Secret that
	// the resource names, and that no label allows the use of the product's own Secrets.
	ReasonRuntimeObjectNotAllowed = "RuntimeObjectNotAllowed"
	// ReasonSettingsInvalid is the reason of an event about the ConfigMap collection-operator-settings: the manager cannot use it.
	ReasonSettingsInvalid = "SettingsInvalid"
	// ReasonTrustedAuthoritiesInvalid is the reason of an event about the ConfigMap collection-operator-trusted-ca: it cannot be
	// used, or a part of it is skipped.
	ReasonTrustedAuthoritiesInvalid = "TrustedAuthoritiesInvalid"
	// ReasonRuntimeNotSupported signals that spec.runtime has a setting that a Subscription cannot pass on.
	ReasonRuntimeNotSupported = "RuntimeNotSupported"
)

// Reasons of a ZosEndpoint.
const (
	// ReasonInvalidVariables signals that an item of spec.variables is neither a string nor {name, value}.
	ReasonInvalidVariables = "InvalidVariables"
	// ReasonInvalidHostKeys signals that an item of spec.hostKeys is not a public host key.
	ReasonInvalidHostKeys = "InvalidHostKeys"
	// ReasonInvalidRunWindows signals that an item of spec.runWindows has no valid schedule, duration or time zone.
	ReasonInvalidRunWindows = "InvalidRunWindows"
	// ReasonInvalidState signals that the Secret with the state of the endpoint's security domain cannot be read. No run
	// starts until it is deleted.
	ReasonInvalidState = "InvalidState"
	// ReasonCredentialRefused signals that the endpoint's security domain has refused a credential. It is not tried again.
	ReasonCredentialRefused = "CredentialRefused"
	// ReasonHostUnreachable signals that no SSH server answered at the endpoint's host and port.
	ReasonHostUnreachable = "HostUnreachable"
	// ReasonHostForbidden signals that the endpoint's host resolves to an address that the manager must not connect to.
	ReasonHostForbidden = "HostForbidden"
	// ReasonHostKeyMismatch signals that the server presented a host key other than the known one.
	ReasonHostKeyMismatch = "HostKeyMismatch"
)
