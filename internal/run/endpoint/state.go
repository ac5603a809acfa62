package endpoint

import (
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Key of the Secret with the state of a security domain, and the label of such Secrets.
const (
	// StateFile has the State as JSON.
	StateFile = "state.json"
	// LabelState is the label, with the value "true", of Secrets with a State.
	LabelState = "zoscb.ibm.com/endpoint-state"
)

// State is what the operators of a namespace share about the systems of a security domain.
type State struct {
	// Systems by address.
	Systems Systems `json:"systems,omitempty"`
	// Logons by user ID.
	Logons Logons `json:"logons,omitempty"`
	// Retries has the last value of AnnotationRetry that the manager has seen, by ZosEndpoint.
	Retries map[string]string `json:"retries,omitempty"`
	// Abandoned has the latest custom resources that were removed without a run, the oldest first.
	Abandoned []Abandoned `json:"abandoned,omitempty"`
}

// Systems are the systems of a security domain by address.
type Systems map[string]*System

// Logons are what is known about credentials by user ID.
type Logons map[string]*Logon

// System is the state of one system.
type System struct {
	// Limit is the lowest spec.maxConcurrentRuns of the ZosEndpoints with this address, or 0. The manager writes it.
	Limit int `json:"limit,omitempty"`
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

// Holder is a run that has a slot on a system, or tries a credential.
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

// Waiter is an operator that waits for a slot.
type Waiter struct {
	Operator string    `json:"operator"`
	Since    time.Time `json:"since"`
	// Offered is when a free slot was first reserved for it, or zero. After offerTime others may take the slot; the operator keeps its
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
	// User is the user ID as the first Secret has it; the key of Logons is in lower case. See Logons.UserID.
	User string `json:"user,omitempty"`
	// Accepted credentials, and when each was first accepted, or first after a refusal: at most maxAccepted, the latest. A user
	// ID can have several that are valid, such as a password and a key.
	Accepted map[string]time.Time `json:"accepted,omitempty"`
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
	Group    string    `json:"group,omitempty"`
	Kind     string    `json:"kind"`
	Name     string    `json:"name"`
	Endpoint string    `json:"endpoint"`
	At       time.Time `json:"at"`
}

// Limits of a State. Together they keep StateFile below maxState, so that it fits into a Secret.
const (
	maxState = 900 * 1024
	// maxHolders is the number of runs that count against limits, of all systems together. No other run starts.
	maxHolders = 400
	// maxQueue is the number of operators that wait for one system in order. Others wait without a slot in the queue.
	maxQueue = 32
	// maxSystems and maxUsers are the numbers of systems and user IDs that are remembered. Systems with runs are not forgotten.
	maxSystems = 64
	maxUsers   = 64
	// maxRefused and maxAccepted are the numbers of refused and of accepted credentials of a user ID.
	maxRefused  = 8
	maxAccepted = 8
	// maxRetries is the number of ZosEndpoints whose AnnotationRetry is remembered.
	maxRetries   = 256
	maxAbandoned = 20
	// maxStored, maxUser and maxMessage are the longest texts of hosts, user IDs, and messages of a Wait, in bytes.
	maxStored  = 256
	maxUser    = 64
	maxMessage = 1024
)

// Marshal returns the content of the StateFile: the same bytes for equal states.
func (s *State) Marshal() []byte {
	content, err := json.Marshal(s)
	if err != nil {
		// Only times after the year 9999 cannot be written, and ParseState reads none.
		return nil
	}
	return content
}

// edit returns a system to change, which it creates if it is not there.
func (s *Systems) edit(address string) *System {
	if *s == nil {
		*s = map[string]*System{}
	}
	if (*s)[address] == nil {
		(*s)[address] = &System{}
	}
	return (*s)[address]
}

// of returns a system to read.
func (s Systems) of(address string) System {
	if found := s[address]; found != nil {
		return *found
	}
	return System{}
}

// SetLimits replaces the limits of the systems, by address: each is the lowest spec.maxConcurrentRuns of its ZosEndpoints, or 0.
// Systems that are not in limits have none, and are forgotten if nothing is known about them. It reports whether the state has
// changed.
func (s *State) SetLimits(limits map[string]int) bool {
	changed := false
	for address, limit := range limits {
		if limit = max(0, limit); limit != s.Systems.of(address).Limit {
			s.Systems.edit(address).Limit = limit
			changed = true
		}
	}
	for address, system := range s.Systems {
		if limits[address] <= 0 {
			changed = changed || system.Limit != 0 || len(system.Queue) > 0
			system.Limit, system.Queue = 0, nil
		}
		if system.isZero() {
			delete(s.Systems, address)
			changed = true
		}
	}
	return changed
}

func (y *System) isZero() bool {
	return y.Limit == 0 && len(y.Running) == 0 && len(y.Queue) == 0 && y.Outage == nil && y.RecoveredAt.IsZero() && y.ReachedAt.IsZero()
}

// Abandon adds a custom resource that was removed without a run. At most 20 are kept.
func (s *State) Abandon(a Abandoned) {
	a.At = instant(a.At)
	s.Abandoned = append(s.Abandoned, a)
	s.Abandoned = slices.Delete(s.Abandoned, 0, max(0, len(s.Abandoned)-maxAbandoned))
}

// instant returns a time in the form in which it is stored.
func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
