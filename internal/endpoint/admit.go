package endpoint

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Request is a run that wants to start.
type Request struct {
	Now time.Time
	// Operator (namespace/name), PodName and Pod of the gate that asks. Holders of the same operator with another pod have ended.
	Operator, PodName string
	Pod               types.UID
	// Resource is kind/namespace/name.
	Resource, Run string
	// Since is when the run began to wait, or Now.
	Since time.Time
	// Ahead is the number of runs of this pod that have been waiting for the same system for longer.
	Ahead int
	// User and Credential (see Key.Credential) of the logon. Credential is empty if there is no logon.
	User, Credential string
	// RunNow is true if a user has asked that this run starts outside the windows.
	RunNow bool
	// Ended reports whether a run of the same pod, by its resource and ID, has ended.
	Ended func(resource, run string) bool
}

// Reason is why a run waits. It is status.waiting.reason.
type Reason string

// The reasons, in the order in which they are checked.
const (
	// ReasonHeld means that spec.hold is set.
	ReasonHeld Reason = "EndpointHeld"
	// ReasonOutsideWindow means that no run window is open.
	ReasonOutsideWindow Reason = "OutsideRunWindow"
	// ReasonCredentialRefused means that the security domain has refused the credential.
	ReasonCredentialRefused Reason = "CredentialRefused"
	// ReasonCredentialUntested means that another run tries the credential first.
	ReasonCredentialUntested Reason = "CredentialUntested"
	// ReasonUnreachable means that the system cannot be reached.
	ReasonUnreachable Reason = "EndpointUnreachable"
	// ReasonSettling means that the system answers again, but spec.settle is not over.
	ReasonSettling Reason = "EndpointSettling"
	// ReasonBusy means that spec.maxConcurrentRuns other runs use the system, or others wait for longer.
	ReasonBusy Reason = "EndpointBusy"
)

// Wait is why a run does not start.
type Wait struct {
	Reason Reason
	// Message is one line, and the same as long as nothing changes.
	Message string
	// Until is when the reason ends, or zero if that is not known.
	Until time.Time
	// After is when the gate must ask again, at least a second. It grows with Request.Ahead.
	After time.Duration
	// Brief is true if the reason usually ends within seconds. It is not written to status at once.
	Brief bool
}

// Admission is the result of Admit.
type Admission struct {
	// Wait is nil if the run may start.
	Wait *Wait
	// Canary is true if the run may start although the system is in an outage: its failure to connect is no news.
	Canary bool
	// Changed is true if the state differs from before. It must be written before the run starts; if that fails because of a
	// conflict, Admit is called again with the newer state.
	Changed bool
}

// Admit decides whether a run may use an endpoint now. It changes the state: a run that may start gets its place, its turn with
// the credential, and in an outage the attempt.
func (s *State) Admit(e Settings, r Request) Admission { panic("not implemented") }

// Connection is what a run learned about its endpoint.
type Connection string

// The connections.
const (
	// ConnectionNone means that the run did not get as far, or that its endpoint is local.
	ConnectionNone Connection = ""
	// ConnectionAccepted means that the system accepted the credential.
	ConnectionAccepted Connection = "Accepted"
	// ConnectionRefused means that the system refused the credential.
	ConnectionRefused Connection = "Refused"
	// ConnectionUnreachable means that the system could not be reached, or that the connection was lost.
	ConnectionUnreachable Connection = "Unreachable"
)

// Observe records what a run that is not over yet, or just ended, learned. message is one line without secrets. It reports whether
// the state has changed.
func (s *State) Observe(e Settings, r Request, c Connection, message string) bool {
	panic("not implemented")
}

// Release gives back what Admit gave to a run that has ended, or that did not start after all. It reports whether the state has
// changed.
func (s *State) Release(e Settings, r Request) bool { panic("not implemented") }

// Recover ends the outage of a system after a successful probe. It reports whether the state has changed.
func (s *State) Recover(address string, now time.Time) bool { panic("not implemented") }

// Evict releases the holders, and forgets the queue entries, for which gone is true. It reports whether the state has changed.
// Queue entries have no pod.
func (s *State) Evict(gone func(operator, podName string, pod types.UID) bool) bool {
	panic("not implemented")
}

// AllowRetry forgets all refused credentials if the value of AnnotationRetry of an endpoint has changed since the last call. The
// first value of an endpoint changes nothing but the state. It reports whether the state has changed.
func (s *State) AllowRetry(endpoint, value string) bool { panic("not implemented") }

// Abandon adds a custom resource that was removed without a run. At most 20 are kept.
func (s *State) Abandon(a Abandoned) { panic("not implemented") }

// HasNews reports whether two states differ in what the manager reports: outages, logons, abandoned resources, and whether
// somebody waits in a queue.
func HasNews(before, after *State) bool { panic("not implemented") }
