package endpoint

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
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
	// Admitted is when Admit let the run start, or when Observe last recorded what it learned. Zero means now.
	Admitted time.Time
	// Canary is Admission.Canary if the run has not tried to connect. Release uses it.
	Canary bool
	// Observed is when the run learned what Observe records, which may be long ago. Zero means now.
	Observed time.Time
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

// maxClockSkew is how far in the future AnnotationRunNow, and times in a state, may be. Later ones are ignored.
const maxClockSkew = time.Minute

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

// Connection is what a run learned about its endpoint.
type Connection string

// normalized returns the request with times as the state has them, and a user ID that can be shown.
func (r Request) normalized() Request {
	r.Now = instant(r.Now)
	r.User = printable.Line(r.User, maxUser)
	if r.Since.IsZero() {
		r.Since = r.Now
	}
	r.Admitted, r.Observed = r.past(r.Admitted), r.past(r.Observed)
	return r
}

// past returns a time as the state has it, or now if it is zero or later.
func (r *Request) past(t time.Time) time.Time {
	if t.IsZero() || t.After(r.Now) {
		return r.Now
	}
	return instant(t)
}

// isDuring reports whether a time lies between Admitted and now. What happened then is not undone by what the run learned: it may
// have learned that before.
func (r *Request) isDuring(t time.Time) bool { return t.After(r.Admitted) && !t.After(r.Now) }

// isFuture reports whether a time is later than another clock may be ahead.
func (r *Request) isFuture(t time.Time) bool { return t.After(r.Now.Add(maxClockSkew)) }

// after returns when the gate must ask again, in whole seconds: base seconds, and more for each run ahead, but at most limit, and
// not later than until, if that is set. It is at least a second.
func after(r *Request, base, perRun float64, limit time.Duration, until time.Time) time.Duration {
	seconds := math.Floor(min(base+perRun*float64(max(0, r.Ahead)), limit.Seconds()))
	if !until.IsZero() {
		seconds = min(seconds, math.Ceil(until.Sub(r.Now).Seconds()))
	}
	return time.Duration(max(1, seconds)) * time.Second
}

func (r *Request) holder() Holder {
	return Holder{Operator: r.Operator, PodName: r.PodName, Pod: r.Pod, Resource: r.Resource, Run: r.Run, Since: r.Now}
}

// isOwn reports whether a holder is the request's resource. Its earlier runs have ended.
func (r *Request) isOwn(h Holder) bool {
	return h.Operator == r.Operator && h.Pod == r.Pod && h.Resource == r.Resource
}

// isRun reports whether a holder is the request's run.
func (r *Request) isRun(h Holder) bool { return r.isOwn(h) && h.Run == r.Run }

// isStale reports whether a run has ended without giving back what it had.
func (r *Request) isStale(h Holder) bool {
	if h.Operator != r.Operator {
		return false
	}
	return h.Pod != r.Pod || (h.Resource != r.Resource && r.Ended != nil && r.Ended(h.Resource, h.Run))
}
