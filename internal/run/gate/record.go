package gate

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Event is what happened to the resource, as playbooks see it in k8s_cr_event.
type Event string

// The events.
const (
	EventCreate Event = "create"
	EventDelete Event = "delete"
)

// Outcome is the result of a run.
type Outcome string

// The outcomes.
const (
	OutcomeSucceeded Outcome = "Succeeded"
	OutcomeFailed    Outcome = "Failed"
	// OutcomeTimedOut means that the run exceeded runtime.runTimeout.
	OutcomeTimedOut Outcome = "TimedOut"
	// OutcomeCancelled means that a user cancelled the run.
	OutcomeCancelled Outcome = "Cancelled"
	// OutcomeInterrupted means that the pod stopped during the run.
	OutcomeInterrupted Outcome = "Interrupted"
	// OutcomeUnreachable means that the endpoint could not be reached, or that the connection was lost.
	OutcomeUnreachable Outcome = "Unreachable"
	// OutcomeRefused means that the endpoint refused the credential.
	OutcomeRefused Outcome = "Refused"
	// OutcomeRequeued means that the playbook ended well, and asked by requeue_after to run again.
	OutcomeRequeued Outcome = "Requeued"
)

// Succeeded reports whether the playbook ended well.
func (o Outcome) Succeeded() bool { return o == OutcomeSucceeded || o == OutcomeRequeued }

// AwaitsEndpoint reports whether the run is repeated as soon as its endpoint can be used again, without a limit.
func (o Outcome) AwaitsEndpoint() bool { return o == OutcomeUnreachable || o == OutcomeRefused }

// IsOfPlaybook reports whether the playbook was the reason of the outcome: the run counts as one of the attempts of runtime.maxRetries, and
// a drift check took place, whether it failed or not. Others are due again.
func (o Outcome) IsOfPlaybook() bool { return !o.AwaitsEndpoint() && o != OutcomeInterrupted }

// Fingerprint has keyed hashes of everything that a Trigger is about, so that neither a value nor a password can be guessed
// from it.
type Fingerprint struct {
	// Spec covers the event, and the declared variables of referenced resources.
	Spec string `json:"spec"`
	// Variables has the hash of each declared variable by its path: "=" and the hash if the value is the default, "-" if the
	// variable is not set. A version of the collection that declares more variables does not change a resource.
	Variables map[string]string `json:"variables,omitempty"`
	// Secret covers the content of the Secrets that variables name. Empty if there are none.
	Secret string `json:"secret,omitempty"`
	// Collection covers the digest of the archive.
	Collection string `json:"collection"`
	// Endpoint covers the endpoint's variables.
	Endpoint string `json:"endpoint,omitempty"`
}

// Defaults are the defaults that a resource ran with. Those that exceed the limit are left out, the longest first.
type Defaults struct {
	// Values has the default of each variable that had it, as JSON by path. Members of the objects in a list are in it whether
	// they had it or not, because hashes of lists depend on their defaults.
	Values map[string]json.RawMessage `json:"values,omitempty"`
	// Mixed has the sorted paths of those members that did not have the default in each of the objects. It is not kept for them.
	Mixed []string `json:"mixed,omitempty"`
	// Replaced has the defaults of later versions that the one in Values replaced, by path: the API server may have stored them.
	Replaced map[string][]json.RawMessage `json:"replaced,omitempty"`
}

// Migration is a run of the migration playbook for a resource whose last success was by an older version of the collection.
type Migration struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Fingerprint of the last other run. What has changed since starts the usual playbook after the migration.
	Fingerprint Fingerprint `json:"fingerprint"`
	// Defaults that the last other run had.
	Defaults *Defaults `json:"defaults,omitempty"`
	// Owed is true if the usual playbook has to run after the migration in any case: its last run was not successful, or a run
	// was requested.
	Owed bool `json:"owed,omitempty"`
}

// Migrated is a migration that succeeded.
type Migrated struct {
	From     string    `json:"from"`
	To       string    `json:"to"`
	RunID    string    `json:"run,omitempty"`
	Finished time.Time `json:"finished"`
}

// Record is what the gate remembers of a resource. It is an annotation, so that a backup that has no status has it.
type Record struct {
	// Fingerprint of the last run.
	Fingerprint Fingerprint `json:"fingerprint"`
	// Defaults that the last run had, nil if it was before defaults were recorded.
	Defaults *Defaults `json:"defaults,omitempty"`
	Event    Event     `json:"event"`
	Outcome  Outcome   `json:"outcome"`
	// UID of the resource, and Installation (the UID of the Lease of its operator) when the record was made. A record of another
	// resource of the same name counts only if both differ, after a restore of the whole installation.
	UID          types.UID `json:"uid,omitempty"`
	Installation types.UID `json:"installation,omitempty"`
	// RunID identifies the last run. Empty if the record is a baseline of a resource that never passed a gate.
	RunID    string    `json:"run,omitempty"`
	Finished time.Time `json:"finished,omitzero"`
	// Version and Digest of the collection of the last run.
	Version string `json:"version,omitempty"`
	Digest  string `json:"digest,omitempty"`
	// Applied is the version of the last run or migration that was successful. Empty if there is none.
	Applied string `json:"applied,omitempty"`
	// Migration is the one that has not succeeded yet, and Migrated the last one that has.
	Migration *Migration `json:"migration,omitempty"`
	Migrated  *Migrated  `json:"migrated,omitempty"`
	// Owed is true if the last run was a migration after which the usual playbook has to run.
	Owed bool `json:"owed,omitempty"`
	// Attempt is the number of runs since the last success or change. Runs that ended as Interrupted, Unreachable or Refused do
	// not count.
	Attempt int `json:"attempt,omitempty"`
	// Unreached is the number of runs in a row that ended as Unreachable, without canaries.
	Unreached int `json:"unreached,omitempty"`
	// Refused is the number of runs in a row that ended as Refused.
	Refused int `json:"refused,omitempty"`
	// Lost is the number of runs in a row that ended as Interrupted for an unknown reason. The present run is one of them until it ends.
	Lost int `json:"lost,omitempty"`
	// NextRetry is the earliest time of the next attempt. Zero means that there is none, or after Unreachable and Refused, that it
	// starts as soon as the endpoint can be used.
	NextRetry time.Time `json:"nextRetry,omitzero"`
	// Due is when the playbook runs again because it asked for it (requeue_after). Zero means never. The reconcile period
	// is added to Finished when it is needed, so that a changed period applies at once.
	Due time.Time `json:"due,omitzero"`
	// Requested is the last value of AnnotationRequestedAt that was served.
	Requested string `json:"asked,omitempty"`
	// RunNow is the last value of endpoint.AnnotationRunNow that was served.
	RunNow string `json:"runNow,omitempty"`
	// CheckAsked is the last value of AnnotationCheckRequestedAt that was served, and Checked when the last drift check ended.
	CheckAsked string    `json:"checkAsked,omitempty"`
	Checked    time.Time `json:"checked,omitzero"`
	// Deleted is the UID of the resource whose delete playbook succeeded.
	Deleted types.UID `json:"deleted,omitempty"`
}

// OfMigration reports whether the last run was one of the migration playbook.
func (r *Record) OfMigration() bool {
	return r.Migration != nil || r.Migrated != nil && r.RunID != "" && r.Migrated.RunID == r.RunID
}

// ran returns the fingerprint of the last run of the usual playbook.
func (r *Record) ran() Fingerprint {
	if r.Migration != nil {
		return r.Migration.Fingerprint
	}
	return r.Fingerprint
}

// owes reports whether the usual playbook has to run: after a migration, or after one that is not needed any more.
func (r *Record) owes() bool { return r.Owed || r.Migration != nil }

// maxAnnotation is the maximum length in bytes of an annotation that Verify reads: the API server's limit for all annotations
// of an object.
const maxAnnotation = 256 << 10

// Key signs records and keys fingerprints.
type Key []byte

// Identity is the resource that a record belongs to.
type Identity struct{ Group, Kind, Namespace, Name string }

// Sign returns the annotation for a record: the record as JSON and its signature, both in base64url. It is empty if the key
// is empty.
func (k Key) Sign(id Identity, r Record) string {
	document, err := json.Marshal(r)
	if err != nil || len(k) == 0 { // A time after the year 9999 is not JSON.
		return ""
	}
	encoding := base64.RawURLEncoding
	return encoding.EncodeToString(document) + "." + encoding.EncodeToString(k.signature(id, document))
}

// Verify returns the record of an annotation, or nil if it was not signed with this key for this resource.
func (k Key) Verify(id Identity, annotation string) *Record {
	// encoding/base64 ignores line breaks.
	if len(k) == 0 || len(annotation) > maxAnnotation || strings.ContainsAny(annotation, "\r\n") {
		return nil
	}
	first, second, _ := strings.Cut(annotation, ".")
	encoding := base64.RawURLEncoding.Strict()
	document, err := encoding.DecodeString(first)
	if err != nil {
		return nil
	}
	signature, err := encoding.DecodeString(second)
	if err != nil || !hmac.Equal(signature, k.signature(id, document)) {
		return nil
	}
	var r Record
	if err := json.Unmarshal(document, &r); err != nil {
		return nil
	}
	return &r
}

func (k Key) signature(id Identity, document []byte) []byte {
	return k.hash("record", []byte(id.Group), []byte(id.Kind), []byte(id.Namespace), []byte(id.Name), document)
}

// hash returns the HMAC-SHA256 of the parts. Hashes for different purposes differ. Each part is preceded by its length, so
// that no other parts have the same hash.
func (k Key) hash(purpose string, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, k)
	for _, part := range append([][]byte{[]byte(purpose)}, parts...) {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write(part)
	}
	return h.Sum(nil)
}
