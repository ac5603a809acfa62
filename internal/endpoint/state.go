package endpoint

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Keys of the Secret with the state of a security domain, and the label of such Secrets.
const (
	// StateFile has the State as JSON.
	StateFile = "state.json"
	// KeyFile has KeyBytes random bytes. They key the hashes of credentials in the State.
	KeyFile = "key"
	// KeyBytes is the length of the key.
	KeyBytes = 32
	// LabelState is the label, with the value "true", of Secrets with a State.
	LabelState = "zoscb.ibm.com/endpoint-state"
)

// State is what the operators of a namespace share about the systems of a security domain.
type State struct {
	// Systems by address.
	Systems map[string]*System `json:"systems,omitempty"`
	// Logons by user ID.
	Logons map[string]*Logon `json:"logons,omitempty"`
	// Retries has the last value of AnnotationRetry that the manager has seen, by ZosEndpoint.
	Retries map[string]string `json:"retries,omitempty"`
	// Abandoned has the latest custom resources that were removed without a run, the oldest first.
	Abandoned []Abandoned `json:"abandoned,omitempty"`
}

// System is the state of one system.
type System struct {
	// Running are the runs that count against the limit. Without a limit there are none.
	Running []Holder `json:"running,omitempty"`
	// Queue has the operators that wait for a run to end, the first one first.
	Queue []Waiter `json:"queue,omitempty"`
	// Outage is set while the system cannot be reached.
	Outage *Outage `json:"outage,omitempty"`
	// RecoveredAt is when the last outage ended.
	RecoveredAt time.Time `json:"recoveredAt,omitzero"`
	// ReachedAt is when a run reached the system although the manager did not. Only written then.
	ReachedAt time.Time `json:"reachedAt,omitzero"`
}

// Holder is a run that has a place on a system, or tries a credential.
type Holder struct {
	// Operator is the namespace and the name of the operator, as namespace/name, and Pod the UID of its pod.
	Operator string    `json:"operator"`
	PodName  string    `json:"podName"`
	Pod      types.UID `json:"pod"`
	// Resource is kind/namespace/name.
	Resource string    `json:"resource"`
	Run      string    `json:"run"`
	Since    time.Time `json:"since"`
}

// Waiter is an operator that waits for a place.
type Waiter struct {
	Operator string    `json:"operator"`
	Since    time.Time `json:"since"`
	// Offered is when a free place was first reserved for it, or zero. If it is not taken within offerTime, the operator loses its
	// turn.
	Offered time.Time `json:"offered,omitzero"`
}

// Outage is a time in which a system cannot be reached.
type Outage struct {
	Since   time.Time `json:"since"`
	Message string    `json:"message"`
	// NextTry is when one run may try to connect although no probe has succeeded: the manager may be unable to reach systems that
	// the pods can reach.
	NextTry time.Time `json:"nextTry,omitzero"`
}

// Logon is what is known about the credentials of a user ID. Credentials are identified by Key.Credential.
type Logon struct {
	// Accepted is the credential that was accepted last.
	Accepted string `json:"accepted,omitempty"`
	// Refused credentials: at most maxRefused, the latest.
	Refused map[string]Refusal `json:"refused,omitempty"`
	// Trying is the run that uses a credential that is neither accepted nor refused. Others wait for its result.
	Trying *Holder `json:"trying,omitempty"`
}

// Refusal says when and where a credential was refused.
type Refusal struct {
	At       time.Time `json:"at"`
	Endpoint string    `json:"endpoint"`
	Message  string    `json:"message"`
}

// Abandoned is a custom resource that was removed without a run.
type Abandoned struct {
	Operator string    `json:"operator"`
	Kind     string    `json:"kind"`
	Name     string    `json:"name"`
	Endpoint string    `json:"endpoint"`
	At       time.Time `json:"at"`
}

// ParseState reads the StateFile. Content that is not valid, or longer than 900 KiB, is an error.
func ParseState(content []byte) (*State, error) { panic("not implemented") }

// Marshal returns the content of the StateFile: the same bytes for equal states.
func (s *State) Marshal() []byte { panic("not implemented") }

// Key is the content of KeyFile.
type Key []byte

// Credential identifies a user ID with its key, passphrase and password, without revealing them. The parts may be nil.
func (k Key) Credential(user string, key, passphrase, password []byte) string {
	panic("not implemented")
}
