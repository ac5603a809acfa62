package endpoint

import (
	"fmt"
	"math"
	"slices"
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
// the credential, and in an outage the attempt. A run that must wait may get a place in the queue. A run that has got a place
// already keeps it.
func (s *State) Admit(e Settings, r Request) Admission {
	r = r.normalized()
	for _, check := range []func(*Settings, *Request) *Wait{held, outsideWindow, s.Logons.credentialRefused, s.Logons.credentialUntested} {
		if wait := check(&e, &r); wait != nil {
			return Admission{Wait: wait}
		}
	}
	changed := s.Systems.noticeOutage(&e, &r)
	for _, check := range []func(*Settings, *Request) *Wait{s.Systems.unreachable, s.Systems.settling} {
		if wait := check(&e, &r); wait != nil {
			return Admission{Wait: wait, Changed: s.bound(changed)}
		}
	}
	wait, queueChanged := s.Systems.queue(&e, &r)
	changed = changed || queueChanged
	if wait != nil {
		return Admission{Wait: wait, Changed: s.bound(changed)}
	}
	canary := s.Systems.startCanary(&e, &r)
	trying := s.Logons.startTrying(&e, &r)
	placed := s.Systems.takePlace(&e, &r)
	return Admission{Canary: canary, Changed: s.bound(changed || canary || trying || placed)}
}

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

// instant returns a time in the form in which it is stored.
func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// isFuture reports whether a time is later than another clock may be ahead.
func (r *Request) isFuture(t time.Time) bool { return t.After(r.Now.Add(maxClockSkew)) }

func held(e *Settings, r *Request) *Wait {
	if e.Hold == "" {
		return nil
	}
	return &Wait{
		Reason:  ReasonHeld,
		Message: printable.Line(fmt.Sprintf("ZosEndpoint %s is on hold: %s", e.Name, e.Hold), maxMessage),
		After:   after(r, 15, 3, 5*time.Minute, time.Time{}),
	}
}

func outsideWindow(e *Settings, r *Request) *Wait {
	if r.RunNow || isOpen(e.Windows, r.Now) || (!r.isFuture(e.RunNow) && !r.Since.After(e.RunNow)) {
		return nil
	}
	wait := &Wait{
		Reason:  ReasonOutsideWindow,
		Message: fmt.Sprintf("no run window of ZosEndpoint %s opens within five years: correct spec.runWindows", e.Name),
		Until:   nextOpening(e.Windows, r.Now),
	}
	if !wait.Until.IsZero() {
		wait.Message = fmt.Sprintf("no run window of ZosEndpoint %s is open before %s", e.Name, wait.Until.Format(time.RFC3339))
	}
	wait.After = after(r, 15, 3, 5*time.Minute, wait.Until)
	return wait
}

// after returns when the gate must ask again, in whole seconds: base seconds, and more for each run ahead, but at most limit, and
// not later than until, if that is set. It is at least a second.
func after(r *Request, base, perRun float64, limit time.Duration, until time.Time) time.Duration {
	seconds := math.Floor(min(base+perRun*float64(max(0, r.Ahead)), limit.Seconds()))
	if !until.IsZero() {
		seconds = min(seconds, math.Ceil(until.Sub(r.Now).Seconds()))
	}
	return time.Duration(max(1, seconds)) * time.Second
}

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

// Observe records what a run learned. message is one line without secrets. A refusal or an outage that began after the run was
// admitted remains, and one that ended after the run learned of it does not begin again. It reports whether the state has changed.
func (s *State) Observe(e Settings, r Request, c Connection, message string) bool {
	if c == ConnectionNone || e.isLocal() {
		return false
	}
	r = r.normalized()
	message = printable.Line(message, maxStored)
	changed := s.Logons.endTrying(&r)
	switch c {
	case ConnectionAccepted:
		changed = s.Logons.accept(&r) || changed
		changed = s.Systems.reached(&e, &r) || changed
	case ConnectionRefused:
		changed = s.Logons.refuse(&e, &r, message) || changed
		changed = s.Systems.reached(&e, &r) || changed
	case ConnectionUnreachable:
		changed = s.Systems.lost(&e, &r, message) || changed
	}
	return s.bound(changed)
}

// Release gives back what Admit gave to a run that has ended, or that did not start after all. If Request.Canary is true, the run
// has not tried to connect, and another one may at once. It reports whether the state has changed.
func (s *State) Release(e Settings, r Request) bool {
	r = r.normalized()
	changed := s.Logons.endTrying(&r)
	changed = s.Systems.endCanary(&e, &r) || changed
	return s.Systems.leave(&e, &r) || changed
}

// minQueued is how long an operator is in a queue before Evict may remove it: one that still asks would come back at once.
const minQueued = time.Minute

// Evict releases the holders, and forgets the queue entries of more than a minute, for which gone is true. It reports whether the
// state has changed. Queue entries have no pod: podName and pod are empty.
func (s *State) Evict(now time.Time, gone func(operator, podName string, pod types.UID) bool) bool {
	changed := false
	isGone := func(h Holder) bool { return gone(h.Operator, h.PodName, h.Pod) }
	for _, system := range s.Systems {
		before := len(system.Running) + len(system.Queue)
		system.Running = slices.DeleteFunc(system.Running, isGone)
		system.Queue = slices.DeleteFunc(system.Queue, func(w Waiter) bool {
			return now.Sub(w.Since) > minQueued && gone(w.Operator, "", "")
		})
		changed = changed || before != len(system.Running)+len(system.Queue)
	}
	for _, logon := range s.Logons {
		if logon.Trying != nil && isGone(*logon.Trying) {
			logon.Trying = nil
			changed = true
		}
	}
	return changed
}
