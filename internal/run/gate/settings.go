// Package gate decides whether a playbook of a custom resource runs now. It is pure: the program ansible-runner of the
// runtime image (internal/run/runner) reads what the decision needs, calls Decide, and acts on the result.
package gate

import (
	"encoding/json"
	"strings"
	"time"
)

// SettingsFile is the name of the file with Settings, in the runtime ConfigMap and in its mount.
const SettingsFile = "runs.json"

// OperatorContainer is the name of the container that runs ansible-operator, and so the gate.
const OperatorContainer = "operator"

// RecordKeyFile is the key of the endpoints Secret, and the name of the file in its mount, with the key that records are
// signed with. Keys of endpoints contain an underscore, so no endpoint has a key of this name.
const RecordKeyFile = "record.key"

// EndpointsNamespaceFile is the key of the endpoints Secret, and the name of the file in its mount, with the namespace of the
// ZosEndpoints.
const EndpointsNamespaceFile = "namespace"

// KeptSecretsFile is the key of the endpoints Secret, and the name of the file in its mount, with the names of Secrets, as a JSON list,
// that playbooks may read without a label: resources named them before the manager asked for it. The key is there once the manager has
// looked for them, with an empty list if there are none.
const KeptSecretsFile = "kept-secrets"

// RecordKeyBytes is the length of the key.
const RecordKeyBytes = 32

// Annotations of custom resources.
const (
	// AnnotationRecord has the signed Record.
	AnnotationRecord = "zoscb.ibm.com/run-record"
	// AnnotationRequestedAt requests a run: a value that differs from the last one that was served starts the playbook. The
	// value is by convention a time in RFC 3339.
	AnnotationRequestedAt = "zoscb.ibm.com/reconcile-requested-at"
	// AnnotationCancel has the ID of a run to cancel.
	AnnotationCancel = "zoscb.ibm.com/cancel-requested"
	// AnnotationAbandon with the value "true" removes a resource that is being deleted without a run.
	AnnotationAbandon = "zoscb.ibm.com/abandon"
	// AnnotationCheckRequestedAt requests a drift check, with a value that differs from the last one that was served.
	AnnotationCheckRequestedAt = "zoscb.ibm.com/check-requested-at"
	// AnnotationMigrationStopped of the operator's Lease has the resource, as kind/name, whose failed migration stops others.
	AnnotationMigrationStopped = "zoscb.ibm.com/migration-stopped"
	// AnnotationAcceptDefaults has the version of the collection whose defaults the resource takes instead of those that it ran
	// with. It starts the playbook like a change of the spec if one of them differs.
	AnnotationAcceptDefaults = "zoscb.ibm.com/accept-defaults"
	// AnnotationReconcilePeriod is ansible-operator's annotation for the interval between runs.
	AnnotationReconcilePeriod = "ansible.sdk.operatorframework.io/reconcile-period"
	// AnnotationMaxArtifacts is ansible-operator's annotation for the number of runs whose files are kept.
	AnnotationMaxArtifacts = "ansible.sdk.operatorframework.io/max-runner-artifacts"
)

// Prefixes of ansible-operator's annotations: that of today, and the one that its first releases and OpenShift's documentation have.
const (
	sdkPrefix    = "ansible.sdk.operatorframework.io/"
	oldSDKPrefix = "ansible.operator-sdk/"
)

// Annotation returns the value of an annotation. One of ansible-operator also counts under its old prefix, if it is not there under
// today's.
func Annotation(annotations map[string]string, name string) string {
	value, there := annotations[name]
	if option, ofSDK := strings.CutPrefix(name, sdkPrefix); ofSDK && !there {
		return annotations[oldSDKPrefix+option]
	}
	return value
}

// MinReconcilePeriod is the shortest interval at which a playbook runs again without a change.
const MinReconcilePeriod = 5 * time.Minute

// MaxArtifacts is the highest number of runs of a resource whose files are kept in the pod.
const MaxArtifacts = 20

// Trigger is a kind of change that starts a playbook.
type Trigger string

// The kinds of changes.
const (
	// TriggerSpec is a change of the resource's own variables, or of a resource that a variable with a kindReference names.
	TriggerSpec Trigger = "Spec"
	// TriggerSecret is a change in a Secret that a variable of type password names.
	TriggerSecret Trigger = "Secret"
	// TriggerCollection is a change of the collection's archive.
	TriggerCollection Trigger = "Collection"
	// TriggerEndpoint is a change of the endpoint's variables.
	TriggerEndpoint Trigger = "Endpoint"
)

// DefaultRerunOn lists the changes that start playbooks unless runtime.rerunOn says otherwise.
func DefaultRerunOn() []Trigger { return []Trigger{TriggerSpec, TriggerSecret} }

// DefaultMaxRetries is the number of times a failed playbook is tried again unless runtime.maxRetries says otherwise.
const DefaultMaxRetries = 5

// Settings configure the gate of one installation. The manager writes them.
type Settings struct {
	// Version of the collection.
	Version string `json:"version"`
	// Digest of the collection's archive, sha256:<hex>.
	Digest string `json:"digest"`
	// Operator is the name of the operator, and of the Lease that its pod holds.
	Operator string `json:"operator"`
	// Group and APIVersion (only the version, without the group) of the kinds.
	Group      string `json:"group"`
	APIVersion string `json:"apiVersion"`
	// RerunOn lists the changes that start playbooks.
	RerunOn []Trigger `json:"rerunOn"`
	// MaxRetries is the number of times a failed playbook is tried again.
	MaxRetries int `json:"maxRetries"`
	// RunTimeoutSeconds limits a run, or 0.
	RunTimeoutSeconds int64 `json:"runTimeoutSeconds,omitempty"`
	// MaxArtifacts is the number of runs of a resource whose files are kept in the pod, from 1 to MaxArtifacts.
	MaxArtifacts int `json:"maxArtifacts"`
	// DriftCheckPeriodSeconds is the interval between drift checks, or 0.
	DriftCheckPeriodSeconds int64 `json:"driftCheckPeriodSeconds,omitempty"`
	// DriftCheckSkipModules are modules that drift checks do not run, besides those that the engine knows.
	DriftCheckSkipModules []string `json:"driftCheckSkipModules,omitempty"`
	// MigrationPlaybook is the absolute path of the playbook that migrates resources from older versions, or "".
	MigrationPlaybook string `json:"migrationPlaybook,omitempty"`
	// Kinds of the collection by name.
	Kinds map[string]KindSettings `json:"kinds"`
}

// Kind returns the settings of the kind with a plural name. They are empty for another.
func (s *Settings) Kind(plural string) KindSettings {
	for _, kind := range s.Kinds {
		if kind.Plural == plural {
			return kind
		}
	}
	return KindSettings{}
}

// KindSettings configure the runs of one kind.
type KindSettings struct {
	// Plural is the resource name in API paths.
	Plural string `json:"plural"`
	// ReconcilePeriodSeconds is the interval between runs without a change, or 0.
	ReconcilePeriodSeconds int64 `json:"reconcilePeriodSeconds,omitempty"`
	// CheckMode is true if the playbook of the kind supports Ansible's check mode.
	CheckMode bool `json:"checkMode,omitempty"`
	// ShowDiff is true if status may have what a drift check finds.
	ShowDiff bool `json:"showDiff,omitempty"`
	// MaxArtifacts is the number of runs of an instance whose files are kept, or 0 for that of all kinds.
	MaxArtifacts int `json:"maxArtifacts,omitempty"`
	// Variables that this version of the collection declares, without zosendpoint. Playbooks get no other field of a spec.
	Variables []Variable `json:"variables"`
}

// Variable is a declared field of a spec.
type Variable struct {
	Name string `json:"name"`
	// Default is set if the spec has no such field. Null means none.
	Default json.RawMessage `json:"default,omitempty"`
	// Secret is true if the value is the name of a Secret, or a list of names.
	Secret bool `json:"secret,omitempty"`
	// Reference is the plural name of the kind of this collection whose instances are valid values, or "".
	Reference string `json:"reference,omitempty"`
	// Fields are the members of an object, or of the objects in a list.
	Fields []Variable `json:"fields,omitempty"`
}
