package doctor

import (
	"fmt"
	"strings"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// waitNext is the next step where nothing is to be done.
const waitNext = "wait: it is retried automatically"

// advice is what to do about a condition's reason.
type advice struct {
	severity findings.Severity
	next     string
}

func act(next string) advice  { return advice{findings.SeverityError, next} }
func wait(next string) advice { return advice{findings.SeverityInfo, next} }

// reasons has the next step for each reason of the conditions of the three kinds that is not a success.
var reasons = map[string]advice{
	v2beta2.ReasonProgressing:          wait("wait; if it stays so, see the log of the manager"),
	v2beta2.ReasonUnexpectedError:      act(waitNext + "; if it stays so, see the log of the manager"),
	v2beta2.ReasonTerminating:          wait("wait for what the message names"),
	v2beta2.ReasonNotInstalled:         wait("create a SubOperatorConfig that names the OperatorCollection"),
	v2beta2.ReasonBudgetExceeded:       act("delete what is not needed, or ask an administrator to raise the flag of the manager that the message names"),
	v2beta2.ReasonNamespaceNotSelected: act("ask an administrator to select the namespace for the manager"),

	v2beta2.ReasonInvalidURL:         act("correct spec.collectionURL"),
	v2beta2.ReasonArchiveNotFound:    act("check the address in spec.collectionURL; it is retried"),
	v2beta2.ReasonArchiveNotUploaded: act("upload the archive: kubectl collection push"),
	v2beta2.ReasonUnauthorized:       act("check the Secret in spec.credentialsSecret, including its client certificate"),
	v2beta2.ReasonSourceUnreachable:  act("check the server, its name, its certificate, and the network between it and the manager"),
	v2beta2.ReasonSourceForbidden:    act("use another spec.collectionURL, or ask an administrator to allow this one: docs/fetching.md"),
	v2beta2.ReasonFetchTimeout:       act("check the network, or raise the manager's --fetch-timeout"),
	v2beta2.ReasonArchiveTooLarge:    act("make the archive smaller, or raise the manager's --fetch-max-bytes"),
	v2beta2.ReasonArchiveTruncated:   act("upload the archive to its server again"),
	v2beta2.ReasonFetchFailed:        act("follow the message; it is retried"),
	v2beta2.ReasonCredentialsInvalid: act("create or correct the Secret in spec.credentialsSecret"),
	v2beta2.ReasonStorageFailed:      act("check the PersistentVolumeClaims of the manager"),
	v2beta2.ReasonStorageFull:        act("enlarge the PersistentVolumeClaims of the manager, or delete OperatorCollections"),
	v2beta2.ReasonReplicating:        wait("wait for the manager's other pod: five minutes at most"),

	v2beta2.ReasonDigestMismatch:          act("find out why the content differs; if it is right, change spec.digest"),
	v2beta2.ReasonNotVerified:             act("set spec.signatureSecret or spec.digest"),
	v2beta2.ReasonSignatureInvalid:        act("find out why the signature does not match; correct the Secret in spec.signatureSecret, or the archive"),
	v2beta2.ReasonSignatureSecretInvalid:  act("create or correct the Secret in spec.signatureSecret"),
	v2beta2.ReasonArtifactChanged:         act("find out why the server has other content; to accept it, change spec.digest"),
	v2beta2.ReasonArchiveNotGzip:          act("use the address of the .tar.gz itself in spec.collectionURL: the message says what is there"),
	v2beta2.ReasonArchiveUnsafe:           act("do not use this archive; ask its author"),
	v2beta2.ReasonArchiveCorrupt:          act("build the archive again: kubectl collection build"),
	v2beta2.ReasonOperatorConfigMissing:   act("use the archive of an operator collection: it has operator-config.yml at its root"),
	v2beta2.ReasonOperatorConfigAmbiguous: act("remove one of the two files from the collection"),
	v2beta2.ReasonPlaybookMissing:         act("correct the path in operator-config.yml, or add the file: kubectl collection lint"),
	v2beta2.ReasonInvalidYAML:             act("correct operator-config.yml: kubectl collection lint"),
	v2beta2.ReasonInvalidCollection:       act("correct the collection: kubectl collection lint"),
	v2beta2.ReasonCollectionClaimed:       act("import the version that the owner's namespace has, or move the collection: docs/sharing.md"),
	v2beta2.ReasonDomainReserved:          act("ask an administrator, or import an archive that is signed with the key of the domain"),
	v2beta2.ReasonKindClash:               act("create another OperatorCollection with apiGroup: PerCollection"),
	v2beta2.ReasonSchemaConflict:          act("rename the field that the message names, or publish another version of the collection"),
	v2beta2.ReasonVersionConflict:         act("publish one of the two archives under another version"),
	v2beta2.ReasonRulesBroken:             wait("tell the author of the collection"),
	v2beta2.ReasonInstancesExist:          act("follow its message: delete the custom resources that it names, or change spec.deletionPolicy"),
	v2beta2.ReasonFinalizingInstances:     wait("wait for the deletion playbooks: kubectl collection status"),

	v2beta2.ReasonCollectionNotFound:    act("create the OperatorCollection, or another SubOperatorConfig with the right name"),
	v2beta2.ReasonCollectionNotImported: wait("see the conditions of the OperatorCollection"),
	v2beta2.ReasonCollectionTerminating: wait("wait until the OperatorCollection is deleted"),
	v2beta2.ReasonMappingNotAllowed:     act("ask the owner of the namespace for its consent as the message says, or remove the namespace from spec.mapping"),
	v2beta2.ReasonMappingConflict:       act("remove the namespace from one of the two SubOperatorConfigs"),
	v2beta2.ReasonEndpointNotFound:      act("create the ZosEndpoint, or remove it from spec.mapping"),
	v2beta2.ReasonCredentialInvalid:     act("create, label or correct the Secret: docs/credentials.md"),
	v2beta2.ReasonForeignObject:         act("remove or rename the object that the message names"),
	v2beta2.ReasonPermissionsNotGranted: act("decide whether to grant the permissions, then apply the manifest in its message: kubectl get %[1]s %[2]s -n %[3]s -o jsonpath='{.status.message}'"),
	v2beta2.ReasonObjectRefused:         act("follow the message: a quota, a policy or an admission webhook refused an object"),
	v2beta2.ReasonApplyFailed:           act(waitNext + "; if it stays so, see the log of the manager"),
	v2beta2.ReasonDependencyMissing:     act("provide the dependency that the message names: spec.dependencies of the OperatorCollection, or a runtime image that contains it"),
	v2beta2.ReasonWorkloadUnavailable:   act("see the pod of the operator: its image, node, quota and log"),

	v2beta2.ReasonUpgradeBlocked:  act("change or delete the custom resources that the message names, or set spec.upgrade.policy to AllowBreaking"),
	v2beta2.ReasonUpgradePending:  wait("wait for the namespace that the message names, or end spec.upgrade.strategy.pause"),
	v2beta2.ReasonUpgradeStopped:  act("repair the namespace that the message names, or go back: kubectl collection rollback"),
	v2beta2.ReasonMigrating:       wait("wait; kubectl collection status shows the custom resources"),
	v2beta2.ReasonMigrationFailed: act("correct what the status of the custom resource says, then run it again: kubectl collection rerun"),
	v2beta2.ReasonReplaced:        wait("delete the OperatorCollections that the message names"),
	v2beta2.ReasonHandedOver:      wait("nothing; if the namespace that the message names is to be removed, remove it from spec.mapping with kubectl edit"),

	v2beta2.ReasonOLMUnavailable:              act("install OLM or the manager's component for OLM, or set install: Direct"),
	v2beta2.ReasonBundleTooLarge:              act("use a smaller icon or shorter texts in the collection"),
	v2beta2.ReasonPackageConflict:             act("change domain or name of one of the two collections"),
	v2beta2.ReasonNotPublished:                act("see the condition Published of the OperatorCollection"),
	v2beta2.ReasonCatalogUnhealthy:            act("see the CatalogSource, its pod, and the Subscription"),
	v2beta2.ReasonWaitingForApproval:          wait("approve the InstallPlan"),
	v2beta2.ReasonInstallPlanFailed:           act("correct what the InstallPlan names, then delete the InstallPlan"),
	v2beta2.ReasonClusterServiceVersionFailed: act("see the message of the ClusterServiceVersion"),
	v2beta2.ReasonOperatorGroupConflict:       act("keep one OperatorGroup in the namespace, for just this namespace"),
	v2beta2.ReasonOperatorGroupMissing:        act("create an OperatorGroup in the namespace, or set install: Direct"),
	v2beta2.ReasonRuntimeNotSupported:         act("remove the setting from spec.runtime, or set install: Direct"),
	v2beta2.ReasonRuntimeObjectMissing:        act("create the object that the message names, with its label"),
	v2beta2.ReasonRuntimeObjectNotAllowed:     act("ask the owner of the namespace for the label that the message names"),
	v2beta2.ReasonSettingsInvalid:             act("correct the ConfigMap collection-operator-settings in the manager's namespace: docs/settings.md"),
	v2beta2.ReasonTrustedAuthoritiesInvalid:   act("correct the ConfigMap collection-operator-trusted-ca in the manager's namespace"),

	v2beta2.ReasonInvalidVariables:  act("correct the item of spec.variables that the message names"),
	v2beta2.ReasonInvalidHostKeys:   act("correct the item of spec.hostKeys that the message names"),
	v2beta2.ReasonInvalidRunWindows: act("correct the item of spec.runWindows that the message names; until then no run starts"),
	v2beta2.ReasonInvalidState:      act("make sure that no playbook runs and the credentials are right, then delete the Secret that the message names"),
	v2beta2.ReasonCredentialRefused: act("correct the credential Secret; if it is right, allow another logon: kubectl annotate %[1]s %[2]s -n %[3]s --overwrite zoscb.ibm.com/retry=\"$(date -u +%%FT%%TZ)\""),
	v2beta2.ReasonHostUnreachable:   act("check spec.host and spec.port, firewalls, and whether sshd runs"),
	v2beta2.ReasonHostForbidden:     act("correct spec.host, or ask an administrator to allow the address: docs/fetching.md"),
	v2beta2.ReasonHostKeyMismatch:   act("find out whether the key was changed on purpose; if so, put the new one into spec.hostKeys"),
}

// advise returns severity and next step for a reason of an object's condition.
func advise(reason string, object Ref) (findings.Severity, string) {
	known, ok := reasons[reason]
	if !ok {
		return findings.SeverityError, "see the conditions of the object"
	}
	if strings.Contains(known.next, "%[") {
		return known.severity, fmt.Sprintf(known.next, strings.ToLower(object.Kind), object.Name, object.Namespace)
	}
	return known.severity, known.next
}
